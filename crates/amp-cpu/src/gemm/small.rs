//! Products of matrices with few columns: a layer of sixteen neurons is done before a panel would be packed.
//!
//! The general product spends 20 to 30 ns on each row of such a matrix (loading, interleaving, storing it by itself): 10.5 µs for
//! 512 × 32 × 32 on Zen 5, where this one, which reads F32 where it lies and writes F32 where it belongs, takes 4.7. Loops here
//! have fixed ends and no closures that the compiler might leave as calls, so that sums stay in registers. More in
//! `benches/record/findings.md`.

use super::kernel::{Full, Multiply};
use super::operand::Matrix;
use super::product::Sink;
use super::thin;
use crate::num::Real;
use crate::scratch;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::transpose::transpose;

/// Vectors of columns at most.
pub(super) const VECTORS: usize = 2;
/// Elements of the left side and multiply-adds at most: larger products are worth a second thread.
const MOST: [usize; 2] = [1 << 18, 1 << 22];
/// The same of products that [`thin`](fn@thin) can do: it shares out a depth among the lanes.
const MOST_IF_THIN: [usize; 2] = [1 << 15, 1 << 18];
/// Rows from which on few columns are better done as few rows, with a vector of rows at a time: of 512 rows and one column,
/// 16 deep, fifteen sixteenths of the work here would be for nothing.
const MANY: usize = 4 * LANES;
/// Rows whose sums are in registers at the same time where there are fewer than a block has registers for.
pub(super) const FEW: usize = 4;
/// Sums that a lone row's are made of where it is [`DEEP`]: one alone waits for each multiply-add, and 1 × 512 × 16, the gradient
/// of a layer's one output, took 0.5 µs.
const CHAINS: usize = 4;
/// Depth from which on the order of so many sums is no longer that of more rows.
const DEEP: usize = 128;
/// Rows that are written together.
pub(super) const STORED: usize = 256;

/// Whether [`small`] is the faster way to `a · bᵀ`.
pub(super) fn is_small(a: &Matrix, b: &Matrix) -> bool {
    let [left, right] = [a.rows, b.rows].map(|rows| rows <= thin::ROWS);
    let [elements, work] = if left || right { MOST_IF_THIN } else { MOST };
    let size = a.rows.saturating_mul(a.depth);
    let fits = (1..=elements).contains(&size) && (1..=VECTORS * LANES).contains(&b.rows);
    fits && size * b.rows < work && !(right && a.rows >= MANY)
}

/// Whether `b · aᵀ` is small, too, and takes fewer vectors: a layer of 16 for 8 inputs, whose weight's gradient of 16 rows would
/// leave half of each empty. A step of 8-16-16-1 (batch 512, F32) was expected to
/// lose 0.5 of 18.4 µs, and lost 0.7 with [`CHAINS`], of which 0.4 were expected.
pub(super) fn is_better_transposed(a: &Matrix, b: &Matrix) -> bool {
    is_small(b, a) && b.rows * a.rows.div_ceil(LANES) < a.rows * b.rows.div_ceil(LANES)
}

/// `a · bᵀ` on this thread; each sum runs along the depth in order, in F32 (F64).
pub(super) fn small<T: Full>(a: &Matrix, b: &Matrix, sink: &dyn Sink<T>) {
    let (bias, depth, columns) = (sink.bias(), a.depth, b.rows);
    with_side(a, |a_side| {
        with_columns(b, |right| {
            for first in (0..a.rows).step_by(STORED) {
                let left = Side { values: &a_side.values[first * a_side.row..], ..a_side };
                sink.write_rows(first, STORED.min(a.rows - first), columns, &mut |sums| {
                    block(left, right, bias, [depth, columns], sums);
                });
            }
        });
    });
}

/// As many rows of a product of up to [`VECTORS`] vectors of columns as `sums` has room for, with the bias if there is one.
pub(super) fn block<T: Real>(left: Side<T>, right: Side<T>, bias: &[T], [depth, columns]: [usize; 2], sums: &mut [T]) {
    if columns <= LANES {
        dispatch(Block::<T, 1, 16> { left, right, bias, depth, columns, sums });
    } else {
        dispatch(Block::<T, 2, 8> { left, right, bias, depth, columns, sums });
    }
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
pub(super) fn with_side<E: Multiply>(matrix: &Matrix, body: impl FnOnce(Side<E>)) {
    let Matrix { view, offset, rows, depth, row_stride, depth_stride } = *matrix;
    let in_lines = row_stride == 1 || depth_stride == 1;
    if let (Some(values), true) = (E::stored(&view), in_lines) {
        return body(Side { values: &values[offset..], row: row_stride, depth: depth_stride });
    }
    scratch::with(rows * depth, |values: &mut [E]| {
        // Finished along memory, all of them as one where they follow each other.
        let (lines, step, len, stride) = match (row_stride, depth_stride) {
            (_, 1) if row_stride == depth => (1, 0, rows * depth, 1),
            (1, _) if depth_stride == rows => (1, 0, rows * depth, 1),
            (1, _) => (depth, depth_stride, rows, 1),
            _ => (rows, row_stride, depth, depth_stride),
        };
        for (i, line) in values.chunks_exact_mut(len).take(lines).enumerate() {
            E::load(&view, offset + i * step, stride, line);
        }
        let across = row_stride == 1 && depth_stride != 1;
        body(if across { Side { values, row: 1, depth: rows } } else { Side { values, row: depth, depth: 1 } });
    });
}

/// As [`with_side`], with the elements of each step of the depth side by side.
pub(super) fn with_columns<T: Full>(matrix: &Matrix, body: impl FnOnce(Side<T>)) {
    with_side(matrix, |side| {
        let columns = matrix.rows;
        if side.row == 1 || columns == 1 {
            return body(Side { row: 1, ..side });
        }
        scratch::with(matrix.depth * columns, |values: &mut [T]| {
            transpose(side.values, side.row, [columns, matrix.depth], values, columns);
            body(Side { values, row: 1, depth: columns });
        });
    });
}

/// Some rows of a product of up to `V` vectors of columns, whose sums for `R` rows are in registers at the same time.
struct Block<'a, T, const V: usize, const R: usize> {
    left: Side<'a, T>,
    right: Side<'a, T>,
    /// Added to each row while it is in registers, if there is one: row by row behind the product it was 0.8 of 2.9 µs (512 × 16
    /// × 16 in F32, Zen 5), and 3.6 of 6.2 in F16.
    bias: &'a [T],
    depth: usize,
    columns: usize,
    sums: &'a mut [T],
}

impl<T: Real, const V: usize, const R: usize> Kernel for Block<'_, T, V, R> {
    type Output = ();
    // Products of F64 go through fused multiply-adds, too, as they do in tiles.
    const WIDEST: Level = T::WIDEST.or(Level::Avx2);

    #[inline(always)]
    fn run<S: Simd>(self) {
        match self.sums.len() / self.columns {
            rows if const { S::LEVEL.reaches(Level::Avx512) } && (rows >= 2 * R || rows == R) => {
                self.groups::<S, R, 1>(rows)
            }
            rows if const { S::LEVEL.reaches(Level::Avx512) } && rows >= 8 => self.groups::<S, 8, 1>(rows),
            rows if rows >= FEW => self.groups::<S, FEW, 1>(rows),
            rows => self.groups::<S, 1, CHAINS>(rows),
        }
    }
}

impl<T: Real, const V: usize, const R: usize> Block<'_, T, V, R> {
    #[inline(always)]
    fn groups<S: Simd, const N: usize, const C: usize>(self, rows: usize) {
        if self.columns == V * LANES { self.each::<S, N, C, true>(rows) } else { self.each::<S, N, C, false>(rows) }
    }

    /// All rows, `N` at a time; the last group begins early where it would not be whole.
    #[inline(always)]
    fn each<S: Simd, const N: usize, const C: usize, const WHOLE: bool>(self, rows: usize) {
        let Self { left, right, bias, depth, columns, sums } = self;
        let bias = (!bias.is_empty()).then(|| vectors::<S, T, V, WHOLE>(bias));
        for first in (0..rows).step_by(N).map(|first| first.min(rows - N)) {
            let left = Side { values: &left.values[first * left.row..], ..left };
            let sums = &mut sums[first * columns..][..N * columns];
            group::<S, T, V, N, C, WHOLE>(left, right, bias, depth, columns, sums);
        }
    }
}

/// `N` rows of a product. Whether the columns are `WHOLE` vectors is asked outside the loop, which only adds to its places: asking
/// and multiplying at each step of the depth was 0.6 µs of the 6.9 that the products of a step of 8-16-16-1 (batch 512, F32)
/// took on Zen 5. At two multiply-adds a cycle they would take 4.8. With AVX2 an eighth of the step's instructions are gone, and
/// no time.
#[inline(always)]
fn group<S: Simd, T: Real, const V: usize, const N: usize, const C: usize, const WHOLE: bool>(
    left: Side<T>,
    right: Side<T>,
    bias: Option<[T::Lanes<S>; V]>,
    depth: usize,
    columns: usize,
    to: &mut [T],
) {
    let columns = if WHOLE { V * LANES } else { columns };
    let last = depth - 1;
    assert!((N - 1) * left.row + last * left.depth < left.values.len());
    assert!(last * right.depth + columns <= right.values.len());
    assert!(N * columns <= to.len());
    let mut chains = [[[T::Lanes::<S>::splat(T::ZERO); V]; N]; C];
    let mut at = [0; 2];
    let chained = if C > 1 && depth >= DEEP { depth / C } else { 0 };
    for _ in 0..chained {
        for sums in &mut chains {
            // SAFETY: a step of the depth, of which the last one lies inside (asserted).
            unsafe { step::<S, T, V, N, WHOLE>([left, right], at, columns, sums) };
            at = [at[0] + left.depth, at[1] + right.depth];
        }
    }
    for _ in chained * C..depth {
        // SAFETY: as above.
        unsafe { step::<S, T, V, N, WHOLE>([left, right], at, columns, &mut chains[0]) };
        at = [at[0] + left.depth, at[1] + right.depth];
    }
    let (sums, others) = chains.split_first_mut().expect("at least one");
    for other in others {
        for (sum, &other) in sums.as_flattened_mut().iter_mut().zip(other.as_flattened()) {
            *sum = *sum + other;
        }
    }
    for (r, sums) in sums.iter_mut().enumerate() {
        // SAFETY: `N` rows of `columns` fit (asserted).
        let to = unsafe { to.get_unchecked_mut(r * columns..(r + 1) * columns) };
        for (v, sum) in sums.iter_mut().enumerate() {
            if let Some(bias) = &bias {
                *sum = *sum + bias[v];
            }
            match to[v * LANES..].first_chunk_mut() {
                Some(to) if WHOLE || v + 1 < V => sum.store(to),
                _ => sum.store_part(&mut to[v * LANES..]),
            }
        }
    }
}

/// One step of the depth for `N` rows.
///
/// # Safety
/// From `at` on, the left side has a value for each row, and the right one `columns`.
#[inline(always)]
unsafe fn step<S: Simd, T: Real, const V: usize, const N: usize, const WHOLE: bool>(
    [left, right]: [Side<T>; 2],
    at: [usize; 2],
    columns: usize,
    sums: &mut [[T::Lanes<S>; V]; N],
) {
    // SAFETY: as the caller says.
    let vectors = vectors::<S, T, V, WHOLE>(unsafe { right.values.get_unchecked(at[1]..at[1] + columns) });
    for (r, sums) in sums.iter_mut().enumerate() {
        // SAFETY: as above, `r` being at most `N - 1`.
        let factor = T::Lanes::<S>::splat(*unsafe { left.values.get_unchecked(at[0] + r * left.row) });
        for (sum, &vector) in sums.iter_mut().zip(&vectors) {
            *sum = factor.mul_add(vector, *sum);
        }
    }
}

/// The elements of a line as vectors, the last of them with zeros at its end unless all are `WHOLE`.
#[inline(always)]
fn vectors<S: Simd, T: Real, const V: usize, const WHOLE: bool>(line: &[T]) -> [T::Lanes<S>; V] {
    let mut vectors = [T::Lanes::<S>::splat(T::ZERO); V];
    for (v, vector) in vectors.iter_mut().enumerate() {
        *vector = match line[v * LANES..].first_chunk() {
            Some(whole) if WHOLE || v + 1 < V => Lanes::load(whole),
            _ => Lanes::load_part(&line[v * LANES..], T::ZERO),
        };
    }
    vectors
}
