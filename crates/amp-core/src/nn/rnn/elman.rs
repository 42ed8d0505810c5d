//! Plain recurrent networks.

use super::{Cell, Recurrence, Single, Stack, biased, padded};
use crate::nn::{Module, Visitor};
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Result};

/// Plain (Elman) recurrent network, with tanh by default (`torch.nn.RNN`, batch first).
#[derive(Debug)]
pub struct Rnn {
    stack: Stack,
    relu: bool,
}

impl Rnn {
    /// One layer; parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Self::stacked(inputs, hidden, 1, false, device)
    }

    /// Several layers, each in both directions if `bidirectional`.
    #[doc(alias = "num_layers")]
    pub fn stacked(inputs: usize, hidden: usize, layers: usize, bidirectional: bool, device: &Device) -> Result<Self> {
        Ok(Self { stack: Stack::new("Rnn", 1, inputs, hidden, layers, bidirectional, device)?, relu: false })
    }

    /// Uses relu in place of tanh (`nonlinearity="relu"`).
    pub fn relu(mut self) -> Self {
        self.relu = true;
        self
    }

    /// `[N, T, inputs]` to `[N, T, directions * H]` and the last states `[layers * directions, N, H]`, from zeros.
    ///
    /// # Precision
    /// Products in the precision of `x`; their sum and its tanh in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        self.run(x, None, None)
    }

    /// As [`forward`](Self::forward), going on from `state`.
    #[track_caller]
    pub fn forward_from<P: Float>(&self, x: &Tensor<P>, state: &Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        self.run(x, None, Some(state))
    }

    #[track_caller]
    fn run<P: Float>(
        &self,
        x: &Tensor<P>,
        lengths: Option<&[usize]>,
        from: Option<&Tensor<P>>,
    ) -> Result<(Tensor<P>, Tensor<P>)> {
        const OP: &str = "Rnn";
        let start = RnnState { start: self.stack.state(OP, x, from)?, relu: self.relu };
        let (y, ends) = self.stack.run(OP, x, lengths, &start)?;
        Ok((y, Tensor::stack(&ends, 0)?))
    }
}

padded!(Rnn, stack, Tensor<P>);
biased!(Rnn, stack);
biased!(RnnCell, cell);

/// Hidden states to start from, `[layers * directions, N, H]`.
struct RnnState<P: Float> {
    start: Tensor<P>,
    relu: bool,
}

impl<P: Float> Recurrence<P> for RnnState<P> {
    type State = Tensor<P>;

    #[track_caller]
    fn start(&self, i: usize) -> Result<Tensor<P>> {
        self.start.select(0, i)
    }

    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, h: Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        let h = step(cell, from_inputs, &h, self.relu)?;
        Ok((h.clone(), h))
    }
}

/// The hidden state after one step.
#[track_caller]
fn step<P: Float>(cell: &Cell, from_inputs: &Tensor<P>, h: &Tensor<P>, relu: bool) -> Result<Tensor<P>> {
    let sum = (from_inputs.to::<F32>()? + cell.hidden(h)?.to::<F32>()?)?;
    if relu { sum.relu()?.to() } else { sum.tanh()?.to() }
}

/// One step of a plain recurrent network (`torch.nn.RNNCell`).
#[derive(Debug)]
pub struct RnnCell {
    cell: Single,
    relu: bool,
}

impl RnnCell {
    /// Parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Ok(Self { cell: Single::new(1, inputs, hidden, device)?, relu: false })
    }

    /// Uses relu in place of tanh (`nonlinearity="relu"`).
    pub fn relu(mut self) -> Self {
        self.relu = true;
        self
    }

    /// The hidden state `[N, H]` after a step from zeros with input `[N, inputs]`.
    ///
    /// # Precision
    /// Products in the precision of `x`; their sum and its tanh in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        self.run(x, None)
    }

    /// As [`forward`](Self::forward), going on from `state`.
    #[track_caller]
    pub fn forward_from<P: Float>(&self, x: &Tensor<P>, state: &Tensor<P>) -> Result<Tensor<P>> {
        self.run(x, Some(state))
    }

    #[track_caller]
    fn run<P: Float>(&self, x: &Tensor<P>, from: Option<&Tensor<P>>) -> Result<Tensor<P>> {
        const OP: &str = "RnnCell";
        let from_inputs = self.cell.inputs(OP, x)?;
        step(&self.cell.cell, &from_inputs, &self.cell.state(OP, x.dims()[0], from)?, self.relu)
    }
}

impl Module for Rnn {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.stack.visit(visitor);
    }
}

impl Module for RnnCell {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.cell.visit(visitor);
    }
}
