//! Products of BF16 with few vectors on one side: dot products along the lines of both sides, neither of which is packed.
//!
//! `vdpbf16ps` adds neighbours along the depth, as they lie, to 16 sums for each element of the result, which are added up in the
//! end, 16 elements at a time. One thread of Zen 4, old over new: 2 × 72 by 72 × 2048 10.5 (90 and 8.6 µs), one row of
//! 201 by 872 columns 6.5, 4 × 256 by 256 × 2048 2.5, 1024 × 754 by 754 × 16 1.8, 16 × 1024 by 1024 × 1024 1.1. More in
//! `benches/record/findings.md`.

use super::multiplies;
use crate::gemm::kernel::Multiply;
use crate::gemm::operand::Matrix;
use crate::gemm::product::{PER_CYCLE, Sink, Threads};
use crate::gemm::small::{Side, with_side};
use crate::gemm::thin;
use crate::output::Finished;
use crate::simd::Level;
use crate::transpose::transpose;
use crate::{parallel, scratch};
use half::bf16;
use std::arch::x86_64::*;

/// Vectors that are few, those of a depth of [`LONG`], and those with AMX, whose tiles read many lines where they lie.
const FEW: usize = 16;
const FEW_AND_LONG: usize = 32;
const FEW_WITH_AMX: usize = thin::ROWS;
const LONG: usize = 1024;
/// Depth from which on multiplying takes longer than adding up.
const DEEP: usize = 32;
/// Lines of the other side that a task reads, and elements in them: they stay in the L2 cache.
const LINES: usize = 256;
const ELEMENTS: usize = 1 << 17;
/// Elements of a vector.
const STEP: usize = 32;

/// Whether [`few`] is the faster way to `a · bᵀ`, also than [`small`](crate::gemm::small) if that `is_small`.
pub(super) fn is_few(a: &Matrix, b: &Matrix, is_small: bool) -> bool {
    let fits = a.depth >= DEEP && (serves(a, b) || serves(b, a)) && multiplies(&a.view, &b.view);
    fits && !(is_small && is_better_small(a, b))
}

/// Whether one side has few vectors, and those of the other can be read where they lie.
fn serves(few: &Matrix, many: &Matrix) -> bool {
    let most = match few.depth {
        _ if Level::current() == Level::Amx => FEW_WITH_AMX,
        LONG.. => FEW_AND_LONG,
        _ => FEW,
    };
    let lies = many.depth_stride == 1 && bf16::stored(&many.view).is_some();
    lies && (1..=most.min(many.rows)).contains(&few.rows)
}

/// Whether [`small`](crate::gemm::small) is faster: it multiplies pairs of neighbours by whole vectors of columns.
fn is_better_small(a: &Matrix, b: &Matrix) -> bool {
    let few = a.rows.min(b.rows);
    a.depth.is_multiple_of(2) && (few > 8 || a.depth < 16 * few)
}

/// `a · bᵀ`, some of the many vectors after the others.
pub(super) fn few(a: &Matrix, b: &Matrix, sink: &dyn Sink<f32>, threads: Threads) {
    assert!(multiplies(&a.view, &b.view), "only where BF16 is multiplied");
    let transposed = !serves(a, b);
    let [few, many] = if transposed { [b, a] } else { [a, b] };
    // A line is waited for as long as it takes to multiply it by four vectors.
    let work = threads.share(many.rows * many.depth * few.rows.max(4) / PER_CYCLE);
    with_lines(few, |few_lines| {
        let stored = bf16::stored(&many.view).expect("stored as BF16");
        let lines = if few.rows > 4 { (ELEMENTS / many.depth).next_multiple_of(8).clamp(8, LINES) } else { LINES };
        parallel::for_each(many.rows.div_ceil(lines), work, |task| {
            let (first, count) = (task * lines, lines.min(many.rows - task * lines));
            let lines =
                Lines { values: &stored[many.offset + first * many.row_stride..], stride: many.row_stride, count };
            scratch::with(few.rows * count, |values: &mut [f32]| {
                let apart = if transposed { [1, few.rows] } else { [count, 1] };
                // SAFETY: the level, and so the CPU, multiplies BF16 in pairs (asserted).
                unsafe { Block { few: few_lines, many: lines, depth: many.depth, apart }.run(values) };
                match transposed {
                    true => sink.store_rows(first, 0, few.rows, Finished { values, len: few.rows }),
                    false => sink.store_rows(0, first, count, Finished { values, len: count }),
                }
            });
        });
    });
}

/// Calls `body` with vectors as lines: where they lie, if they lie so.
fn with_lines(matrix: &Matrix, body: impl FnOnce(Lines)) {
    let (count, depth) = (matrix.rows, matrix.depth);
    with_side(matrix, |side: Side<bf16>| {
        if side.depth == 1 {
            return body(Lines { values: side.values, stride: side.row, count });
        }
        scratch::with(count * depth, |values: &mut [bf16]| {
            transpose(side.values, side.depth, [depth, count], values, depth);
            body(Lines { values, stride: depth, count });
        });
    });
}

/// Vectors along memory.
#[derive(Clone, Copy)]
struct Lines<'a> {
    values: &'a [bf16],
    stride: usize,
    count: usize,
}

/// Products of all lines of two sides.
struct Block<'a> {
    few: Lines<'a>,
    many: Lines<'a>,
    depth: usize,
    /// The way in the result from one line's products to the next one's, of either side.
    apart: [usize; 2],
}

impl Block<'_> {
    /// # Safety
    /// The CPU must have AVX512-BF16.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn run(&self, to: &mut [f32]) {
        for lines in [self.few, self.many] {
            assert!(lines.count > 0 && (lines.count - 1) * lines.stride + self.depth <= lines.values.len());
        }
        let count = self.few.count;
        // SAFETY: the caller's duty; whole groups and a last one that is not empty end inside.
        unsafe {
            for first in (0..count / 4 * 4).step_by(4) {
                self.groups::<4, 4>(first, to);
            }
            match count % 4 {
                3 => self.groups::<3, 4>(count - 3, to),
                2 => self.groups::<2, 8>(count - 2, to),
                1 => self.groups::<1, 8>(count - 1, to),
                _ => {}
            }
        }
    }

    /// The products of the `F` lines from `first` on and all of the others, `M` at a time; the last of these begin early where
    /// there are not enough.
    ///
    /// # Safety
    /// As [`Self::run`], and there must be `F` lines from `first` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn groups<const F: usize, const M: usize>(&self, first: usize, to: &mut [f32]) {
        let (count, [down, across]) = (self.many.count, self.apart);
        let few = self.few.values[first * self.few.stride..].as_ptr();
        for start in (0..count).step_by(M).map(|start| start.min(count.saturating_sub(M))) {
            let many = self.many.values[start * self.many.stride..].as_ptr();
            // SAFETY: lines end inside (asserted in `run`); of fewer than `M`, the last one is read again.
            let sums = unsafe { self.sums::<F, M>(few, many, count - 1 - start) };
            for f in 0..F {
                for m in 0..M.min(count) {
                    to[(first + f) * down + (start + m) * across] = sums[f * M + m];
                }
            }
        }
    }

    /// The products of `F` lines and `M`, of which none is after the one of number `last`.
    ///
    /// # Safety
    /// As [`Self::run`], and all those lines must be readable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn sums<const F: usize, const M: usize>(
        &self,
        few: *const bf16,
        many: *const bf16,
        last: usize,
    ) -> [f32; 16] {
        let few: [*const bf16; F] = std::array::from_fn(|f| few.wrapping_add(f * self.few.stride));
        let many: [*const bf16; M] = std::array::from_fn(|m| many.wrapping_add(m.min(last) * self.many.stride));
        let mut sums = [[_mm512_setzero_ps(); M]; F];
        let whole = self.depth / STEP * STEP;
        // SAFETY: both sides' lines have `depth` elements (caller), of which the mask leaves the last ones; both vector types are 64
        // bytes of plain bits.
        unsafe {
            let mut step = |at: usize, mask: __mmask32| {
                let load = |line: *const bf16| {
                    std::mem::transmute::<__m512i, __m512bh>(_mm512_maskz_loadu_epi16(mask, line.add(at).cast()))
                };
                let columns = many.map(load);
                for (&row, sums) in few.iter().zip(&mut sums) {
                    let row = load(row);
                    sums.iter_mut().zip(columns).for_each(|(sum, column)| *sum = _mm512_dpbf16_ps(*sum, row, column));
                }
            };
            (0..whole).step_by(STEP).for_each(|at| step(at, u32::MAX));
            if whole < self.depth {
                step(whole, (1 << (self.depth - whole)) - 1);
            }
        }
        let mut all = [_mm512_setzero_ps(); 16];
        all.iter_mut().zip(sums.as_flattened()).for_each(|(to, &sum)| *to = sum);
        totals(all)
    }
}

/// The sum of each vector's lanes: halves upon halves, of all vectors at once.
#[inline]
#[target_feature(enable = "avx512f")]
fn totals(vectors: [__m512; 16]) -> [f32; 16] {
    let pairs: [__m512; 8] = std::array::from_fn(|i| {
        let [a, b] = [vectors[2 * i], vectors[2 * i + 1]];
        _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
    });
    let fours: [__m512; 4] = std::array::from_fn(|i| {
        let [a, b] = [pairs[2 * i], pairs[2 * i + 1]].map(|pair| _mm512_castps_pd(pair));
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)))
    });
    let joined =
        |a: __m512, b: __m512| _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
    let total = joined(joined(fours[0], fours[1]), joined(fours[2], fours[3]));
    // SAFETY: both are 64 bytes of plain bits.
    unsafe { std::mem::transmute(total) }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Random, Tensor};
    use crate::{DType, Epilogue, gemm, matmul, with_num_threads};

    #[test]
    fn either_side_may_be_few_and_groups_and_depths_leave_some_over() {
        let mut random = Random::new(32);
        let sizes = (1..19).map(|few| (few, 31 + 3 * few, 5 + 17 * few));
        let sizes = sizes.chain([(1, 32, 1), (3, 1030, 5), (16, 64, 300), (31, 1500, 40), (2, 2049, 600)]);
        for (few, depth, many) in sizes {
            for (m, n) in [(few, many), (many, few)] {
                let (bias, residual) = (random.tensor(&[n], DType::F32), random.tensor(&[m, n], DType::F32));
                let (wide, turned) =
                    (random.tensor(&[m, depth + 3], DType::BF16), random.tensor(&[depth, m], DType::BF16));
                let b = random.tensor(&[n, depth], DType::BF16).transposed(0, 1);
                for a in [wide.narrow(1, 3, depth), turned.transposed(0, 1)] {
                    let run = |epilogue: &Epilogue, threads| {
                        with_num_threads(threads, || matmul(&a.view(), &b.view(), epilogue, DType::F32))
                    };
                    let epilogue = Epilogue { bias: Some(bias.view()), residual: None };
                    let found = run(&epilogue, 2);
                    let name = format!("{m} x {depth} x {n}");
                    assert_eq!(format!("{found:?}"), format!("{:?}", run(&epilogue, 1)), "{name}: one thread and two");
                    gemm::tests::compare(&a, &b, Some(&bias), &Tensor::contiguous(&[m, n], found));
                    let added = run(&Epilogue { residual: Some(residual.view()), ..epilogue }, 2);
                    let added = Tensor::contiguous(&[m, n], added);
                    gemm::tests::compare_with(false, &a, &b, [Some(&bias), Some(&residual)], &added);
                }
            }
        }
    }
}
