//! Starting a backward pass from a loss.

use super::Tensor;
use crate::autograd::{Collected, Differentiable, Gradients, IdSet, Unscaled, Walk, grad_ids, run};
use crate::precision::{Float, FullRange};
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::{Error, Result};
use amp_cpu::Dims;

#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`backward` starts from a loss in `F32`",
    label = "this tensor has too little range or precision for it",
    note = "widen the loss first: `loss.to::<F32>()?`; one that came through F16 is scaled then: `scaler.scale(&loss)?.backward()?`"
)]
pub trait BackwardPrecision: FullRange {}
#[diagnostic::do_not_recommend]
impl<P: FullRange> BackwardPrecision for P {}

impl<P: Float> Tensor<P> {
    /// Gradients of this loss with respect to every parameter and tracked tensor it depends on.
    ///
    /// Frees what the graph saved. A loss that came through an F16 region needs a loss scale:
    /// `scaler.scale(&loss)?.backward()?`.
    ///
    /// # Errors
    /// The loss must hold one value and depend on something that requires a gradient; [`Error::NeedsScaler`] before any
    /// arithmetic when part of the graph ran in F16.
    pub fn backward(&self) -> Result<Gradients<Unscaled>>
    where
        P: BackwardPrecision,
    {
        self.refuse_unscaled_f16()?;
        self.walk(None, false)
    }

    /// As [`backward`](Self::backward), and the graph can be walked again (`retain_graph=True`).
    pub fn backward_retained(&self) -> Result<Gradients<Unscaled>>
    where
        P: BackwardPrecision,
    {
        self.refuse_unscaled_f16()?;
        self.walk(None, true)
    }

    /// As [`backward`](Self::backward), only towards the given parameters or tensors; what lies on no way to them stays usable.
    pub fn backward_for<'a, D: Differentiable + 'a>(
        &self,
        targets: impl IntoIterator<Item = &'a D>,
    ) -> Result<Gradients<Unscaled>>
    where
        P: BackwardPrecision,
    {
        self.refuse_unscaled_f16()?;
        self.walk(Some(&grad_ids(targets)), false)
    }

    /// As [`backward_for`](Self::backward_for), and all of the graph can be walked again, as when losses are weighed by their
    /// gradients of one layer before their sum is walked (`torch.autograd.grad(.., retain_graph=True)`).
    pub fn backward_for_retained<'a, D: Differentiable + 'a>(
        &self,
        targets: impl IntoIterator<Item = &'a D>,
    ) -> Result<Gradients<Unscaled>>
    where
        P: BackwardPrecision,
    {
        self.refuse_unscaled_f16()?;
        self.walk(Some(&grad_ids(targets)), true)
    }
}

impl<P: FullRange> Tensor<P> {
    fn refuse_unscaled_f16(&self) -> Result<()> {
        match crate::autograd::first_f16(&self.raw) {
            Some((op, location)) => Err(Error::NeedsScaler { op, location }),
            None => Ok(()),
        }
    }

    fn walk(&self, targets: Option<&IdSet>, retain: bool) -> Result<Gradients<Unscaled>> {
        let seed = |shape| RawTensor::full(self.device(), 1.0, shape, P::DTYPE);
        let walk = Walk { targets, retain, peaks: false };
        Ok(Gradients::new(backward(&self.raw, seed, walk)?, Default::default(), None))
    }
}

impl<P: Float> Tensor<P> {
    /// Gradients of `sum(self * grad)`: continues a backward pass that arrived at this tensor, of any shape, with `grad`
    /// (`tensor.backward(gradient)`). The caller answers for the range of F16 gradients.
    ///
    /// # Errors
    /// [`Error::Shape`] when the gradient has another shape; [`Error::NoGraph`] when nothing requires a gradient.
    pub fn backward_with(&self, grad: &Self) -> Result<Gradients<Unscaled>> {
        self.device().check_same(grad.device(), "backward_with")?;
        check_same("backward_with", "the gradient", self.dims(), grad.dims())?;
        let collected = run(&self.raw, grad.raw.detached(), Walk::default())?;
        Ok(Gradients::new(collected, Default::default(), None))
    }
}

/// The pass itself, starting with the gradient that `seed` makes for the loss's shape.
pub(crate) fn backward(
    loss: &RawTensor,
    seed: impl FnOnce(Dims) -> Result<RawTensor>,
    walk: Walk<'_>,
) -> Result<Collected> {
    if loss.layout.count() != 1 {
        return Err(Error::LossNotScalar { shape: loss.shape().into() });
    }
    run(loss, seed(*loss.shape())?, walk)
}
