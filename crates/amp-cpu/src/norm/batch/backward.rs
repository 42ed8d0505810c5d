//! Gradients of batch normalisation, behind relu and a residual too.

use super::columns::{Products, Wide, gradient};
use super::{LINE, Runs, line};
use crate::elementwise::mask;
use crate::line::Span;
use crate::lockstep::{BLOCK, Elements, memory, place, rooms, rounded};
use crate::norm::rows::{Rows, WORK, halved, parameters};
use crate::norm::{NormGrads, NormKind};
use crate::num::{Num, Real, in_real};
use crate::reduce::block::{Accumulators, BLOCK as SUMMED, GROUP, Tree};
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::split::{for_chunks, map_all};
use crate::{DType, SliceMut, Storage, View, scratch};
use std::ops::Range;

/// Gradients of [`batch_norm_relu`](crate::batch_norm_relu) by the batch's statistics, from the gradient of its result and the
/// bits that say where that is 0: with respect to the input, rounded to `out`, and the parameters.
///
/// With a residual its gradient is made first and serves for [`normalize_grad`](crate::normalize_grad) too: made here as a
/// second result it was in memory together with the gradient that came, 8 of 200 MiB of a step of ResNet-18.
pub fn batch_norm_relu_grad(
    (grad, dead): (&View, &[u8]),
    x: &View,
    mean: &View,
    rstd: &View,
    weight: Option<&View>,
    out: DType,
) -> NormGrads {
    batch_norm_grad((grad, Some(dead)), x, mean, rstd, weight, out)
}

/// Gradients of a batch normalisation whose result has the gradient `grad`, and 0 where there is a bit in `dead`.
pub(in crate::norm) fn batch_norm_grad(
    (grad, dead): (&View, Option<&[u8]>),
    x: &View,
    mean: &View,
    rstd: &View,
    weight: Option<&View>,
    out: DType,
) -> NormGrads {
    in_real!(x.logical, A => {
        let rows = Rows::new(x, NormKind::Batch);
        let rule = Rule::<A> {
            grad: Span::row_major(grad),
            dead,
            x: Span::row_major(x),
            mean: parameters(Some(mean), rows.channels, 0.0),
            rstd: parameters(Some(rstd), rows.channels, 1.0),
            weight: parameters(weight, rows.channels, 1.0),
            rows,
        };
        rule.grads(out)
    })
}

struct Rule<'a, A> {
    grad: Span<'a>,
    /// Where the gradient counts as 0.
    dead: Option<&'a [u8]>,
    x: Span<'a>,
    mean: Vec<A>,
    rstd: Vec<A>,
    weight: Vec<A>,
    rows: Rows,
}

impl<A: Real> Rule<'_, A> {
    fn grads(&self, out: DType) -> NormGrads {
        let [mut weight, bias] = if self.rows.repeat == 1 { self.columns() } else { self.planes() };
        weight.iter_mut().zip(&self.rstd).for_each(|(w, &rstd)| *w = *w * rstd);
        let x = self.input(&weight, &bias, out);
        NormGrads { x, narrowed: None, weight: A::storage(weight), bias: A::storage(bias) }
    }

    /// `Σ g (x - mean)` and `Σ g` of each channel, of which a sample has runs: of some neighbouring samples, joined in pairs.
    fn planes(&self) -> [Vec<A>; 2] {
        let Rows { rows, len, channels, repeat } = self.rows;
        let per_piece = self.rows.per_piece_with_sums();
        let pieces: Vec<usize> = (0..rows.div_ceil(per_piece)).collect();
        let some = (LINE / repeat.max(1)).clamp(1, channels.max(1));
        let of_piece = |&i: &usize| {
            let mut sums = vec![A::ZERO; 2 * channels];
            let (products, plain) = sums.split_at_mut(channels);
            scratch::with(3 * some * repeat, |buffer: &mut [A]| {
                let (g, rest) = buffer.split_at_mut(some * repeat);
                let (x, masked) = rest.split_at_mut(some * repeat);
                for row in i * per_piece..((i + 1) * per_piece).min(rows) {
                    for first in (0..channels).step_by(some) {
                        let channels = first..channels.min(first + some);
                        let (at, len) = (row * len + first * repeat, channels.len() * repeat);
                        let (g, x) = (self.grad.read(at, len, g), self.x.read(at, len, x));
                        let dead = self.dead.map(|dead| (dead, at, &mut masked[..len]));
                        let (mean, repeat) = (&self.mean[channels.clone()], repeat.max(1));
                        let sums = [&mut products[channels.clone()], &mut plain[channels]];
                        dispatch(RunProducts { g, dead, x, repeat, mean, sums });
                    }
                }
            });
            sums
        };
        self.total(map_all(&pieces, rows * len, of_piece))
    }

    /// As [`Self::planes`], of samples whose elements are channels.
    fn columns(&self) -> [Vec<A>; 2] {
        let (wide, elements) = (Wide::new(self.rows.channels), self.rows.rows * self.rows.len);
        let mean = wide.spread(&self.mean);
        let direct = self.grad.is_stored::<A>() && self.x.is_stored::<A>();
        let of_piece = |piece: &Range<usize>| {
            let mut sums = [vec![A::ZERO; wide.width], vec![A::ZERO; wide.width]];
            scratch::with(2 * wide.part(), |buffer: &mut [A]| {
                let (g, x) = buffer.split_at_mut(wide.part());
                for part in wide.parts(if direct { piece.len() } else { wide.part() }, piece) {
                    let (first, len) = (part.start, part.len());
                    let (g, x) = (self.grad.elements(first, len, g), self.x.elements(first, len, x));
                    let (dead, sums) = (self.dead, sums.each_mut().map(|sums| &mut sums[..]));
                    dispatch(Products { g, dead, x, first, mean: &mean, sums });
                }
            });
            sums.map(|sums| wide.narrowed(&sums, Num::add)).concat()
        };
        self.total(map_all(&wide.pieces(elements), elements, of_piece))
    }

    fn total(&self, pieces: Vec<Vec<A>>) -> [Vec<A>; 2] {
        let mut sums = halved(pieces, Num::add).unwrap_or_else(|| vec![A::ZERO; 2 * self.rows.channels]);
        let plain = sums.split_off(self.rows.channels);
        [sums, plain]
    }

    /// Gradient of the input, from those of the parameters.
    fn input(&self, weight: &[A], bias: &[A], out: DType) -> Storage {
        let (runs, elements) = (Runs::new(self.rows), self.rows.rows * self.rows.len);
        let count = A::of((self.rows.rows * self.rows.repeat) as f64);
        let mean = runs.spread(self.mean.iter().copied());
        let proj_scale = runs.spread(weight.iter().zip(&self.rstd).map(|(&w, &rstd)| w / count * rstd));
        let grad_mean = runs.spread(bias.iter().map(|&b| b / count));
        let grad_scale = runs.spread(self.rstd.iter().zip(&self.weight).map(|(&rstd, &w)| rstd * w));
        let parameters = [&mean[..], &proj_scale, &grad_mean, &grad_scale];
        let mut dx = Storage::unwritten(out, elements);
        let line = line::<A>([Some(&self.grad), Some(&self.x)]);
        for_chunks(&mut dx, WORK, &|i, mut piece| {
            scratch::with(2 * LINE, |buffer: &mut [A]| {
                let (g, x) = buffer.split_at_mut(LINE);
                for at in (0..piece.len()).step_by(line) {
                    let (first, len) = (i * WORK + at, line.min(piece.len() - at));
                    let (g, x) = (self.grad.elements(first, len, g), self.x.elements(first, len, x));
                    let (dead, to) = (self.dead, &mut piece.range(at, len));
                    dispatch(InputGradient { g, dead, x, to, runs, first, parameters });
                }
            });
        });
        dx
    }
}

/// Adds `Σ g (x - mean)` and `Σ g` of the runs of some neighbouring channels. Runs of a block have no tree, whose making took
/// three fifths of the gradients of 512 channels of 4 by 4.
struct RunProducts<'a, A> {
    g: &'a [A],
    /// The bits that say where it counts as 0, the number of the first, and room for what is left.
    dead: Option<(&'a [u8], usize, &'a mut [A])>,
    x: &'a [A],
    repeat: usize,
    mean: &'a [A],
    sums: [&'a mut [A]; 2],
}

impl<A: Real> Kernel for RunProducts<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, dead, x, repeat, mean, sums: [products, sums] } = self;
        let g = match dead {
            Some((dead, at, masked)) => {
                mask::<S, A>(dead, at, g, masked);
                masked
            }
            None => g,
        };
        let runs = g.chunks(repeat).zip(x.chunks(repeat)).zip(mean);
        for (((g, x), &mean), (product, sum)) in runs.zip(products.iter_mut().zip(sums)) {
            if g.len() <= SUMMED {
                let [products, plain] = block::<S, A>(g, x, mean);
                (*product, *sum) = (*product + products, *sum + plain);
                continue;
            }
            let (mut all_products, mut all) = (Tree::new(A::ZERO), Tree::new(A::ZERO));
            for (g, x) in g.chunks(SUMMED).zip(x.chunks(SUMMED)) {
                let [products, plain] = block::<S, A>(g, x, mean);
                all_products.push(products, Num::add);
                all.push(plain, Num::add);
            }
            *product += all_products.finish(Num::add);
            *sum += all.finish(Num::add);
        }
    }
}

/// `Σ g (x - mean)` and `Σ g` of a block.
#[inline(always)]
fn block<S: Simd, A: Real>(g: &[A], x: &[A], mean: A) -> [A; 2] {
    let (mut products, mut sums) = (Accumulators::<S, A>::new(), Accumulators::<S, A>::new());
    let means = A::Lanes::<S>::splat(mean);
    let mut add = |i: usize, g: A::Lanes<S>, x: A::Lanes<S>| {
        products.add_product(i, g, x - means);
        sums.add(i, g);
    };
    let ((g, g_rest), (x, x_rest)) = (g.as_chunks::<LANES>(), x.as_chunks::<LANES>());
    for (i, (g, x)) in g.iter().zip(x).enumerate() {
        add(i % GROUP, Lanes::load(g), Lanes::load(x));
    }
    if !g_rest.is_empty() {
        add(0, Lanes::load_part(g_rest, A::ZERO), Lanes::load_part(x_rest, mean));
    }
    [products.total(), sums.total()]
}

/// `to ← (g - grad_mean - (x - mean) proj_scale) grad_scale` of a line.
struct InputGradient<'a, 'y, A> {
    /// The gradients, and the bits that say where they count as 0.
    g: Elements<'a, A>,
    dead: Option<&'a [u8]>,
    x: Elements<'a, A>,
    to: &'a mut SliceMut<'y>,
    runs: Runs,
    first: usize,
    parameters: [&'a [A]; 4],
}

impl<A: Real> Kernel for InputGradient<'_, '_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, dead, x, to, runs, first, parameters } = self;
        let mut memory = memory();
        let [from, masked, of_x, result] = rooms(&mut memory, x.len());
        for at in (0..x.len()).step_by(BLOCK) {
            let n = BLOCK.min(x.len() - at);
            let g = gradient::<S, A>(g, dead, [first, at, n], [from, masked]);
            let x = x.block::<S>(at, n, of_x);
            of_block(g, x, place(to, at, n, result), runs, first + at, parameters);
            rounded::<S, A>(result, to, at, n);
        }
    }
}

/// [`InputGradient`] of a block that begins at element `first`.
#[inline(always)]
fn of_block<A: Real>(g: &[A], x: &[A], to: &mut [A], runs: Runs, first: usize, parameters: [&[A]; 4]) {
    for (elements, channels) in runs.along(first, to.len()) {
        let (to, g, x) = (&mut to[elements.clone()], &g[elements.clone()], &x[elements]);
        let [mean, proj_scale, grad_mean, grad_scale] = parameters.map(|all| &all[channels.clone()]);
        if let ([mean], [proj_scale], [grad_mean], [grad_scale]) = (mean, proj_scale, grad_mean, grad_scale) {
            let each = to.iter_mut().zip(g.iter().zip(x));
            each.for_each(|(to, (&g, &x))| *to = (g - *grad_mean - (x - *mean) * *proj_scale) * *grad_scale);
            continue;
        }
        let parameters = mean.iter().zip(proj_scale).zip(grad_mean.iter().zip(grad_scale));
        for ((to, (&g, &x)), ((&mean, &proj_scale), (&grad_mean, &grad_scale))) in
            to.iter_mut().zip(g.iter().zip(x)).zip(parameters)
        {
            *to = (g - grad_mean - (x - mean) * proj_scale) * grad_scale;
        }
    }
}
