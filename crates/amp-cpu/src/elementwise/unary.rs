//! Functions of one operand, and their derivatives.

use super::{Domain, map_chunks};
use crate::math::Float;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{DType, Storage, Unary, View};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2};

/// `op(x)` in precision `out`.
///
/// Computes in F32, or F64 when `x` or `out` is F64, and rounds once. Integers stay integers (wrapping) when `out` is
/// an integer type too.
pub fn unary(op: Unary, x: &View, out: DType) -> Storage {
    match Domain::of(&[x.logical, out]) {
        Domain::F32 => map_chunks([x], out, |[x], y| dispatch(Forward::<f32> { op, x, y })),
        Domain::F64 => map_chunks([x], out, |[x], y| dispatch(Forward::<f64> { op, x, y })),
        Domain::I64 => map_chunks([x], out, |[x], y| integers(op, x, y)),
    }
}

/// `grad * op'(..)` in precision `out`; `saved` is the output where `op.grad_from_output()`, else the input.
///
/// Computes in F32, or F64 when any operand or `out` is F64, and rounds once. Where the derivative is 0 by a case
/// distinction (relu, clamp) the result is 0 whatever the gradient is.
pub fn unary_grad(op: Unary, saved: &View, grad: &View, out: DType) -> Storage {
    match Domain::of(&[saved.logical, grad.logical, out]) {
        Domain::F64 => map_chunks([saved, grad], out, |[s, g], y| dispatch(Backward::<f64> { op, s, g, y })),
        _ => map_chunks([saved, grad], out, |[s, g], y| dispatch(Backward::<f32> { op, s, g, y })),
    }
}

struct Forward<'a, T> {
    op: Unary,
    x: &'a [T],
    y: &'a mut [T],
}

struct Backward<'a, T> {
    op: Unary,
    s: &'a [T],
    g: &'a [T],
    y: &'a mut [T],
}

#[inline(always)]
fn map<T: Copy>(x: &[T], y: &mut [T], f: impl Fn(T) -> T) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}

impl<T: Float> Kernel for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { op, x, y } = self;
        let (zero, one, half) = (T::of(0.0), T::of(1.0), T::of(0.5));
        match op {
            Unary::Neg => map(x, y, |v| -v),
            Unary::Abs => map(x, y, |v| v.abs()),
            Unary::Sign => map(x, y, sign),
            Unary::Sqr => map(x, y, |v| v * v),
            Unary::Sqrt => map(x, y, |v| v.sqrt()),
            Unary::Rsqrt => map(x, y, |v| one / v.sqrt()),
            Unary::Recip => map(x, y, |v| one / v),
            Unary::Exp => map(x, y, |v| v.exp::<S>()),
            Unary::Expm1 => map(x, y, |v| v.expm1::<S>()),
            Unary::Log => map(x, y, |v| v.ln::<S>()),
            Unary::Log1p => map(x, y, |v| v.ln_1p::<S>()),
            Unary::Log2 => map(x, y, |v| v.log2::<S>()),
            Unary::Sin => map(x, y, |v| v.sin::<S>()),
            Unary::Cos => map(x, y, |v| v.cos::<S>()),
            Unary::Tanh => map(x, y, |v| v.tanh::<S>()),
            Unary::Sigmoid => map(x, y, sigmoid::<S, T>),
            Unary::LogSigmoid => map(x, y, |v| lesser(v, zero) - (-v.abs()).exp::<S>().ln_1p::<S>()),
            Unary::Erf => map(x, y, |v| v.erf::<S>()),
            Unary::Floor => map(x, y, |v| v.floor()),
            Unary::Ceil => map(x, y, |v| v.ceil()),
            Unary::Round => map(x, y, |v| v.round()),
            Unary::Relu => map(x, y, |v| if v <= zero { zero } else { v }),
            Unary::LeakyRelu(slope) => {
                let slope = T::of(slope);
                map(x, y, |v| if v > zero { v } else { v * slope });
            }
            Unary::Elu(alpha) => {
                let alpha = T::of(alpha);
                map(x, y, |v| if v > zero { v } else { alpha * v.expm1::<S>() });
            }
            Unary::Gelu => map(x, y, |v| v * normal_cdf::<S, T>(v)),
            Unary::GeluTanh => map(x, y, |v| half * v * (one + gelu_inner::<S, T>(v).tanh::<S>())),
            Unary::Silu => map(x, y, |v| v * sigmoid::<S, T>(v)),
            Unary::Softplus { beta, threshold } => {
                let (beta, threshold) = (T::of(beta), T::of(threshold));
                map(x, y, |v| if v * beta > threshold { v } else { (v * beta).exp::<S>().ln_1p::<S>() / beta });
            }
            Unary::Hardswish => map(x, y, |v| v * clamp(v + T::of(3.0), zero, T::of(6.0)) / T::of(6.0)),
            Unary::Clamp { min, max } => {
                let (min, max) = (T::of(min), T::of(max));
                map(x, y, |v| clamp(v, min, max));
            }
            Unary::Powf(p) => powf::<S, T>(p, x, y),
            Unary::Affine { mul, add } => {
                let (mul, add) = (T::of(mul), T::of(add));
                map(x, y, |v| v * mul + add);
            }
        }
    }
}

impl<T: Float> Kernel for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { op, s, g, y } = self;
        let (zero, one, half, two) = (T::of(0.0), T::of(1.0), T::of(0.5), T::of(2.0));
        match op {
            Unary::Neg => map2(s, g, y, |_, g| -g),
            Unary::Abs => map2(s, g, y, |x, g| g * sign(x)),
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => y.fill(zero),
            Unary::Sqr => map2(s, g, y, |x, g| g * (two * x)),
            Unary::Sqrt => map2(s, g, y, |r, g| g / (two * r)),
            Unary::Rsqrt => map2(s, g, y, |r, g| g * (-half * (r * r * r))),
            Unary::Recip => map2(s, g, y, |r, g| -g * (r * r)),
            Unary::Exp => map2(s, g, y, |r, g| g * r),
            Unary::Expm1 => map2(s, g, y, |r, g| g * (r + one)),
            Unary::Log => map2(s, g, y, |x, g| g / x),
            Unary::Log1p => map2(s, g, y, |x, g| g / (x + one)),
            Unary::Log2 => map2(s, g, y, |x, g| g / (x * T::of(LN_2))),
            Unary::Sin => map2(s, g, y, |x, g| g * x.cos::<S>()),
            Unary::Cos => map2(s, g, y, |x, g| -g * x.sin::<S>()),
            Unary::Tanh => map2(s, g, y, |r, g| g * (one - r * r)),
            Unary::Sigmoid => map2(s, g, y, |r, g| g * (r * (one - r))),
            Unary::LogSigmoid => map2(s, g, y, |x, g| g * sigmoid::<S, T>(-x)),
            Unary::Erf => map2(s, g, y, |x, g| g * (T::of(FRAC_2_SQRT_PI) * (-(x * x)).exp::<S>())),
            Unary::Relu => map2(s, g, y, |r, g| if r <= zero { zero } else { g }),
            Unary::LeakyRelu(slope) => {
                let slope = T::of(slope);
                map2(s, g, y, |x, g| if x > zero { g } else { g * slope });
            }
            Unary::Elu(alpha) => {
                let alpha = T::of(alpha);
                map2(s, g, y, |x, g| if x > zero { g } else { g * (alpha * x.exp::<S>()) });
            }
            Unary::Gelu => map2(s, g, y, |x, g| g * (normal_cdf::<S, T>(x) + x * normal_pdf::<S, T>(x))),
            Unary::GeluTanh => map2(s, g, y, |x, g| g * gelu_tanh_derivative::<S, T>(x)),
            Unary::Silu => map2(s, g, y, |x, g| {
                let r = sigmoid::<S, T>(x);
                g * (r * (one + x * (one - r)))
            }),
            Unary::Softplus { beta, threshold } => {
                let (beta, threshold) = (T::of(beta), T::of(threshold));
                map2(s, g, y, |x, g| if x * beta > threshold { g } else { g * sigmoid::<S, T>(x * beta) });
            }
            Unary::Hardswish => map2(s, g, y, |x, g| {
                let inner = g * (x / T::of(3.0) + half);
                let upper = if x < T::of(3.0) { inner } else { g };
                if x <= T::of(-3.0) { zero } else { upper }
            }),
            Unary::Clamp { min, max } => {
                let (min, max) = (T::of(min), T::of(max));
                map2(s, g, y, |x, g| if (x >= min) & (x <= max) { g } else { zero });
            }
            Unary::Powf(p) => powf_grad::<S, T>(p, s, g, y),
            Unary::Affine { mul, .. } => {
                let mul = T::of(mul);
                map2(s, g, y, |_, g| g * mul);
            }
        }
    }
}

#[inline(always)]
fn map2<T: Copy>(a: &[T], b: &[T], y: &mut [T], f: impl Fn(T, T) -> T) {
    for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
        *y = f(a, b);
    }
}

#[inline(always)]
fn sign<T: Float>(v: T) -> T {
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let positive = if v > zero { one } else { zero };
    if v < zero { -one } else { positive }
}

/// The lesser of two, `a` when it is NaN.
#[inline(always)]
fn lesser<T: Float>(a: T, b: T) -> T {
    if a > b { b } else { a }
}

#[inline(always)]
fn clamp<T: Float>(v: T, min: T, max: T) -> T {
    let v = if v < min { min } else { v };
    if v > max { max } else { v }
}

#[inline(always)]
fn sigmoid<S: Simd, T: Float>(v: T) -> T {
    T::of(1.0) / (T::of(1.0) + (-v).exp::<S>())
}

/// Distribution function of the standard normal distribution.
#[inline(always)]
fn normal_cdf<S: Simd, T: Float>(v: T) -> T {
    T::of(0.5) * (v * T::of(-FRAC_1_SQRT_2)).erfc::<S>()
}

/// Density of the standard normal distribution.
#[inline(always)]
fn normal_pdf<S: Simd, T: Float>(v: T) -> T {
    T::of(0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI) * (T::of(-0.5) * v * v).exp::<S>()
}

const GELU_SCALE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const GELU_CUBIC: f64 = 0.044715;

#[inline(always)]
fn gelu_inner<S: Simd, T: Float>(v: T) -> T {
    T::of(GELU_SCALE) * v * (v * v).mul_add::<S>(T::of(GELU_CUBIC), T::of(1.0))
}

#[inline(always)]
fn gelu_tanh_derivative<S: Simd, T: Float>(x: T) -> T {
    let (one, half) = (T::of(1.0), T::of(0.5));
    let t = gelu_inner::<S, T>(x).tanh::<S>();
    let inner = T::of(GELU_SCALE) * (x * x).mul_add::<S>(T::of(3.0 * GELU_CUBIC), one);
    half * (one + t) + half * x * (one - t * t) * inner
}

/// A constant exponent: small integers and halves as products and roots, the rest by `pow`.
#[inline(always)]
fn powf<S: Simd, T: Float>(p: f64, x: &[T], y: &mut [T]) {
    let one = T::of(1.0);
    match p {
        0.5 => map(x, y, |v| v.sqrt()),
        -0.5 => map(x, y, |v| one / v.sqrt()),
        1.0 => map(x, y, |v| v),
        2.0 => map(x, y, |v| v * v),
        3.0 => map(x, y, |v| v * v * v),
        -1.0 => map(x, y, |v| one / v),
        -2.0 => map(x, y, |v| one / (v * v)),
        _ => {
            let p = T::of(p);
            map(x, y, |v| v.pow::<S>(p));
        }
    }
}

#[inline(always)]
fn powf_grad<S: Simd, T: Float>(p: f64, s: &[T], g: &[T], y: &mut [T]) {
    let factor = T::of(p);
    match p {
        0.0 => y.fill(T::of(0.0)),
        1.0 => map2(s, g, y, |_, g| g),
        2.0 => map2(s, g, y, |x, g| g * (factor * x)),
        3.0 => map2(s, g, y, |x, g| g * (factor * (x * x))),
        _ => {
            let less = T::of(p - 1.0);
            map2(s, g, y, |x, g| g * (factor * x.pow::<S>(less)));
        }
    }
}

/// Integer arithmetic where the operation has one; everything else goes through F64.
fn integers(op: Unary, x: &[i64], y: &mut [i64]) {
    match op {
        Unary::Neg => map(x, y, i64::wrapping_neg),
        Unary::Abs => map(x, y, i64::wrapping_abs),
        Unary::Sign => map(x, y, i64::signum),
        Unary::Sqr => map(x, y, |v| v.wrapping_mul(v)),
        Unary::Floor | Unary::Ceil | Unary::Round => y.copy_from_slice(x),
        Unary::Relu => map(x, y, |v| v.max(0)),
        Unary::Clamp { min, max } => map(x, y, |v| v.max(min.ceil() as i64).min(max.floor() as i64)),
        Unary::Affine { mul, add } if mul.fract() == 0.0 && add.fract() == 0.0 => {
            map(x, y, |v| v.wrapping_mul(mul as i64).wrapping_add(add as i64));
        }
        _ => map(x, y, |v| {
            let mut result = [0.0];
            dispatch(Forward::<f64> { op, x: &[v as f64], y: &mut result });
            result[0] as i64
        }),
    }
}
