//! Inverses of hyperbolic functions: one operation of the graph, computed in F32 throughout and rounded once.

use super::composed::{affine, composed};
use super::elementary::{number, of, on, or_zero};
use super::kernel::{compare, select};
use crate::Result;
use crate::precision::Float;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, Compare, Unary};
use std::f64::consts::LN_2;

/// Beyond this an inverse is `ln(2x)` to the last bit, even in F64, and squares soon leave the range of F32.
const FAR: f64 = 1e8;

/// `near`, or `ln(2x)` where `x` is far from 0.
fn or_far(op: &'static str, x: &RawTensor, near: &RawTensor) -> Result<RawTensor> {
    let far = affine(&of(Unary::Log, x)?, 1.0, LN_2)?;
    select(op, &compare(op, Compare::Gt, x, &number(x, FAR)?)?, &far, near, near.logical)
}

/// `sign(x) ln(1 + |x| + x² / (1 + sqrt(1 + x²)))`: nothing cancels near 0.
fn asinh(x: &RawTensor) -> Result<RawTensor> {
    let size = of(Unary::Abs, x)?;
    let square = of(Unary::Sqr, x)?;
    let root = of(Unary::Sqrt, &affine(&square, 1.0, 1.0)?)?;
    let more = on(Binary::Div, &square, &affine(&root, 1.0, 1.0)?)?;
    let near = of(Unary::Log1p, &on(Binary::Add, &size, &more)?)?;
    let y = on(Binary::Mul, &of(Unary::Sign, x)?, &or_far("asinh", &size, &near)?)?;
    or_zero("asinh", x, &y, x.logical)
}

/// `ln(1 + u + sqrt(u) sqrt(u + 2))` of `u = x - 1`: nothing cancels near 1.
fn acosh(x: &RawTensor) -> Result<RawTensor> {
    let above = affine(x, 1.0, -1.0)?;
    let root = on(Binary::Mul, &of(Unary::Sqrt, &above)?, &of(Unary::Sqrt, &affine(x, 1.0, 1.0)?)?)?;
    let near = of(Unary::Log1p, &on(Binary::Add, &above, &root)?)?;
    let y = or_far("acosh", x, &near)?;
    super::kernel::unary(Unary::Affine { mul: 1.0, add: -0.0 }, &y, x.logical)
}

/// `sign(x) ln(1 + 2 |x| / (1 - |x|)) / 2`.
fn atanh(x: &RawTensor) -> Result<RawTensor> {
    let size = of(Unary::Abs, x)?;
    let ratio = on(Binary::Div, &affine(&size, 2.0, -0.0)?, &affine(&size, -1.0, 1.0)?)?;
    let half = affine(&of(Unary::Sign, x)?, 0.5, -0.0)?;
    or_zero("atanh", x, &on(Binary::Mul, &half, &of(Unary::Log1p, &ratio)?)?, x.logical)
}

impl<P: Float> Tensor<P> {
    /// Inverse of the hyperbolic sine (`torch.asinh`). Computed in F32, rounded once.
    #[track_caller]
    pub fn asinh(&self) -> Result<Self> {
        let slope = |x: &RawTensor| of(Unary::Rsqrt, &affine(&of(Unary::Sqr, x)?, 1.0, 1.0)?);
        Ok(Self::from_raw(composed("asinh", &self.raw, asinh, slope)?))
    }

    /// Inverse of the hyperbolic cosine; NaN below 1 (`torch.acosh`). Computed in F32, rounded once.
    #[track_caller]
    pub fn acosh(&self) -> Result<Self> {
        let inverse = |x: &RawTensor, by: f64| of(Unary::Rsqrt, &affine(x, 1.0, by)?);
        let slope = move |x: &RawTensor| on(Binary::Mul, &inverse(x, -1.0)?, &inverse(x, 1.0)?);
        Ok(Self::from_raw(composed("acosh", &self.raw, acosh, slope)?))
    }

    /// Inverse of the hyperbolic tangent; NaN beyond ±1 (`torch.atanh`). Computed in F32, rounded once.
    #[track_caller]
    pub fn atanh(&self) -> Result<Self> {
        let slope = |x: &RawTensor| of(Unary::Recip, &on(Binary::Mul, &affine(x, -1.0, 1.0)?, &affine(x, 1.0, 1.0)?)?);
        Ok(Self::from_raw(composed("atanh", &self.raw, atanh, slope)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.31, -0.07, 0.93, -0.55, 0.71, 0.12], [2, 3], &Device::cpu()).unwrap();
        let x = std::slice::from_ref(&x);
        for (name, worst) in [
            ("asinh", gradcheck(|x| x[0].asinh(), x)),
            ("acosh", gradcheck(|x| (&x[0] + 2.0)?.acosh(), x)),
            ("atanh", gradcheck(|x| x[0].atanh(), x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn they_reach_the_ends_of_the_range() {
        let (inf, device) = (f32::INFINITY, Device::cpu());
        let x = Tensor::<F32>::from_vec(vec![3e38, -3e38, inf, -inf, 1e-30, 0.0], [6], &device).unwrap();
        let end = f64::from(3e38_f32).asinh() as f32;
        assert_eq!(x.asinh().unwrap().to_vec().unwrap(), [end, -end, inf, -inf, 1e-30, 0.0]);
        let (most, least) = (x.acosh().unwrap().to_vec().unwrap(), x.atanh().unwrap().to_vec().unwrap());
        assert!(most[0] == end && most[2] == inf && most[1].is_nan() && most[3].is_nan() && most[5].is_nan());
        assert!(least[..4].iter().all(|y| y.is_nan()) && least[4..] == [1e-30, 0.0]);
    }
}
