//! Starting a backward pass from a loss.

use super::Tensor;
use crate::autograd::{Differentiable, Gradients, ScaleTag, Unscaled, run};
use crate::precision::{FullRange, full_range};
use crate::raw::RawTensor;
use crate::{Error, Result};

full_range! {
    BackwardPrecision, "`backward` starts from a loss in `F32`";
}

impl<P: FullRange> Tensor<P> {
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
        backward(&self.raw, 1.0, None, false, ScaleTag::default())
    }

    /// As [`backward`](Self::backward), and the graph can be walked again (`retain_graph=True`).
    pub fn backward_retained(&self) -> Result<Gradients<Unscaled>> {
        self.refuse_unscaled_f16()?;
        backward(&self.raw, 1.0, None, true, ScaleTag::default())
    }

    /// As [`backward`](Self::backward), only towards the given parameters or tensors; the rest of the graph stays usable.
    pub fn backward_for<'a, D: Differentiable + 'a>(
        &self,
        targets: impl IntoIterator<Item = &'a D>,
    ) -> Result<Gradients<Unscaled>> {
        self.refuse_unscaled_f16()?;
        let targets = targets.into_iter().filter_map(Differentiable::grad_id).collect();
        backward(&self.raw, 1.0, Some(&targets), false, ScaleTag::default())
    }

    fn refuse_unscaled_f16(&self) -> Result<()> {
        match crate::autograd::first_f16(&self.raw) {
            Some((op, location)) => Err(Error::NeedsScaler { op, location }),
            None => Ok(()),
        }
    }
}

/// The pass itself, with the loss multiplied by `scale`.
pub(crate) fn backward<S>(
    loss: &RawTensor,
    scale: f64,
    targets: Option<&std::collections::HashSet<u64>>,
    retain: bool,
    tag: ScaleTag,
) -> Result<Gradients<S>> {
    if loss.layout.count() != 1 {
        return Err(Error::LossNotScalar { shape: *loss.shape() });
    }
    let seed = RawTensor::full(loss.device(), scale, *loss.shape(), loss.logical)?;
    let collected = run(loss, seed, targets, retain, Default::default())?;
    Ok(Gradients::new(collected, tag))
}
