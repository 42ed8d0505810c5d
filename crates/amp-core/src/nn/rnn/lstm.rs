//! Long short-term memory.

use super::{Cell, Recurrence, Single, Stack, biased, padded};
use crate::nn::{Module, Visitor};
use crate::ops::lstm_cell;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Result};

/// Long short-term memory (`torch.nn.LSTM`, batch first).
#[derive(Debug)]
pub struct Lstm(Stack);

/// Where an LSTM stands after a sequence, both `[layers * directions, N, H]`, or a cell after a step, both `[N, H]`.
#[derive(Clone, Debug)]
pub struct LstmState<P: Float> {
    /// Hidden states.
    pub h: Tensor<P>,
    /// Cell states: sums over many steps, in F32.
    pub c: Tensor<F32>,
}

impl<P: Float> LstmState<P> {
    /// The same values out of the graph: what follows starts from them, and its gradients end there (truncated
    /// back-propagation). A [`Gru`](super::Gru)'s state is a tensor, which has [`Tensor::detach`].
    pub fn detach(&self) -> Self {
        Self { h: self.h.detach(), c: self.c.detach() }
    }

    /// The hidden states in another precision, as by [`Tensor::to`].
    #[track_caller]
    pub fn to<Q: Float>(&self) -> Result<LstmState<Q>> {
        Ok(LstmState { h: self.h.to()?, c: self.c.clone() })
    }
}

impl Lstm {
    /// One layer; parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Self::stacked(inputs, hidden, 1, false, device)
    }

    /// Several layers, each in both directions if `bidirectional`.
    #[doc(alias = "num_layers")]
    pub fn stacked(inputs: usize, hidden: usize, layers: usize, bidirectional: bool, device: &Device) -> Result<Self> {
        Ok(Self(Stack::new("Lstm", 4, inputs, hidden, layers, bidirectional, device)?))
    }

    /// `[N, T, inputs]` to `[N, T, directions * H]` and the last state, starting from zeros.
    ///
    /// # Precision
    /// Products in the precision of `x`; gates and cell states in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<(Tensor<P>, LstmState<P>)> {
        self.run(x, None, None)
    }

    /// As [`forward`](Self::forward), going on from `state`.
    #[track_caller]
    pub fn forward_from<P: Float>(&self, x: &Tensor<P>, state: &LstmState<P>) -> Result<(Tensor<P>, LstmState<P>)> {
        self.run(x, None, Some(state))
    }

    #[track_caller]
    fn run<P: Float>(
        &self,
        x: &Tensor<P>,
        lengths: Option<&[usize]>,
        from: Option<&LstmState<P>>,
    ) -> Result<(Tensor<P>, LstmState<P>)> {
        const OP: &str = "Lstm";
        let h = self.0.state(OP, x, from.map(|s| &s.h))?;
        let c = self.0.state(OP, &x.to::<F32>()?, from.map(|s| &s.c))?;
        let (y, ends) = self.0.run(OP, x, lengths, &LstmState { h, c })?;
        let h = Tensor::stack(&ends.iter().map(|(h, _)| h).collect::<Vec<_>>(), 0)?;
        let c = Tensor::stack(&ends.iter().map(|(_, c)| c).collect::<Vec<_>>(), 0)?;
        Ok((y, LstmState { h, c }))
    }
}

padded!(Lstm, 0, LstmState<P>);
biased!(Lstm, 0);
biased!(LstmCell, 0);

impl<P: Float> Recurrence<P> for LstmState<P> {
    type State = (Tensor<P>, Tensor<F32>);

    #[track_caller]
    fn start(&self, i: usize) -> Result<Self::State> {
        Ok((self.h.select(0, i)?, self.c.select(0, i)?))
    }

    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, state: Self::State) -> Result<(Tensor<P>, Self::State)> {
        let (h, c) = step(cell, from_inputs, state)?;
        Ok((h.clone(), (h, c)))
    }
}

/// Hidden state and cell state after one step.
#[track_caller]
fn step<P: Float>(
    cell: &Cell,
    from_inputs: &Tensor<P>,
    (h, c): (Tensor<P>, Tensor<F32>),
) -> Result<(Tensor<P>, Tensor<F32>)> {
    lstm_cell(from_inputs, &cell.hidden(&h)?, &c)
}

/// One step of an LSTM (`torch.nn.LSTMCell`).
#[derive(Debug)]
pub struct LstmCell(Single);

impl LstmCell {
    /// Parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Ok(Self(Single::new(4, inputs, hidden, device)?))
    }

    /// The state after a step from zeros with input `[N, inputs]`; both of its parts are `[N, H]`.
    ///
    /// # Precision
    /// Products in the precision of `x`; gates and cell state in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<LstmState<P>> {
        self.run(x, None)
    }

    /// As [`forward`](Self::forward), going on from `state`.
    #[track_caller]
    pub fn forward_from<P: Float>(&self, x: &Tensor<P>, state: &LstmState<P>) -> Result<LstmState<P>> {
        self.run(x, Some(state))
    }

    #[track_caller]
    fn run<P: Float>(&self, x: &Tensor<P>, from: Option<&LstmState<P>>) -> Result<LstmState<P>> {
        const OP: &str = "LstmCell";
        let (gates, n) = (self.0.inputs(OP, x)?, x.dims()[0]);
        let state = (self.0.state(OP, n, from.map(|s| &s.h))?, self.0.state(OP, n, from.map(|s| &s.c))?);
        let (h, c) = step(&self.0.cell, &gates, state)?;
        Ok(LstmState { h, c })
    }
}

impl Module for Lstm {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}

impl Module for LstmCell {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}
