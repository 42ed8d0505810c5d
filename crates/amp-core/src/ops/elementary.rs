//! Elementary functions that are made of other ones: one operation of the graph, computed in F32 throughout and rounded once.

use super::composed::{affine, composed, wide};
use super::kernel::{binary, compare, select, unary};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Compare, DType, Dims, Unary};
use std::f64::consts::{LN_2, LN_10, LOG10_2};

full_range! {
    Log10Precision, "`log10` must run in `F32`";
    Exp2Precision, "`exp2` must run in `F32`";
    TanPrecision, "`tan` must run in `F32`";
    AsinPrecision, "`asin` must run in `F32`";
    AcosPrecision, "`acos` must run in `F32`";
    SinhPrecision, "`sinh` must run in `F32`";
    CoshPrecision, "`cosh` must run in `F32`";
}

/// `op(x)`, not rounded.
pub(super) fn of(op: Unary, x: &RawTensor) -> Result<RawTensor> {
    unary(op, x, wide(x))
}

/// `op(a, b)`, not rounded.
pub(super) fn on(op: Binary, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    binary("elementary function", op, a, b, wide(a))
}

pub(super) fn number(x: &RawTensor, value: f64) -> Result<RawTensor> {
    RawTensor::full(x.device(), value, Dims::default(), wide(x))
}

/// `(1 - x)(1 + x)`: `1 - x²` without cancellation.
fn rest_of_square(x: &RawTensor) -> Result<RawTensor> {
    on(Binary::Mul, &affine(x, -1.0, 1.0)?, &affine(x, 1.0, 1.0)?)
}

/// `sqrt(1 - x²)`, NaN beyond ±1.
fn leg(x: &RawTensor) -> Result<RawTensor> {
    of(Unary::Sqrt, &rest_of_square(x)?)
}

/// `y`, and `x` itself where that is 0: a product with the sign of `x`, which is 0 then, would lose that of -0.
pub(super) fn or_zero(op: &'static str, x: &RawTensor, y: &RawTensor, out: DType) -> Result<RawTensor> {
    select(op, &compare(op, Compare::Eq, x, &number(x, 0.0)?)?, x, y, out)
}

/// `e^(|x| / 2)`: its square leaves the range only where `cosh(x)` does.
fn cosh(x: &RawTensor, out: DType) -> Result<RawTensor> {
    let root = of(Unary::Exp, &affine(&of(Unary::Abs, x)?, 0.5, -0.0)?)?;
    let half = affine(&root, 0.5, -0.0)?;
    let small = on(Binary::Div, &of(Unary::Recip, &affine(&root, 2.0, -0.0)?)?, &root)?;
    binary("cosh", Binary::Add, &on(Binary::Mul, &half, &root)?, &small, out)
}

/// `sign(x) h (h + 2) (1 + 1 / (1 + h)²) / 2` with `h = e^(|x| / 2) - 1`: nothing cancels near 0, nothing overflows early.
fn sinh(x: &RawTensor, out: DType) -> Result<RawTensor> {
    let h = of(Unary::Expm1, &affine(&of(Unary::Abs, x)?, 0.5, -0.0)?)?;
    let small = of(Unary::Sqr, &of(Unary::Recip, &affine(&h, 1.0, 1.0)?)?)?;
    let half = on(Binary::Mul, &of(Unary::Sign, x)?, &affine(&h, 0.5, -0.0)?)?;
    let near = on(Binary::Mul, &half, &affine(&small, 1.0, 1.0)?)?;
    or_zero("sinh", x, &on(Binary::Mul, &near, &affine(&h, 1.0, 2.0)?)?, out)
}

/// `x` in `eps ..= 1 - eps` where there are such limits.
fn limited(x: &RawTensor, eps: Option<f64>) -> Result<RawTensor> {
    match eps {
        Some(eps) => of(Unary::Clamp { min: eps, max: 1.0 - eps }, x),
        None => Ok(x.clone()),
    }
}

#[track_caller]
fn logit<P: Float>(x: &Tensor<P>, eps: Option<f64>) -> Result<Tensor<P>> {
    let forward = |x: &RawTensor| {
        let inside = limited(x, eps)?;
        unary(Unary::Log, &on(Binary::Div, &inside, &affine(&inside, -1.0, 1.0)?)?, x.logical)
    };
    let slope = move |x: &RawTensor| {
        let inside = limited(x, eps)?;
        let variance = on(Binary::Mul, &inside, &affine(&inside, -1.0, 1.0)?)?;
        // The root of a number below 0 makes the derivative NaN where the result is.
        let slope = of(Unary::Sqr, &of(Unary::Rsqrt, &variance)?)?;
        let Some(eps) = eps else { return Ok(slope) };
        let (none, least, most) = (number(x, 0.0)?, number(x, eps)?, number(x, 1.0 - eps)?);
        let above = select("logit", &compare("logit", Compare::Gt, x, &most)?, &none, &slope, wide(x))?;
        select("logit", &compare("logit", Compare::Lt, x, &least)?, &none, &above, wide(x))
    };
    Ok(Tensor::from_raw(composed("logit", &x.raw, forward, slope)?))
}

impl<P: Float> Tensor<P> {
    /// `x - trunc(x)`, with the sign of `x` (`torch.frac`).
    #[track_caller]
    pub fn frac(&self) -> Result<Self> {
        let forward = |x: &RawTensor| binary("frac", Binary::Sub, x, &of(Unary::Trunc, x)?, x.logical);
        let slope = |x: &RawTensor| RawTensor::full(x.device(), 1.0, *x.shape(), wide(x));
        Ok(Self::from_raw(composed("frac", &self.raw, forward, slope)?))
    }

    /// Arc tangent in radians (`torch.atan`). Computed in F32, rounded once.
    #[doc(alias = "arctan")]
    #[track_caller]
    pub fn atan(&self) -> Result<Self> {
        let forward = |x: &RawTensor| binary("atan", Binary::Atan2, x, &number(x, 1.0)?, x.logical);
        let slope = |x: &RawTensor| of(Unary::Recip, &affine(&of(Unary::Sqr, x)?, 1.0, 1.0)?);
        Ok(Self::from_raw(composed("atan", &self.raw, forward, slope)?))
    }

    /// `ln(x / (1 - x))`, the inverse of sigmoid; NaN outside of `0..=1` (`torch.logit`). Computed in F32, rounded once.
    #[track_caller]
    pub fn logit(&self) -> Result<Self> {
        logit(self, None)
    }

    /// [`logit`](Self::logit) of `x` limited to `eps..=1 - eps` (`torch.logit(x, eps)`), beyond which the derivative is 0.
    ///
    /// # Errors
    /// [`Error::Argument`] for `eps` outside of `0..=0.5`.
    #[track_caller]
    pub fn logit_with(&self, eps: impl Into<f64>) -> Result<Self> {
        let eps = eps.into();
        if !(0.0..=0.5).contains(&eps) {
            return Err(Error::argument("logit", "eps", "in 0..=0.5", eps));
        }
        logit(self, Some(eps))
    }
}

/// Methods that exist in full precision only: result, written in the precision `out`, and derivative.
macro_rules! full {
    ($($(#[$doc:meta])* $name:ident, $bound:ident, |$x:ident, $out:ident| $forward:expr, $slope:expr;)*) => {
        impl<P: Float> Tensor<P> { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Result<Self>
            where
                P: $bound,
            {
                let forward = |$x: &RawTensor| {
                    let $out = P::WRITES.unwrap_or($x.logical);
                    $forward.map(|y| y.counted($x.logical))
                };
                Ok(Self::from_raw(composed(stringify!($name), &self.raw, forward, |$x: &RawTensor| $slope)?))
            }
        )* }
    };
}
pub(super) use full;

full! {
    /// Logarithm to base 10, to 2 ulp (`torch.log10`). Needs full precision: arguments below 6e-8 are 0 in F16.
    log10, Log10Precision, |x, out| unary(Unary::Affine { mul: LOG10_2, add: -0.0 }, &of(Unary::Log2, x)?, out),
        of(Unary::Recip, &affine(x, LN_10, -0.0)?);
    /// `2^x`, exact for integers (`torch.exp2`). Needs full precision: `2^16` is already infinite in F16.
    exp2, Exp2Precision, |x, out| binary("exp2", Binary::Pow, &number(x, 2.0)?, x, out),
        affine(&on(Binary::Pow, &number(x, 2.0)?, x)?, LN_2, -0.0);
    /// Tangent of an angle in radians (`torch.tan`). Needs full precision: it leaves the range of F16 near its poles.
    tan, TanPrecision, |x, out| binary("tan", Binary::Div, &of(Unary::Sin, x)?, &of(Unary::Cos, x)?, out),
        of(Unary::Sqr, &of(Unary::Recip, &of(Unary::Cos, x)?)?);
    /// Arc sine in radians; NaN beyond ±1 (`torch.asin`). Needs full precision: it is steep near ±1.
    #[doc(alias = "arcsin")]
    asin, AsinPrecision, |x, out| binary("asin", Binary::Atan2, x, &leg(x)?, out),
        of(Unary::Rsqrt, &rest_of_square(x)?);
    /// Arc cosine in radians; NaN beyond ±1 (`torch.acos`). Needs full precision: it is steep near ±1.
    #[doc(alias = "arccos")]
    acos, AcosPrecision, |x, out| binary("acos", Binary::Atan2, &leg(x)?, x, out),
        affine(&of(Unary::Rsqrt, &rest_of_square(x)?)?, -1.0, -0.0);
    /// Hyperbolic sine (`torch.sinh`). Needs full precision: it overflows F16 as `exp` does.
    sinh, SinhPrecision, |x, out| sinh(x, out), cosh(x, wide(x));
    /// Hyperbolic cosine (`torch.cosh`). Needs full precision: it overflows F16 as `exp` does.
    cosh, CoshPrecision, |x, out| cosh(x, out), sinh(x, wide(x));
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, I64, Result, Tensor, gradcheck};
    use half::f16;

    type Function = (&'static str, fn(&Tensor<F64>) -> Result<Tensor<F64>>);

    /// On arguments in `0..1`.
    const FUNCTIONS: [Function; 12] = [
        ("log10", |x| x.log10()),
        ("exp2", |x| x.exp2()),
        ("tan", |x| x.tan()),
        ("atan", |x| x.atan()),
        ("asin", |x| x.asin()),
        ("acos", |x| x.acos()),
        ("sinh", |x| (x - 0.5)?.sinh()),
        ("cosh", |x| (x - 0.5)?.cosh()),
        ("trunc", |x| (x * 3.0)?.trunc()),
        ("frac", |x| (x * -3.0)?.frac()),
        ("logit", |x| x.logit()),
        ("logit_with", |x| x.logit_with(0.3)),
    ];

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.31, 0.07, 0.93, 0.55, 0.71, 0.12], [2, 3], &Device::cpu()).unwrap();
        for (name, f) in FUNCTIONS {
            let worst = gradcheck(|x| f(&x[0]), std::slice::from_ref(&x)).unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn hyperbolic_functions_reach_the_end_of_the_range() {
        let x =
            Tensor::<F32>::from_vec(vec![-89.0, 89.0, 90.0, -1e-30, f32::NEG_INFINITY], [5], &Device::cpu()).unwrap();
        let (sinh, cosh) = (x.sinh().unwrap().to_vec().unwrap(), x.cosh().unwrap().to_vec().unwrap());
        let truth = 89.0_f64.sinh();
        assert!((f64::from(sinh[1]) / truth - 1.0).abs() < 1e-6 && sinh[0] == -sinh[1] && cosh[0] == sinh[1]);
        assert_eq!(sinh[2..], [f32::INFINITY, -1e-30, f32::NEG_INFINITY]);
        assert_eq!(cosh[2..], [f32::INFINITY, 1.0, f32::INFINITY]);
    }

    #[test]
    fn integers_are_truncated_already_and_halves_are_rounded_once() {
        let x = Tensor::<I64>::from_vec(vec![-(1 << 60) - 1, 0, 5], [3], &Device::cpu()).unwrap();
        assert_eq!(x.trunc().unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        let narrow = Tensor::<F16>::from_fn([500], |i| f16::from_f32(i[0] as f32 / 500.0), &Device::cpu()).unwrap();
        let wide = narrow.to::<F32>().unwrap();
        let rounded = |y: Tensor<F32>| y.to_vec().unwrap().into_iter().map(f16::from_f32).collect::<Vec<_>>();
        assert_eq!(narrow.logit_with(1e-6).unwrap().to_vec().unwrap(), rounded(wide.logit_with(1e-6).unwrap()));
        assert_eq!(narrow.atan().unwrap().to_vec().unwrap(), rounded(wide.atan().unwrap()));
    }

    #[test]
    fn negative_zeros_stay_negative() -> Result<()> {
        let x = Tensor::<F32>::from_vec(vec![-0.0, 0.0], [2], &Device::cpu())?;
        for (name, y) in [("trunc", x.trunc()?), ("sinh", x.sinh()?), ("asinh", x.asinh()?), ("atanh", x.atanh()?)] {
            let signs: Vec<bool> = y.to_vec()?.iter().map(|y| *y == 0.0 && y.is_sign_negative()).collect();
            assert_eq!(signs, [true, false], "{name}");
        }
        assert!(x.to::<F16>()?.trunc()?.to_vec()?[0].is_sign_negative());
        Ok(())
    }
}
