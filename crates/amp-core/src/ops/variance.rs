//! Variance and standard deviation.

use super::kernel::{binary, compare, folded, folded_count, scaled, select, unary, zeros};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{Binary, Compare, DType, Unary};

full_range! {
    VarPrecision, "`var` must run in `F32`";
    StdPrecision, "`std` must run in `F32`";
}

/// The axes to fold, and the correction: the sum of squares is divided by `n - correction`.
#[derive(Clone)]
struct Fold {
    axes: Vec<usize>,
    correction: f64,
}

impl Fold {
    /// Mean and variance, in precision `out`.
    fn moments(&self, x: &RawTensor, out: DType) -> Result<(RawTensor, RawTensor)> {
        let (mean, var) = x.backend().variance(x.operand()?, &self.axes, self.correction, out)?;
        let shape = folded(x.shape(), &self.axes);
        Ok((RawTensor::new(x.device(), mean, shape), RawTensor::new(x.device(), var, shape)))
    }

    /// What the sum of squares is divided by.
    fn degrees(&self, x: &RawTensor) -> f64 {
        folded_count(x.shape(), &self.axes) as f64 - self.correction
    }

    /// The gradient of the input: `each` times its deviation from `mean`, over the degrees of freedom.
    fn grad(
        &self,
        name: &'static str,
        x: &RawTensor,
        mean: &RawTensor,
        each: &RawTensor,
        dtype: DType,
    ) -> Result<RawTensor> {
        let deviation = binary(name, Binary::Sub, x, mean, x.logical)?;
        binary(name, Binary::Mul, &deviation, &scaled(each, 1.0 / self.degrees(x))?, dtype)
    }
}

/// Variance over the axes of `fold`, which stay with size 1, rounded to `writes` if that is given.
#[track_caller]
fn variance(x: &RawTensor, fold: Fold, writes: Option<DType>) -> Result<RawTensor> {
    let (mean, var) = fold.moments(x, writes.unwrap_or(x.logical))?;
    record("var", &[x], var.counted(x.logical), |_| {
        // The gradient needs the mean before it was rounded; computed again from the input it has the same bits.
        let mean = if writes.is_some() { None } else { Some(mean) };
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let again = if mean.is_none() { Some(fold.moments(&x, x.logical)?.0) } else { None };
            let mean = mean.as_ref().or(again.as_ref()).expect("kept or computed again");
            let each = scaled(pass.grad(), 2.0)?;
            pass.give(0, fold.grad("var", &x, mean, &each, pass.dtype(0))?)
        }))
    })
}

/// Square root of the variance over the axes of `fold`, which stay with size 1, rounded to `writes` if that is given.
#[track_caller]
fn deviation(x: &RawTensor, fold: Fold, writes: Option<DType>) -> Result<RawTensor> {
    let (mean, var) = fold.moments(x, x.logical)?;
    let y = unary(Unary::Sqrt, &var, writes.unwrap_or(x.logical))?.counted(x.logical);
    record("std", &[x], y, |y| {
        // The gradient needs the root before it was rounded.
        let rounded = writes.is_some();
        let (x, kept) = (Saved::new(x)?, Saved::new(if rounded { &var } else { y })?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let again = if rounded { Some(unary(Unary::Sqrt, &kept, kept.logical)?) } else { None };
            let each = over_root("std", pass.grad(), again.as_ref().unwrap_or(&kept))?;
            pass.give(0, fold.grad("std", &x, &mean, &each, pass.dtype(0))?)
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
        self.var_with(axes, 1.0, keep).map_err(|error| error.named("var"))
    }

    /// As [`var`](Self::var), with division by `n - correction`.
    #[track_caller]
    pub fn var_with(&self, axes: impl Axes, correction: f64, keep: bool) -> Result<Self>
    where
        P: VarPrecision,
    {
        let axes = shape::axes("var_with", &axes.as_axes(), self.rank())?;
        let fold = Fold { axes: axes.clone(), correction };
        Self::from_raw(variance(&self.raw, fold, P::WRITES)?).drop_axes(&axes, keep)
    }

    /// Standard deviation over `axes` (all when none are given) with division by `n - 1` (`torch.std`).
    #[track_caller]
    pub fn std(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: StdPrecision,
    {
        self.std_with(axes, 1.0, keep).map_err(|error| error.named("std"))
    }

    /// [`var`](Self::var) and [`mean`](Self::mean) over the same axes (`torch.var_mean`).
    #[track_caller]
    pub fn var_mean(&self, axes: impl Axes, keep: bool) -> Result<(Self, Self)>
    where
        P: VarPrecision,
    {
        let axes = &*axes.as_axes();
        let var = self.var(axes, keep).map_err(|error| error.named("var_mean"))?;
        Ok((var, self.mean(axes, keep)?))
    }

    /// [`std`](Self::std) and [`mean`](Self::mean) over the same axes (`torch.std_mean`).
    #[track_caller]
    pub fn std_mean(&self, axes: impl Axes, keep: bool) -> Result<(Self, Self)>
    where
        P: StdPrecision,
    {
        let axes = &*axes.as_axes();
        let std = self.std(axes, keep).map_err(|error| error.named("std_mean"))?;
        Ok((std, self.mean(axes, keep)?))
    }

    /// As [`std`](Self::std), with division by `n - correction`.
    #[track_caller]
    pub fn std_with(&self, axes: impl Axes, correction: f64, keep: bool) -> Result<Self>
    where
        P: StdPrecision,
    {
        let axes = shape::axes("std_with", &axes.as_axes(), self.rank())?;
        let fold = Fold { axes: axes.clone(), correction };
        Self::from_raw(deviation(&self.raw, fold, P::WRITES)?).drop_axes(&axes, keep)
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
            assert!(worst.agrees(), "{name}: {worst:?}");
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

    #[test]
    fn fewer_elements_than_the_correction_have_a_slope() {
        let x = Tensor::<F32>::from_vec(vec![1.0, 3.0], [2], &Device::cpu()).unwrap().tracked();
        let y = x.var_with(0, 3.0, false).unwrap();
        assert_eq!(y.item().unwrap(), f32::INFINITY);
        let grads = y.backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [2.0, -2.0]);
    }
}
