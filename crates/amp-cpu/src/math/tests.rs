//! Every F32 function against F64, over all of its range, at every level of this machine.

use super::{arc, erf, libm_erf, libm_erfc, single};
use crate::simd::{Kernel, Lanes, Level, Simd, dispatch_at};

/// Distance of `got` from `exact` in units of the last place of the F32 nearest to `exact`.
fn ulps(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if nearest.is_nan() || nearest.is_infinite() || got.is_nan() || got.is_infinite() {
        let same = got == nearest || (got.is_nan() && nearest.is_nan());
        // The border of overflow belongs to both sides.
        let border = got.is_infinite() != nearest.is_infinite() && got.abs().min(nearest.abs()) > 3.402_82e38;
        return if same || border { 0.0 } else { f64::INFINITY };
    }
    let exponent = (nearest.abs().to_bits() >> 23).max(1) as i32 - 150;
    (f64::from(got) - exact).abs() / 2f64.powi(exponent)
}

/// A sample of all F32 bit patterns, the special ones included.
fn arguments() -> Vec<f32> {
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-45, -1e-45];
    let near_one = (0..2000).map(|i| 0.9 + i as f32 * 1e-4);
    let small = (0..20_000).map(|i| (i as f32 - 10_000.0) * 0.0097);
    (0..=u32::MAX).step_by(40_009).map(f32::from_bits).chain(special).chain(near_one).chain(small).collect()
}

struct Apply<'a, F> {
    x: &'a [f32],
    y: &'a mut [f32],
    f: F,
}

/// A function to test, by name.
#[derive(Clone, Copy, Debug)]
enum Function {
    Exp,
    ExpOfLanes,
    Expm1,
    Ln,
    Ln1p,
    Log2,
    Tanh,
    Sigmoid,
    Softplus,
    Erf,
    Erfc,
    Cdf,
    Density,
    Sin,
    Cos,
}

impl Kernel for Apply<'_, Function> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, y, f } = self;
        let each = |y: &mut [f32], f: fn(f32) -> f32| y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(x));
        match f {
            Function::Exp => each(y, single::exp::<S>),
            Function::ExpOfLanes => each(y, |x| S::F32::splat(x).exp().array()[15]),
            Function::Expm1 => each(y, single::expm1::<S>),
            Function::Ln => each(y, single::ln::<S>),
            Function::Ln1p => each(y, single::ln_1p::<S>),
            Function::Log2 => each(y, single::log2::<S>),
            Function::Tanh => each(y, single::tanh::<S>),
            Function::Sigmoid => each(y, single::sigmoid::<S>),
            Function::Softplus => each(y, single::softplus::<S>),
            Function::Erf => each(y, erf::erf::<S>),
            Function::Erfc => each(y, erf::erfc::<S>),
            Function::Cdf => each(y, |x| erf::normal::<S>(x).0),
            Function::Density => each(y, |x| erf::normal::<S>(x).1),
            Function::Sin => each(y, single::sin::<S>),
            Function::Cos => each(y, single::cos::<S>),
        }
    }
}

fn reference(f: Function, x: f64) -> f64 {
    match f {
        Function::Exp | Function::ExpOfLanes => x.exp(),
        Function::Expm1 => x.exp_m1(),
        Function::Ln => x.ln(),
        Function::Ln1p => x.ln_1p(),
        Function::Log2 => x.log2(),
        Function::Tanh => x.tanh(),
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Function::Erf => libm_erf(x),
        Function::Erfc => libm_erfc(x),
        Function::Cdf => 0.5 * libm_erfc(-x / 2f64.sqrt()),
        Function::Density => (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
    }
}

fn largest_error(level: Level, f: Function, x: &[f32]) -> (f64, f32) {
    let mut y = vec![0.0; x.len()];
    dispatch_at(level, Apply { x, y: &mut y, f });
    let errors = x.iter().zip(&y).map(|(&x, &y)| (ulps(y, reference(f, f64::from(x))), x));
    errors.fold((0.0, 0.0), |worst, e| if e.0 > worst.0 { e } else { worst })
}

#[test]
fn functions_keep_their_bounds_at_every_level() {
    let all = arguments();
    let bounds = [
        (Function::Exp, 1.5),
        (Function::ExpOfLanes, 1.5),
        (Function::Expm1, 2.0),
        (Function::Ln, 1.5),
        (Function::Ln1p, 2.0),
        (Function::Log2, 2.0),
        (Function::Tanh, 3.0),
        (Function::Sigmoid, 3.0),
        (Function::Softplus, 4.0),
        (Function::Erf, 2.0),
        (Function::Erfc, 5.0),
        (Function::Cdf, 6.0),
        (Function::Density, 6.0),
    ];
    for level in Level::ALL.into_iter().filter(|l| *l <= Level::best()) {
        for (f, bound) in bounds {
            let (error, at) = largest_error(level, f, &all);
            assert!(error <= bound, "{f:?} at {level:?}: {error} ulp at {at:e}, bound {bound}");
        }
    }
}

#[test]
fn sine_and_cosine_keep_their_bounds_within_the_limit() {
    let x: Vec<f32> = arguments().into_iter().filter(|x| x.is_nan() || x.abs() <= super::TRIGONOMETRIC_LIMIT).collect();
    for level in Level::ALL.into_iter().filter(|l| *l <= Level::best()) {
        for f in [Function::Sin, Function::Cos] {
            let (error, at) = largest_error(level, f, &x);
            assert!(error <= 1.5, "{f:?} at {level:?}: {error} ulp at {at:e}");
        }
    }
}

struct Angles<'a> {
    x: &'a [f32],
    y: &'a [f32],
    angles: &'a mut [f32],
}

impl Kernel for Angles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for ((angle, &x), &y) in self.angles.iter_mut().zip(self.x).zip(self.y) {
            *angle = arc::atan2::<S>(y, x);
        }
    }
}

#[test]
fn angles_keep_their_bound_and_special_values() {
    let special =
        [0.0, 1.0, f32::INFINITY, f32::NAN, f32::MAX, 1e-45, 1e-38, 3e-20, 0.999_999_94, 0.414_213_54, 2.414_213_7];
    let more = (0..400).map(|i| 1.03_f32.powi(i - 200));
    let values: Vec<f32> = special.into_iter().chain(more).flat_map(|v| [v, -v]).collect();
    let pairs = values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y)));
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.chain(arguments().into_iter().map(|y| (1.0, y))).unzip();
    for level in Level::ALL.into_iter().filter(|l| *l <= Level::best()) {
        let mut angles = vec![0.0; x.len()];
        dispatch_at(level, Angles { x: &x, y: &y, angles: &mut angles });
        for ((&x, &y), &angle) in x.iter().zip(&y).zip(&angles) {
            let exact = f64::from(y).atan2(f64::from(x));
            let error = ulps(angle, exact);
            assert!(error <= 2.5, "({x:e}, {y:e}) at {level:?}: {angle:e}, exactly {exact:e}, {error} ulp");
            assert!(angle.is_nan() || angle.is_sign_negative() == exact.is_sign_negative(), "sign of ({x:e}, {y:e})");
        }
    }
}

struct Power<'a> {
    x: &'a [f32],
    p: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Power<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for ((y, &x), &p) in self.y.iter_mut().zip(self.x).zip(self.p) {
            *y = single::pow::<S>(x, p);
        }
    }
}

#[test]
fn powers_keep_their_bound_and_special_values() {
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let more = [1e-40, -1e-40, 1.0000001, 0.9999999, 1e10, 3e38, -7.0, 16777217.0, 0.33333334, 33.0, 126.0, -149.0];
    let values: Vec<f32> = special.into_iter().chain(more).chain((1..200).map(|i| i as f32 * 0.173)).collect();
    let pairs: Vec<(f32, f32)> = values.iter().flat_map(|&x| values.iter().map(move |&p| (x, p))).collect();
    let (x, p): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    for level in Level::ALL.into_iter().filter(|l| *l <= Level::best()) {
        let mut y = vec![0.0; x.len()];
        dispatch_at(level, Power { x: &x, p: &p, y: &mut y });
        for ((&x, &p), &y) in x.iter().zip(&p).zip(&y) {
            let exact = f64::from(x).powf(f64::from(p));
            let error = ulps(y, exact);
            assert!(error <= 0.6, "{x:e}^{p:e} at {level:?}: {y:e}, exactly {exact:e}, {error} ulp");
            assert!(y.is_nan() || y.is_sign_negative() == exact.is_sign_negative(), "sign of {x:e}^{p:e}: {y:e}");
        }
    }
}
