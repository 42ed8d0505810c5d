//! The norm of gradients, and clipping.

use super::check::Checked;
use super::{Gradients, IsUnscaled, ScaleState};
use crate::backend::Buffer;
use crate::order::elementwise;
use crate::precision::F32;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use amp_cpu::{DType, Dims, Reduce, Unary};

/// Norms and clipping need gradients at their true size; the bound says so in the user's words.
impl<S: ScaleState> Gradients<S> {
    /// The L2 norm of all gradients together, accumulated in F64; not finite when a gradient is not.
    pub fn norm(&self) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        self.global_norm()
    }

    /// Scales all gradients down so that their common L2 norm is at most `max`, and returns the norm before
    /// (`torch.nn.utils.clip_grad_norm_`).
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    #[doc(alias = "clip_grad_norm_")]
    pub fn clip_norm(&mut self, max: f32) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        if max.is_nan() || max < 0.0 {
            return Err(Error::argument("clip_norm", "max", "at least 0", max));
        }
        self.check()?;
        let norm = self.global_norm()?;
        if !self.is_empty() {
            self.factors.push(clip_factor(&norm.raw, f64::from(max))?);
            self.fresh = false;
        }
        Ok(norm)
    }

    /// Limits every element to `-max..=max` (`torch.nn.utils.clip_grad_value_`). NaN stays NaN.
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    #[doc(alias = "clip_grad_value_")]
    pub fn clip_value(&mut self, max: f32) -> Result<()>
    where
        S: IsUnscaled,
    {
        if max.is_nan() || max < 0.0 {
            return Err(Error::argument("clip_value", "max", "at least 0", max));
        }
        let max = f64::from(max);
        // The decision to step is taken on the values before clipping, where an infinity still shows.
        self.check()?;
        self.multiply_out()?;
        (self.fresh, self.changed) = (false, true);
        for grad in self.grads.values_mut() {
            let op = Unary::Clamp { min: -max, max };
            *grad = elementwise([grad], |backend, [x]| backend.unary(op, x, grad.logical))?;
        }
        Ok(())
    }

    fn global_norm(&self) -> Result<Tensor<F32>> {
        let Some(Checked { sums, .. }) = self.sums_now()? else { return Tensor::zeros((), &Device::cpu()) };
        let device = sums.device();
        let total = device.backend().reduce(Reduce::Sum, sums.operand()?, &[0], DType::F64)?;
        let total = RawTensor::new(device, total, Dims::default());
        let norm = device.backend().unary(Unary::Sqrt, total.operand()?, DType::F32)?;
        Ok(Tensor::from_raw(RawTensor::new(device, norm, Dims::default())))
    }
}

/// `min(1, max / (norm + 1e-6))`, computed on the device: the host does not wait.
fn clip_factor(norm: &RawTensor, max: f64) -> Result<Buffer> {
    let steps = [
        Unary::Affine { mul: 1.0, add: 1e-6 },
        Unary::Recip,
        Unary::Affine { mul: max, add: 0.0 },
        Unary::Clamp { min: 0.0, max: 1.0 },
    ];
    let factor = steps.into_iter().try_fold(norm.detached(), |x, step| {
        let buffer = x.backend().unary(step, x.operand()?, DType::F32)?;
        Ok::<_, Error>(RawTensor::new(x.device(), buffer, Dims::default()))
    })?;
    Ok(factor.value.buffer.clone())
}
