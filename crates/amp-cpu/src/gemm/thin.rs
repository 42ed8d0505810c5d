//! Products with at most a few rows: every element of the other side is used so rarely that packing it does not pay.

use super::kernel::Full;
use super::operand::Matrix;
use super::product::{PER_CYCLE, Sink, Threads};
use super::small::{Side, with_side};
use crate::load::load;
use crate::num::Real;
use crate::parallel;
use crate::scratch::{self, same_bytes, same_bytes_mut};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::transpose::{add_products, transpose};
use std::any::TypeId;
use std::ops::Range;

/// Most rows that count as few.
pub(crate) const ROWS: usize = 3;
/// Depth up to which columns that run along memory are turned: too short for the lanes of a [`Dot`].
const SHORT: usize = 64;
/// Columns of a task.
const COLUMNS: usize = 256;

/// [`product_with`](super::product::product_with) for an `a` of at most [`ROWS`] rows.
pub(crate) fn thin<T: Full>(a: &Matrix, b: &Matrix, sink: &dyn Sink<T>, threads: Threads) {
    let (depth, columns) = (a.depth, b.rows);
    if columns == 0 || a.rows == 0 {
        return;
    }
    scratch::with(a.rows * depth, |left: &mut [T]| {
        for row in 0..a.rows {
            let line = &mut left[row * depth..][..depth];
            load(&a.view, a.offset + row * a.row_stride, a.depth_stride, line);
        }
        // Memory is the limit: an element costs as much as a vector of multiply-adds would.
        let work = if threads == Threads::Many { 8 * columns * depth / PER_CYCLE } else { 0 };
        parallel::for_each(columns.div_ceil(COLUMNS), work, |task| {
            let range = task * COLUMNS..columns.min((task + 1) * COLUMNS);
            scratch::with(a.rows * range.len(), |sums: &mut [T]| {
                if b.row_stride == 1 && b.depth_stride != 1 {
                    across(left, b, &range, sums)
                } else if (1..=SHORT).contains(&depth) {
                    turned(left, b, &range, sums)
                } else {
                    along(left, b, &range, sums)
                }
                for (row, values) in sums.chunks_exact_mut(range.len()).enumerate() {
                    sink.store(row, range.start, values);
                }
            });
        });
    });
}

/// Dot products with columns that run along memory.
fn along<T: Real>(left: &[T], b: &Matrix, columns: &Range<usize>, sums: &mut [T]) {
    let depth = b.depth;
    scratch::with(depth, |line: &mut [T]| {
        for column in columns.clone() {
            load(&b.view, b.offset + column * b.row_stride, b.depth_stride, line);
            for (row, sums) in sums.chunks_exact_mut(columns.len()).enumerate() {
                sums[column - columns.start] = dispatch(Dot(&left[row * depth..][..depth], line));
            }
        }
    });
}

/// As [`across`], of columns that run along memory. 512 of them, 16 deep in F32: 1.4 µs on Zen 5, where [`small`] took 1.8, and
/// 0.9 where nothing turned is stored.
///
/// [`small`]: super::small::small
fn turned<T: Full>(left: &[T], b: &Matrix, columns: &Range<usize>, sums: &mut [T]) {
    let (depth, count) = (b.depth, columns.len());
    let part = Matrix { offset: b.offset + columns.start * b.row_stride, rows: count, ..*b };
    sums.fill(T::default());
    with_side(&part, |side: Side<T>| {
        if left.len() == depth && side.depth == 1 && at_once(left, side, sums) {
            return;
        }
        scratch::with(depth * count, |rows: &mut [T]| {
            match side.depth {
                1 => transpose(side.values, side.row, [count, depth], rows, count),
                _ => rows.copy_from_slice(side.values),
            }
            for (d, row) in rows.chunks_exact(count).enumerate() {
                for (i, sums) in sums.chunks_exact_mut(count).enumerate() {
                    dispatch(AddScaled { to: sums, factor: left[i * depth + d], from: row });
                }
            }
        });
    });
}

/// All of [`turned`] for one row of F32, where the machine can; whether it did.
fn at_once<T: Full>(left: &[T], side: Side<T>, sums: &mut [T]) -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
        && add_products(same_bytes(side.values), side.row, same_bytes(left), same_bytes_mut(sums))
}

/// Sums of rows that run along memory.
fn across<T: Real>(left: &[T], b: &Matrix, columns: &Range<usize>, sums: &mut [T]) {
    sums.fill(T::default());
    scratch::with(columns.len(), |line: &mut [T]| {
        for d in 0..b.depth {
            load(&b.view, b.offset + columns.start + d * b.depth_stride, 1, line);
            for (row, sums) in sums.chunks_exact_mut(columns.len()).enumerate() {
                dispatch(AddScaled { to: sums, factor: left[row * b.depth + d], from: line });
            }
        }
    });
}

/// `Σ a * b`, in lanes that do not depend on the level.
pub(crate) struct Dot<'a, T>(pub &'a [T], pub &'a [T]);

impl<T: Real> Kernel for Dot<'_, T> {
    type Output = T;
    // Products of F64 go through fused multiply-adds, too, as they do in tiles.
    const WIDEST: Level = T::WIDEST.or(Level::Avx2);

    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        const LANES: usize = 64;
        let mut lanes = [T::ZERO; LANES];
        let ((left, left_rest), (right, right_rest)) = (self.0.as_chunks::<LANES>(), self.1.as_chunks::<LANES>());
        for (a, b) in left.iter().zip(right) {
            for i in 0..LANES {
                lanes[i] = a[i].mul_add::<S>(b[i], lanes[i]);
            }
        }
        let rest = left_rest.iter().zip(right_rest).fold(T::ZERO, |sum, (&a, &b)| a.mul_add::<S>(b, sum));
        lanes.iter().fold(rest, |sum, &lane| sum + lane)
    }
}

/// `to += factor * from`
pub(crate) struct AddScaled<'a, T> {
    pub to: &'a mut [T],
    pub factor: T,
    pub from: &'a [T],
}

impl<T: Real> Kernel for AddScaled<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST.or(Level::Avx2);

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (to, &from) in self.to.iter_mut().zip(self.from) {
            *to = from.mul_add::<S>(self.factor, *to);
        }
    }
}
