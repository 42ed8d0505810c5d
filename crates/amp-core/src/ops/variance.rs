//! Variance and standard deviation.

use super::kernel::{binary, compare, folded, folded_count, scaled, select, unary, zeros};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{Binary, Compare, Unary};

full_range! {
    VarPrecision, "`var` must run in `F32`";
    StdPrecision, "`std` must run in `F32`";
}

/// Variance over `axes`, which stay with size 1, or its square root.
#[track_caller]
fn spread(name: &'static str, root: bool, x: &RawTensor, axes: &[usize], correction: f64) -> Result<RawTensor> {
    let (mean, var) = x.backend().variance(x.operand()?, axes, correction, x.logical)?;
    let shape = folded(x.shape(), axes);
    let (mean, var) = (RawTensor::new(x.device(), mean, shape), RawTensor::new(x.device(), var, shape));
    let y = if root { unary(Unary::Sqrt, &var, x.logical)? } else { var };
    let degrees = (folded_count(x.shape(), axes) as f64 - correction).max(0.0);
    record(name, &[x], y, |y| {
        let (x, y) = (Saved::new(x)?, Saved::new(y)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let each = if root { over_root(name, pass.grad(), &y)? } else { scaled(pass.grad(), 2.0)? };
            let deviation = binary(name, Binary::Sub, &x, &mean, x.logical)?;
            let grad = binary(name, Binary::Mul, &deviation, &scaled(&each, 1.0 / degrees)?, pass.dtype(0))?;
            pass.give(0, grad)
        }))
    })
}

/// `grad / y`, and 0 where all elements are equal: there the root has no slope, and PyTorch takes 0.
fn over_root(name: &'static str, grad: &RawTensor, y: &RawTensor) -> Result<RawTensor> {
    let zero = zeros(y, y.logical)?;
    let ratio = binary(name, Binary::Div, grad, y, y.logical)?;
    select(name, &compare(name, Compare::Eq, y, &zero)?, &zero, &ratio, y.logical)
}

impl<P: Float> Tensor<P> {
    /// Variance over `axes` (all when none are given) with division by `n - 1` (`torch.var`).
    ///
    /// # Precision
    /// Deviations are taken from the mean, in F32; blocks are merged with Chan's formula.
    #[track_caller]
    pub fn var(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: VarPrecision,
    {
        self.var_with(axes, 1.0, keep)
    }

    /// As [`var`](Self::var), with division by `n - correction`.
    #[track_caller]
    pub fn var_with(&self, axes: impl Axes, correction: f64, keep: bool) -> Result<Self>
    where
        P: VarPrecision,
    {
        let axes = shape::axes("var", axes.as_axes(), self.rank())?;
        Self::from_raw(spread("var", false, &self.raw, &axes, correction)?).drop_axes(&axes, keep)
    }

    /// Standard deviation over `axes` (all when none are given) with division by `n - 1` (`torch.std`).
    #[track_caller]
    pub fn std(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: StdPrecision,
    {
        self.std_with(axes, 1.0, keep)
    }

    /// As [`std`](Self::std), with division by `n - correction`.
    #[track_caller]
    pub fn std_with(&self, axes: impl Axes, correction: f64, keep: bool) -> Result<Self>
    where
        P: StdPrecision,
    {
        let axes = shape::axes("std", axes.as_axes(), self.rank())?;
        Self::from_raw(spread("std", true, &self.raw, &axes, correction)?).drop_axes(&axes, keep)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("var", gradcheck(|x| x[0].var([1], false), std::slice::from_ref(&x))),
            ("var of all", gradcheck(|x| x[0].var_with([], 0.0, true), std::slice::from_ref(&x))),
            ("std", gradcheck(|x| x[0].std([0], true), std::slice::from_ref(&x))),
        ] {
            let worst = worst.unwrap();
            assert!(worst.error <= 1e-6, "{name}: {worst:?}");
        }
    }

    #[test]
    fn a_large_mean_does_not_cancel() {
        let x = Tensor::<F32>::from_vec(vec![10_000.0, 10_001.0, 10_002.0], [3], &Device::cpu()).unwrap();
        assert_eq!(x.var([], false).unwrap().item().unwrap(), 1.0);
        assert_eq!(x.std([0], false).unwrap().item().unwrap(), 1.0);
    }

    #[test]
    fn equal_elements_have_no_slope() {
        let x = Tensor::<F32>::ones([4], &Device::cpu()).unwrap().tracked();
        let grads = x.std([], false).unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.0; 4]);
    }
}
