//! The backward pass: weights are recomputed block by block from the scores and the saved statistics.

use super::softmax::{Scale, Slopes};
use super::{KEYS, Problem, QUERIES, Scores, columns_of, rows_of};
use crate::gemm::kernel::Full;
use crate::gemm::operand::Operand;
use crate::gemm::product::tiles;
use crate::load::load;
use crate::output::Output;
use crate::simd::dispatch;
use crate::transpose::transpose;
use crate::{DType, Storage, View, parallel, scratch};
use std::ops::Range;

/// Tasks wanted at least: with fewer heads, the keys of a head are divided.
const TASKS: usize = 8;

/// What the tasks read and write.
struct Backward<'a, T: Full> {
    problem: Problem<'a, T>,
    grad: &'a View<'a>,
    y: &'a View<'a>,
    lse: &'a [T],
    /// Parts that the keys of a head are divided into; each has its own sum for the queries.
    parts: usize,
    slopes: [Output<'a>; 3],
}

pub(super) fn run<T: Full>(
    grad: &View,
    [q, k, v]: [&View; 3],
    y: &View,
    lse: &Storage,
    scores: &Scores,
    out: DType,
) -> [Storage; 3] {
    let problem = Problem::<T>::new(q, k, v, scores);
    let (heads, queries, keys, width) = (problem.heads, problem.queries, problem.keys, problem.width);
    let parts = TASKS.div_ceil(heads.max(1)).min(keys.div_ceil(4 * KEYS)).max(1);
    let size = heads * queries * width;
    let mut partial = Storage::unwritten(T::DTYPE, parts * size);
    let mut dk = Storage::unwritten(out, heads * keys * width);
    let mut dv = Storage::unwritten(out, heads * keys * problem.value_width);
    let work = 3 * problem.work();
    let backward = Backward {
        problem,
        grad,
        y,
        lse: T::same(lse.as_slice()).expect("statistics have the computing type"),
        parts,
        slopes: [Output::new(&mut partial), Output::new(&mut dk), Output::new(&mut dv)],
    };
    parallel::for_each(heads * parts, work, |task| backward.part(task / parts, task % parts));
    let mut dq = Storage::unwritten(out, size);
    let sums = T::same(partial.as_slice()).expect("just made of this type");
    let (output, rows) = (Output::new(&mut dq), QUERIES * width);
    parallel::for_each(size.div_ceil(rows.max(1)), parts * size, |task| {
        let range = task * rows..size.min((task + 1) * rows);
        scratch::with(range.len(), |sum: &mut [T]| {
            sum.copy_from_slice(&sums[range.clone()]);
            for part in 1..parts {
                sum.iter_mut().zip(&sums[part * size + range.start..]).for_each(|(sum, &more)| *sum += more);
            }
            // SAFETY: each task has its own range.
            unsafe { output.store(range.start, 1, sum) };
        });
    });
    partial.recycle();
    [dq, dk, dv]
}

/// A head's queries in the forms that the products want.
struct Questions<'a, T> {
    /// Scaled queries as left sides, and as right sides that sum over the queries of a block.
    rows: &'a [T],
    columns: &'a [T],
    /// The same of the gradient.
    slope_rows: &'a [T],
    slope_columns: &'a [T],
    /// Mean slope of each query's scores.
    means: &'a [T],
}

impl<T: Full> Backward<'_, T> {
    /// Gradients of one part of the keys of a head, and what it adds to those of the queries.
    fn part(&self, head: usize, part: usize) {
        let Problem { kernel, queries, keys, width, value_width, .. } = self.problem;
        let blocks = keys.div_ceil(KEYS);
        let range = blocks * part / self.parts * KEYS..keys.min(blocks * (part + 1) / self.parts * KEYS);
        let height = queries.next_multiple_of(kernel.left.width);
        let (wide, value_wide) =
            (width.next_multiple_of(kernel.right.width), value_width.next_multiple_of(kernel.right.width));
        let sizes =
            [height * width, queries * wide, height * value_width, queries * value_wide, queries, height * wide];
        scratch::with(sizes.iter().sum(), |buffer: &mut [T]| {
            let (rows, rest) = buffer.split_at_mut(sizes[0]);
            let (columns, rest) = rest.split_at_mut(sizes[1]);
            let (slope_rows, rest) = rest.split_at_mut(sizes[2]);
            let (slope_columns, rest) = rest.split_at_mut(sizes[3]);
            let (means, sums) = rest.split_at_mut(sizes[4]);
            rows_of(self.problem.q, head).pack(0..queries, 0..width, kernel.left, rows);
            rows_of(self.grad, head).pack(0..queries, 0..value_width, kernel.left, slope_rows);
            for start in (0..queries).step_by(QUERIES) {
                let end = queries.min(start + QUERIES);
                let of_block = &mut columns[start * wide..end * wide];
                columns_of(self.problem.q, head).pack(0..width, start..end, kernel.right, of_block);
                let of_block = &mut slope_columns[start * value_wide..end * value_wide];
                columns_of(self.grad, head).pack(0..value_width, start..end, kernel.right, of_block);
            }
            let factor = T::of(self.problem.scores.scale);
            dispatch(Scale { row: rows, factor });
            dispatch(Scale { row: columns, factor });
            self.means(head, means);
            sums.fill(T::default());
            let questions = Questions { rows, columns, slope_rows, slope_columns, means };
            for first in range.step_by(KEYS) {
                self.keys(head, first..keys.min(first + KEYS), &questions, sums);
            }
            for query in 0..queries {
                let row = &mut sums[query * wide..][..width];
                dispatch(Scale { row, factor });
                let at = ((part * self.problem.heads + head) * queries + query) * width;
                // SAFETY: each task has its own head and part.
                unsafe { self.slopes[0].store(at, 1, row) };
            }
        });
    }

    /// `Σ grad * y` of each query: the mean of its weights' slopes.
    fn means(&self, head: usize, means: &mut [T]) {
        let (grad, y) = (rows_of(self.grad, head), rows_of(self.y, head));
        scratch::with(2 * grad.depth, |lines: &mut [T]| {
            let (left, right) = lines.split_at_mut(grad.depth);
            for (row, mean) in means.iter_mut().enumerate() {
                load(&grad.view, grad.offset + row * grad.row_stride, grad.depth_stride, left);
                load(&y.view, y.offset + row * y.row_stride, y.depth_stride, right);
                *mean = left.iter().zip(&*right).fold(T::default(), |sum, (&a, &b)| sum + a * b);
            }
        });
    }

    /// Gradients of one block of keys and values.
    fn keys(&self, head: usize, keys: Range<usize>, questions: &Questions<T>, sums: &mut [T]) {
        let Problem { kernel, queries, width, value_width, .. } = self.problem;
        let first = if self.problem.scores.causal { keys.start / QUERIES * QUERIES } else { 0 };
        let (wide, value_wide) =
            (width.next_multiple_of(kernel.right.width), value_width.next_multiple_of(kernel.right.width));
        let (count, height) = (keys.len(), keys.len().next_multiple_of(kernel.left.width));
        let panels = count.next_multiple_of(kernel.right.width);
        let block = QUERIES * KEYS;
        let sizes = [
            panels * width,
            count * wide,
            panels * value_width,
            height * wide,
            height * value_wide,
            block,
            block,
            block,
        ];
        scratch::with(sizes.iter().sum(), |buffer: &mut [T]| {
            let (key_rows, rest) = buffer.split_at_mut(sizes[0]);
            let (key_columns, rest) = rest.split_at_mut(sizes[1]);
            let (value_rows, rest) = rest.split_at_mut(sizes[2]);
            let (dk, rest) = rest.split_at_mut(sizes[3]);
            let (dv, rest) = rest.split_at_mut(sizes[4]);
            let (weights, rest) = rest.split_at_mut(block);
            let (slopes, packed) = rest.split_at_mut(block);
            rows_of(self.problem.k, head).pack(keys.clone(), 0..width, kernel.right, key_rows);
            columns_of(self.problem.k, head).pack(0..width, keys.clone(), kernel.right, key_columns);
            rows_of(self.problem.v, head).pack(keys.clone(), 0..value_width, kernel.right, value_rows);
            dk.fill(T::default());
            dv.fill(T::default());
            for start in (first..queries).step_by(QUERIES) {
                let block = start..queries.min(start + QUERIES);
                let (rows, tall) = (block.len(), block.len().next_multiple_of(kernel.left.width));
                let q = &questions.rows[start * width..][..tall * width];
                tiles(&kernel, q, key_rows, width, weights, KEYS, false);
                let g = &questions.slope_rows[start * value_width..][..tall * value_width];
                tiles(&kernel, g, value_rows, value_width, slopes, KEYS, false);
                self.weigh(head, block.clone(), keys.clone(), questions.means, weights, slopes);
                pack_turned(weights, rows, height, kernel.left.width, packed);
                let g = &questions.slope_columns[start * value_wide..block.end * value_wide];
                tiles(&kernel, &packed[..height * rows], g, rows, dv, value_wide, true);
                pack_turned(slopes, rows, height, kernel.left.width, packed);
                let q = &questions.columns[start * wide..block.end * wide];
                tiles(&kernel, &packed[..height * rows], q, rows, dk, wide, true);
                for (lines, panel) in slopes
                    .chunks_exact(kernel.left.width * KEYS)
                    .zip(packed.chunks_exact_mut(kernel.left.width * count))
                {
                    transpose(lines, KEYS, [kernel.left.width, count], panel, kernel.left.width);
                }
                tiles(&kernel, &packed[..tall * count], key_columns, count, &mut sums[start * wide..], wide, true);
            }
            for (i, key) in keys.enumerate() {
                let at = head * self.problem.keys + key;
                // SAFETY: each block of keys belongs to one task.
                unsafe { self.slopes[1].store(at * width, 1, &dk[i * wide..][..width]) };
                // SAFETY: as above.
                unsafe { self.slopes[2].store(at * value_width, 1, &dv[i * value_wide..][..value_width]) };
            }
        });
    }

    /// Turns a block of scores into weights and of slopes of weights into slopes of scores; zero outside of the block.
    fn weigh(
        &self,
        head: usize,
        queries: Range<usize>,
        keys: Range<usize>,
        means: &[T],
        weights: &mut [T],
        slopes: &mut [T],
    ) {
        let rows = weights.chunks_exact_mut(KEYS).zip(slopes.chunks_exact_mut(KEYS));
        for (i, (scores, slopes)) in rows.enumerate() {
            let query = queries.start + i;
            if query >= queries.end {
                scores.fill(T::default());
                slopes.fill(T::default());
                continue;
            }
            self.problem.mask(head, query, keys.start, &mut scores[..keys.len()]);
            scores[keys.len()..].fill(T::LEAST);
            slopes[keys.len()..].fill(T::default());
            let lse = self.lse[head * self.problem.queries + query];
            dispatch(Slopes { scores, slopes, lse, mean: means[query] });
        }
    }
}

/// Packs the transpose of the first `rows` rows of a block as a left side: `height` keys, in panels of `width`.
fn pack_turned<T: Copy>(block: &[T], rows: usize, height: usize, width: usize, out: &mut [T]) {
    for (panel, out) in out.chunks_exact_mut(width * rows).take(height / width).enumerate() {
        for (line, to) in block.chunks_exact(KEYS).zip(out.chunks_exact_mut(width)) {
            to.copy_from_slice(&line[panel * width..][..width]);
        }
    }
}
