//! Products with at most a few rows (GEMV for one of them): every element of the other side is used so rarely that packing it
//! does not pay.

use super::kernel::Full;
use super::operand::Matrix;
use super::product::{PER_CYCLE, Sink, Threads};
use super::small::{Side, with_side};
use crate::load::load;
use crate::num::Real;
use crate::scratch::{self, same_bytes, same_bytes_mut};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::transpose::{add_products, transpose};
use crate::{num_threads, parallel};
use std::any::TypeId;
use std::ops::Range;

/// Most rows that count as few.
pub(crate) const ROWS: usize = 3;
/// Depth up to which columns that run along memory are transposed: too short for the lanes of a [`Dot`].
const SHORT: usize = 64;
/// Columns of a task: dot products, and most of rows that are read piece by piece, the longer the better.
const COLUMNS: usize = 256;
const WIDE: usize = 2048;
/// Rows that are added at once: sums are loaded and stored once for all of them.
const TOGETHER: usize = 4;

/// [`product_with`](super::product::product_with) for an `a` of at most [`ROWS`] rows.
pub(crate) fn thin<T: Full>(a: &Matrix, b: &Matrix, sink: &dyn Sink<T>, threads: Threads) {
    let (depth, columns) = (a.depth, b.rows);
    if columns == 0 || a.rows == 0 {
        return;
    }
    with_rows(a, |left| {
        // Memory is the limit: an element costs as much as a vector of multiply-adds would.
        let work = threads.share(8 * columns * depth / PER_CYCLE);
        let is_across = b.row_stride == 1 && b.depth_stride != 1;
        let piece =
            if is_across { columns.div_ceil(num_threads()).next_multiple_of(64).clamp(COLUMNS, WIDE) } else { COLUMNS };
        parallel::for_each(columns.div_ceil(piece), work, |task| {
            let range = task * piece..columns.min((task + 1) * piece);
            scratch::with(a.rows * range.len(), |sums: &mut [T]| {
                if is_across {
                    across(left, b, &range, sums)
                } else if (1..=SHORT).contains(&depth) {
                    transposed(left, b, &range, sums)
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

/// Calls `body` with the rows one after the other, where they lie if they do so.
fn with_rows<T: Full>(a: &Matrix, body: impl FnOnce(&[T])) {
    let depth = a.depth;
    if let (Some(values), 1, true) = (T::stored(&a.view), a.depth_stride, a.rows == 1 || a.row_stride == depth) {
        return body(&values[a.offset..][..a.rows * depth]);
    }
    scratch::with(a.rows * depth, |left: &mut [T]| {
        for row in 0..a.rows {
            let line = &mut left[row * depth..][..depth];
            load(&a.view, a.offset + row * a.row_stride, a.depth_stride, line);
        }
        body(left);
    });
}

/// Dot products with columns that run along memory.
fn along<T: Full>(left: &[T], b: &Matrix, columns: &Range<usize>, sums: &mut [T]) {
    let depth = b.depth;
    let stored = T::stored(&b.view).filter(|_| b.depth_stride == 1);
    scratch::with(if stored.is_some() { 0 } else { depth }, |copy: &mut [T]| {
        for column in columns.clone() {
            let at = b.offset + column * b.row_stride;
            let line = match stored {
                Some(values) => &values[at..][..depth],
                None => {
                    load(&b.view, at, b.depth_stride, copy);
                    &*copy
                }
            };
            for (row, sums) in sums.chunks_exact_mut(columns.len()).enumerate() {
                sums[column - columns.start] = dispatch(Dot(&left[row * depth..][..depth], line));
            }
        }
    });
}

/// As [`across`], of columns that run along memory. 512 of them, 16 deep in F32: 1.4 µs on Zen 5, where [`small`] took 1.8, and
/// 0.9 where nothing transposed is stored.
///
/// [`small`]: super::small::small
fn transposed<T: Full>(left: &[T], b: &Matrix, columns: &Range<usize>, sums: &mut [T]) {
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

/// All of [`transposed`] for one row of F32, where the machine can; returns whether it did.
fn at_once<T: Full>(left: &[T], side: Side<T>, sums: &mut [T]) -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
        && add_products(same_bytes(side.values), side.row, same_bytes(left), same_bytes_mut(sums))
}

/// Sums of rows that run along memory, [`TOGETHER`] of which are added at once. 1 × 4096 × 4096 in F32 took two threads of Zen 5
/// 6.5 ms by one row and 256 columns at a time, and takes 1.2 to 2.1.
fn across<T: Full>(left: &[T], b: &Matrix, columns: &Range<usize>, sums: &mut [T]) {
    sums.fill(T::default());
    let count = columns.len();
    let stored = T::stored(&b.view);
    scratch::with(TOGETHER * count, |copies: &mut [T]| {
        for first in (0..b.depth).step_by(TOGETHER) {
            let rows = TOGETHER.min(b.depth - first);
            let at = |d: usize| b.offset + columns.start + (first + d) * b.depth_stride;
            if stored.is_none() {
                let copies = copies.chunks_exact_mut(count).enumerate().take(rows);
                copies.for_each(|(d, copy)| load(&b.view, at(d), 1, copy));
            }
            let line = |d: usize| match stored {
                Some(values) => &values[at(d)..][..count],
                None => &copies[d * count..][..count],
            };
            for (row, sums) in sums.chunks_exact_mut(count).enumerate() {
                let factors = &left[row * b.depth + first..][..rows];
                match <[T; TOGETHER]>::try_from(factors) {
                    Ok(factors) => dispatch(AddAll { to: sums, factors, from: std::array::from_fn(line) }),
                    Err(_) => {
                        (0..rows).for_each(|d| dispatch(AddScaled { to: sums, factor: factors[d], from: line(d) }))
                    }
                }
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
        // One lane for all that is left would wait for each term: 1 × 105 by 105 × 512, transposed, took 22 µs.
        for (lane, (&a, &b)) in lanes.iter_mut().zip(left_rest.iter().zip(right_rest)) {
            *lane = a.mul_add::<S>(b, *lane);
        }
        // Halves upon halves: one lane after the other waits for each sum. 1 × 256 by 256 × 384, transposed, took one thread of Zen 4
        // 21 µs that way, and takes 14.
        for half in [32, 16, 8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }
}

/// [`AddScaled`] of several rows, one after the other.
struct AddAll<'a, T> {
    to: &'a mut [T],
    factors: [T; TOGETHER],
    from: [&'a [T]; TOGETHER],
}

impl<T: Real> Kernel for AddAll<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST.or(Level::Avx2);

    #[inline(always)]
    fn run<S: Simd>(self) {
        let [a, b, c, d] = self.from;
        for ((((to, &a), &b), &c), &d) in self.to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let first = b.mul_add::<S>(self.factors[1], a.mul_add::<S>(self.factors[0], *to));
            *to = d.mul_add::<S>(self.factors[3], c.mul_add::<S>(self.factors[2], first));
        }
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
