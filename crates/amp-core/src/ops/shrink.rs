//! Functions that keep some elements and replace the others.

use super::choice::{largest, written};
use super::composed::wide;
use super::kernel::{binary, compare, select, unary, zeros};
use crate::autograd::{Pass, Saved, record};
use crate::precision::Float;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Compare, Dims, Unary};

/// Records `y`, through which the gradient flows where `dropped(x)` is false.
#[track_caller]
fn passing(
    op: &'static str,
    x: &RawTensor,
    y: RawTensor,
    dropped: impl Fn(&RawTensor) -> Result<RawTensor> + Send + Sync + 'static,
) -> Result<RawTensor> {
    record(op, &[x], y, |_| {
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let none = zeros(pass.grad(), pass.dtype(0))?;
            let grad = select(op, &dropped(&x)?, &none, pass.grad(), pass.dtype(0))?;
            pass.give(0, grad)
        }))
    })
}

fn number(x: &RawTensor, value: f64) -> Result<RawTensor> {
    RawTensor::full(x.device(), value, Dims::default(), wide(x))
}

/// Whether `|x| <= lambda`.
fn within(x: &RawTensor, lambda: f64) -> Result<RawTensor> {
    compare("shrink", Compare::Le, &unary(Unary::Abs, x, wide(x))?, &number(x, lambda)?)
}

fn checked(op: &'static str, lambda: f64) -> Result<f64> {
    if lambda >= 0.0 { Ok(lambda) } else { Err(Error::argument(op, "lambda", "0 or above", lambda)) }
}

/// Whether `x` is infinite or NaN.
fn unbounded(x: &RawTensor) -> Result<RawTensor> {
    let bounded = compare("nan_to_num", Compare::Lt, &unary(Unary::Abs, x, x.logical)?, &number(x, f64::INFINITY)?)?;
    compare("nan_to_num", Compare::Eq, &bounded, &zeros(&bounded, bounded.logical)?)
}

impl<P: Float> Tensor<P> {
    /// `x` where `|x| > lambda`, 0 elsewhere; NaN stays NaN (`F.hardshrink`, where lambda is 0.5 by default).
    ///
    /// # Errors
    /// [`Error::Argument`] for `lambda` below 0.
    #[track_caller]
    pub fn hardshrink(&self, lambda: impl Into<f64>) -> Result<Self> {
        let (x, lambda) = (&self.raw, checked("hardshrink", lambda.into())?);
        let y = select("hardshrink", &within(x, lambda)?, &number(x, 0.0)?, x, x.logical)?;
        Ok(Self::from_raw(passing("hardshrink", x, y, move |x| within(x, lambda))?))
    }

    /// `x` moved towards 0 by `lambda`, 0 where it would pass it (`F.softshrink`, where lambda is 0.5 by default). Computed
    /// in F32, rounded once.
    ///
    /// # Errors
    /// [`Error::Argument`] for `lambda` below 0.
    #[track_caller]
    pub fn softshrink(&self, lambda: impl Into<f64>) -> Result<Self> {
        let (x, lambda) = (&self.raw, checked("softshrink", lambda.into())?);
        let taken = unary(Unary::Clamp { min: -lambda, max: lambda }, x, wide(x))?;
        let y = binary("softshrink", Binary::Sub, x, &taken, x.logical)?;
        Ok(Self::from_raw(passing("softshrink", x, y, move |x| within(x, lambda))?))
    }

    /// `x` where it is above `threshold`, `value` elsewhere; NaN stays NaN (`F.threshold`).
    ///
    /// # Errors
    /// [`Error::Argument`] when a finite value is not finite in this precision.
    #[track_caller]
    pub fn threshold(&self, threshold: impl Into<f64>, value: impl Into<f64>) -> Result<Self> {
        let (x, threshold, value) = (&self.raw, threshold.into(), written("threshold", value.into(), P::DTYPE)?);
        let below = move |x: &RawTensor| compare("threshold", Compare::Le, x, &number(x, threshold)?);
        let y = select("threshold", &below(x)?, &number(x, value)?, x, x.logical)?;
        Ok(Self::from_raw(passing("threshold", x, y, below)?))
    }

    /// 0 for NaN, and the largest and the least finite value of this precision for infinities (`torch.nan_to_num`). Of what
    /// is replaced the derivative is 0.
    #[track_caller]
    pub fn nan_to_num(&self) -> Result<Self> {
        let largest = largest(P::DTYPE);
        self.nan_to_num_with(0.0, largest, -largest)
    }

    /// `nan`, `posinf` and `neginf` for NaN and infinities (`torch.nan_to_num(x, nan, posinf, neginf)`).
    #[track_caller]
    pub fn nan_to_num_with(&self, nan: impl Into<f64>, posinf: impl Into<f64>, neginf: impl Into<f64>) -> Result<Self> {
        const OP: &str = "nan_to_num";
        let (x, zero) = (&self.raw, number(&self.raw, 0.0)?);
        let (nan, posinf, neginf) = (number(x, nan.into())?, number(x, posinf.into())?, number(x, neginf.into())?);
        let negative = select(OP, &compare(OP, Compare::Lt, x, &zero)?, &neginf, &nan, wide(x))?;
        let instead = select(OP, &compare(OP, Compare::Gt, x, &zero)?, &posinf, &negative, wide(x))?;
        let y = select(OP, &unbounded(x)?, &instead, x, x.logical)?;
        Ok(Self::from_raw(passing(OP, x, y, unbounded)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, Result, Tensor, gradcheck};
    use half::f16;

    type Function = (&'static str, fn(&Tensor<F64>) -> Result<Tensor<F64>>);

    const FUNCTIONS: [Function; 5] = [
        ("hardshrink", |x| x.hardshrink(0.5)),
        ("softshrink", |x| x.softshrink(0.5)),
        ("threshold", |x| x.threshold(0.1, 7.0)),
        ("nan_to_num", |x| x.nan_to_num()),
        ("tanhshrink", |x| x.tanhshrink()),
    ];

    #[test]
    fn gradients_agree_with_differences() {
        let values = vec![0.3, -0.7, 1.9, 0.02, -2.2, 3.8];
        let x = Tensor::<F64>::from_vec(values, [2, 3], &Device::cpu()).unwrap();
        for (name, f) in FUNCTIONS {
            let worst = gradcheck(|x| f(&x[0]), std::slice::from_ref(&x)).unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn what_is_replaced_gets_no_gradient_however_large_it_is() {
        let x = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0];
        let x = Tensor::<F32>::from_vec(x, [4], &Device::cpu()).unwrap().tracked();
        let y = x.nan_to_num().unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0, f32::MAX, f32::MIN, 2.0]);
        let grad = Tensor::full([4], f32::INFINITY, &Device::cpu()).unwrap();
        let grads = y.backward_with(&grad).unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.0, 0.0, 0.0, f32::INFINITY]);
        let narrow = x.to::<F16>().unwrap();
        assert_eq!(narrow.nan_to_num().unwrap().to_vec().unwrap()[1], f16::MAX);
        assert_eq!(
            narrow.nan_to_num_with(1.0, 2.0, 3.0).unwrap().to_vec().unwrap()[..3],
            [1.0, 2.0, 3.0].map(f16::from_f32)
        );
    }

    #[test]
    fn arguments_that_make_no_sense_are_errors() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap();
        let text = |result: Result<Tensor<F32>>| result.unwrap_err().to_string();
        assert_eq!(text(x.softshrink(-1.0)), "softshrink: lambda must be 0 or above, found -1");
        assert_eq!(text(x.hardshrink(f64::NAN)), "hardshrink: lambda must be 0 or above, found NaN");
        assert_eq!(text(x.logit_with(0.6)), "logit: eps must be in 0..=0.5, found 0.6");
    }
}
