//! A loss on its way to a backward pass.

use crate::Result;
use crate::autograd::{Differentiable, Gradients, IdSet, ScaleTag, Scaled, Walk, grad_ids};
use crate::backend::Buffer;
use crate::precision::{F32, Float};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::tensor::backward::backward;
use amp_cpu::Dims;

/// Precision that a loss must have to be scaled.
#[diagnostic::on_unimplemented(
    message = "a loss is scaled in `F32`",
    label = "this loss is a `{Self}` tensor",
    note = "a loss of 2 times the scale 65536 is already infinite in F16, and BF16 has 8 bits of it; compute it in F32, or write `.to::<F32>()?` first"
)]
pub trait LossPrecision: Float {}

impl LossPrecision for F32 {}

/// A loss multiplied by the loss scale; the only thing to do with it is a backward pass.
#[derive(Debug)]
#[must_use = "a scaled loss does nothing until `.backward()`"]
pub struct ScaledLoss {
    loss: RawTensor,
    tag: ScaleTag,
    /// Scale and inverse; none when the scaler is disabled.
    factors: Option<(Buffer, Buffer)>,
}

impl ScaledLoss {
    pub(super) fn new(loss: RawTensor, tag: ScaleTag, factors: Option<(Buffer, Buffer)>) -> Self {
        Self { loss, tag, factors }
    }

    /// Gradients, still multiplied by the scale, with respect to every parameter that the loss depends on.
    ///
    /// # Errors
    /// The loss must hold one value and depend on something that requires a gradient.
    pub fn backward(self) -> Result<Gradients<Scaled>> {
        self.walk(None, false)
    }

    /// As [`backward`](Self::backward), and the graph can be walked again (`retain_graph=True`).
    pub fn backward_retained(self) -> Result<Gradients<Scaled>> {
        self.walk(None, true)
    }

    /// As [`backward`](Self::backward), only towards the given parameters or tensors; what other losses need of the
    /// graph stays usable.
    pub fn backward_for<'a, D: Differentiable + 'a>(
        self,
        targets: impl IntoIterator<Item = &'a D>,
    ) -> Result<Gradients<Scaled>> {
        self.walk(Some(&grad_ids(targets)), false)
    }

    /// As [`backward_for`](Self::backward_for), and all of the graph can be walked again.
    pub fn backward_for_retained<'a, D: Differentiable + 'a>(
        self,
        targets: impl IntoIterator<Item = &'a D>,
    ) -> Result<Gradients<Scaled>> {
        self.walk(Some(&grad_ids(targets)), true)
    }

    /// The product of loss and scale as a tensor of the graph, for losses that are built from scaled parts.
    pub fn tensor(&self) -> Result<Tensor<F32>> {
        let loss = Tensor::<F32>::from_raw(self.loss.clone());
        match &self.factors {
            Some((scale, _)) => loss.mul(Tensor::<F32>::from_raw(self.scalar(scale))),
            None => Ok(loss),
        }
    }

    fn walk(&self, targets: Option<&IdSet>, retain: bool) -> Result<Gradients<Scaled>> {
        let seed = |shape: Dims| match &self.factors {
            Some((scale, _)) => self.scalar(scale).broadcast_to("backward", &shape),
            None => RawTensor::full(self.loss.device(), 1.0, shape, self.loss.logical),
        };
        let walk = Walk { targets, retain, peaks: self.factors.is_some() };
        let collected = backward(&self.loss, seed, walk)?;
        Ok(Gradients::new(collected, self.tag, self.factors.as_ref().map(|(_, inverse)| inverse.clone())))
    }

    /// A backward pass with magnitudes, whether the scaler is enabled or not: for tests.
    #[cfg(test)]
    pub(super) fn looked_at(self) -> Result<Gradients<Scaled>> {
        let seed = |shape: Dims| RawTensor::full(self.loss.device(), 1.0, shape, self.loss.logical);
        let walk = Walk { peaks: true, ..Walk::default() };
        Ok(Gradients::new(backward(&self.loss, seed, walk)?, self.tag, None))
    }

    fn scalar(&self, buffer: &Buffer) -> RawTensor {
        RawTensor::new(self.loss.device(), buffer.clone(), Dims::default())
    }
}
