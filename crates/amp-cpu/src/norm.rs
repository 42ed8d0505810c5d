//! Layer, RMS, group, instance and batch normalisation in one pair of kernels.
//!
//! Statistics are taken in F32 (F64 for F64) from blocks in two passes, merged with Chan's formula. Every element is
//! loaded, normalised, scaled and rounded to the output's precision once.

use crate::fold::{Axes, middle};
use crate::num::{Real, in_real};
use crate::span::Span;
use crate::split::for_chunks;
use crate::variance::{Moments, moments};
use crate::{DType, Storage, View};

/// Elements of one piece of work.
pub(crate) const WORK: usize = 1 << 14;

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

/// Rows of elements with shared statistics, and how parameters repeat along them.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub len: usize,
    /// Parameters altogether.
    pub channels: usize,
    /// Consecutive elements with one parameter.
    pub repeat: usize,
}

impl Rows {
    /// Rows of `x` for a kind other than `Batch`; for `Batch`, the samples.
    pub fn new(x: &View, kind: NormKind) -> Self {
        let (shape, count) = (&x.layout.shape, x.layout.count());
        match kind {
            NormKind::Layer { inner } | NormKind::Rms { inner } => {
                Self { rows: count.checked_div(inner).unwrap_or(0), len: inner, channels: inner, repeat: 1 }
            }
            NormKind::Group { .. } | NormKind::Batch => {
                let groups = if let NormKind::Group { groups } = kind { groups } else { 1 };
                let (channels, repeat) = (shape[1], shape[2..].iter().product());
                Self { rows: shape[0] * groups, len: channels / groups.max(1) * repeat, channels, repeat }
            }
        }
    }

    /// Rows that one piece of work takes: a number that depends on sizes alone.
    pub fn per_piece(&self) -> usize {
        (WORK / self.len.max(1)).clamp(1, 64)
    }

    /// The first parameter of `row`.
    pub fn first_channel(&self, row: usize) -> usize {
        row * (self.len / self.repeat.max(1)) % self.channels.max(1)
    }
}

/// A row's statistics of each kind, in the type of computation.
pub(crate) struct Statistics<A> {
    pub mean: A,
    pub var: A,
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
            NormKind::Batch => batch::<A>(x, rows, &weight, &bias, eps, out),
            _ => by_row::<A>(x, rows, kind, &weight, &bias, eps, out),
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
        let mean = parameters::<A>(Some(mean), rows.channels, 0.0);
        let scale: Vec<A> = parameters::<A>(Some(var), rows.channels, 1.0).iter().zip(&weight).map(|(&v, &w)| rstd(v, eps) * w).collect();
        per_channel(x, rows, out, |line, channel, _| {
            affine(line, mean[channel], scale[channel], bias[channel]);
        })
    })
}

pub(crate) fn rstd<A: Real>(var: A, eps: f64) -> A {
    A::ONE / (var + A::of(eps)).sqrt()
}

/// All elements of a parameter, or `default` for each of `channels`.
pub(crate) fn parameters<A: Real>(parameter: Option<&View>, channels: usize, default: f64) -> Vec<A> {
    let mut values = vec![A::of(default); channels];
    if let Some(view) = parameter {
        Span::row_major(view).load(0, &mut values);
    }
    values
}

fn by_row<A: Real>(x: &View, rows: Rows, kind: NormKind, weight: &[A], bias: &[A], eps: f64, out: DType) -> Normalized {
    let span = Span::row_major(x);
    let mut y = Storage::unwritten(out, rows.rows * rows.len);
    let per_piece = rows.per_piece();
    let statistics = for_chunks(&mut y, per_piece * rows.len, |i, mut piece| {
        let mut line = vec![A::ZERO; rows.len];
        let mut one = |j: usize| {
            let row = i * per_piece + j;
            span.load(row * rows.len, &mut line);
            let s = statistics(&line, kind);
            let (scale, first) = (rstd(s.var, eps), rows.first_channel(row));
            scale_row(&mut line, s.mean, scale, &weight[first..], &bias[first..], rows.repeat);
            A::narrow(&line, &mut piece.range(j * rows.len, rows.len));
            s
        };
        (0..per_piece.min(rows.rows - i * per_piece)).map(&mut one).collect::<Vec<_>>()
    });
    let statistics: Vec<_> = statistics.into_iter().flatten().collect();
    finished(y, statistics, eps)
}

fn finished<A: Real>(y: Storage, statistics: Vec<Statistics<A>>, eps: f64) -> Normalized {
    Normalized {
        y,
        mean: A::storage(statistics.iter().map(|s| s.mean).collect()),
        var: A::storage(statistics.iter().map(|s| s.var).collect()),
        rstd: A::storage(statistics.iter().map(|s| rstd(s.var, eps)).collect()),
    }
}

fn statistics<A: Real>(line: &[A], kind: NormKind) -> Statistics<A> {
    if let NormKind::Rms { .. } = kind {
        let count = A::of(line.len() as f64);
        return Statistics { mean: A::ZERO, var: crate::fold::sum_of(line, &|x| x * x) / count };
    }
    let m = line_moments(line);
    Statistics { mean: m.mean, var: m.squares / m.count }
}

fn line_moments<A: Real>(line: &[A]) -> Moments<A> {
    match middle(line.len()) {
        None => Moments::of(line),
        Some(m) => line_moments(&line[..m]).join(line_moments(&line[m..])),
    }
}

fn scale_row<A: Real>(line: &mut [A], mean: A, rstd: A, weight: &[A], bias: &[A], repeat: usize) {
    if repeat == 1 {
        for ((x, &w), &b) in line.iter_mut().zip(weight).zip(bias) {
            *x = (*x - mean) * rstd * w + b;
        }
    } else {
        for ((x, &w), &b) in line.chunks_mut(repeat.max(1)).zip(weight).zip(bias) {
            affine(x, mean, rstd * w, b);
        }
    }
}

fn affine<A: Real>(line: &mut [A], mean: A, scale: A, shift: A) {
    line.iter_mut().for_each(|x| *x = (*x - mean) * scale + shift);
}

fn batch<A: Real>(x: &View, rows: Rows, weight: &[A], bias: &[A], eps: f64, out: DType) -> Normalized {
    let others: Vec<usize> = (0..x.layout.shape.len()).filter(|&a| a != 1).collect();
    let statistics: Vec<_> = moments::<A>(x, &Axes::new(x, &others))
        .iter()
        .map(|m| Statistics { mean: m.mean, var: m.squares / m.count })
        .collect();
    let scale: Vec<A> = statistics.iter().zip(weight).map(|(s, &w)| rstd(s.var, eps) * w).collect();
    let y = per_channel(x, rows, out, |line, channel, _| {
        affine(line, statistics[channel].mean, scale[channel], bias[channel])
    });
    finished(y, statistics, eps)
}

/// Changes the run of each channel of each sample in place: `f(run, channel, position of its first element)`.
pub(crate) fn per_channel<A: Real>(
    x: &View,
    rows: Rows,
    out: DType,
    f: impl Fn(&mut [A], usize, usize) + Sync,
) -> Storage {
    let span = Span::row_major(x);
    let mut y = Storage::unwritten(out, rows.rows * rows.len);
    let runs = (WORK / rows.repeat.max(1)).max(1);
    for_chunks(&mut y, runs * rows.repeat, |i, mut piece| {
        let first = i * runs;
        let mut line = vec![A::ZERO; piece.len()];
        span.load(first * rows.repeat, &mut line);
        for (j, run) in line.chunks_mut(rows.repeat).enumerate() {
            f(run, (first + j) % rows.channels, (first + j) * rows.repeat);
        }
        A::narrow(&line, &mut piece);
    });
    y
}
