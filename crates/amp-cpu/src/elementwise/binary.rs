//! Functions and comparisons of two operands.

use super::Domain;
use super::operand::{Chunk, Operand};
use super::stream::{Body, Stream, WHOLE, for_streams, stream};
use crate::convert::Compute;
use crate::lockstep::{BLOCK, memory, rooms};
use crate::math::{Float, divided, divided_integers, divided_near};
use crate::output::Output;
use crate::parallel::Cost;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{Binary, Compare, DType, SliceMut, Storage, View};

/// `op(a, b)` in precision `out`.
///
/// Computes in F32, or F64 when an operand or `out` is F64, and rounds once. When operands and `out` are integers the
/// arithmetic is I64 (wrapping); a division by 0 gives 0 and negative powers are 0 but for bases 1 and -1.
pub fn binary(op: Binary, a: &View, b: &View, out: DType) -> Storage {
    let cost = if matches!(op, Binary::Pow | Binary::Atan2) { Cost::Heavy } else { Cost::Light };
    match Domain::of(&[a.logical, b.logical, out]) {
        Domain::F32 => stream::<f32, 2>([a, b], out, cost, Arithmetic(op)),
        Domain::F64 => stream::<f64, 2>([a, b], out, cost, Arithmetic(op)),
        Domain::I64 => stream::<i64, 2>([a, b], out, cost, Arithmetic(op)),
    }
}

/// `op(a, b)` in F32, and the same rounded once more to `also`, in one pass.
pub fn binary_narrowed(op: Binary, a: &View, b: &View, also: DType) -> (Storage, Storage) {
    let mut copy = Storage::unwritten(also, a.layout.count());
    let narrow = Output::new(&mut copy);
    let wide = for_streams::<f32, 2>([a, b], DType::F32, Cost::Light, &|x, chunk, y| {
        // SAFETY: each part has its own elements.
        let also = unsafe { narrow.part(chunk.at, y.len()) };
        dispatch(Stream { body: Arithmetic(op), chunk, x, y, also: Some(also) });
    });
    (wide, copy)
}

#[derive(Clone, Copy)]
struct Arithmetic(Binary);

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
#[inline(always)]
fn is_nan<T: Float>(v: T) -> bool {
    v != v
}

/// `op(a, b)` for all elements of the slices named in brackets.
macro_rules! each_of {
    ($op:expr, $y:ident, $a:ident, $b:ident, $slices:tt) => {
        match $op {
            Binary::Add => each!($y, $slices => $a + $b),
            Binary::Sub => each!($y, $slices => $a - $b),
            Binary::Mul => each!($y, $slices => $a * $b),
            Binary::Div => each!($y, $slices => $a / $b),
            Binary::Pow => each!($y, $slices => $a.pow::<S>($b)),
            Binary::Minimum => each!($y, $slices => if ($a < $b) | is_nan($a) { $a } else { $b }),
            Binary::Maximum => each!($y, $slices => if ($a > $b) | is_nan($a) { $a } else { $b }),
            Binary::Atan2 => each!($y, $slices => $a.atan2::<S>($b)),
            Binary::Leaky => each!($y, $slices => if $a > T::of(0.0) { $a } else { $a * $b }),
            Binary::FloorDivide => each!($y, $slices => near(Binary::FloorDivide, $a, $b)),
            Binary::Remainder => each!($y, $slices => near(Binary::Remainder, $a, $b)),
            Binary::Fmod => each!($y, $slices => near(Binary::Fmod, $a, $b)),
        }
    };
}

impl<T: Float> Body<T, 2> for Arithmetic {
    const SINGLES: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, _: usize, x: [&[T]; 2], y: &mut [T]) {
        match x {
            [&[a], b] => each_of!(self.0, y, a, b, (b)),
            [a, &[b]] => each_of!(self.0, y, a, b, (a)),
            [a, b] => each_of!(self.0, y, a, b, (a, b)),
        }
        if let Binary::FloorDivide | Binary::Remainder | Binary::Fmod = self.0 {
            divide_far(self.0, x, y);
        }
    }
}

#[inline(always)]
fn near<T: Float>(op: Binary, a: T, b: T) -> T {
    T::of(divided_near(op, a.wide(), b.wide()))
}

/// Divides again where the quotient is so large that [`divided_near`] gave NaN.
fn divide_far<T: Float>(op: Binary, [a, b]: [&[T]; 2], y: &mut [T]) {
    if !y.iter().fold(false, |any, &y| any | is_nan(y)) {
        return;
    }
    let wide = |x: &[T], i: usize| x[if x.len() == 1 { 0 } else { i }].wide();
    for (i, y) in y.iter_mut().enumerate().filter(|(_, y)| is_nan(**y)) {
        *y = T::of(divided(op, wide(a, i), wide(b, i)));
    }
}

impl Body<i64, 2> for Arithmetic {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [a, b]: [&[i64]; 2], y: &mut [i64]) {
        match self.0 {
            Binary::Add => each!(y, (a, b) => i64::wrapping_add(a, b)),
            Binary::Sub => each!(y, (a, b) => i64::wrapping_sub(a, b)),
            Binary::Mul => each!(y, (a, b) => i64::wrapping_mul(a, b)),
            Binary::Div => each!(y, (a, b) => if b == 0 { 0 } else { a.wrapping_div(b) }),
            Binary::Pow => each!(y, (a, b) => integer_power(a, b)),
            Binary::Minimum => each!(y, (a, b) => i64::min(a, b)),
            Binary::Maximum => each!(y, (a, b) => i64::max(a, b)),
            Binary::Atan2 => each!(y, (a, b) => (a as f64).atan2(b as f64) as i64),
            Binary::Leaky => each!(y, (a, b) => if a > 0 { a } else { a.wrapping_mul(b) }),
            op @ (Binary::FloorDivide | Binary::Remainder | Binary::Fmod) => {
                each!(y, (a, b) => divided_integers(op, a, b));
            }
        }
    }
}

fn integer_power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return if base == 1 || (base == -1 && exponent % 2 == 0) { 1 } else { -i64::from(base == -1) };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

/// Truth of `a op b`; NaN compares as unequal to everything.
///
/// Both sides meet in F32, or F64 when one is F64, or I64 when both are integers.
pub fn compare(op: Compare, a: &View, b: &View) -> Storage {
    match Domain::of(&[a.logical, b.logical]) {
        Domain::F32 => compare_as::<f32>(op, a, b),
        Domain::F64 => compare_as::<f64>(op, a, b),
        Domain::I64 => compare_as::<i64>(op, a, b),
    }
}

fn compare_as<T: Compute>(op: Compare, a: &View, b: &View) -> Storage {
    for_streams::<T, 2>([a, b], DType::Bool, Cost::Light, &|[a, b], chunk, y| {
        if let SliceMut::Bool(y) = y {
            dispatch(Comparison { op, chunk, a, b, y });
        }
    })
}

struct Comparison<'a, T> {
    op: Compare,
    chunk: Chunk,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    y: &'a mut [bool],
}

impl<T: Compute> Kernel for Comparison<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let size = if self.a.is_wide(false) && self.b.is_wide(false) { WHOLE } else { BLOCK };
        let mut memory = memory();
        let [left, right] = rooms(&mut memory, self.y.len());
        for step in self.chunk.steps(size, self.y.len()) {
            let (a, b) = (self.a.block::<S>(step, left, false), self.b.block::<S>(step, right, false));
            let y = &mut self.y[step.at..][..step.len];
            match self.op {
                Compare::Eq => each!(y, (a, b) => a == b),
                Compare::Ne => each!(y, (a, b) => a != b),
                Compare::Lt => each!(y, (a, b) => a < b),
                Compare::Le => each!(y, (a, b) => a <= b),
                Compare::Gt => each!(y, (a, b) => a > b),
                Compare::Ge => each!(y, (a, b) => a >= b),
            }
        }
    }
}
