//! Functions of three operands, selection among them.

use super::Domain;
use super::stream::{Body, stream};
use crate::convert::Compute;
use crate::math::Float;
use crate::parallel::Cost;
use crate::simd::Simd;
use crate::{DType, Storage, Ternary, View};

/// `op(a, b, c)` in precision `out`.
///
/// Computes in F32, or F64 when an operand or `out` is F64, and rounds once.
pub fn ternary(op: Ternary, a: &View, b: &View, c: &View, out: DType) -> Storage {
    match Domain::of(&[a.logical, b.logical, c.logical, out]) {
        Domain::F32 => stream::<f32, 3>([a, b, c], out, Cost::Light, Fused(op)),
        _ => stream::<f64, 3>([a, b, c], out, Cost::Light, Fused(op)),
    }
}

/// `cond ? a : b` in precision `out`, where `cond` is true if it is not 0.
pub fn select(cond: &View, a: &View, b: &View, out: DType) -> Storage {
    match Domain::of(&[a.logical, b.logical, out]) {
        Domain::F32 => stream::<f32, 3>([cond, a, b], out, Cost::Light, Choice),
        Domain::F64 => stream::<f64, 3>([cond, a, b], out, Cost::Light, Choice),
        Domain::I64 => stream::<i64, 3>([cond, a, b], out, Cost::Light, Choice),
    }
}

#[derive(Clone, Copy)]
struct Fused(Ternary);

#[derive(Clone, Copy)]
struct Choice;

impl<T: Float> Body<T, 3> for Fused {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [a, b, c]: [&[T]; 3], y: &mut [T]) {
        match self.0 {
            Ternary::Addcmul(value) => {
                let value = T::of(value);
                each!(y, (a, b, c) => a + value * b * c);
            }
            Ternary::Addcdiv(value) => {
                let value = T::of(value);
                each!(y, (a, b, c) => a + value * b / c);
            }
            Ternary::Lerp => each!(y, (a, b, c) => {
                let d = b - a;
                // From the nearer end, so that a weight of 1 gives `b` exactly.
                if c.abs() < T::of(0.5) { a + c * d } else { b - d * (T::of(1.0) - c) }
            }),
        }
    }
}

impl<T: Compute> Body<T, 3> for Choice {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [cond, a, b]: [&[T]; 3], y: &mut [T]) {
        each!(y, (cond, a, b) => if cond != T::default() { a } else { b });
    }
}
