//! Gradients of the normalisations.

use super::NormKind;
use super::rows::{PerChannel, Rows, parameters};
use crate::line::Span;
use crate::num::{Real, in_real};
use crate::reduce::block::{dot_of, sum_of};
use crate::simd::{Kernel, Simd, dispatch};
use crate::split::{for_chunks, map_all};
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
                self.add(row, &mut g, &mut normal, (&self.mean[row..=row], &self.rstd[row..=row]), &mut sums);
                let weight = &self.weight[self.rows.first_channel(row)..];
                let (rstd, repeat) = (self.rstd[row], self.rows.repeat.max(1));
                dispatch(InputGradient { g: &mut g, normal: &normal, weight, repeat, rstd, centred });
                A::narrow(&g, &mut piece.range(j * len, len));
            }
            sums
        });
        Sums::total(sums, channels).finished(dx)
    }

    fn batch(&self, grad: &View, out: DType) -> NormGrads {
        let Rows { rows, len, channels, repeat } = self.rows;
        let per_piece = self.rows.per_piece();
        let pieces: Vec<usize> = (0..rows.div_ceil(per_piece)).collect();
        let sums = map_all(&pieces, rows * len, |&i| {
            let mut sums = Sums::new(channels);
            let (mut g, mut normal) = (vec![A::ZERO; len], vec![A::ZERO; len]);
            for row in i * per_piece..((i + 1) * per_piece).min(rows) {
                self.add(row, &mut g, &mut normal, (&self.mean, &self.rstd), &mut sums);
            }
            sums
        });
        let sums = Sums::total(sums, channels);
        let (all, count) = (PerChannel::new(self.rows), A::of((rows * repeat) as f64));
        let mean = all.spread(self.mean.iter().copied());
        let slope = all.spread(sums.weight.iter().zip(&self.rstd).map(|(&w, &rstd)| w / count * rstd));
        let shift = all.spread(sums.bias.iter().map(|&b| b / count));
        let scale = all.spread(self.rstd.iter().zip(&self.weight).map(|(&rstd, &w)| rstd * w));
        let dx = all.map(grad, out, |g: &mut [A], channel, first| {
            let mut x = vec![A::ZERO; g.len()];
            self.x.load(first, &mut x);
            let (mean, slope) = (&mean[channel.clone()], &slope[channel.clone()]);
            let (shift, scale) = (&shift[channel.clone()], &scale[channel]);
            dispatch(BatchGradient { g, x: &x, mean, slope, shift, scale });
        });
        sums.finished(dx)
    }

    /// Loads a row of the gradient and of the normalised input, and adds to the sums of the parameters.
    ///
    /// `statistics` are means and deviations, one for the row or one for each channel.
    fn add(&self, row: usize, g: &mut [A], normal: &mut [A], statistics: (&[A], &[A]), sums: &mut Sums<A>) {
        self.grad.load(row * self.rows.len, g);
        self.x.load(row * self.rows.len, normal);
        let (first, repeat) = (self.rows.first_channel(row), self.rows.repeat.max(1));
        let (weight, bias) = (&mut sums.weight[first..], &mut sums.bias[first..]);
        dispatch(ParameterGradients { g, normal, statistics, repeat, weight, bias });
    }
}

/// Normalises a row and adds `Σ g · normal` and `Σ g` of each parameter's elements.
struct ParameterGradients<'a, A> {
    g: &'a [A],
    normal: &'a mut [A],
    statistics: (&'a [A], &'a [A]),
    repeat: usize,
    weight: &'a mut [A],
    bias: &'a mut [A],
}

impl<A: Real> Kernel for ParameterGradients<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, normal, statistics: (means, rstds), repeat, weight, bias } = self;
        match (means, rstds) {
            ([mean], [rstd]) => normal.iter_mut().for_each(|x| *x = (*x - *mean) * *rstd),
            _ if repeat == 1 => {
                for ((x, &mean), &rstd) in normal.iter_mut().zip(means).zip(rstds) {
                    *x = (*x - mean) * rstd;
                }
            }
            _ => {
                for ((run, &mean), &rstd) in normal.chunks_mut(repeat).zip(means).zip(rstds) {
                    run.iter_mut().for_each(|x| *x = (*x - mean) * rstd);
                }
            }
        }
        if repeat == 1 {
            for ((w, b), (&g, &n)) in weight.iter_mut().zip(bias).zip(g.iter().zip(&*normal)) {
                *w += g * n;
                *b += g;
            }
        } else {
            for ((w, b), (g, n)) in weight.iter_mut().zip(bias).zip(g.chunks(repeat).zip(normal.chunks(repeat))) {
                *w += dot_of(g, n);
                *b += sum_of(g, |g| g);
            }
        }
    }
}

/// `g ← rstd (w g - mean(w g) - normal · mean(w g normal))`, without the first mean unless `centred`.
struct InputGradient<'a, A> {
    g: &'a mut [A],
    normal: &'a [A],
    weight: &'a [A],
    repeat: usize,
    rstd: A,
    centred: bool,
}

impl<A: Real> Kernel for InputGradient<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, normal, weight, repeat, rstd, centred } = self;
        if repeat == 1 {
            g.iter_mut().zip(weight).for_each(|(g, &w)| *g = *g * w);
        } else {
            g.chunks_mut(repeat).zip(weight).for_each(|(run, &w)| run.iter_mut().for_each(|g| *g = *g * w));
        }
        let count = A::of(g.len() as f64);
        let shift = if centred { sum_of(g, |g| g) / count } else { A::ZERO };
        let slope = dot_of(g, normal) / count;
        g.iter_mut().zip(normal).for_each(|(g, &n)| *g = (*g - shift - n * slope) * rstd);
    }
}

/// `g ← (g - shift - (x - mean) slope) scale` of a run of one channel, or of neighbouring channels.
struct BatchGradient<'a, A> {
    g: &'a mut [A],
    x: &'a [A],
    mean: &'a [A],
    slope: &'a [A],
    shift: &'a [A],
    scale: &'a [A],
}

impl<A: Real> Kernel for BatchGradient<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, x, mean, slope, shift, scale } = self;
        if let ([mean], [slope], [shift], [scale]) = (mean, slope, shift, scale) {
            g.iter_mut().zip(x).for_each(|(g, &x)| *g = (*g - *shift - (x - *mean) * *slope) * *scale);
            return;
        }
        let parameters = mean.iter().zip(slope).zip(shift.iter().zip(scale));
        for ((g, &x), ((&mean, &slope), (&shift, &scale))) in g.iter_mut().zip(x).zip(parameters) {
            *g = (*g - shift - (x - mean) * slope) * scale;
        }
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
                    a.weight.iter_mut().zip(b.weight).for_each(|(a, b)| *a += b);
                    a.bias.iter_mut().zip(b.bias).for_each(|(a, b)| *a += b);
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
