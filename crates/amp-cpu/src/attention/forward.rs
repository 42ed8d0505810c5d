//! The forward pass: blocks of queries over blocks of keys, with running maxima and sums.

use super::softmax::{Exponentials, Scale};
use super::{Attended, KEYS, Problem, QUERIES, Scores, columns_of, rows_of};
use crate::gemm::kernel::Full;
use crate::gemm::operand::Operand;
use crate::gemm::product::tiles;
use crate::output::Output;
use crate::simd::dispatch;
use crate::transpose::transpose;
use crate::{DType, Storage, View, parallel, scratch};
use std::ops::Range;

/// Queries that one task answers: keys and values are packed once for them.
const GROUP: usize = 4 * QUERIES;

pub(super) fn run<T: Full>(q: &View, k: &View, v: &View, scores: &Scores, out: DType) -> Attended {
    let problem = Problem::<T>::new(q, k, v, scores);
    let rows = problem.heads * problem.queries;
    let mut y = Storage::unwritten(out, rows * problem.value_width);
    let mut lse = Storage::unwritten(T::DTYPE, rows);
    let outputs = [Output::new(&mut y), Output::new(&mut lse)];
    let groups = problem.queries.div_ceil(GROUP);
    parallel::for_each(problem.heads * groups, problem.work(), |task| {
        let (head, first) = (task / groups, task % groups * GROUP);
        group(&problem, head, first..problem.queries.min(first + GROUP), outputs);
    });
    Attended { y, lse }
}

/// Answers the queries of one task.
fn group<T: Full>(problem: &Problem<T>, head: usize, queries: Range<usize>, outputs: [Output; 2]) {
    let Problem { kernel, width, value_width, .. } = *problem;
    let keys = problem.end_of_keys(queries.end);
    let columns = value_width.next_multiple_of(kernel.right.width);
    let packed_keys = keys.next_multiple_of(kernel.right.width) * width;
    scratch::with(packed_keys + keys * columns, |packed: &mut [T]| {
        let (packed_keys, packed_values) = packed.split_at_mut(packed_keys);
        rows_of(problem.k, head).pack(0..keys, 0..width, kernel.right, packed_keys);
        for start in (0..keys).step_by(KEYS) {
            let end = keys.min(start + KEYS);
            let block = &mut packed_values[start * columns..end * columns];
            columns_of(problem.v, head).pack(0..value_width, start..end, kernel.right, block);
        }
        for start in queries.clone().step_by(QUERIES) {
            let block = start..queries.end.min(start + QUERIES);
            answer(problem, head, block, packed_keys, packed_values, outputs);
        }
    });
}

/// Answers one block of queries.
fn answer<T: Full>(
    problem: &Problem<T>,
    head: usize,
    queries: Range<usize>,
    packed_keys: &[T],
    packed_values: &[T],
    [output, statistics]: [Output; 2],
) {
    let Problem { kernel, width, value_width, .. } = *problem;
    let columns = value_width.next_multiple_of(kernel.right.width);
    let height = queries.len().next_multiple_of(kernel.left.width);
    let sizes = [height * width, height * KEYS, height * KEYS, height * columns];
    scratch::with(sizes.iter().sum(), |buffer: &mut [T]| {
        let (question, rest) = buffer.split_at_mut(sizes[0]);
        let (scores, rest) = rest.split_at_mut(sizes[1]);
        let (weights, sums) = rest.split_at_mut(sizes[2]);
        rows_of(problem.q, head).pack(queries.clone(), 0..width, kernel.left, question);
        dispatch(Scale { row: question, factor: T::of(problem.scores.scale) });
        sums.fill(T::default());
        let (mut most, mut total) = ([T::LEAST; QUERIES], [T::default(); QUERIES]);
        let keys = problem.end_of_keys(queries.end);
        for first in (0..keys).step_by(KEYS) {
            let count = KEYS.min(keys - first);
            let panels = count.next_multiple_of(kernel.right.width);
            let right = &packed_keys[first * width..][..panels * width];
            tiles(&kernel, question, right, width, scores, KEYS, false);
            for (i, query) in queries.clone().enumerate() {
                let row = &mut scores[i * KEYS..][..count];
                problem.mask(head, query, first, row);
                let factor = dispatch(Exponentials { row, most: &mut most[i], total: &mut total[i] });
                if factor != T::ONE {
                    dispatch(Scale { row: &mut sums[i * columns..][..columns], factor });
                }
            }
            for (lines, panel) in
                scores.chunks_exact(kernel.left.width * KEYS).zip(weights.chunks_exact_mut(kernel.left.width * count))
            {
                transpose(lines, KEYS, [kernel.left.width, count], panel, kernel.left.width);
            }
            let left = &weights[..height * count];
            tiles(&kernel, left, &packed_values[first * columns..][..count * columns], count, sums, columns, true);
        }
        for (i, query) in queries.enumerate() {
            let row = &mut sums[i * columns..][..value_width];
            if total[i] != T::default() {
                dispatch(Scale { row, factor: T::ONE / total[i] });
            }
            let shift = if most[i] == T::LEAST { T::default() } else { most[i] };
            let (at, log) = (head * problem.queries + query, total[i].ln::<crate::simd::Portable>() + shift);
            // SAFETY: each block has its own queries.
            unsafe { output.store(at * value_width, 1, row) };
            // SAFETY: as above.
            unsafe { statistics.store(at, 1, &[log]) };
        }
    });
}
