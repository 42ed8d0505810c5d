//! Products of matrices with few columns: a layer of sixteen neurons is done before a panel would be packed.
//!
//! The general product spends 20 to 30 ns on each row of such a matrix (loading, interleaving, storing it by itself); this
//! one reads F32 where it lies and stores 64 rows at once.

use super::operand::Matrix;
use super::product::Sink;
use super::thin;
use crate::load::load;
use crate::num::Real;
use crate::output::Finished;
use crate::scratch;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};

/// Vectors of columns at most.
const VECTORS: usize = 2;
/// Multiply-adds at most; larger products are worth packing, and a second thread.
const WORK: usize = 1 << 18;
/// Elements of the left side at most.
const ELEMENTS: usize = 1 << 15;
/// Rows from which on few columns are better done as few rows, with a vector of rows at a time: of 512 rows and one column,
/// 16 deep, fifteen sixteenths of the work here would be for nothing.
const MANY: usize = 4 * LANES;
/// Rows whose sums are in registers at the same time.
const ROWS: usize = 8;
/// Rows that are stored together.
const STORED: usize = 8 * ROWS;

/// Whether [`small`] is the faster way to `a · bᵀ`.
pub(super) fn is_small(a: &Matrix, b: &Matrix) -> bool {
    let elements = a.rows.saturating_mul(a.depth);
    let fits = (1..=ELEMENTS).contains(&elements) && (1..=VECTORS * LANES).contains(&b.rows);
    fits && elements * b.rows <= WORK && !(b.rows <= thin::ROWS && a.rows >= MANY)
}

/// `a · bᵀ` on this thread; each sum runs along the depth in order, in F32 (F64).
pub(super) fn small<T: Real>(a: &Matrix, b: &Matrix, sink: &dyn Sink<T>) {
    with_side(a, |a_side| {
        with_columns(b, |b_side| {
            scratch::with(STORED.min(a.rows) * b.rows, |sums: &mut [T]| {
                for first in (0..a.rows).step_by(STORED) {
                    let sums = &mut sums[..STORED.min(a.rows - first) * b.rows];
                    let left = Side { values: &a_side.values[first * a_side.row..], ..a_side };
                    let (right, bias, depth, columns) = (b_side, sink.bias(), a.depth, b.rows);
                    if columns <= LANES {
                        dispatch(Block::<T, 1> { left, right, bias, depth, columns, sums });
                    } else {
                        dispatch(Block::<T, VECTORS> { left, right, bias, depth, columns, sums });
                    }
                    sink.store_whole(first, Finished { values: sums, len: columns });
                }
            });
        });
    });
}

/// One side of a product in the type that is computed in; one of its distances is 1.
#[derive(Clone, Copy)]
pub(super) struct Side<'a, T> {
    pub values: &'a [T],
    /// Distance between vectors.
    pub row: usize,
    /// Distance along a vector.
    pub depth: usize,
}

/// Calls `body` with the elements where they lie, if they serve as they are, else with a copy.
pub(super) fn with_side<T: Real>(matrix: &Matrix, body: impl FnOnce(Side<T>)) {
    let Matrix { view, offset, rows, depth, row_stride, depth_stride } = *matrix;
    let in_lines = row_stride == 1 || depth_stride == 1;
    if let (Some(values), false, true) = (T::same(view.data), view.rounds_on_load(), in_lines) {
        return body(Side { values: &values[offset..], row: row_stride, depth: depth_stride });
    }
    scratch::with(rows * depth, |values: &mut [T]| {
        // Finished along memory, all of them as one where they follow each other.
        let (lines, step, len, stride) = match (row_stride, depth_stride) {
            (_, 1) if row_stride == depth => (1, 0, rows * depth, 1),
            (1, _) if depth_stride == rows => (1, 0, rows * depth, 1),
            (1, _) => (depth, depth_stride, rows, 1),
            _ => (rows, row_stride, depth, depth_stride),
        };
        for (i, line) in values.chunks_exact_mut(len).take(lines).enumerate() {
            load(&view, offset + i * step, stride, line);
        }
        let across = row_stride == 1 && depth_stride != 1;
        body(if across { Side { values, row: 1, depth: rows } } else { Side { values, row: depth, depth: 1 } });
    });
}

/// As [`with_side`], with the elements of each step of the depth side by side.
fn with_columns<T: Real>(matrix: &Matrix, body: impl FnOnce(Side<T>)) {
    with_side(matrix, |side| {
        let columns = matrix.rows;
        if side.row == 1 {
            return body(side);
        }
        scratch::with(matrix.depth * columns, |values: &mut [T]| {
            for (d, line) in values.chunks_exact_mut(columns).enumerate() {
                for (column, to) in line.iter_mut().enumerate() {
                    *to = side.values[column * side.row + d * side.depth];
                }
            }
            body(Side { values, row: 1, depth: columns });
        });
    });
}

/// Some rows of a product of up to `V` vectors of columns.
struct Block<'a, T, const V: usize> {
    left: Side<'a, T>,
    right: Side<'a, T>,
    /// Added to each row while it is in registers, if there is one: row by row behind the product it was 0.8 of 2.9 µs (512 × 16
    /// × 16 in F32, Zen 5), and 3.6 of 6.2 in F16.
    bias: &'a [T],
    depth: usize,
    columns: usize,
    sums: &'a mut [T],
}

impl<T: Real, const V: usize> Kernel for Block<'_, T, V> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { left, right, bias, depth, columns, sums } = self;
        let bias = (!bias.is_empty()).then(|| vectors::<S, T, V>(bias));
        let whole = sums.len() / columns / ROWS * ROWS;
        let (groups, rest) = sums.split_at_mut(whole * columns);
        for (i, sums) in groups.chunks_exact_mut(ROWS * columns).enumerate() {
            let left = Side { values: &left.values[i * ROWS * left.row..], ..left };
            rows::<S, T, V, ROWS>(left, right, bias, depth, columns, sums);
        }
        for (i, sums) in rest.chunks_exact_mut(columns).enumerate() {
            let left = Side { values: &left.values[(whole + i) * left.row..], ..left };
            rows::<S, T, V, 1>(left, right, bias, depth, columns, sums);
        }
    }
}

/// `R` rows of a product.
#[inline(always)]
fn rows<S: Simd, T: Real, const V: usize, const R: usize>(
    left: Side<T>,
    right: Side<T>,
    bias: Option<[T::Lanes<S>; V]>,
    depth: usize,
    columns: usize,
    to: &mut [T],
) {
    let line = |d: usize| vectors::<S, T, V>(&right.values[d * right.depth..][..columns]);
    let mut sums = if left.depth == 1 {
        let rows: [&[T]; R] = std::array::from_fn(|r| &left.values[r * left.row..][..depth]);
        sums::<S, T, V, R>(depth, line, |d, r| rows[r][d])
    } else {
        sums::<S, T, V, R>(depth, line, |d, r| left.values[d * left.depth..][..R][r])
    };
    if let Some(bias) = bias {
        sums.iter_mut().flat_map(|sums| sums.iter_mut().zip(bias)).for_each(|(sum, bias)| *sum = *sum + bias);
    }
    for (sums, to) in sums.iter().zip(to.chunks_exact_mut(columns)) {
        for (sum, to) in sums.iter().zip(to.chunks_mut(LANES)) {
            match <&mut [T; LANES]>::try_from(&mut *to) {
                Ok(to) => sum.store(to),
                Err(_) => sum.store_part(to),
            }
        }
    }
}

/// The sums of `factor(d, r)` times `line(d)` over the depth.
#[inline(always)]
fn sums<S: Simd, T: Real, const V: usize, const R: usize>(
    depth: usize,
    line: impl Fn(usize) -> [T::Lanes<S>; V],
    factor: impl Fn(usize, usize) -> T,
) -> [[T::Lanes<S>; V]; R] {
    let mut sums = [[T::Lanes::<S>::splat(T::ZERO); V]; R];
    for d in 0..depth {
        let line = line(d);
        for (r, sums) in sums.iter_mut().enumerate() {
            let factor = T::Lanes::<S>::splat(factor(d, r));
            for (sum, &column) in sums.iter_mut().zip(&line) {
                *sum = factor.mul_add(column, *sum);
            }
        }
    }
    sums
}

/// The elements of a line as vectors, the last of them perhaps with zeros at its end.
#[inline(always)]
fn vectors<S: Simd, T: Real, const V: usize>(line: &[T]) -> [T::Lanes<S>; V] {
    std::array::from_fn(|v| match line[v * LANES..].first_chunk() {
        Some(whole) => Lanes::load(whole),
        None => Lanes::load_part(&line[v * LANES..], T::ZERO),
    })
}
