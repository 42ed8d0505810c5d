//! Layer, RMS, group, instance and batch normalisation in one pair of kernels.
//!
//! Statistics are taken in F32 (F64 for F64) from blocks in two passes, merged with Chan's formula. Every element is
//! loaded, normalised, scaled and rounded to the output's precision once.

mod batch;
mod grad;
mod rows;
#[cfg(test)]
mod tests;

pub use batch::{batch_norm_relu, batch_norm_relu_grad};
pub use grad::{NormGrads, normalize_grad};
pub(crate) use rows::parameters;

use crate::line::{Span, store};
use crate::lockstep::Upcoming;
use crate::num::{Real, in_real};
use crate::reduce::Moments;
use crate::reduce::block::{Square, sum_of};
use crate::simd::{Kernel, LANES, Level, Simd, dispatch};
use crate::split::for_chunks;
use crate::{DType, Storage, View, scratch};
use rows::{Rows, SHORT};

/// Which elements share their statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// The last `inner` elements (the product of the normalised sizes); weight and bias per element.
    Layer {
        /// Elements of one row.
        inner: usize,
    },
    /// As `Layer`, divided by the root of the mean square without taking the mean away.
    Rms {
        /// Elements of one row.
        inner: usize,
    },
    /// A group of neighbouring channels of one sample of `[N, C, ...]`; weight and bias per channel.
    ///
    /// With as many groups as channels this is instance normalisation.
    Group {
        /// Groups of one sample.
        groups: usize,
    },
    /// One channel of all samples of `[N, C, ...]`; weight and bias per channel.
    Batch,
}

/// What [`normalize`] computes.
#[derive(Debug)]
pub struct Normalized {
    /// `(x - mean) * rstd * weight + bias`
    pub y: Storage,
    /// Means, one per row, group of a sample or channel; zeros for `Rms`.
    pub mean: Storage,
    /// Variances without correction (mean squares for `Rms`).
    pub var: Storage,
    /// `1 / sqrt(var + eps)`
    pub rstd: Storage,
}

/// Statistics of one row, group or channel.
struct Statistics<A> {
    mean: A,
    var: A,
}

impl<A: Real> Statistics<A> {
    /// Those of a row; its mean counts as 0 for the `root` of the mean square.
    #[inline(always)]
    fn of_row<S: Simd>(x: &[A], root: bool) -> Self {
        if root {
            return Self { mean: A::ZERO, var: sum_of::<S, A>(x, Square(A::ZERO)) / A::of(x.len() as f64) };
        }
        let m = Moments::of_line::<S>(x);
        Self { mean: m.mean, var: m.squares / m.count }
    }

    fn rstd(&self, eps: f64) -> A {
        A::ONE / (self.var + A::of(eps)).sqrt()
    }
}

/// Normalises `x` over the elements that `kind` groups together.
///
/// PyTorch: `layer_norm`, `rms_norm`, `group_norm`, `instance_norm`, `batch_norm` in training. `weight` and `bias` have
/// one element per parameter (see [`NormKind`]). Statistics are F32, F64 for F64 input.
pub fn normalize(
    x: &View,
    kind: NormKind,
    weight: Option<&View>,
    bias: Option<&View>,
    eps: f64,
    out: DType,
) -> Normalized {
    in_real!(x.logical, A => {
        let rows = Rows::new(x, kind);
        let (weight, bias) = (parameters::<A>(weight, rows.channels, 1.0), parameters::<A>(bias, rows.channels, 0.0));
        match kind {
            NormKind::Batch => {
                let statistics = batch::taken::<A>(x, rows);
                finished(batch::standardize(x, rows, &statistics, (weight, bias), eps, None, out).0, statistics, eps)
            }
            _ => {
                let root = matches!(kind, NormKind::Rms { .. });
                let rule = Rule { rows, root, eps, weight: &weight, bias: &bias };
                let by_row = if rows.has_all_parameters() && (1..=SHORT).contains(&rows.len) { short::<A> } else { by_row::<A> };
                by_row(&Span::row_major(x), &rule, out)
            }
        }
    })
}

/// Normalises each channel of `x` `[N, C, ...]` by given statistics: PyTorch's `batch_norm` in evaluation.
pub fn normalize_with(
    x: &View,
    mean: &View,
    var: &View,
    weight: Option<&View>,
    bias: Option<&View>,
    eps: f64,
    out: DType,
) -> Storage {
    in_real!(x.logical, A => {
        let rows = Rows::new(x, NormKind::Batch);
        let (weight, bias) = (parameters::<A>(weight, rows.channels, 1.0), parameters::<A>(bias, rows.channels, 0.0));
        let statistics = batch::given::<A>(mean, var, rows);
        batch::standardize(x, rows, &statistics, (weight, bias), eps, None, out).0
    })
}

/// What each row is normalised by.
struct Rule<'a, A> {
    rows: Rows,
    /// Root mean square: the mean counts as 0.
    root: bool,
    eps: f64,
    weight: &'a [A],
    bias: &'a [A],
}

fn by_row<A: Real>(span: &Span, rule: &Rule<'_, A>, out: DType) -> Normalized {
    let &Rule { rows, root, eps, weight, bias } = rule;
    let mut y = Storage::unwritten(out, rows.rows * rows.len);
    let per_piece = rows.per_piece();
    let statistics = for_chunks(&mut y, per_piece * rows.len, &|i, mut piece| {
        scratch::with(2 * rows.len, |buffer: &mut [A]| {
            let (from, to) = buffer.split_at_mut(rows.len);
            let mut one = |j: usize| {
                let row = i * per_piece + j;
                let x = span.read(row * rows.len, rows.len, from);
                let first = rows.first_channel(row);
                let (weight, bias, repeat) = (&weight[first..], &bias[first..], rows.repeat);
                store(&mut piece.range(j * rows.len, rows.len), to, |y| {
                    let next = rows.after(row, span);
                    dispatch(NormalizeRow { x, next, y, root, eps: A::of(eps), weight, bias, repeat })
                })
            };
            (0..per_piece.min(rows.rows - i * per_piece)).map(&mut one).collect::<Vec<_>>()
        })
    });
    finished(y, statistics.into_iter().flatten().collect(), eps)
}

/// [`by_row`] for short rows: as many as a piece of work has are loaded, normalised and stored together.
///
/// Finding each row, and the instructions for it, took as long as normalising 64 elements.
fn short<A: Real>(span: &Span, rule: &Rule<'_, A>, out: DType) -> Normalized {
    let Rows { rows, len, .. } = rule.rows;
    let mut y = Storage::unwritten(out, rows * len);
    let per_piece = rule.rows.per_piece();
    let statistics = for_chunks(&mut y, per_piece * len, &|i, mut piece| {
        let count = per_piece.min(rows - i * per_piece);
        scratch::with(2 * count * len, |buffer: &mut [A]| {
            let (from, to) = buffer.split_at_mut(count * len);
            let x = span.read(i * per_piece * len, count * len, from);
            let mut statistics = Vec::with_capacity(count);
            store(&mut piece, to, |y| dispatch(ShortRows { x, y, rule, statistics: &mut statistics }));
            statistics
        })
    });
    finished(y, statistics.into_iter().flatten().collect(), rule.eps)
}

/// Normalises short rows, one after the other.
struct ShortRows<'a, A> {
    x: &'a [A],
    y: &'a mut [A],
    rule: &'a Rule<'a, A>,
    statistics: &'a mut Vec<Statistics<A>>,
}

impl<A: Real> Kernel for ShortRows<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, y, rule, statistics } = self;
        for (x, y) in x.chunks_exact(rule.rows.len).zip(y.chunks_exact_mut(rule.rows.len)) {
            let taken = Statistics::of_row::<S>(x, rule.root);
            let (mean, rstd) = (taken.mean, taken.rstd(rule.eps));
            for (((y, &x), &w), &b) in y.iter_mut().zip(x).zip(rule.weight).zip(rule.bias) {
                *y = (x - mean) * rstd * w + b;
            }
            statistics.push(taken);
        }
    }
}

/// Elements that are computed for as many that are prefetched; a quarter of them took BF16 a fifth longer.
const PREFETCHED: usize = 16 * LANES;

/// Normalises one row and returns its statistics.
///
/// Three passes over a row in the first-level cache (sum, squares, result); reading it from memory and writing it there
/// take longer than all three.
struct NormalizeRow<'a, A> {
    x: &'a [A],
    /// Where a later row lies.
    next: Upcoming,
    y: &'a mut [A],
    /// Root mean square: the mean counts as 0.
    root: bool,
    eps: A,
    weight: &'a [A],
    bias: &'a [A],
    repeat: usize,
}

impl<A: Real> Kernel for NormalizeRow<'_, A> {
    type Output = Statistics<A>;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> Statistics<A> {
        let Self { x, next, y, root, eps, weight, bias, repeat } = self;
        let Statistics { mean, var } = Statistics::of_row::<S>(x, root);
        let rstd = A::ONE / (var + eps).sqrt();
        if repeat == 1 {
            let chunks = y
                .chunks_mut(PREFETCHED)
                .zip(x.chunks(PREFETCHED))
                .zip(weight.chunks(PREFETCHED).zip(bias.chunks(PREFETCHED)));
            for (i, ((y, x), (weight, bias))) in chunks.enumerate() {
                for at in (i * PREFETCHED..(i + 1) * PREFETCHED).step_by(LANES) {
                    next.prefetch(at);
                }
                for (((y, &x), &w), &b) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                    *y = (x - mean) * rstd * w + b;
                }
            }
        } else {
            let runs = y.chunks_mut(repeat.max(1)).zip(x.chunks(repeat.max(1)));
            for (((y, x), &w), &b) in runs.zip(weight).zip(bias) {
                let scale = rstd * w;
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = (x - mean) * scale + b);
            }
        }
        Statistics { mean, var }
    }
}

fn finished<A: Real>(y: Storage, statistics: Vec<Statistics<A>>, eps: f64) -> Normalized {
    Normalized {
        y,
        mean: A::storage(statistics.iter().map(|s| s.mean).collect()),
        var: A::storage(statistics.iter().map(|s| s.var).collect()),
        rstd: A::storage(statistics.iter().map(|s| s.rstd(eps)).collect()),
    }
}
