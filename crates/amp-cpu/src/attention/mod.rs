//! Scaled dot-product attention and its gradient as in FlashAttention: a block of keys at a time, with an online softmax forwards
//! and weights that are recomputed backwards, so that the score matrix never exists.
//!
//! A causal mask is a matter of bounds: what lies beyond it is neither multiplied nor exponentiated, and left sides are lines
//! where the kernel takes them ([`Strips`](crate::gemm::product::Strips)). With that, on an AMD EPYC of the Zen 5 family, 48
//! causal heads of 256 by 64 in BF16 take 4.0 ms of one core forwards and 7.0 ms backwards, instead of 5.0 and 8.0. Products
//! are less than a third of it; exponentials, whose rows of 96 are too short to hide latencies, are another forwards.

mod backward;
mod decode;
mod forward;
mod grads;
mod softmax;
#[cfg(test)]
mod tests;

use crate::convert::Compute;
use crate::gemm::dot;
use crate::gemm::kernel::{MicroKernel, Multiply};
use crate::gemm::operand::{Matrix, Operand};
use crate::load::{computes_in_f64, offset_of, prefetch_range};
use crate::math::Float;
use crate::num::Num;
use crate::simd::{Level, dispatch};
use crate::{DType, Slice, SliceMut, Storage, View};
pub use grads::{AttentionGrads, take_apart};
use half::bf16;
use softmax::Scale;
use std::ops::Range;

/// Result of [`attention`].
pub struct Attended {
    /// `[B, T, H, E]`, rounded once to the precision that was asked for: the heads of a query are neighbours, as the
    /// projection wants them that most often follows.
    pub y: Storage,
    /// Logarithm of the sum of exponentials of each row of scores, `[B, H, T]`, F32 (F64 for F64 operands).
    pub lse: Storage,
}

/// Which scores count and what they are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'a> {
    /// `[B, H, T, S]`, true where a query may attend to a key.
    pub mask: Option<View<'a>>,
    /// Whether query `t` attends to keys `0..=t` only.
    pub causal: bool,
    /// Factor of the dot products.
    pub scale: f64,
}

/// `softmax(scale * q · kᵀ) · v` for `q` `[B, H, T, D]`, `k` `[B, H, S, D]`, `v` `[B, H, S, E]`.
///
/// Scores, statistics and sums in F32 (F64 for F64 operands); the result is rounded once. Where BF16 operands are
/// multiplied as BF16, so are the weights, each rounded once before it is multiplied (as PyTorch's flash attention does), but
/// for a few queries; their sums are those of the weights before. A query that may attend to no key gives zeros.
pub fn attention(q: &View, k: &View, v: &View, scores: &Scores, out: DType) -> Attended {
    if computes_in_f64(q) {
        forward::run::<f64>(q, k, v, scores, out)
    } else if q.layout.shape[2] <= decode::QUERIES && k.layout.shape[2] > 0 {
        decode::run(q, k, v, scores, out)
    } else if dot::multiplies(q, k) && dot::multiplies(q, v) {
        forward::run::<bf16>(q, k, v, scores, out)
    } else {
        forward::run::<f32>(q, k, v, scores, out)
    }
}

/// Gradients of [`attention`] with respect to `q`, `k` and `v`, from that of its result, the result and `lse`.
///
/// Sums in F32 (F64 for F64 operands), each rounded once to `out`. Where BF16 operands are multiplied as BF16, the weights
/// and the gradients of the scores are rounded once before they are multiplied. Operands that are a buffer taken apart, as one
/// projection's queries, keys and values, have their gradients in one buffer too, so nobody has to put them together.
pub fn attention_grad(
    grad: &View,
    qkv: [&View; 3],
    y: &View,
    lse: &Storage,
    scores: &Scores,
    out: DType,
) -> AttentionGrads<Storage> {
    if computes_in_f64(grad) {
        backward::run::<f64>(grad, qkv, y, lse, scores, out)
    } else if qkv.iter().all(|operand| dot::multiplies(grad, operand)) {
        backward::run::<bf16>(grad, qkv, y, lse, scores, out)
    } else {
        backward::run::<f32>(grad, qkv, y, lse, scores, out)
    }
}

/// Queries and keys of a block: multiples of every kernel's rows, columns and steps.
const QUERIES: usize = 96;
const KEYS: usize = 96;
/// Rows of an operand that are prefetched.
const AHEAD: usize = 16;

/// Types that the products of an attention are packed in.
trait Attend: Multiply {
    /// Rounds weights or gradients of scores.
    fn round(from: &[Self::Sum], to: &mut [Self]);
}

impl Attend for f32 {
    fn round(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
}

impl Attend for f64 {
    fn round(from: &[f64], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
}

impl Attend for bf16 {
    fn round(from: &[f32], to: &mut [Self]) {
        f32::narrow(from, &mut SliceMut::BF16(to));
    }
}

/// The sizes of an attention, with its operands.
struct Problem<'a, E: Attend> {
    kernel: MicroKernel<E>,
    q: &'a View<'a>,
    k: &'a View<'a>,
    v: &'a View<'a>,
    scores: &'a Scores<'a>,
    /// Batch times heads.
    heads: usize,
    /// Heads of one element of the batch.
    neighbours: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
}

impl<'a, E: Attend> Problem<'a, E> {
    fn new(q: &'a View<'a>, k: &'a View<'a>, v: &'a View<'a>, scores: &'a Scores<'a>) -> Self {
        let [batch, heads, queries, width] = std::array::from_fn(|i| q.layout.shape[i]);
        let (keys, value_width) = (k.layout.shape[2], v.layout.shape[3]);
        let kernel = E::kernel(Level::current());
        debug_assert!([QUERIES, KEYS].iter().all(|n| {
            [kernel.left.width, kernel.right.width, kernel.left.step].iter().all(|size| n.is_multiple_of(*size))
        }));
        Self { kernel, q, k, v, scores, heads: batch * heads, neighbours: heads, queries, keys, width, value_width }
    }

    /// Whether left sides are lines, one row after the other, and not panels.
    fn in_lines(&self) -> bool {
        self.kernel.direct.is_some()
    }

    /// Packs some rows of an operand as a left side that sums over its columns.
    fn pack_operand(&self, operand: &Matrix, rows: Range<usize>, out: &mut [E]) {
        let (left, width) = (self.kernel.left, operand.depth);
        if !self.in_lines() || width == 0 {
            return operand.pack(rows, 0..width, left, out);
        }
        for (row, line) in rows.clone().zip(out.chunks_exact_mut(left.depth(width))) {
            // Rows of a head lie too far apart for the hardware to see a pattern.
            prefetch_range(operand.view.data, operand.offset + (row + AHEAD) * operand.row_stride, width);
            E::load(&operand.view, operand.offset + row * operand.row_stride, operand.depth_stride, &mut line[..width]);
            line[width..].fill(E::default());
        }
        out[rows.len() * left.depth(width)..].fill(E::default());
    }

    /// Packs `count` columns of rows of a block, rounded, as a left side that sums over the columns.
    fn pack_rows(&self, rows: &[E::Sum], count: usize, lines: &mut [E], out: &mut [E]) {
        let (left, depth) = (self.kernel.left, self.kernel.left.depth(count));
        let round = |rows: &[E::Sum], lines: &mut [E]| {
            for (row, line) in rows.chunks_exact(KEYS).zip(lines.chunks_exact_mut(depth)) {
                E::round(&row[..count], &mut line[..count]);
                line[count..].fill(E::default());
            }
        };
        if self.in_lines() {
            return round(rows, out);
        }
        let lines = &mut lines[..left.width * depth];
        for (rows, out) in rows.chunks_exact(left.width * KEYS).zip(out.chunks_exact_mut(left.width * depth)) {
            round(rows, lines);
            left.interleave(lines, depth, depth, out);
        }
    }

    /// How many of the keys `keys` a query may attend to, but for the mask.
    fn allowed(&self, query: usize, keys: &Range<usize>) -> usize {
        if self.scores.causal { (query + 1).saturating_sub(keys.start).min(keys.len()) } else { keys.len() }
    }

    /// Packs the transpose of the first `rows` rows of a block, rounded, as a left side that sums over the rows: `count`
    /// columns, and what may stand in for more. `lines` then holds the rounded rows, padded to a left side's depth.
    fn pack_columns(&self, block: &[E::Sum], [rows, count]: [usize; 2], lines: &mut [E], out: &mut [E]) {
        let (left, depth, long) = (self.kernel.left, self.kernel.left.depth(rows), self.kernel.left.depth(count));
        for (d, line) in lines.chunks_exact_mut(long).take(depth).enumerate() {
            if d < rows {
                E::round(&block[d * KEYS..][..long], line);
            } else {
                line.fill(E::default());
            }
        }
        let panels = left.rows(count) / left.width;
        left.interleave_across(lines, long, [depth / left.group, panels], left.width * depth, out);
    }

    /// Where the result of a query begins.
    fn place(&self, head: usize, query: usize) -> usize {
        let (element, neighbour) = (head / self.neighbours, head % self.neighbours);
        ((element * self.queries + query) * self.neighbours + neighbour) * self.value_width
    }

    /// Multiply-adds of one of the products.
    fn work(&self) -> usize {
        self.heads * self.queries * self.keys * (self.width + self.value_width) / if self.scores.causal { 2 } else { 1 }
    }

    /// The first key that no query before `query` may attend to.
    fn end_of_keys(&self, query: usize) -> usize {
        if self.scores.causal { self.keys.min(query) } else { self.keys }
    }

    /// Multiplies a row of scores, of keys `first..`, by the scale, and writes -inf where the mask forbids to attend. Without
    /// a mask does neither, and returns the scale that is left to be multiplied by.
    fn mask(&self, head: usize, query: usize, first: usize, row: &mut [E::Sum]) -> E::Sum {
        let scale = E::Sum::of(self.scores.scale);
        let Some(mask) = &self.scores.mask else { return scale };
        dispatch(Scale { row: &mut *row, factor: scale });
        let Slice::Bool(allowed) = mask.data else { unreachable!("masks are Bool") };
        let (shape, strides) = (&mask.layout.shape, &mask.layout.strides);
        let start = mask.layout.offset + offset_of(head, &shape[..2], &strides[..2]) + query * strides[2];
        for (i, score) in row.iter_mut().enumerate() {
            if !allowed[start + (first + i) * strides[3]] {
                *score = E::Sum::LEAST;
            }
        }
        E::Sum::ONE
    }
}

/// One head of `[B, H, rows, columns]` as a list of its rows.
fn rows_of<'a>(view: &View<'a>, head: usize) -> Matrix<'a> {
    let (shape, strides) = (&view.layout.shape, &view.layout.strides);
    Matrix {
        view: *view,
        offset: view.layout.offset + offset_of(head, &shape[..2], &strides[..2]),
        rows: shape[2],
        depth: shape[3],
        row_stride: strides[2],
        depth_stride: strides[3],
    }
}

/// One head as a list of its columns.
fn columns_of<'a>(view: &View<'a>, head: usize) -> Matrix<'a> {
    let m = rows_of(view, head);
    Matrix { rows: m.depth, depth: m.rows, row_stride: m.depth_stride, depth_stride: m.row_stride, ..m }
}
