//! Special functions of one and two elements.

use super::broadcast_pair;
use super::composed::{affine, composed, composed_pair, wide};
use super::elementary::{full, number, of, on};
use super::kernel::{binary, compare, select};
use super::operand::Operand;
use crate::Result;
use crate::precision::{Element, Float, Numeric, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, Compare, DType, Unary};
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

full_range! {
    ErfinvPrecision, "`erfinv` must run in `F32`";
}

/// From where on a continued fraction of so many terms gives 11 digits of `erfc`, and `1 - erf` less and less.
const TAIL: (f64, u32) = (3.0, 16);

/// `e^(-x²) / sqrt(pi)`, in F64.
fn bell(x: &RawTensor) -> Result<RawTensor> {
    of(Unary::Exp, &affine(&of(Unary::Sqr, x)?, -1.0, (FRAC_2_SQRT_PI / 2.0).ln())?)
}

/// `near` up to where [`TAIL`] begins and `far` above.
fn beside_tail(x: &RawTensor, near: &RawTensor, far: &RawTensor, out: DType) -> Result<RawTensor> {
    select("erfc", &compare("erfc", Compare::Gt, x, &number(x, TAIL.0)?)?, far, near, out)
}

/// `erfc(x)` where [`TAIL`] has begun; `x` in F64.
fn tail(x: &RawTensor) -> Result<RawTensor> {
    let (start, terms) = TAIL;
    let far = of(Unary::Clamp { min: start, max: f64::INFINITY }, x)?;
    let fraction = (1..=terms).rev().try_fold(far.clone(), |below, k| {
        let part = on(Binary::Div, &number(x, f64::from(k) / 2.0)?, &below)?;
        on(Binary::Add, &far, &part)
    })?;
    on(Binary::Div, &bell(&far)?, &fraction)
}

/// In F64, which `1 - erf(x)` leaves enough digits.
fn erfc(x: &RawTensor) -> Result<RawTensor> {
    let wide = x.cast_view(DType::F64)?;
    beside_tail(&wide, &affine(&of(Unary::Erf, &wide)?, -1.0, 1.0)?, &tail(&wide)?, x.logical)
}

/// A first guess at `erfinv(x)` for `x` of at least 0, 2e-3 of it off (S. Winitzki, A handy approximation for the error
/// function and its inverse, 2008).
fn near_inverse(x: &RawTensor) -> Result<RawTensor> {
    const A: f64 = 0.147;
    let log = of(Unary::Log, &on(Binary::Mul, &affine(x, -1.0, 1.0)?, &affine(x, 1.0, 1.0)?)?)?;
    let half = affine(&log, 0.5, 2.0 / (PI * A))?;
    let ratio = affine(&log, -1.0 / A, -0.0)?;
    let root = of(Unary::Sqrt, &on(Binary::Add, &of(Unary::Sqr, &half)?, &ratio)?)?;
    of(Unary::Sqrt, &on(Binary::Div, &ratio, &on(Binary::Add, &root, &half)?)?)
}

/// By two of Halley's steps, each of which cubes what is missing.
fn erfinv(x: &RawTensor) -> Result<RawTensor> {
    let x = x.cast_view(DType::F64)?;
    let size = of(Unary::Abs, &x)?;
    let rest = affine(&size, -1.0, 1.0)?;
    let y = (0..2).try_fold(near_inverse(&size)?, |y, _| {
        let (near, far) = (on(Binary::Sub, &of(Unary::Erf, &y)?, &size)?, on(Binary::Sub, &rest, &tail(&y)?)?);
        let step = on(Binary::Div, &beside_tail(&y, &near, &far, DType::F64)?, &affine(&bell(&y)?, 2.0, -0.0)?)?;
        let bent = affine(&on(Binary::Mul, &y, &step)?, 1.0, 1.0)?;
        on(Binary::Sub, &y, &on(Binary::Div, &step, &bent)?)
    })?;
    let end = compare("erfinv", Compare::Eq, &size, &number(&size, 1.0)?)?;
    let y = select("erfinv", &end, &number(&size, f64::INFINITY)?, &y, DType::F64)?;
    on(Binary::Mul, &of(Unary::Sign, &x)?, &y)
}

/// `sqrt(pi) / 2 * e^(y²)` with `y = erfinv(x)`.
fn erfinv_slope(x: &RawTensor) -> Result<RawTensor> {
    of(Unary::Exp, &affine(&of(Unary::Sqr, &erfinv(x)?)?, 1.0, -FRAC_2_SQRT_PI.ln())?)
}

/// `sin(pi x) / (pi x)` in precision `out`, 1 at 0.
fn sinc(x: &RawTensor, out: DType) -> Result<RawTensor> {
    let angle = affine(x, PI, -0.0)?;
    let ratio = on(Binary::Div, &of(Unary::Sin, &angle)?, &angle)?;
    select("sinc", &compare("sinc", Compare::Eq, x, &number(x, 0.0)?)?, &number(x, 1.0)?, &ratio, out)
}

/// `(cos(pi x) - sinc(x)) / x`, 0 at 0.
fn sinc_slope(x: &RawTensor) -> Result<RawTensor> {
    let apart = on(Binary::Sub, &of(Unary::Cos, &affine(x, PI, -0.0)?)?, &sinc(x, wide(x))?)?;
    let none = number(x, 0.0)?;
    select("sinc", &compare("sinc", Compare::Eq, x, &none)?, &none, &on(Binary::Div, &apart, x)?, wide(x))
}

/// `sqrt(a² + b²)` in precision `out`, measured in the longer one: no square leaves the range.
fn hypot(a: &RawTensor, b: &RawTensor, out: DType) -> Result<RawTensor> {
    const OP: &str = "hypot";
    let (a, b) = broadcast_pair(OP, a, b)?;
    let (a, b) = (of(Unary::Abs, &a)?, of(Unary::Abs, &b)?);
    let long = on(Binary::Maximum, &a, &b)?;
    let ratio = on(Binary::Div, &on(Binary::Minimum, &a, &b)?, &long)?;
    let factor = of(Unary::Sqrt, &affine(&of(Unary::Sqr, &ratio)?, 1.0, 1.0)?)?;
    let length = on(Binary::Mul, &long, &factor)?;
    // Of zeros and infinities there is no ratio; infinity wins over NaN.
    let zero = compare(OP, Compare::Eq, &long, &number(&long, 0.0)?)?;
    let length = select(OP, &zero, &long, &length, length.logical)?;
    let infinite = |x: &RawTensor| compare(OP, Compare::Eq, x, &number(x, f64::INFINITY)?);
    let length = select(OP, &infinite(&b)?, &b, &length, length.logical)?;
    select(OP, &infinite(&a)?, &a, &length, out)
}

/// Where `x` is 0 and `op(y, 0)` holds not.
fn nothing_of(x: &RawTensor, y: &RawTensor, refused: Compare) -> Result<RawTensor> {
    let empty = compare("xlogy", Compare::Eq, x, &number(x, 0.0)?)?;
    let counts = compare("xlogy", refused, y, &if refused == Compare::Eq { y.clone() } else { number(y, 0.0)? })?;
    binary("xlogy", Binary::Minimum, &empty, &counts, DType::Bool)
}

/// `x ln(y)`, and 0 where `x` is 0, but for NaN.
#[track_caller]
fn xlogy(x: &RawTensor, y: &RawTensor) -> Result<RawTensor> {
    const OP: &str = "xlogy";
    let (wide_x, wide_y) = broadcast_pair(OP, x, y)?;
    let product = on(Binary::Mul, &wide_x, &of(Unary::Log, &wide_y)?)?;
    let none = number(x, 0.0)?;
    let z = select(OP, &nothing_of(&wide_x, &wide_y, Compare::Eq)?, &none, &product, x.logical)?;
    composed_pair(OP, [x, y], z, |input, x, y| {
        if input == 1 {
            return on(Binary::Div, x, y);
        }
        let (x, y) = broadcast_pair(OP, x, y)?;
        select(OP, &nothing_of(&x, &y, Compare::Le)?, &number(&x, 0.0)?, &of(Unary::Log, &y)?, wide(&x))
    })
}

impl<P: Float> Tensor<P> {
    /// `1 - erf(x)`, to 11 digits where that is small (`torch.erfc`). Computed in F64, rounded once.
    #[track_caller]
    pub fn erfc(&self) -> Result<Self> {
        let slope = |x: &RawTensor| affine(&bell(&x.cast_view(DType::F64)?)?, -2.0, -0.0)?.cast_view(wide(x));
        Ok(Self::from_raw(composed("erfc", &self.raw, erfc, slope)?))
    }

    /// `sin(pi x) / (pi x)`, 1 at 0 (`torch.sinc`). Computed in F32, rounded once.
    #[track_caller]
    pub fn sinc(&self) -> Result<Self> {
        Ok(Self::from_raw(composed("sinc", &self.raw, |x| sinc(x, x.logical), sinc_slope)?))
    }

    /// Degrees as radians (`torch.deg2rad`).
    #[track_caller]
    pub fn deg2rad(&self) -> Result<Self> {
        Ok(Self::from_raw(super::arithmetic::affine("deg2rad", &self.raw, PI / 180.0, -0.0)?))
    }

    /// Radians as degrees (`torch.rad2deg`).
    #[track_caller]
    pub fn rad2deg(&self) -> Result<Self> {
        Ok(Self::from_raw(super::arithmetic::affine("rad2deg", &self.raw, 180.0 / PI, -0.0)?))
    }

    /// `sqrt(self² + other²)`, whose squares leave no range (`torch.hypot`). Computed in F32, rounded once.
    #[track_caller]
    pub fn hypot<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let y = hypot(&self.raw, &other.raw, self.raw.logical)?;
        let slope = |input, a: &RawTensor, b: &RawTensor| {
            on(Binary::Div, if input == 0 { a } else { b }, &hypot(a, b, wide(a))?)
        };
        Ok(Self::from_raw(composed_pair("hypot", [&self.raw, &other.raw], y, slope)?))
    }

    /// `self * ln(other)`, and 0 where this one is 0, unless the other is NaN (`torch.xlogy`). Computed in F32, rounded
    /// once.
    #[track_caller]
    pub fn xlogy<R: Operand<P>>(&self, other: R) -> Result<Self> {
        let other = other.term().beside(&self.raw)?;
        Ok(Self::from_raw(xlogy(&self.raw, &other)?))
    }
}

full! {
    /// The number whose `erf` this is: infinite at ±1, NaN beyond (`torch.erfinv`). Computed in F64, to 1e-11 of it, rounded
    /// once. Needs full precision: it is steep near ±1.
    erfinv, ErfinvPrecision, |x, out| erfinv(x)?.cast_view(out), erfinv_slope(x)?.cast_view(wide(x));
}

impl<P: Numeric> Tensor<P> {
    /// -1, 0 or 1 (`torch.sgn`): [`sign`](Self::sign) under its other name.
    #[track_caller]
    pub fn sgn(&self) -> Result<Self> {
        self.sign()
    }

    /// 0 below 0, 1 above it, and `values` where this is 0, without a gradient (`torch.heaviside`).
    #[track_caller]
    pub fn heaviside<R: Operand<P>>(&self, values: R) -> Result<Self> {
        const OP: &str = "heaviside";
        let values = values.term().beside(&self.raw)?;
        let (x, values) = broadcast_pair(OP, &self.raw, &values)?;
        let zero = RawTensor::full(x.device(), 0.0, amp_cpu::Dims::default(), x.logical)?;
        let step = compare(OP, Compare::Gt, &x, &zero)?.cast_view(x.logical)?;
        let at_zero = compare(OP, Compare::Eq, &x, &zero)?;
        Ok(Self::from_raw(select(OP, &at_zero, &values.detached(), &step, x.logical)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::line;
    use crate::{Device, F16, F64, I64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let a = Tensor::<F64>::from_vec(vec![0.31, -0.07, 3.93, -1.55, 2.71, 0.12], [2, 3], &device).unwrap();
        let b = Tensor::<F64>::from_vec(vec![1.3, 0.6, 0.9], [3], &device).unwrap();
        let both = [a, b];
        for (name, worst) in [
            ("erfc", gradcheck(|x| x[0].erfc(), &both[..1])),
            ("erfinv", gradcheck(|x| x[0].erfinv(), &[both[1].sin().unwrap()])),
            ("sinc", gradcheck(|x| x[0].sinc(), &both[..1])),
            ("deg2rad", gradcheck(|x| x[0].deg2rad(), &both[..1])),
            ("rad2deg", gradcheck(|x| x[0].rad2deg(), &both[..1])),
            ("hypot", gradcheck(|x| x[0].hypot(&x[1]), &both)),
            ("xlogy", gradcheck(|x| x[0].xlogy(&x[1]), &both)),
            ("xlogy of a number", gradcheck(|x| x[0].xlogy(0.3), &both[..1])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn small_complements_keep_their_digits() {
        let x = Tensor::<F64>::from_vec(vec![2.9, 3.1, 10.0, 26.0, f64::INFINITY, -40.0], [6], &Device::cpu()).unwrap();
        let truth = [
            4.109_787_809_945_886e-5,
            1.164_865_736_719_959e-5,
            2.088_487_583_762_545e-45,
            5.663_192_408_856_143e-296,
            0.0,
            2.0,
        ];
        for (found, truth) in x.erfc().unwrap().to_vec().unwrap().into_iter().zip(truth) {
            assert!((found - truth).abs() <= 1e-11 * truth, "{found:e} is not {truth:e}");
        }
    }

    #[test]
    fn the_inverse_of_erf_inverts_it() {
        let y: Vec<f64> =
            (0..=110).map(|i| f64::from(i) * 0.05 - 2.75).chain([1e-12, -1e-300, 3.3, -3.7, 5.0]).collect();
        let x = Tensor::<F64>::from_slice(&y, [y.len()], &Device::cpu()).unwrap().erf().unwrap();
        for (found, &y) in x.erfinv().unwrap().to_vec().unwrap().into_iter().zip(&y) {
            // What half a unit in the last place of erf(y) moves y by, beside the digits that the tail has.
            let blurred = f64::EPSILON * (y * y).exp();
            assert!((found - y).abs() <= 1e-11 * y.abs() + blurred, "{found:e} is not {y:e}");
        }
        let ends = line(&[1.0, -1.0, 0.0, 1.5, f32::NAN]).erfinv().unwrap().to_vec().unwrap();
        assert_eq!(ends[..3], [f32::INFINITY, -f32::INFINITY, 0.0]);
        assert!(ends[3..].iter().all(|value| value.is_nan()), "{ends:?}");
    }

    #[test]
    fn lengths_and_logarithms_at_the_ends() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let (a, b) = (line(&[0.0, 3e38, 1e-40, inf, nan, 6e4]), line(&[0.0, 1e38, 0.0, nan, -inf, 8e4]));
        let length = a.hypot(&b).unwrap().to_vec().unwrap();
        assert_eq!([length[0], length[2], length[3], length[4], length[5]], [0.0, 1e-40, inf, inf, 1e5]);
        assert!((length[1] / 3.162_277_7e38 - 1.0).abs() < 1e-6);
        let far = line(&[3e4]).to::<F16>().unwrap();
        assert_eq!(far.hypot(&far).unwrap().item().unwrap().to_f32(), 42432.0);
        let logs = line(&[0.0, 0.0, 2.0, 0.0]).xlogy(line(&[0.0, inf, 0.0, nan])).unwrap().to_vec().unwrap();
        assert_eq!(logs[..3], [0.0, 0.0, -inf]);
        assert!(logs[3].is_nan());
    }

    #[test]
    fn steps_and_signs() {
        let x = line(&[-2.0, 0.0, 3.0]);
        assert_eq!(x.heaviside(0.5).unwrap().to_vec().unwrap(), [0.0, 0.5, 1.0]);
        assert_eq!(x.sgn().unwrap().to_vec().unwrap(), [-1.0, 0.0, 1.0]);
        let whole = Tensor::<I64>::from_vec(vec![-1, 0, 4], [3], &Device::cpu()).unwrap();
        assert_eq!(whole.heaviside(7).unwrap().to_vec().unwrap(), [0, 7, 1]);
    }
}
