//! Batch normalisation of `[N, C, ..]`, alone or with the residual and relu that follow it in the same passes.
//!
//! Results depend on sizes alone, not on the number of threads. Samples whose elements are channels (`[N, C]`, and images
//! whose channels lie side by side, as `[N · H · W, C]`) have them in the lanes of vectors.

mod backward;
mod columns;
#[cfg(test)]
mod tests;

pub(super) use backward::batch_norm_grad;
pub use backward::batch_norm_relu_grad;

use super::rows::{Rows, WORK, parameters};
use super::{NormKind, Normalized, Statistics, finished};
use crate::line::Span;
use crate::lockstep::{BLOCK, Elements, memory, place, rooms, rounded};
use crate::num::{Real, in_real};
use crate::reduce::fold::Axes;
use crate::reduce::moments;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::split::for_chunks;
use crate::{DType, SliceMut, Storage, View, scratch};
use columns::load;
use std::ops::Range;

/// Elements that are handled together, a multiple of the bits of a byte: they stay in the first-level cache, which made the
/// gradients of 64 channels of 32 by 32, 32 images, a quarter faster than whole samples did.
const LINE: usize = 1 << 11;
/// Runs shorter than this are taken together with their neighbours: a third faster for 512 channels of 4 by 4.
const SHORT: usize = 32;

/// `relu(batch norm (+ residual))` in the passes of the batch norm, rounded once, to `out`.
///
/// By the batch's own statistics, or by given means and variances. With `signs` it says where the result is 0 before it is
/// rounded, as [`dead`](crate::dead) does. NaN stays NaN.
pub fn batch_norm_relu(
    x: &View,
    given: Option<(&View, &View)>,
    (weight, bias): (Option<&View>, Option<&View>),
    eps: f64,
    residual: Option<&View>,
    signs: bool,
    out: DType,
) -> (Normalized, Option<Storage>) {
    in_real!(x.logical, A => {
        let rows = Rows::new(x, NormKind::Batch);
        let statistics = match given {
            Some((mean, var)) => self::given::<A>(mean, var, rows),
            None => taken::<A>(x, rows),
        };
        let affine = (parameters(weight, rows.channels, 1.0), parameters(bias, rows.channels, 0.0));
        let after = Some(After { residual: residual.map(Span::row_major), signs });
        let (y, dead) = standardize(x, rows, &statistics, affine, eps, after, out);
        (finished(y, statistics, eps), dead)
    })
}

/// Statistics of the batch.
pub(super) fn taken<A: Real>(x: &View, rows: Rows) -> Vec<Statistics<A>> {
    let moments = if rows.repeat == 1 {
        columns::moments(&Span::row_major(x), rows)
    } else {
        let others: Vec<usize> = (0..x.layout.shape.len()).filter(|&a| a != 1).collect();
        moments::<A>(x, &Axes::new(x, &others))
    };
    moments.iter().map(|m| Statistics { mean: m.mean, var: m.squares / m.count }).collect()
}

/// Statistics that were given.
pub(super) fn given<A: Real>(mean: &View, var: &View, rows: Rows) -> Vec<Statistics<A>> {
    let [mean, var] = [mean, var].map(|view| parameters::<A>(Some(view), rows.channels, 0.0));
    mean.into_iter().zip(var).map(|(mean, var)| Statistics { mean, var }).collect()
}

/// What follows a normalisation.
pub(super) struct After<'a> {
    /// Added to the normalised value before it is cut off at 0.
    residual: Option<Span<'a>>,
    /// Whether to tell where it was cut off.
    signs: bool,
}

/// `(x - mean) * rstd * weight + bias` of each channel, with what comes `after`.
pub(super) fn standardize<A: Real>(
    x: &View,
    rows: Rows,
    statistics: &[Statistics<A>],
    (weight, bias): (Vec<A>, Vec<A>),
    eps: f64,
    after: Option<After<'_>>,
    out: DType,
) -> (Storage, Option<Storage>) {
    let runs = Runs::new(rows);
    let mean = runs.spread(statistics.iter().map(|s| s.mean));
    let scale = runs.spread(statistics.iter().zip(&weight).map(|(s, &w)| s.rstd(eps) * w));
    let shift = runs.spread(bias.into_iter());
    let (span, parameters) = (Span::row_major(x), [&mean[..], &scale, &shift]);
    let mut y = Storage::unwritten(out, rows.rows * rows.len);
    let signs = after.as_ref().is_some_and(|after| after.signs);
    let residual = after.as_ref().and_then(|after| after.residual.as_ref());
    let line = line::<A>([Some(&span), residual]);
    let dead = for_chunks(&mut y, WORK, &|i, mut piece| {
        let mut dead = vec![0; if signs { piece.len().div_ceil(8) } else { 0 }];
        scratch::with(2 * LINE, |buffer: &mut [A]| {
            let (from, added) = buffer.split_at_mut(LINE);
            for at in (0..piece.len()).step_by(line) {
                let (first, len) = (i * WORK + at, line.min(piece.len() - at));
                let x = span.elements(first, len, from);
                let residual = residual.map(|residual| residual.elements(first, len, added));
                let (y, dead) = (&mut piece.range(at, len), dead.get_mut(at / 8..).unwrap_or_default());
                dispatch(Standardize { x, y, runs, first, parameters, rectified: after.is_some(), residual, dead });
            }
        });
        dead
    });
    (y, signs.then(|| joined(&dead, (rows.rows * rows.len).div_ceil(8))))
}

/// Elements that a kernel takes at a time: all of a piece where it reads them as they are stored.
fn line<A: Real>(spans: [Option<&Span<'_>>; 2]) -> usize {
    if spans.into_iter().flatten().all(Span::is_stored::<A>) { WORK } else { LINE }
}

/// The pieces' bytes as one storage.
fn joined(pieces: &[Vec<u8>], len: usize) -> Storage {
    let mut all = Storage::unwritten(DType::U8, len);
    if let crate::SliceMut::U8(mut to) = all.as_mut_slice() {
        for piece in pieces {
            let (now, later) = to.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            to = later;
        }
    }
    all
}

/// How lines of elements, of many samples one after the other, fall into channels.
///
/// As runs of elements of one channel each; where runs are short, the elements of a sample count as channels.
#[derive(Clone, Copy)]
struct Runs {
    channels: usize,
    repeat: usize,
    /// How often each parameter is repeated to make that so.
    copies: usize,
    /// How often all of them are, so that a block of elements is one run of samples.
    cycles: usize,
}

impl Runs {
    fn new(rows: Rows) -> Self {
        match rows.repeat {
            repeat if repeat < SHORT => {
                let channels = rows.channels * repeat;
                let cycles = (BLOCK / channels.max(1)).max(1);
                Self { channels: channels * cycles, repeat: 1, copies: repeat, cycles }
            }
            repeat => Self { channels: rows.channels, repeat, copies: 1, cycles: 1 },
        }
    }

    /// Parameters, one for each channel.
    fn spread<A: Copy>(&self, parameters: impl Iterator<Item = A>) -> Vec<A> {
        let mut all = Vec::with_capacity(self.channels);
        parameters.for_each(|p| all.extend(std::iter::repeat_n(p, self.copies)));
        all.repeat(self.cycles)
    }

    /// The runs of a line of `len` elements that begins at element `first`; see [`Self::run`].
    #[inline(always)]
    fn along(self, first: usize, len: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let run = (at < len).then(|| self.run(first, at, len))?;
            at = run.0.end;
            Some(run)
        })
    }

    /// The run that begins at `at` of a line of `len` elements that begins at element `first`: its part of the line, and its
    /// channel, or one for each of its elements.
    #[inline(always)]
    fn run(&self, first: usize, at: usize, len: usize) -> (Range<usize>, Range<usize>) {
        let position = first + at;
        if self.repeat == 1 {
            let channel = position % self.channels;
            let count = (len - at).min(self.channels - channel);
            return (at..at + count, channel..channel + count);
        }
        let (channel, inside) = (position / self.repeat % self.channels, position % self.repeat);
        (at..at + (len - at).min(self.repeat - inside), channel..channel + 1)
    }
}

/// `y ← (x - mean) * scale + shift` of a line, and what comes after it.
struct Standardize<'a, 'y, A> {
    x: Elements<'a, A>,
    y: &'a mut SliceMut<'y>,
    runs: Runs,
    first: usize,
    parameters: [&'a [A]; 3],
    /// Whether what is below 0 becomes 0.
    rectified: bool,
    residual: Option<Elements<'a, A>>,
    /// Bits for what is not above 0, if there is room.
    dead: &'a mut [u8],
}

impl<A: Real> Kernel for Standardize<'_, '_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, y, runs, first, parameters, rectified, residual, dead } = self;
        let mut memory = memory();
        let [from, added, plain, to] = rooms(&mut memory, x.len());
        for at in (0..x.len()).step_by(BLOCK) {
            let n = BLOCK.min(x.len() - at);
            let x = x.block::<S>(at, n, from);
            let residual = residual.map(|residual| residual.block::<S>(at, n, added));
            let results = place(y, at, n, to);
            standardize_block(x, if rectified { &mut plain[..n] } else { &mut *results }, runs, first + at, parameters);
            if rectified {
                rectify::<S, A>(&plain[..n], residual, results, dead.get_mut(at / 8..).unwrap_or_default());
            }
            rounded::<S, A>(to, y, at, n);
        }
    }
}

/// `y ← (x - mean) * scale + shift` of a block that begins at element `first`.
#[inline(always)]
fn standardize_block<A: Real>(x: &[A], y: &mut [A], runs: Runs, first: usize, parameters: [&[A]; 3]) {
    for (elements, channels) in runs.along(first, y.len()) {
        let (y, x) = (&mut y[elements.clone()], &x[elements]);
        let [mean, scale, shift] = parameters.map(|all| &all[channels.clone()]);
        if let ([mean], [scale], [shift]) = (mean, scale, shift) {
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = (x - *mean) * *scale + *shift);
            continue;
        }
        for ((((y, &x), &mean), &scale), &shift) in y.iter_mut().zip(x).zip(mean).zip(scale).zip(shift) {
            *y = (x - mean) * scale + shift;
        }
    }
}

/// `y ← max(x + residual, 0)`, with a bit in `dead` for what is not above 0, if there is room.
///
/// Not in place: only some lanes of each vector would be written, which whoever reads them next has to wait for.
#[inline(always)]
fn rectify<S: Simd, A: Real>(x: &[A], residual: Option<&[A]>, y: &mut [A], dead: &mut [u8]) {
    let (vectors, rest) = x.as_chunks::<LANES>();
    let (to, to_rest) = y.as_chunks_mut();
    let (bits, last) = dead.split_at_mut(dead.len().min(2 * vectors.len()));
    let mut bits = bits.as_chunks_mut().0.iter_mut();
    let added = |i: usize| residual.map(|residual| &residual[i * LANES..]);
    for (i, (x, to)) in vectors.iter().zip(to).enumerate() {
        let x = A::Lanes::<S>::load(x);
        let sum = added(i).map_or(x, |added| x + load::<S, A>(&added[..LANES]));
        let dead = sum.dead();
        sum.without(dead).store(to);
        if let Some(bits) = bits.next() {
            *bits = dead.to_le_bytes();
        }
    }
    let mut dead = 0u16;
    for (i, (&x, to)) in rest.iter().zip(to_rest).enumerate() {
        let sum = added(vectors.len()).map_or(x, |added| x + added[i]);
        dead |= u16::from(sum <= A::ZERO) << i;
        *to = if sum <= A::ZERO { A::ZERO } else { sum };
    }
    last.iter_mut().zip(dead.to_le_bytes()).take(rest.len().div_ceil(8)).for_each(|(to, bits)| *to = bits);
}
