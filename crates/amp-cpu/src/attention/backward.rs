//! The backward pass: weights are recomputed block by block from the scores and the saved statistics.

use super::grads::{AttentionGrads, Place};
use super::softmax::{Dot, Scale, ScoreGrads};
use super::{AHEAD, Attend, KEYS, Problem, QUERIES, Scores, columns_of, rows_of};
use crate::gemm::operand::Operand;
use crate::gemm::product::Strips;
use crate::load::{load, prefetch_range};
use crate::math::Float;
use crate::num::{Num, Real};
use crate::output::{Finished, Output};
use crate::simd::dispatch;
use crate::storage::Element;
use crate::{DType, Storage, View, parallel, scratch};
use std::ops::Range;

/// Tasks wanted at least: with fewer heads, the keys of a head are divided.
const TASKS: usize = 8;

/// What the tasks read and write.
struct Backward<'a, E: Attend> {
    problem: Problem<'a, E>,
    grad: &'a View<'a>,
    y: &'a View<'a>,
    lse: &'a [E::Sum],
    /// Parts that the keys of a head are divided into; each has its own sum for the queries.
    parts: usize,
    places: [Place<'a>; 3],
    /// Where keys are divided: what each part adds to the gradient of the queries, `[parts, heads, queries, width]`.
    partial: Output<'a>,
}

pub(super) fn run<E: Attend>(
    grad: &View,
    qkv: [&View; 3],
    y: &View,
    lse: &Storage,
    scores: &Scores,
    out: DType,
) -> AttentionGrads<Storage> {
    let [q, k, v] = qkv;
    let problem = Problem::<E>::new(q, k, v, scores);
    let (heads, queries) = (problem.heads, problem.queries);
    let size = heads * queries * problem.width;
    let parts = if size == 0 { 1 } else { TASKS.div_ceil(heads).min(problem.keys.div_ceil(4 * KEYS)).max(1) };
    let mut partial = Storage::unwritten(E::Sum::DTYPE, if parts > 1 { parts * size } else { 0 });
    let mut grads = AttentionGrads::unwritten(qkv, out);
    let work = 3 * problem.work();
    let backward = Backward {
        problem,
        grad,
        y,
        lse: E::Sum::same(lse.as_slice()).expect("statistics have the computing type"),
        parts,
        places: grads.places(qkv),
        partial: Output::new(&mut partial),
    };
    parallel::for_each(heads * parts, work, |task| backward.part(task / parts, task % parts));
    if parts > 1 {
        let partial = E::Sum::same(partial.as_slice()).expect("just made of this type");
        add_parts(partial, [parts, heads], &grads.places(qkv)[0], q.layout.shape[3]);
    }
    grads
}

/// Adds up what the parts of the keys give to the gradient of the queries, rows of `width`.
fn add_parts<T: Real>(partial: &[T], [parts, heads]: [usize; 2], to: &Place, width: usize) {
    let size = partial.len() / parts / heads;
    parallel::for_each(heads, partial.len(), |head| {
        let mut parts = partial.chunks_exact(size).skip(head).step_by(heads);
        scratch::with(size, |sum: &mut [T]| {
            sum.copy_from_slice(parts.next().unwrap_or_default());
            parts.for_each(|part| sum.iter_mut().zip(part).for_each(|(sum, &more)| *sum += more));
            // SAFETY: each task has its own head.
            unsafe { to.store(head, 0, Finished { values: sum, len: width }) };
        });
    });
}

/// A head's queries in the forms that the products want.
struct PackedQueries<'a, E: Attend> {
    /// Queries as left sides, and as right sides that sum over the queries of a block.
    rows: &'a [E],
    columns: &'a [E],
    /// The same of the gradient.
    grad_rows: &'a [E],
    grad_columns: &'a [E],
    /// `rowsum(grad ∘ y)` of each query, FlashAttention's delta: the mean of the gradients of its weights, by weight.
    deltas: &'a [E::Sum],
}

impl<E: Attend> Backward<'_, E> {
    /// Gradients of one part of the keys of a head, and what it adds to those of the queries.
    fn part(&self, head: usize, part: usize) {
        let Problem { kernel, queries, keys, width, value_width, .. } = self.problem;
        let (left, right) = (kernel.left, kernel.right);
        let _prepared = kernel.prepared();
        let blocks = keys.div_ceil(KEYS);
        let range = blocks * part / self.parts * KEYS..keys.min(blocks * (part + 1) / self.parts * KEYS);
        let (wide, value_wide) = (right.rows(width), right.rows(value_width));
        let sizes = [
            left.len(queries, width),
            right.depth(queries) * wide,
            left.len(queries, value_width),
            right.depth(queries) * value_wide,
        ];
        scratch::with(sizes.iter().sum(), |packed: &mut [E]| {
            let (rows, rest) = packed.split_at_mut(sizes[0]);
            let (columns, rest) = rest.split_at_mut(sizes[1]);
            let (grad_rows, grad_columns) = rest.split_at_mut(sizes[2]);
            self.problem.pack_operand(&rows_of(self.problem.q, head), 0..queries, rows);
            self.problem.pack_operand(&rows_of(self.grad, head), 0..queries, grad_rows);
            for start in (0..queries).step_by(QUERIES) {
                let end = queries.min(start + QUERIES);
                let depth = right.depth(end - start);
                let of_block = &mut columns[start * wide..][..depth * wide];
                columns_of(self.problem.q, head).pack(0..width, start..end, right, of_block);
                let of_block = &mut grad_columns[start * value_wide..][..depth * value_wide];
                columns_of(self.grad, head).pack(0..value_width, start..end, right, of_block);
            }
            scratch::with(queries + left.rows(queries) * wide, |buffer: &mut [E::Sum]| {
                let (deltas, sums) = buffer.split_at_mut(queries);
                self.deltas(head, deltas);
                sums.fill(Default::default());
                let packed_queries = PackedQueries { rows, columns, grad_rows, grad_columns, deltas };
                for first in range.step_by(KEYS) {
                    self.keys(head, first..keys.min(first + KEYS), &packed_queries, sums);
                }
                let sums = &mut sums[..queries * wide];
                dispatch(Scale { row: &mut *sums, factor: self.scale() });
                let lines = Finished { values: sums, len: wide };
                // SAFETY: each task has its own head and part.
                unsafe {
                    if self.parts == 1 {
                        return self.places[0].store(head, 0, lines);
                    }
                    let at = (part * self.problem.heads + head) * queries * width;
                    self.partial.store_rows(at, width, width, &[], lines);
                }
            });
        });
    }

    fn scale(&self) -> E::Sum {
        E::Sum::of(self.problem.scores.scale)
    }

    /// `Σ grad * y` of each query: the mean of the gradients of its weights, by weight (FlashAttention's delta).
    ///
    /// Was a fifth of the backward pass of 48 heads of 256 by 64 before rows of `y` were prefetched.
    fn deltas(&self, head: usize, deltas: &mut [E::Sum]) {
        let (grad, y) = (rows_of(self.grad, head), rows_of(self.y, head));
        scratch::with(2 * grad.depth, |lines: &mut [E::Sum]| {
            let (left, right) = lines.split_at_mut(grad.depth);
            for (row, delta) in deltas.iter_mut().enumerate() {
                // Rows of a head lie too far apart for the hardware to see a pattern.
                prefetch_range(y.view.data, y.offset + (row + AHEAD) * y.row_stride, y.depth);
                load(&grad.view, grad.offset + row * grad.row_stride, grad.depth_stride, left);
                load(&y.view, y.offset + row * y.row_stride, y.depth_stride, right);
                *delta = dispatch(Dot(left, right));
            }
        });
    }

    /// Gradients of one block of keys and values.
    fn keys(&self, head: usize, keys: Range<usize>, packed_queries: &PackedQueries<E>, sums: &mut [E::Sum]) {
        let Problem { kernel, width, value_width, .. } = self.problem;
        let (right, count) = (kernel.right, keys.len());
        let (wide, value_wide) = (right.rows(width), right.rows(value_width));
        let sizes = [right.len(count, width), right.depth(count) * wide, right.len(count, value_width)];
        scratch::with(sizes.iter().sum::<usize>() + 2 * QUERIES * KEYS, |packed: &mut [E]| {
            let (key_rows, rest) = packed.split_at_mut(sizes[0]);
            let (key_columns, rest) = rest.split_at_mut(sizes[1]);
            let (value_rows, buffer) = rest.split_at_mut(sizes[2]);
            rows_of(self.problem.k, head).pack(keys.clone(), 0..width, right, key_rows);
            columns_of(self.problem.k, head).pack(0..width, keys.clone(), right, key_columns);
            rows_of(self.problem.v, head).pack(keys.clone(), 0..value_width, right, value_rows);
            let height = kernel.left.rows(count);
            scratch::with(height * (wide + value_wide), |grads: &mut [E::Sum]| {
                grads.fill(Default::default());
                let (dk, dv) = grads.split_at_mut(height * wide);
                let packed_keys = PackedKeys { key_rows, key_columns, value_rows };
                self.queries(head, keys.clone(), packed_queries, &packed_keys, buffer, [sums, dk, dv]);
                let (dk, dv) = (&mut dk[..count * wide], &mut dv[..count * value_wide]);
                dispatch(Scale { row: &mut *dk, factor: self.scale() });
                // SAFETY: each block of keys belongs to one task.
                unsafe {
                    self.places[1].store(head, keys.start, Finished { values: dk, len: wide });
                    self.places[2].store(head, keys.start, Finished { values: dv, len: value_wide });
                }
            });
        });
    }

    /// Adds what all queries contribute to the gradients (but for the scale) of the queries, and of one block of keys and
    /// values.
    fn queries(
        &self,
        head: usize,
        keys: Range<usize>,
        packed_queries: &PackedQueries<E>,
        packed_keys: &PackedKeys<E>,
        buffer: &mut [E],
        [sums, dk, dv]: [&mut [E::Sum]; 3],
    ) {
        let Problem { kernel, queries, width, value_width, .. } = self.problem;
        let (left, count) = (kernel.left, keys.len());
        let (lines, causal) = (self.problem.in_lines(), self.problem.scores.causal);
        let first = if causal { keys.start / QUERIES * QUERIES } else { 0 };
        let (wide, value_wide) = (kernel.right.rows(width), kernel.right.rows(value_width));
        let (deep, value_deep, height) = (left.depth(width), left.depth(value_width), left.rows(count));
        let (buffer, packed) = buffer.split_at_mut(QUERIES * KEYS);
        scratch::with(2 * QUERIES * KEYS, |blocks: &mut [E::Sum]| {
            let (weights, grads) = blocks.split_at_mut(QUERIES * KEYS);
            for start in (first..queries).step_by(QUERIES) {
                let block = start..queries.min(start + QUERIES);
                let (tall, depth) = (left.rows(block.len()), left.depth(block.len()));
                // The keys that the last query of a strip may attend to, and the first query that attends to a strip of keys.
                let last = |rows: Range<usize>| self.problem.allowed(start + rows.end - 1, &keys);
                let from = |rows: Range<usize>| {
                    let earlier = if causal { (keys.start + rows.start).saturating_sub(start) } else { 0 };
                    earlier.min(depth)..depth
                };
                let left = &packed_queries.rows[start * deep..][..tall * deep];
                let q = Strips { left, lines, right: packed_keys.key_rows, deep };
                q.multiply(&kernel, weights, KEYS, false, &|rows| (0..deep, last(rows)));
                let left = &packed_queries.grad_rows[start * value_deep..][..tall * value_deep];
                let g = Strips { left, lines, right: packed_keys.value_rows, deep: value_deep };
                g.multiply(&kernel, grads, KEYS, false, &|rows| (0..value_deep, last(rows)));
                self.weigh(head, block.clone(), keys.clone(), packed_queries.deltas, weights, grads);
                self.problem.pack_columns(weights, [block.len(), count], buffer, packed);
                let right = &packed_queries.grad_columns[start * value_wide..][..depth * value_wide];
                let transposed = Strips { left: &packed[..height * depth], lines: false, right, deep: depth };
                transposed.multiply(&kernel, dv, value_wide, true, &|rows| (from(rows), value_wide));
                self.problem.pack_columns(grads, [block.len(), count], buffer, packed);
                let right = &packed_queries.columns[start * wide..][..depth * wide];
                let transposed = Strips { left: &packed[..height * depth], lines: false, right, deep: depth };
                transposed.multiply(&kernel, dk, wide, true, &|rows| (from(rows), wide));
                let long = kernel.left.depth(count);
                if !lines {
                    self.problem.pack_rows(grads, count, buffer, packed);
                }
                let left = if lines { &buffer[..tall * long] } else { &packed[..tall * long] };
                let grads = Strips { left, lines, right: packed_keys.key_columns, deep: long };
                grads.multiply(&kernel, &mut sums[start * wide..], wide, true, &|rows| (0..last(rows), wide));
            }
        });
    }

    /// Turns a block of scores into weights and of gradients of weights into those of scores; zero outside of the block.
    fn weigh(
        &self,
        head: usize,
        queries: Range<usize>,
        keys: Range<usize>,
        deltas: &[E::Sum],
        weights: &mut [E::Sum],
        grads: &mut [E::Sum],
    ) {
        let rows = weights.chunks_exact_mut(KEYS).zip(grads.chunks_exact_mut(KEYS));
        for (i, (scores, grads)) in rows.enumerate() {
            let query = queries.start + i;
            if query >= queries.end {
                scores.fill(Default::default());
                grads.fill(Default::default());
                continue;
            }
            let allowed = self.problem.allowed(query, &keys);
            let ((scores, no_scores), (grads, no_grads)) = (scores.split_at_mut(allowed), grads.split_at_mut(allowed));
            no_scores.fill(Default::default());
            no_grads.fill(Default::default());
            let scale = self.problem.mask(head, query, keys.start, scores);
            let lse = self.lse[head * self.problem.queries + query];
            dispatch(ScoreGrads { scores, scale, grads, lse, delta: deltas[query] });
        }
    }
}

/// A block of keys and values in the forms that the products want.
struct PackedKeys<'a, E> {
    /// Keys and values as right sides.
    key_rows: &'a [E],
    value_rows: &'a [E],
    /// Keys as right sides that sum over the keys.
    key_columns: &'a [E],
}
