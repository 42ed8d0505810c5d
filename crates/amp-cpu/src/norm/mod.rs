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
use crate::output::Output;
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

/// What a row is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// The standard deviation; its mean is taken away.
    Deviation,
    /// The root of the mean square; its mean counts as 0.
    Root,
    /// It is normalised already.
    Nothing,
}

impl From<NormKind> for By {
    fn from(kind: NormKind) -> Self {
        if matches!(kind, NormKind::Rms { .. }) { Self::Root } else { Self::Deviation }
    }
}

/// Statistics of one row, group or channel.
struct Statistics<A> {
    mean: A,
    var: A,
}

impl<A: Real> Statistics<A> {
    #[inline(always)]
    fn of_row<S: Simd>(x: &[A], by: By) -> Self {
        match by {
            By::Deviation => {
                let m = Moments::of_line::<S>(x);
                Self { mean: m.mean, var: m.squares / m.count }
            }
            By::Root => Self { mean: A::ZERO, var: sum_of::<S, A>(x, Square(A::ZERO)) / A::of(x.len() as f64) },
            By::Nothing => Self { mean: A::ZERO, var: A::ONE },
        }
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
            _ => by_row(x, &Rule { rows, by: By::from(kind), eps, weight: &weight, bias: &bias }, out, None),
        }
    })
}

/// As [`normalize`], not for statistics of batches, and `(x - mean) * rstd` of each element, rounded to the second of `out`.
pub fn normalize_keeping(
    x: &View,
    kind: NormKind,
    weight: Option<&View>,
    bias: Option<&View>,
    eps: f64,
    (out, kept): (DType, DType),
) -> (Normalized, Storage) {
    in_real!(x.logical, A => {
        let rows = Rows::new(x, kind);
        let (weight, bias) = (parameters::<A>(weight, rows.channels, 1.0), parameters::<A>(bias, rows.channels, 0.0));
        let mut normal = Storage::unwritten(kept, rows.rows * rows.len);
        let rule = Rule { rows, by: By::from(kind), eps, weight: &weight, bias: &bias };
        (by_row(x, &rule, out, Some(Output::new(&mut normal))), normal)
    })
}

/// `normal * weight + bias`, of what [`normalize_keeping`] kept.
pub fn normalize_again(
    normal: &View,
    kind: NormKind,
    weight: Option<&View>,
    bias: Option<&View>,
    out: DType,
) -> Storage {
    in_real!(normal.logical, A => {
        let rows = Rows::new(normal, kind);
        let (weight, bias) = (parameters::<A>(weight, rows.channels, 1.0), parameters::<A>(bias, rows.channels, 0.0));
        by_row(normal, &Rule { rows, by: By::Nothing, eps: 0.0, weight: &weight, bias: &bias }, out, None).y
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
    by: By,
    eps: f64,
    weight: &'a [A],
    bias: &'a [A],
}

/// Normalises each row; what is `kept` of it has no parameters yet.
fn by_row<A: Real>(x: &View, rule: &Rule<'_, A>, out: DType, kept: Option<Output<'_>>) -> Normalized {
    let (rows, span) = (&rule.rows, Span::row_major(x));
    let is_short = rows.has_all_parameters() && (1..=SHORT).contains(&rows.len);
    let by_row = if is_short { short::<A> } else { one_by_one::<A> };
    by_row(&span, rule, out, kept)
}

fn one_by_one<A: Real>(span: &Span, rule: &Rule<'_, A>, out: DType, kept: Option<Output<'_>>) -> Normalized {
    let &Rule { rows, by, eps, weight, bias } = rule;
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
                let taken = store(&mut piece.range(j * rows.len, rows.len), &mut *to, |y| {
                    let next = rows.after(row, span);
                    dispatch(NormalizeRow { x, next, y, by, eps: A::of(eps), weight, bias, repeat })
                });
                if let Some(kept) = &kept {
                    keep(kept, row * rows.len, (x, rows.len), std::slice::from_ref(&taken), eps, to);
                }
                taken
            };
            (0..per_piece.min(rows.rows - i * per_piece)).map(&mut one).collect::<Vec<_>>()
        })
    });
    finished(y, statistics.into_iter().flatten().collect(), eps)
}

/// [`one_by_one`] for short rows: as many as a piece of work has are loaded, normalised and stored together.
///
/// Finding each row, and the instructions for it, took as long as normalising 64 elements.
fn short<A: Real>(span: &Span, rule: &Rule<'_, A>, out: DType, kept: Option<Output<'_>>) -> Normalized {
    let Rows { rows, len, .. } = rule.rows;
    let mut y = Storage::unwritten(out, rows * len);
    let per_piece = rule.rows.per_piece();
    let statistics = for_chunks(&mut y, per_piece * len, &|i, mut piece| {
        let count = per_piece.min(rows - i * per_piece);
        scratch::with(2 * count * len, |buffer: &mut [A]| {
            let (from, to) = buffer.split_at_mut(count * len);
            let x = span.read(i * per_piece * len, count * len, from);
            let mut statistics = Vec::with_capacity(count);
            store(&mut piece, &mut *to, |y| dispatch(ShortRows { x, y, rule, statistics: &mut statistics }));
            if let Some(kept) = &kept {
                keep(kept, i * per_piece * len, (x, len), &statistics, rule.eps, to);
            }
            statistics
        })
    });
    finished(y, statistics.into_iter().flatten().collect(), rule.eps)
}

/// Writes rows `x` of `len` elements, normalised, to `kept` from `at` on.
fn keep<A: Real>(
    kept: &Output<'_>,
    at: usize,
    (x, len): (&[A], usize),
    statistics: &[Statistics<A>],
    eps: f64,
    normal: &mut [A],
) {
    dispatch(Standardize { x, len, statistics, eps, normal });
    // SAFETY: each row has its own elements.
    unsafe { kept.store(at, 1, normal) };
}

/// `normal ← (x - mean) * rstd` for rows of `len` elements.
struct Standardize<'a, A> {
    x: &'a [A],
    len: usize,
    statistics: &'a [Statistics<A>],
    eps: f64,
    normal: &'a mut [A],
}

impl<A: Real> Kernel for Standardize<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, len, statistics, eps, normal } = self;
        let rows = normal.chunks_exact_mut(len).zip(x.chunks_exact(len));
        for ((normal, x), of) in rows.zip(statistics) {
            let (mean, rstd) = (of.mean, of.rstd(eps));
            normal.iter_mut().zip(x).for_each(|(normal, &x)| *normal = (x - mean) * rstd);
        }
    }
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
            let taken = Statistics::of_row::<S>(x, rule.by);
            let (mean, rstd) = (taken.mean, taken.rstd(rule.eps));
            for (((y, &x), &w), &b) in y.iter_mut().zip(x).zip(rule.weight).zip(rule.bias) {
                *y = (x - mean) * rstd * w + b;
            }
            statistics.push(taken);
        }
    }
}

/// Elements that are computed for as many that are asked for; a quarter of them took BF16 a fifth longer.
const ASKED: usize = 16 * LANES;

/// Normalises one row and returns its statistics.
///
/// Three passes over a row in the first-level cache (sum, squares, result); reading it from memory and writing it there
/// take longer than all three.
struct NormalizeRow<'a, A> {
    x: &'a [A],
    /// Where a later row lies.
    next: Upcoming,
    y: &'a mut [A],
    by: By,
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
        let Self { x, next, y, by, eps, weight, bias, repeat } = self;
        let Statistics { mean, var } = Statistics::of_row::<S>(x, by);
        let rstd = A::ONE / (var + eps).sqrt();
        if repeat == 1 {
            let chunks = y.chunks_mut(ASKED).zip(x.chunks(ASKED)).zip(weight.chunks(ASKED).zip(bias.chunks(ASKED)));
            for (i, ((y, x), (weight, bias))) in chunks.enumerate() {
                for at in (i * ASKED..(i + 1) * ASKED).step_by(LANES) {
                    next.ask(at);
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
