//! The gamma function's logarithm and its derivatives, by recurrence and asymptotic series, computed in F64.
//!
//! Abramowitz & Stegun, Handbook of Mathematical Functions, 6.1.41, 6.3.18 and 6.4.12; reflections 6.1.17, 6.3.7, 6.4.7.

use super::composed::{affine, composed, wide};
use super::elementary::{full, number, of, on};
use super::kernel::{compare, select};
use crate::Result;
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, Compare, DType, Unary};
use std::f64::consts::PI;

full_range! {
    LgammaPrecision, "`lgamma` must run in `F32`";
    DigammaPrecision, "`digamma` must run in `F32`";
}

/// From here on the series are used; what lies below is raised by so much, an integer. The first term that is left out of
/// the longest series is below 1e-15 here.
const RAISED: f64 = 8.0;

/// Factors of `z^-1, z^-3, ..` in `ln gamma(z)`, of `z^-2, z^-4, ..` in `digamma(z)`, and of `z^-3, z^-5, ..` in its derivative:
/// of Bernoulli's numbers all.
const LGAMMA: [f64; 7] =
    [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0];
const DIGAMMA: [f64; 7] =
    [-1.0 / 12.0, 1.0 / 120.0, -1.0 / 252.0, 1.0 / 240.0, -1.0 / 132.0, 691.0 / 32_760.0, -1.0 / 12.0];
const TRIGAMMA: [f64; 7] = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0];

/// `a` where `op(x, limit)`, `b` elsewhere.
fn choose(op: Compare, x: &RawTensor, limit: f64, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    select("gamma", &compare("gamma", op, x, &number(x, limit)?)?, a, b, DType::F64)
}

/// `c[0] + c[1] w + ..`.
fn series(w: &RawTensor, coefficients: &[f64]) -> Result<RawTensor> {
    coefficients.iter().rev().try_fold(number(w, 0.0)?, |sum, &c| affine(&on(Binary::Mul, &sum, w)?, 1.0, c))
}

/// `x` reflected to where it is at least 1/2, as `x` or `1 - x`, and how far it lies from the next integer.
struct Reflected {
    x: RawTensor,
    right: RawTensor,
    off: RawTensor,
}

impl Reflected {
    fn new(x: &RawTensor) -> Result<Self> {
        let x = x.cast_view(DType::F64)?;
        let right = choose(Compare::Lt, &x, 0.5, &affine(&x, -1.0, 1.0)?, &x)?;
        let off = on(Binary::Sub, &x, &of(Unary::Round, &x)?)?;
        Ok(Self { x, right, off })
    }

    /// `left` where the argument was reflected.
    fn or(&self, left: &RawTensor, right: &RawTensor) -> Result<RawTensor> {
        choose(Compare::Lt, &self.x, 0.5, left, right)
    }

    /// Raised by [`RAISED`] where that is needed, and `start` with what `step` takes from it at each integer passed.
    fn raised(&self, start: f64, step: impl Fn(&RawTensor, &RawTensor) -> Result<RawTensor>) -> Result<[RawTensor; 2]> {
        let (near, none) = (affine(&self.right, 1.0, RAISED)?, number(&self.x, start)?);
        let passed =
            (0..RAISED as u32).try_fold(none.clone(), |sum, k| step(&sum, &affine(&self.right, 1.0, f64::from(k))?))?;
        let below = |a, b| choose(Compare::Lt, &self.right, RAISED, a, b);
        Ok([below(&near, &self.right)?, below(&passed, &none)?])
    }

    /// `sin(pi x)`, but for its sign.
    fn sine(&self) -> Result<RawTensor> {
        of(Unary::Sin, &affine(&self.off, PI, -0.0)?)
    }
}

fn lgamma(x: &RawTensor) -> Result<RawTensor> {
    let at = Reflected::new(x)?;
    let [z, product] = at.raised(1.0, |product, factor| on(Binary::Mul, product, factor))?;
    let inverse = of(Unary::Recip, &z)?;
    // (z - 1/2) ln z - z, of which infinity makes no NaN.
    let main = on(Binary::Mul, &affine(&z, 1.0, -0.5)?, &affine(&of(Unary::Log, &z)?, 1.0, -1.0)?)?;
    let rest = on(Binary::Mul, &series(&of(Unary::Sqr, &inverse)?, &LGAMMA)?, &inverse)?;
    let sum = affine(&on(Binary::Add, &main, &rest)?, 1.0, 0.5 * ((2.0 * PI).ln() - 1.0))?;
    let right = on(Binary::Sub, &sum, &of(Unary::Log, &product)?)?;
    // ln pi - ln |sin|: the reciprocal of the least numbers would be infinite.
    let poles = affine(&of(Unary::Log, &of(Unary::Abs, &at.sine()?)?)?, -1.0, PI.ln())?;
    let y = at.or(&on(Binary::Sub, &poles, &right)?, &right)?;
    choose(Compare::Eq, &of(Unary::Abs, &at.x)?, f64::INFINITY, &number(&at.x, f64::INFINITY)?, &y)
}

fn digamma(x: &RawTensor) -> Result<RawTensor> {
    let at = Reflected::new(x)?;
    let [z, passed] = at.raised(0.0, |sum, term| on(Binary::Add, sum, &of(Unary::Recip, term)?))?;
    let inverse = of(Unary::Recip, &z)?;
    let square = of(Unary::Sqr, &inverse)?;
    let main = on(Binary::Sub, &of(Unary::Log, &z)?, &affine(&inverse, 0.5, -0.0)?)?;
    let rest = on(Binary::Mul, &series(&square, &DIGAMMA)?, &square)?;
    let right = on(Binary::Sub, &on(Binary::Add, &main, &rest)?, &passed)?;
    let cosine = of(Unary::Cos, &affine(&at.off, PI, -0.0)?)?;
    let poles = affine(&on(Binary::Div, &cosine, &at.sine()?)?, PI, -0.0)?;
    let left = choose(Compare::Eq, &at.off, 0.0, &number(&at.x, f64::NAN)?, &on(Binary::Sub, &right, &poles)?)?;
    let y = at.or(&left, &right)?;
    choose(Compare::Eq, &at.x, 0.0, &of(Unary::Neg, &of(Unary::Recip, &at.x)?)?, &y)
}

/// The derivative of `digamma`.
fn trigamma(x: &RawTensor) -> Result<RawTensor> {
    let at = Reflected::new(x)?;
    let [z, passed] = at.raised(0.0, |sum, term| on(Binary::Add, sum, &of(Unary::Sqr, &of(Unary::Recip, term)?)?))?;
    let inverse = of(Unary::Recip, &z)?;
    let square = of(Unary::Sqr, &inverse)?;
    let main = on(Binary::Add, &inverse, &affine(&square, 0.5, -0.0)?)?;
    let rest = on(Binary::Mul, &series(&square, &TRIGAMMA)?, &on(Binary::Mul, &square, &inverse)?)?;
    let right = on(Binary::Add, &on(Binary::Add, &main, &rest)?, &passed)?;
    let poles = of(Unary::Sqr, &affine(&of(Unary::Recip, &at.sine()?)?, PI, -0.0)?)?;
    at.or(&on(Binary::Sub, &poles, &right)?, &right)
}

full! {
    /// `ln |gamma(x)|`, infinite at 0 and at the integers below it (`torch.lgamma`). Computed in F64, rounded once; of F64 itself
    /// some 1e-14 are lost, which is much of what is left beside the roots at 1 and 2. Needs full precision: it exceeds F16
    /// above 8e3.
    lgamma, LgammaPrecision, |x, out| lgamma(x)?.cast_view(out), digamma(x)?.cast_view(wide(x));
    /// The derivative of [`lgamma`](Self::lgamma); NaN at the integers below 0, infinite at 0 (`torch.digamma`). Computed in F64,
    /// rounded once. Needs full precision: near 0 it grows as `-1 / x` does.
    digamma, DigammaPrecision, |x, out| digamma(x)?.cast_view(out), trigamma(x)?.cast_view(wide(x));
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    fn numbers(values: &[f64]) -> Tensor<F64> {
        Tensor::from_slice(values, [values.len()], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = numbers(&[0.31, -0.07, 3.93, -1.55, 2.71, 0.12, 9.5, 30.0, -7.4, 1.0]);
        let found = [gradcheck(|x| x[0].lgamma(), std::slice::from_ref(&x)), gradcheck(|x| x[0].digamma(), &[x])];
        for worst in found.map(|found| found.unwrap()) {
            assert!(worst.agrees(), "{worst:?}");
        }
    }

    /// Each value follows from the one before: `lgamma(x + 1) = lgamma(x) + ln x`, `digamma(x + 1) = digamma(x) + 1 / x`.
    #[test]
    fn neighbours_differ_by_the_recurrences() {
        let values: Vec<f64> = (-200..400).map(|i| f64::from(i) * 0.0833 + 0.011).collect();
        let next: Vec<f64> = values.iter().map(|x| x + 1.0).collect();
        let both = |f: fn(&Tensor<F64>) -> crate::Result<Tensor<F64>>| {
            [&values, &next].map(|x| f(&numbers(x)).unwrap().to_vec().unwrap())
        };
        let ([log, log_next], [slope, slope_next]) = (both(|x| x.lgamma()), both(|x| x.digamma()));
        for (i, &x) in values.iter().enumerate() {
            let (a, b) = (log_next[i] - log[i] - x.abs().ln(), slope_next[i] - slope[i] - 1.0 / x);
            // 16 digits of values up to 100 and, next to poles, of cotangents up to 1e3 whose angle is rounded.
            assert!(a.abs() <= 1e-12 && b.abs() <= 1e-10 * (1.0 + x.abs()), "at {x}: {a:e}, {b:e}");
        }
    }

    #[test]
    fn known_values_and_ends() {
        // The least number of F64 but for denormal ones, and such a one: 1 / x is beyond F64.
        let least = numbers(&[f64::MIN_POSITIVE, 1e-310]).lgamma().unwrap().to_vec().unwrap();
        for (found, x) in least.into_iter().zip([f64::MIN_POSITIVE, 1e-310]) {
            assert!((found + x.ln()).abs() <= 1e-12, "{found} is not {}", -x.ln());
        }
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = numbers(&[1.0, 2.0, 0.5, 171.0, 0.0, -3.0, -0.5, inf, -inf, nan, 1e300]);
        let log = x.lgamma().unwrap().to_vec().unwrap();
        let half = 0.5 * std::f64::consts::PI.ln();
        // ln 170! and ln (2 sqrt(pi)).
        let truth = [0.0, 0.0, half, 706.573_062_245_787_4, inf, inf, half + std::f64::consts::LN_2, inf, inf];
        for (found, truth) in log.iter().zip(truth) {
            assert!(*found == truth || (found - truth).abs() <= 1e-14 * (1.0 + truth.abs()), "{found} is not {truth}");
        }
        assert!(log[9].is_nan() && (log[10] / 6.897_755_278_982_137e302 - 1.0).abs() < 1e-14, "{log:?}");

        let x = numbers(&[1.0, 0.5, 0.0, -0.0, inf, -3.0, -inf, nan]);
        let slope = x.digamma().unwrap().to_vec().unwrap();
        let euler = 0.577_215_664_901_532_9;
        let truth = [-euler, -euler - 2.0 * std::f64::consts::LN_2, -inf, inf, inf];
        for (found, truth) in slope.iter().zip(truth) {
            assert!(*found == truth || (found - truth).abs() <= 1e-14, "{found} is not {truth}");
        }
        assert!(slope[5..].iter().all(|value| value.is_nan()), "{slope:?}");
    }

    #[test]
    fn the_logarithm_keeps_its_digits_beside_its_roots() {
        let x = Tensor::<F32>::from_slice(&[1.0 + f32::EPSILON, 2.0 - f32::EPSILON], [2], &Device::cpu()).unwrap();
        let found = x.lgamma().unwrap().to_vec().unwrap();
        for (found, slope) in found.into_iter().zip([-0.577_215_7_f32, -0.422_784_34]) {
            assert!((found / (slope * f32::EPSILON) - 1.0).abs() < 1e-6, "{found:e}");
        }
    }
}
