//! The forward pass: blocks of queries over blocks of keys, with an online softmax (running maxima and sums).

use super::softmax::{Exponentials, Scale};
use super::{Attend, Attended, KEYS, Problem, QUERIES, Scores, columns_of, rows_of};
use crate::gemm::operand::Operand;
use crate::gemm::product::Strips;
use crate::num::{Num, Real};
use crate::output::Output;
use crate::simd::dispatch;
use crate::{DType, Storage, View, parallel, scratch};
use std::ops::Range;

/// Queries of a task: keys and values are packed once for them.
const GROUP: usize = 2 * QUERIES;

pub(super) fn run<E: Attend>(q: &View, k: &View, v: &View, scores: &Scores, out: DType) -> Attended {
    let problem = Problem::<E>::new(q, k, v, scores);
    let rows = problem.heads * problem.queries;
    let mut y = Storage::unwritten(out, rows * problem.value_width);
    let mut lse = Storage::unwritten(E::Sum::DTYPE, rows);
    let outputs = [Output::new(&mut y), Output::new(&mut lse)];
    let groups = problem.queries.div_ceil(GROUP);
    parallel::for_each(problem.heads * groups, problem.work(), |task| {
        let (head, first) = (task / groups, task % groups * GROUP);
        group(&problem, head, first..problem.queries.min(first + GROUP), &outputs);
    });
    Attended { y, lse }
}

/// Attention of the queries of one task.
fn group<E: Attend>(problem: &Problem<E>, head: usize, queries: Range<usize>, outputs: &[Output; 2]) {
    let Problem { kernel, width, value_width, .. } = *problem;
    let keys = problem.end_of_keys(queries.end);
    let columns = kernel.right.rows(value_width);
    let _prepared = kernel.prepared();
    let packed_keys = kernel.right.len(keys, width);
    scratch::with(packed_keys + kernel.right.depth(keys) * columns, |packed: &mut [E]| {
        let (packed_keys, packed_values) = packed.split_at_mut(packed_keys);
        rows_of(problem.k, head).pack(0..keys, 0..width, kernel.right, packed_keys);
        for start in (0..keys).step_by(KEYS) {
            let end = keys.min(start + KEYS);
            let block = &mut packed_values[start * columns..][..kernel.right.depth(end - start) * columns];
            columns_of(problem.v, head).pack(0..value_width, start..end, kernel.right, block);
        }
        for start in queries.clone().step_by(QUERIES) {
            let block = start..queries.end.min(start + QUERIES);
            attend(problem, head, block, packed_keys, packed_values, outputs);
        }
    });
}

/// Attention of one block of queries.
fn attend<E: Attend>(
    problem: &Problem<E>,
    head: usize,
    queries: Range<usize>,
    packed_keys: &[E],
    packed_values: &[E],
    outputs: &[Output; 2],
) {
    let Problem { kernel, width, value_width, .. } = *problem;
    let (left, columns) = (kernel.left, kernel.right.rows(value_width));
    let (height, deep) = (left.rows(queries.len()), left.depth(width));
    scratch::with(height * (deep + KEYS) + left.width * KEYS, |packed: &mut [E]| {
        let (packed_queries, rest) = packed.split_at_mut(height * deep);
        let (weights, lines) = rest.split_at_mut(height * KEYS);
        problem.pack_operand(&rows_of(problem.q, head), queries.clone(), packed_queries);
        scratch::with(height * (KEYS + columns), |buffer: &mut [E::Sum]| {
            let (scores, sums) = buffer.split_at_mut(height * KEYS);
            sums.fill(Default::default());
            let mut states = [OnlineSoftmax { max: E::Sum::LEAST, sum: E::Sum::ZERO }; QUERIES];
            let keys = problem.end_of_keys(queries.end);
            for first in (0..keys).step_by(KEYS) {
                let count = KEYS.min(keys - first);
                let right = &packed_keys[first * deep..][..kernel.right.len(count, width)];
                let block = first..first + count;
                // The keys that the last query of a strip may attend to: none of its queries attends to more.
                let last = |rows: Range<usize>| problem.allowed(queries.start + rows.end - 1, &block);
                let packed_queries = Strips { left: packed_queries, lines: problem.in_lines(), right, deep };
                packed_queries.multiply(&kernel, scores, KEYS, false, &|rows| (0..deep, last(rows)));
                for ((i, query), OnlineSoftmax { max, sum }) in queries.clone().enumerate().zip(&mut states) {
                    let (row, rest) = scores[i * KEYS..][..count].split_at_mut(problem.allowed(query, &block));
                    rest.fill(E::Sum::ZERO);
                    let scale = problem.mask(head, query, first, row);
                    let factor = dispatch(Exponentials { row, scale, max, sum });
                    if factor != E::Sum::ONE {
                        dispatch(Scale { row: &mut sums[i * columns..][..columns], factor });
                    }
                }
                problem.pack_rows(scores, count, lines, weights);
                let depth = left.depth(count);
                let (left, right) = (&weights[..height * depth], &packed_values[first * columns..][..depth * columns]);
                let weights = Strips { left, lines: problem.in_lines(), right, deep: depth };
                weights.multiply(&kernel, sums, columns, true, &|rows| (0..last(rows), columns));
            }
            for ((i, query), state) in queries.enumerate().zip(states) {
                let at = head * problem.queries + query;
                let places = [problem.place(head, query), at];
                state.store(places, &mut sums[i * columns..][..value_width], outputs);
            }
        });
    });
}

/// The state of an online softmax: the largest score of a query so far, and the sum of the exponentials relative to it.
#[derive(Clone, Copy)]
struct OnlineSoftmax<T> {
    max: T,
    sum: T,
}

impl<T: Real> OnlineSoftmax<T> {
    /// Stores a query's result, given the sums, and its statistics.
    ///
    /// Outputs come by reference: copies of them, written and read in pieces of different sizes, waited for all stores before,
    /// a twentieth of the forward pass.
    fn store(self, [place, at]: [usize; 2], sums: &mut [T], [output, statistics]: &[Output; 2]) {
        if self.sum != T::ZERO {
            dispatch(Scale { row: sums, factor: T::ONE / self.sum });
        }
        let shift = if self.max == T::LEAST { T::ZERO } else { self.max };
        let log = self.sum.ln::<crate::simd::Portable>() + shift;
        // SAFETY: each block has its own queries.
        unsafe { output.store(place, 1, sums) };
        // SAFETY: as above.
        unsafe { statistics.store(at, 1, &[log]) };
    }
}
