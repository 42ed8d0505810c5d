//! Gated recurrent units.

use super::{Cell, Recurrence, Single, Stack, biased, padded};
use crate::nn::{Module, Visitor};
use crate::ops::gru_cell;
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{Device, Result};

/// Gated recurrent unit (`torch.nn.GRU`, batch first).
#[derive(Debug)]
pub struct Gru(Stack);

impl Gru {
    /// One layer; parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Self::stacked(inputs, hidden, 1, false, device)
    }

    /// Several layers, each in both directions if `bidirectional`.
    #[doc(alias = "num_layers")]
    pub fn stacked(inputs: usize, hidden: usize, layers: usize, bidirectional: bool, device: &Device) -> Result<Self> {
        Ok(Self(Stack::new("Gru", 3, inputs, hidden, layers, bidirectional, device)?))
    }

    /// `[N, T, inputs]` to `[N, T, directions * H]` and the last states `[layers * directions, N, H]`, from zeros.
    ///
    /// # Precision
    /// Products in the precision of `x`; gates in F32.
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
        const OP: &str = "Gru";
        let (y, ends) = self.0.run(OP, x, lengths, &GruState(self.0.state(OP, x, from)?))?;
        Ok((y, Tensor::stack(&ends, 0)?))
    }
}

padded!(Gru, 0, Tensor<P>);
biased!(Gru, 0);
biased!(GruCell, 0);

/// Hidden states to start from, `[layers * directions, N, H]`.
struct GruState<P: Float>(Tensor<P>);

impl<P: Float> Recurrence<P> for GruState<P> {
    type State = Tensor<P>;

    #[track_caller]
    fn start(&self, i: usize) -> Result<Tensor<P>> {
        self.0.select(0, i)
    }

    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, h: Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        let h = step(cell, from_inputs, &h)?;
        Ok((h.clone(), h))
    }
}

/// The hidden state after one step.
#[track_caller]
fn step<P: Float>(cell: &Cell, from_inputs: &Tensor<P>, h: &Tensor<P>) -> Result<Tensor<P>> {
    gru_cell(from_inputs, &cell.hidden(h)?, h)
}

/// One step of a GRU (`torch.nn.GRUCell`).
#[derive(Debug)]
pub struct GruCell(Single);

impl GruCell {
    /// Parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Ok(Self(Single::new(3, inputs, hidden, device)?))
    }

    /// The hidden state `[N, H]` after a step from zeros with input `[N, inputs]`.
    ///
    /// # Precision
    /// Products in the precision of `x`; gates in F32.
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
        const OP: &str = "GruCell";
        let gates = self.0.inputs(OP, x)?;
        step(&self.0.cell, &gates, &self.0.state(OP, x.dims()[0], from)?)
    }
}

impl Module for Gru {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}

impl Module for GruCell {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}
