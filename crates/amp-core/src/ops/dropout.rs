//! Random omission of elements.

use super::kernel::zeros;
use crate::autograd::{Pass, record};
use crate::order::elementwise;
use crate::precision::{F32, Float};
use crate::random::{self, RandomState, reserve};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{DType, Ternary, Unary};

impl<P: Float> Tensor<P> {
    /// Zeroes each element with probability `p` and divides the others by `1 - p` while `training`; else does nothing
    /// (`F.dropout`).
    ///
    /// The mask is a function of the global random state, so the backward pass draws it again instead of keeping it.
    #[track_caller]
    pub fn dropout(&self, p: f64, training: bool) -> Result<Self> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument("dropout", "p", "a probability between 0 and 1", p));
        }
        if !training || p == 0.0 {
            return Ok(self.unchanged());
        }
        Ok(Self::from_raw(dropout(&self.raw, p)?))
    }

    /// Replaces each element with probability `p` by the limit of [`selu`](Self::selu) and scales and shifts all, so that mean 0
    /// and variance 1 stay what they are, while `training`; else does nothing (`F.alpha_dropout`).
    #[track_caller]
    pub fn alpha_dropout(&self, p: f64, training: bool) -> Result<Self> {
        const OP: &str = "alpha_dropout";
        /// `-scale * alpha` of selu.
        const LIMIT: f64 = -1.758_099_340_847_376_6;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument(OP, "p", "a probability between 0 and 1", p));
        }
        if !training || p == 0.0 {
            return Ok(self.unchanged());
        }
        if p == 1.0 {
            return self.mul(0.0);
        }
        let scale = 1.0 / ((1.0 - p) * (1.0 + p * LIMIT * LIMIT)).sqrt();
        let shift = -scale * p * LIMIT;
        let drawn = random::uniform(*self.raw.shape(), 0.0, 1.0, DType::F32, self.device())?;
        let kept = self.pointwise(OP, Unary::Affine { mul: scale, add: shift })?;
        Tensor::<F32>::from_raw(drawn).le(1.0 - p)?.where_(&kept, scale * LIMIT + shift)
    }
}

#[track_caller]
fn dropout(x: &RawTensor, p: f64) -> Result<RawTensor> {
    let at = reserve(x.layout.count());
    record("dropout", &[x], masked(x, p, at, x.logical)?, |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = masked(pass.grad(), p, at, pass.dtype(0))?;
            pass.give(0, grad)
        }))
    })
}

/// `x * mask / (1 - p)` with the mask that is drawn at `at`, in row-major order however `x` lies in memory.
fn masked(x: &RawTensor, p: f64, at: RandomState, out: DType) -> Result<RawTensor> {
    let backend = x.backend();
    let none = zeros(x, out)?;
    if p == 1.0 {
        return Ok(none);
    }
    let mask = RawTensor::new(x.device(), backend.mask(at, 1.0 - p, x.layout.count())?, *x.shape());
    let op = Ternary::Addcmul(1.0 / (1.0 - p));
    // The mask first: a large element times the factor may be infinite, and no mask makes that 0.
    elementwise([&none, x, &mask], |backend, [none, x, mask]| backend.ternary(op, none, mask, x, out))
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, Tensor};

    #[test]
    fn kept_elements_are_scaled_and_gradients_pass_where_they_were_kept() {
        let x = Tensor::<F32>::ones([100, 100], &Device::cpu()).unwrap().tracked();
        let y = x.dropout(0.25, true).unwrap();
        let values = y.to_vec().unwrap();
        let kept = values.iter().filter(|v| **v != 0.0).count();
        // Six standard deviations of a binomial draw.
        assert!((kept as f64 - 7500.0).abs() < 6.0 * (10_000.0f64 * 0.25 * 0.75).sqrt(), "{kept} of 10000");
        assert!(values.iter().all(|v| *v == 0.0 || *v == 4.0 / 3.0));
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), values);
    }

    #[test]
    fn the_ends_are_exact_and_evaluation_changes_nothing() {
        let x = Tensor::<F16>::ones([7], &Device::cpu()).unwrap();
        assert_eq!(x.dropout(0.5, false).unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        assert_eq!(x.dropout(0.0, true).unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        assert!(x.dropout(1.0, true).unwrap().eq(0.0).unwrap().all([], false).unwrap().item().unwrap());
        let error = x.dropout(1.5, true).unwrap_err().to_string();
        assert_eq!(error, "dropout: p must be a probability between 0 and 1, found 1.5");
    }

    #[test]
    fn alpha_dropout_keeps_mean_and_variance() {
        crate::manual_seed(3);
        let x = Tensor::<F32>::randn([100_000], &Device::cpu()).unwrap().tracked();
        let y = x.alpha_dropout(0.3, true).unwrap();
        let (mean, var) = (y.mean_all().unwrap().item().unwrap(), y.var(0, false).unwrap().item().unwrap());
        // Six standard deviations of a mean of 100000 draws; those of a variance whose fourth moment is below 4.
        assert!(mean.abs() < 6.0 / 316.0 && (var - 1.0).abs() < 6.0 * 2.0 / 316.0, "seed 3: {mean}, {var}");
        let grads = y.sum_all().unwrap().backward().unwrap().get(&x).unwrap().unwrap().to_vec().unwrap();
        let dropped = grads.iter().filter(|g| **g == 0.0).count();
        assert!((dropped as f64 - 30_000.0).abs() < 6.0 * (100_000.0f64 * 0.3 * 0.7).sqrt(), "seed 3: {dropped}");
        let values = y.to_vec().unwrap();
        let replaced = || values.iter().zip(&grads).filter(|(_, grad)| **grad == 0.0).map(|(value, _)| *value);
        assert!(replaced().all(|value| value == replaced().next().unwrap()), "seed 3");
        assert!(x.alpha_dropout(0.5, false).unwrap().equal(&x).unwrap());
        assert_eq!(x.alpha_dropout(1.0, true).unwrap().count_nonzero([]).unwrap().item().unwrap(), 0);
        assert!(x.alpha_dropout(-0.1, true).is_err());
    }

    #[test]
    fn what_is_dropped_is_0_however_large_it_was() {
        let large = Tensor::<F32>::full([64], 3e38, &Device::cpu()).unwrap();
        let x = large.tracked();
        let y = x.dropout(0.5, true).unwrap();
        // What is kept is twice as large, which F32 does not hold.
        let fits = |v: &f32| *v == 0.0 || *v == f32::INFINITY;
        let values = y.to_vec().unwrap();
        assert!(values.iter().all(fits) && values.contains(&0.0), "{values:?}");
        let grads = y.backward_with(&large).unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), values);
    }
}
