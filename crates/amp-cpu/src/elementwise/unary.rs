//! Functions of one operand, and their derivatives.

use super::operand::{Chunk, Operand, Place};
use super::stream::{Body, Stream, stream};
use super::{Domain, relu, sign_bit, table};
use crate::lockstep::Elements;
use crate::math::{Float, TRIGONOMETRIC_LIMIT};
use crate::parallel::Cost;
use crate::simd::{Simd, dispatch};
use crate::{DType, Slice, SliceMut, Storage, Unary, View};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2};

/// `op(x)` in precision `out`.
///
/// Computes in F32, or F64 when `x` or `out` is F64, and rounds once. Integers stay integers (wrapping) when `out` is
/// an integer type too.
pub fn unary(op: Unary, x: &View, out: DType) -> Storage {
    let bits = match op {
        Unary::Relu => relu::alive(x, x, out),
        Unary::Neg | Unary::Abs => sign_bit::unary(op, x, out),
        _ => table::unary(op, x, out),
    };
    bits.unwrap_or_else(|| computed(op, x, out))
}

/// [`unary`] without looking anything up, or at bits.
pub(super) fn computed(op: Unary, x: &View, out: DType) -> Storage {
    match Domain::of(&[x.logical, out]) {
        Domain::F32 => stream::<f32, 1>([x], out, cost(op), Forward(op)),
        Domain::F64 => stream::<f64, 1>([x], out, cost(op), Forward(op)),
        Domain::I64 => stream::<i64, 1>([x], out, cost(op), Forward(op)),
    }
}

/// `grad * op'(..)` in precision `out`; `saved` is the output where `op.grad_from_output()`, else the input.
///
/// Computes in F32, or F64 when any operand or `out` is F64, and rounds once. Where the derivative is 0 by a case
/// distinction (relu, clamp) the result is 0 whatever the gradient is.
pub fn unary_grad(op: Unary, saved: &View, grad: &View, out: DType) -> Storage {
    let bits = match op {
        Unary::Relu => relu::alive(saved, grad, out),
        Unary::Neg => sign_bit::unary(op, grad, out),
        _ => table::unary_grad(op, saved, grad, out),
    };
    bits.unwrap_or_else(|| computed_grad(op, saved, grad, out))
}

/// [`unary_grad`] without looking anything up.
pub(super) fn computed_grad(op: Unary, saved: &View, grad: &View, out: DType) -> Storage {
    match Domain::of(&[saved.logical, grad.logical, out]) {
        Domain::F64 => stream::<f64, 2>([saved, grad], out, cost(op), Backward(op)),
        _ => stream::<f32, 2>([saved, grad], out, cost(op), Backward(op)),
    }
}

fn cost(op: Unary) -> Cost {
    match op {
        Unary::Exp | Unary::Expm1 | Unary::Log | Unary::Log1p | Unary::Log2 | Unary::Sin | Unary::Cos => Cost::Heavy,
        Unary::Tanh | Unary::Sigmoid | Unary::LogSigmoid | Unary::Erf | Unary::Powf(_) => Cost::Heavy,
        Unary::Elu(_) | Unary::Gelu | Unary::GeluTanh | Unary::Silu | Unary::Softplus { .. } => Cost::Heavy,
        _ => Cost::Light,
    }
}

#[derive(Clone, Copy)]
struct Forward(Unary);

#[derive(Clone, Copy)]
struct Backward(Unary);

impl<T: Float> Body<T, 1> for Forward {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [x]: [&[T]; 1], y: &mut [T]) {
        let (zero, one) = (T::of(0.0), T::of(1.0));
        match self.0 {
            Unary::Neg => each!(y, (x) => -x),
            Unary::Abs => each!(y, (x) => x.abs()),
            Unary::Sign => each!(y, (x) => sign(x)),
            Unary::Sqr => each!(y, (x) => x * x),
            Unary::Sqrt => each!(y, (x) => x.sqrt()),
            Unary::Rsqrt => each!(y, (x) => one / x.sqrt()),
            Unary::Recip => each!(y, (x) => one / x),
            Unary::Exp => each!(y, (x) => x.exp::<S>()),
            Unary::Expm1 => each!(y, (x) => x.expm1::<S>()),
            Unary::Log => each!(y, (x) => x.ln::<S>()),
            Unary::Log1p => each!(y, (x) => x.ln_1p::<S>()),
            Unary::Log2 => each!(y, (x) => x.log2::<S>()),
            Unary::Sin => {
                each!(y, (x) => x.sin::<S>());
                repair_large(x, y, f64::sin);
            }
            Unary::Cos => {
                each!(y, (x) => x.cos::<S>());
                repair_large(x, y, f64::cos);
            }
            Unary::Tanh => each!(y, (x) => x.tanh::<S>()),
            Unary::Sigmoid => each!(y, (x) => x.sigmoid::<S>()),
            Unary::LogSigmoid => each!(y, (x) => -(-x).softplus::<S>()),
            Unary::Erf => each!(y, (x) => x.erf::<S>()),
            Unary::Floor => each!(y, (x) => x.floor()),
            Unary::Ceil => each!(y, (x) => x.ceil()),
            Unary::Round => each!(y, (x) => x.round()),
            Unary::Trunc => each!(y, (x) => x.trunc()),
            Unary::Relu => each!(y, (x) => if x <= zero { zero } else { x }),
            Unary::LeakyRelu(slope) => {
                let slope = T::of(slope);
                each!(y, (x) => if x > zero { x } else { x * slope });
            }
            Unary::Elu(alpha) => {
                let alpha = T::of(alpha);
                each!(y, (x) => if x > zero { x } else { alpha * x.expm1::<S>() });
            }
            Unary::Gelu => each!(y, (x) => x * x.normal::<S>().0),
            Unary::GeluTanh => each!(y, (x) => x * gelu_gate::<S, T>(x)),
            Unary::Silu => each!(y, (x) => x * x.sigmoid::<S>()),
            Unary::Softplus { beta, threshold } => {
                let (beta, threshold) = (T::of(beta), T::of(threshold));
                each!(y, (x) => if x * beta > threshold { x } else { (x * beta).softplus::<S>() / beta });
            }
            Unary::Hardswish => each!(y, (x) => x * clamp(x + T::of(3.0), zero, T::of(6.0)) / T::of(6.0)),
            Unary::Clamp { min, max } | Unary::Hardtanh { min, max } => {
                let (min, max) = (T::of(min), T::of(max));
                each!(y, (x) => clamp(x, min, max));
            }
            Unary::Huber { delta, factor } => {
                let (delta, factor) = (T::of(delta), T::of(factor));
                each!(y, (x) => huber(x, delta, factor));
            }
            Unary::Powf(p) => powf::<S, T>(p, x, y),
            Unary::Affine { mul, add } => {
                let (mul, add) = (T::of(mul), T::of(add));
                each!(y, (x) => x * mul + add);
            }
        }
    }
}

impl<T: Float> Body<T, 2> for Backward {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [s, g]: [&[T]; 2], y: &mut [T]) {
        let (zero, one, half, two) = (T::of(0.0), T::of(1.0), T::of(0.5), T::of(2.0));
        match self.0 {
            Unary::Neg => each!(y, (g) => -g),
            Unary::Abs => each!(y, (s, g) => g * sign(s)),
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => y.fill(zero),
            Unary::Sqr => each!(y, (s, g) => g * (two * s)),
            Unary::Sqrt => each!(y, (s, g) => g / (two * s)),
            Unary::Rsqrt => each!(y, (s, g) => g * (-half * (s * s * s))),
            Unary::Recip => each!(y, (s, g) => -g * (s * s)),
            Unary::Exp => each!(y, (s, g) => g * s),
            Unary::Expm1 => each!(y, (s, g) => g * (s + one)),
            Unary::Log => each!(y, (s, g) => g / s),
            Unary::Log1p => each!(y, (s, g) => g / (s + one)),
            Unary::Log2 => each!(y, (s, g) => g / (s * T::of(LN_2))),
            Unary::Sin => {
                each!(y, (s) => s.cos::<S>());
                repair_large(s, y, f64::cos);
                scale(y, g, one);
            }
            Unary::Cos => {
                each!(y, (s) => s.sin::<S>());
                repair_large(s, y, f64::sin);
                scale(y, g, -one);
            }
            Unary::Tanh => each!(y, (s, g) => g * (one - s * s)),
            Unary::Sigmoid => each!(y, (s, g) => g * (s * (one - s))),
            Unary::LogSigmoid => each!(y, (s, g) => g * (-s).sigmoid::<S>()),
            Unary::Erf => each!(y, (s, g) => g * (T::of(FRAC_2_SQRT_PI) * (-(s * s)).exp::<S>())),
            Unary::Relu => each!(y, (s, g) => if s <= zero { zero } else { g }),
            Unary::LeakyRelu(slope) => {
                let slope = T::of(slope);
                each!(y, (s, g) => if s > zero { g } else { g * slope });
            }
            Unary::Elu(alpha) => {
                let alpha = T::of(alpha);
                each!(y, (s, g) => if s > zero { g } else { g * (alpha * s.exp::<S>()) });
            }
            Unary::Gelu => each!(y, (s, g) => {
                let (distribution, density) = s.normal::<S>();
                g * (distribution + s * density)
            }),
            Unary::GeluTanh => each!(y, (s, g) => g * gelu_tanh_derivative::<S, T>(s)),
            Unary::Silu => each!(y, (s, g) => {
                let r = s.sigmoid::<S>();
                g * (r * (one + s * (one - r)))
            }),
            Unary::Softplus { beta, threshold } => {
                let (beta, threshold) = (T::of(beta), T::of(threshold));
                each!(y, (s, g) => if s * beta > threshold { g } else { g * (s * beta).sigmoid::<S>() });
            }
            Unary::Hardswish => each!(y, (s, g) => {
                // Of NaN too.
                let inner = g * (s / T::of(3.0) + half);
                let upper = if s >= T::of(3.0) { g } else { inner };
                if s <= T::of(-3.0) { zero } else { upper }
            }),
            Unary::Clamp { min, max } => {
                // An end that is open lets infinities pass.
                let (min, max) = (T::of(min), T::of(max));
                let open = [min == T::of(f64::NEG_INFINITY), max == T::of(f64::INFINITY)];
                each!(y, (s, g) => if (open[0] | (s > min)) & (open[1] | (s < max)) { g } else { zero });
            }
            Unary::Hardtanh { min, max } => {
                let (min, max) = (T::of(min), T::of(max));
                each!(y, (s, g) => if (s <= min) | (s >= max) { zero } else { g });
            }
            Unary::Huber { delta, factor } => {
                let (delta, factor) = (T::of(delta), T::of(factor));
                each!(y, (s, g) => huber_derivative(s, delta, factor) * g);
            }
            Unary::Powf(p) => powf_grad::<S, T>(p, s, g, y),
            Unary::Affine { mul, .. } => {
                let mul = T::of(mul);
                each!(y, (g) => g * mul);
            }
        }
    }
}

/// `y * g * sign`, in place.
#[inline(always)]
fn scale<T: Float>(y: &mut [T], g: &[T], sign: T) {
    for (y, &g) in y.iter_mut().zip(g) {
        *y = *y * (g * sign);
    }
}

/// Replaces the results whose argument is too large for the vectorised reduction.
#[inline(always)]
fn repair_large<T: Float>(x: &[T], y: &mut [T], exact: fn(f64) -> f64) {
    let limit = T::of(f64::from(TRIGONOMETRIC_LIMIT));
    if x.iter().any(|v| v.abs() > limit) {
        for (y, &x) in y.iter_mut().zip(x).filter(|(_, x)| x.abs() > limit) {
            *y = T::of(exact(x.converted()));
        }
    }
}

#[inline(always)]
pub(super) fn sign<T: Float>(v: T) -> T {
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let positive = if v > zero { one } else { zero };
    if v < zero { -one } else { positive }
}

#[inline(always)]
fn clamp<T: Float>(v: T, min: T, max: T) -> T {
    let v = if v < min { min } else { v };
    if v > max { max } else { v }
}

/// [`Unary::Huber`]
#[inline(always)]
pub(super) fn huber<T: Float>(x: T, delta: T, factor: T) -> T {
    // With `c` limited to `delta`, parabola and tangents are both `c (x - c / 2)`.
    let c = clamp(x, -delta, delta);
    c * (x - T::of(0.5) * c) * factor
}

/// The derivative of [`huber`].
#[inline(always)]
pub(super) fn huber_derivative<T: Float>(x: T, delta: T, factor: T) -> T {
    clamp(x, -delta, delta) * factor
}

const GELU_SCALE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const GELU_CUBIC: f64 = 0.044715;

/// `(1 + tanh(z)) / 2 = sigmoid(2 z)`, which does not cancel where it is small.
#[inline(always)]
fn gelu_gate<S: Simd, T: Float>(v: T) -> T {
    (T::of(2.0 * GELU_SCALE) * v * (v * v).mul_add::<S>(T::of(GELU_CUBIC), T::of(1.0))).sigmoid::<S>()
}

#[inline(always)]
fn gelu_tanh_derivative<S: Simd, T: Float>(x: T) -> T {
    let gate = gelu_gate::<S, T>(x);
    let inner = T::of(2.0 * GELU_SCALE) * (x * x).mul_add::<S>(T::of(3.0 * GELU_CUBIC), T::of(1.0));
    gate + x * gate * (T::of(1.0) - gate) * inner
}

/// A constant exponent: small integers and halves as products and roots, the rest by `pow`.
#[inline(always)]
fn powf<S: Simd, T: Float>(p: f64, x: &[T], y: &mut [T]) {
    let one = T::of(1.0);
    match p {
        0.5 => each!(y, (x) => x.sqrt()),
        -0.5 => each!(y, (x) => one / x.sqrt()),
        1.0 => each!(y, (x) => x),
        2.0 => each!(y, (x) => x * x),
        3.0 => each!(y, (x) => x * x * x),
        -1.0 => each!(y, (x) => one / x),
        -2.0 => each!(y, (x) => one / (x * x)),
        _ => {
            let p = T::of(p);
            each!(y, (x) => x.pow::<S>(p));
        }
    }
}

#[inline(always)]
fn powf_grad<S: Simd, T: Float>(p: f64, s: &[T], g: &[T], y: &mut [T]) {
    let factor = T::of(p);
    match p {
        0.0 => y.fill(T::of(0.0)),
        1.0 => each!(y, (g) => g),
        2.0 => each!(y, (s, g) => g * (factor * s)),
        3.0 => each!(y, (s, g) => g * (factor * (s * s))),
        _ => {
            let less = T::of(p - 1.0);
            each!(y, (s, g) => g * (factor * s.pow::<S>(less)));
        }
    }
}

/// Integer arithmetic where the operation has one; everything else goes through F64.
impl Body<i64, 1> for Forward {
    #[inline(always)]
    fn run<S: Simd>(self, at: usize, [x]: [&[i64]; 1], y: &mut [i64]) {
        match self.0 {
            Unary::Neg => each!(y, (x) => i64::wrapping_neg(x)),
            Unary::Abs => each!(y, (x) => i64::wrapping_abs(x)),
            Unary::Sign => each!(y, (x) => i64::signum(x)),
            Unary::Sqr => each!(y, (x) => x.wrapping_mul(x)),
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => y.copy_from_slice(x),
            Unary::Relu => each!(y, (x) => x.max(0)),
            Unary::Clamp { min, max } => each!(y, (x) => x.max(min.ceil() as i64).min(max.floor() as i64)),
            Unary::Affine { mul, add } if mul.fract() == 0.0 && add.fract() == 0.0 => {
                each!(y, (x) => x.wrapping_mul(mul as i64).wrapping_add(add as i64));
            }
            _ => {
                let x = Operand { elements: Elements::<f64>::new(Slice::I64(x)), place: Place::PLAIN };
                let y = &mut SliceMut::I64(y);
                dispatch(Stream { body: self, chunk: Chunk::plain(at), x: [x], y, also: None });
            }
        }
    }
}
