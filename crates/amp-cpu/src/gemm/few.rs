//! Products of few rows of F32: the right side is read where it lies, for packing it costs as much as multiplying it by some rows.
//!
//! Tiles of twelve rows also waste what is not a multiple of that. One thread of Zen 4, old over new, 256 deep and 384 columns:
//! 4 rows 3.8 (30.4 and 7.9 µs), 8 rows 2.1, 16 rows 1.8, 64 rows 1.2, 128 rows 1.1; of transposed right sides, which are turned
//! a block of columns at a time, 1.8, 1.3, 1.4, 1.1 and 1.05. More in `benches/record/findings.md`.

use super::kernel::Full;
use super::operand::Matrix;
use super::product::{Sink, Threads};
use super::small::{FEW, Side, VECTORS, block, with_columns, with_side};
use super::thin;
use crate::output::Finished;
use crate::simd::{LANES, Level};
use crate::{parallel, scratch};
use std::any::TypeId;

/// Rows at most with AVX-512, where sums of eight rows stay in registers, and without.
const ROWS: [usize; 2] = [128, 16];
/// Rows that are multiplied at a time with AVX-512.
const HIGH: usize = 8;
/// Columns likewise.
const COLUMNS: usize = VECTORS * LANES;
/// Elements at most of a right side whose columns lie side by side: it is read in short pieces far apart, which takes longer than
/// packing it where no cache holds it (32 × 2048 × 2048 twice as long).
const LARGEST: usize = 1 << 20;

/// Whether [`few`] is the faster way to `a · bᵀ`.
pub(super) fn is_few<T: Full>(a: &Matrix, b: &Matrix) -> bool {
    let [high, low] = ROWS;
    let rows = match (b.row_stride == 1, Level::current().reaches(Level::Avx512)) {
        (true, _) if b.rows * b.depth > LARGEST => return false,
        (true, true) => thin::ROWS + 1..=high,
        (true, false) => thin::ROWS + 1..=low,
        (false, true) if b.depth_stride == 1 => 2..=high,
        (false, _) => return false,
    };
    let lies = TypeId::of::<T>() == TypeId::of::<f32>() && T::stored(&b.view).is_some();
    lies && a.depth > 0 && rows.contains(&a.rows) && b.rows > thin::ROWS
}

/// `a · bᵀ`, one block of columns after the other; each sum runs along the depth in order.
pub(super) fn few<T: Full>(a: &Matrix, b: &Matrix, sink: &dyn Sink<T>, threads: Threads) {
    let (rows, depth) = (a.rows, a.depth);
    let work = threads.share(rows * b.rows * depth / T::kernel(Level::current()).pace);
    with_side(a, |left| {
        parallel::for_each(b.rows.div_ceil(COLUMNS), work, |task| {
            let first = task * COLUMNS;
            let columns = COLUMNS.min(b.rows - first);
            with_columns(&Matrix { offset: b.offset + first * b.row_stride, rows: columns, ..*b }, |right| {
                scratch::with(rows * columns, |sums: &mut [T]| {
                    for (first, count) in parts(rows) {
                        let left = Side { values: &left.values[first * left.row..], ..left };
                        block(left, right, &[], [depth, columns], &mut sums[first * columns..][..count * columns]);
                    }
                    sink.store_rows(0, first, columns, Finished { values: sums, len: columns });
                });
            });
        });
    });
}

/// First rows and how many: all, or a multiple of [`HIGH`] and the last [`FEW`] where those take in all others.
fn parts(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let splits = rows > HIGH && (1..=FEW).contains(&(rows % HIGH));
    let whole = if splits { rows / HIGH * HIGH } else { rows };
    std::iter::once((0, whole)).chain(splits.then(|| (rows - FEW, FEW)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Random, Tensor};
    use crate::{DType, Epilogue, gemm, matmul, with_num_threads};

    #[test]
    fn rows_and_columns_that_leave_some_over_agree_with_the_reference_for_any_threads() {
        let mut random = Random::new(31);
        let sizes =
            (1..22).map(|m| (m, 9, 33 + 7 * m)).chain([(65, 40, 96), (128, 3, 100), (129, 3, 100), (16, 300, 600)]);
        for (m, k, n) in sizes {
            let (a, bias) = (random.tensor(&[m, k], DType::F32), random.tensor(&[n], DType::F32));
            let wide = random.tensor(&[k, n + 5], DType::F32);
            for b in [wide.narrow(1, 5, n), random.tensor(&[n, k], DType::F32).transposed(0, 1)] {
                let epilogue = Epilogue { bias: Some(bias.view()), residual: None };
                let run = |threads| with_num_threads(threads, || matmul(&a.view(), &b.view(), &epilogue, DType::F32));
                let found = run(2);
                assert_eq!(format!("{found:?}"), format!("{:?}", run(1)), "{m} x {k} x {n}: one thread and two");
                gemm::tests::compare(&a, &b, Some(&bias), &Tensor::contiguous(&[m, n], found));
            }
        }
    }
}
