//! Functions of three operands, selection among them.

use super::{Domain, map_chunks};
use crate::convert::Compute;
use crate::math::Float;
use crate::parallel::Cost;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Storage, Ternary, View};

/// `op(a, b, c)` in precision `out`.
///
/// Computes in F32, or F64 when an operand or `out` is F64, and rounds once.
pub fn ternary(op: Ternary, a: &View, b: &View, c: &View, out: DType) -> Storage {
    match Domain::of(&[a.logical, b.logical, c.logical, out]) {
        Domain::F32 => map_chunks([a, b, c], out, Cost::Light, &|abc, y| dispatch(Fused::<f32> { op, abc, y })),
        _ => map_chunks([a, b, c], out, Cost::Light, &|abc, y| dispatch(Fused::<f64> { op, abc, y })),
    }
}

/// `cond ? a : b` in precision `out`, where `cond` is true if it is not 0.
pub fn select(cond: &View, a: &View, b: &View, out: DType) -> Storage {
    match Domain::of(&[a.logical, b.logical, out]) {
        Domain::F32 => map_chunks([cond, a, b], out, Cost::Light, &|abc, y| dispatch(Choice::<f32> { abc, y })),
        Domain::F64 => map_chunks([cond, a, b], out, Cost::Light, &|abc, y| dispatch(Choice::<f64> { abc, y })),
        Domain::I64 => map_chunks([cond, a, b], out, Cost::Light, &|abc, y| dispatch(Choice::<i64> { abc, y })),
    }
}

struct Fused<'a, T> {
    op: Ternary,
    abc: [&'a [T]; 3],
    y: &'a mut [T],
}

struct Choice<'a, T> {
    abc: [&'a [T]; 3],
    y: &'a mut [T],
}

impl<T: Float> Kernel for Fused<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { op, abc: [a, b, c], y } = self;
        match op {
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

impl<T: Compute> Kernel for Choice<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { abc: [cond, a, b], y } = self;
        each!(y, (cond, a, b) => if cond != T::default() { a } else { b });
    }
}
