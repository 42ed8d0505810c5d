//! A few queries, as of a step of generation (decoding) by cached keys and values: these are multiplied where they lie, for packing
//! them would take longer than all the rest.
//!
//! Sums, weights and statistics are F32, and nothing is rounded before the result. Zen 5, two threads, F32: 256 heads of one
//! query and 1024 keys of 64 took 10.6 ms by blocks, and take 6.4.

use super::softmax::{Exponentials, Scale};
use super::{Attended, Problem, Scores, columns_of, rows_of};
use crate::gemm::operand::Matrix;
use crate::gemm::product::{Kept, Threads};
use crate::gemm::thin;
use crate::output::Output;
use crate::simd::dispatch;
use crate::{DType, Dims, Layout, Slice, Storage, View, parallel, scratch};
use std::sync::Mutex;

/// Most queries that count as few.
pub(super) const QUERIES: usize = thin::ROWS;

pub(super) fn run(q: &View, k: &View, v: &View, scores: &Scores, out: DType) -> Attended {
    let problem = Problem::<f32>::new(q, k, v, scores);
    let rows = problem.heads * problem.queries;
    let mut y = Storage::unwritten(out, rows * problem.value_width);
    let mut lse = Storage::unwritten(DType::F32, rows);
    let outputs = [Output::new(&mut y), Output::new(&mut lse)];
    // Memory is the limit, as in products of few rows.
    let threads = if problem.heads == 1 { Threads::Many } else { Threads::One };
    parallel::for_each(problem.heads, problem.work(), |head| {
        scratch::with(problem.queries * (problem.keys + problem.value_width), |buffer: &mut [f32]| {
            let (weights, sums) = buffer.split_at_mut(problem.queries * problem.keys);
            attend(&problem, head, weights, sums, (&outputs, threads));
        });
    });
    Attended { y, lse }
}

/// Attention of the queries of one head.
fn attend(
    problem: &Problem<f32>,
    head: usize,
    weights: &mut [f32],
    sums: &mut [f32],
    (outputs, threads): (&[Output; 2], Threads),
) {
    let [output, statistics] = outputs;
    let (queries, keys, width) = (problem.queries, problem.keys, problem.value_width);
    let kept = Kept { values: &Mutex::new(&mut *weights), columns: keys, transposed: false };
    thin::thin::<f32>(&rows_of(problem.q, head), &rows_of(problem.k, head), &kept, threads);
    let mut sums_of_weights = [0.0; QUERIES];
    for (query, row) in weights.chunks_exact_mut(keys.max(1)).enumerate() {
        let (row, rest) = row.split_at_mut(problem.allowed(query, &(0..keys)));
        rest.fill(0.0);
        let scale = problem.mask(head, query, 0, row);
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
        dispatch(Exponentials { row, scale, max: &mut max, sum: &mut sum });
        let shift = if max == f32::NEG_INFINITY { 0.0 } else { max };
        sums_of_weights[query] = sum;
        // SAFETY: each head has its own queries.
        unsafe { statistics.store(head * queries + query, 1, &[sum.ln() + shift]) };
    }
    let shape = Dims::new(&[queries, keys]).expect("two dimensions");
    let view = View { data: Slice::F32(weights), layout: &Layout::contiguous(shape), logical: DType::F32 };
    let of_weights = Matrix { view, offset: 0, rows: queries, depth: keys, row_stride: keys, depth_stride: 1 };
    let kept = Kept { values: &Mutex::new(&mut *sums), columns: width, transposed: false };
    thin::thin::<f32>(&of_weights, &columns_of(problem.v, head), &kept, threads);
    for (query, row) in sums.chunks_exact_mut(width.max(1)).enumerate() {
        if sums_of_weights[query] != 0.0 {
            dispatch(Scale { row: &mut *row, factor: 1.0 / sums_of_weights[query] });
        }
        // SAFETY: as above.
        unsafe { output.store(problem.place(head, query), 1, row) };
    }
}
