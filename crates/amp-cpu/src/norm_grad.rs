//! Gradients of the normalisations.

use crate::fold::{dot_of, sum_of};
use crate::norm::{NormKind, Rows, parameters, per_channel};
use crate::num::{Real, in_real};
use crate::span::Span;
use crate::split::for_chunks;
use crate::{DType, Storage, View};

/// Gradients of [`normalize`](crate::normalize) with respect to its arguments.
#[derive(Debug)]
pub struct NormGrads {
    /// With respect to the input.
    pub x: Storage,
    /// With respect to the weight; F32, F64 for F64 input.
    pub weight: Storage,
    /// With respect to the bias; F32, F64 for F64 input.
    pub bias: Storage,
}

/// Gradients of [`normalize`](crate::normalize) from the gradient of its output, its input and its statistics.
///
/// Parameter gradients are summed in F32 (F64) over pieces of rows whose number depends on sizes alone.
pub fn normalize_grad(
    grad: &View,
    x: &View,
    mean: &View,
    rstd: &View,
    weight: Option<&View>,
    kind: NormKind,
    out: DType,
) -> NormGrads {
    in_real!(x.logical, A => {
        let rows = Rows::new(x, kind);
        let rule = Rule::<A> {
            grad: Span::row_major(grad),
            x: Span::row_major(x),
            mean: parameters(Some(mean), mean.layout.count(), 0.0),
            rstd: parameters(Some(rstd), rstd.layout.count(), 0.0),
            weight: parameters(weight, rows.channels, 1.0),
            rows,
        };
        match kind {
            NormKind::Batch => rule.batch(grad, out),
            _ => rule.by_row(!matches!(kind, NormKind::Rms { .. }), out),
        }
    })
}

struct Rule<'a, A> {
    grad: Span<'a>,
    x: Span<'a>,
    mean: Vec<A>,
    rstd: Vec<A>,
    weight: Vec<A>,
    rows: Rows,
}

/// Sums over rows of the gradient times the normalised value, and of the gradient, per parameter.
struct Sums<A> {
    weight: Vec<A>,
    bias: Vec<A>,
}

impl<A: Real> Rule<'_, A> {
    fn by_row(&self, centred: bool, out: DType) -> NormGrads {
        let Rows { rows, len, channels, .. } = self.rows;
        let per_piece = self.rows.per_piece();
        let mut dx = Storage::unwritten(out, rows * len);
        let sums = for_chunks(&mut dx, per_piece * len, |i, mut piece| {
            let mut sums = Sums::new(channels);
            let (mut g, mut normal) = (vec![A::ZERO; len], vec![A::ZERO; len]);
            for j in 0..per_piece.min(rows - i * per_piece) {
                let row = i * per_piece + j;
                self.load(row, &mut g, &mut normal, Some(row));
                self.add(row, &g, &normal, &mut sums);
                self.input_gradient(row, &mut g, &normal, centred);
                A::narrow(&g, &mut piece.range(j * len, len));
            }
            sums
        });
        Sums::total(sums, channels).finished(dx)
    }

    fn batch(&self, grad: &View, out: DType) -> NormGrads {
        let Rows { rows, len, channels, .. } = self.rows;
        let per_piece = self.rows.per_piece();
        let pieces: Vec<usize> = (0..rows.div_ceil(per_piece)).collect();
        let sums = crate::split::map_all(&pieces, rows * len, |&i| {
            let mut sums = Sums::new(channels);
            let (mut g, mut normal) = (vec![A::ZERO; len], vec![A::ZERO; len]);
            for row in i * per_piece..((i + 1) * per_piece).min(rows) {
                self.load(row, &mut g, &mut normal, None);
                self.add(row, &g, &normal, &mut sums);
            }
            sums
        });
        let sums = Sums::total(sums, channels);
        let count = A::of((rows * self.rows.repeat) as f64);
        let dx = per_channel(grad, self.rows, out, |g: &mut [A], channel, first| {
            let (bias, slope) = (sums.bias[channel] / count, sums.weight[channel] / count);
            let (mean, rstd) = (self.mean[channel], self.rstd[channel]);
            let mut x = vec![A::ZERO; g.len()];
            self.x.load(first, &mut x);
            for (g, x) in g.iter_mut().zip(x) {
                *g = (*g - bias - (x - mean) * rstd * slope) * (rstd * self.weight[channel]);
            }
        });
        sums.finished(dx)
    }

    /// Loads a row of the gradient and of the normalised input, which uses the statistics `shared` or each channel's own.
    fn load(&self, row: usize, g: &mut [A], normal: &mut [A], shared: Option<usize>) {
        self.grad.load(row * self.rows.len, g);
        self.x.load(row * self.rows.len, normal);
        let run = if shared.is_some() { normal.len() } else { self.rows.repeat };
        for (channel, run) in normal.chunks_mut(run.max(1)).enumerate() {
            let group = shared.unwrap_or(channel);
            let (mean, rstd) = (self.mean[group], self.rstd[group]);
            run.iter_mut().for_each(|x| *x = (*x - mean) * rstd);
        }
    }

    fn add(&self, row: usize, g: &[A], normal: &[A], sums: &mut Sums<A>) {
        let (first, repeat) = (self.rows.first_channel(row), self.rows.repeat.max(1));
        let into = sums.weight[first..].iter_mut().zip(&mut sums.bias[first..]);
        if repeat == 1 {
            for ((w, b), (&g, &n)) in into.zip(g.iter().zip(normal)) {
                *w = *w + g * n;
                *b = *b + g;
            }
        } else {
            for ((w, b), (g, n)) in into.zip(g.chunks(repeat).zip(normal.chunks(repeat))) {
                *w = *w + dot_of(g, n);
                *b = *b + sum_of(g, &|g| g);
            }
        }
    }

    /// `g ← rstd (w g - mean(w g) - normal · mean(w g normal))`
    fn input_gradient(&self, row: usize, g: &mut [A], normal: &[A], centred: bool) {
        let (first, repeat) = (self.rows.first_channel(row), self.rows.repeat.max(1));
        if repeat == 1 {
            g.iter_mut().zip(&self.weight[first..]).for_each(|(g, &w)| *g = *g * w);
        } else {
            g.chunks_mut(repeat)
                .zip(&self.weight[first..])
                .for_each(|(run, &w)| run.iter_mut().for_each(|g| *g = *g * w));
        }
        let count = A::of(g.len() as f64);
        let shift = if centred { sum_of(g, &|g| g) / count } else { A::ZERO };
        let slope = dot_of(g, normal) / count;
        let rstd = self.rstd[row];
        g.iter_mut().zip(normal).for_each(|(g, &n)| *g = (*g - shift - n * slope) * rstd);
    }
}

impl<A: Real> Sums<A> {
    fn new(channels: usize) -> Self {
        Self { weight: vec![A::ZERO; channels], bias: vec![A::ZERO; channels] }
    }

    /// Adds neighbours until one is left.
    fn total(mut all: Vec<Self>, channels: usize) -> Self {
        while all.len() > 1 {
            let mut pairs = all.into_iter();
            let mut halved = Vec::new();
            while let Some(mut a) = pairs.next() {
                if let Some(b) = pairs.next() {
                    a.weight.iter_mut().zip(b.weight).for_each(|(a, b)| *a = *a + b);
                    a.bias.iter_mut().zip(b.bias).for_each(|(a, b)| *a = *a + b);
                }
                halved.push(a);
            }
            all = halved;
        }
        all.pop().unwrap_or_else(|| Self::new(channels))
    }

    fn finished(self, x: Storage) -> NormGrads {
        NormGrads { x, weight: A::storage(self.weight), bias: A::storage(self.bias) }
    }
}
