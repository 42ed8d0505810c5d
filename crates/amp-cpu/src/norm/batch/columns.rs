//! Sums over samples whose elements are channels: side by side, so that each has a lane.

use super::LINE;
use crate::elementwise::mask;
use crate::line::Span;
use crate::lockstep::{BLOCK, Elements, memory, rooms};
use crate::norm::rows::{Rows, halved};
use crate::num::Real;
use crate::reduce::Moments;
use crate::scratch;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::split::map_all;
use std::ops::Range;

/// Elements whose sums are taken one after the other.
const PIECE: usize = 1 << 15;
/// Wide rows whose moments are joined with others' as a whole at least: joining takes as long as some rows. Statistics of 512
/// rows of 512 took a quarter longer by four rows.
const JOINED: usize = 16;
/// Lanes that rows are made to fill: so many of few channels count as one.
const WIDTH: usize = 4 * LANES;

/// How rows of channels are taken: several short ones together as one wide row, some of these at a time.
#[derive(Clone, Copy)]
pub(super) struct Wide {
    channels: usize,
    pub width: usize,
}

impl Wide {
    pub fn new(channels: usize) -> Self {
        Self { channels, width: channels * (WIDTH / channels.max(1)).max(1) }
    }

    /// Pieces of `elements`, whole rows each.
    pub fn pieces(&self, elements: usize) -> Vec<Range<usize>> {
        let step = PIECE.next_multiple_of(self.width.max(1));
        (0..elements).step_by(step).map(|start| start..elements.min(start + step)).collect()
    }

    /// Parts of a piece, whole rows each: `part` elements.
    pub fn parts(&self, part: usize, piece: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let (step, end) = (part, piece.end);
        piece.clone().step_by(step).map(move |start| start..end.min(start + step))
    }

    /// Elements of a part that stays in the first-level cache.
    pub fn part(&self) -> usize {
        (LINE / self.width.max(1)).max(1) * self.width.max(1)
    }

    /// Parameters, one for each lane of a wide row.
    pub fn spread<A: Copy>(&self, parameters: &[A]) -> Vec<A> {
        parameters.iter().copied().cycle().take(self.width).collect()
    }

    /// What wide rows were joined to, as one row.
    pub fn narrowed<A: Copy>(&self, wide: &[A], join: impl Fn(A, A) -> A) -> Vec<A> {
        let mut rows = wide.chunks(self.channels.max(1));
        let mut all = rows.next().unwrap_or_default().to_vec();
        rows.for_each(|row| all.iter_mut().zip(row).for_each(|(a, &b)| *a = join(*a, b)));
        all
    }
}

/// Moments of each channel of rows of channels.
pub(super) fn moments<A: Real>(x: &Span<'_>, rows: Rows) -> Vec<Moments<A>> {
    let (wide, elements) = (Wide::new(rows.channels), rows.rows * rows.len);
    let size = wide.part().max(JOINED * wide.width).max(1);
    let of_piece = |piece: &Range<usize>| {
        let mut all = [(); 3].map(|()| vec![A::ZERO; wide.width]);
        scratch::with(size + 3 * wide.width, |buffer: &mut [A]| {
            let (line, rest) = buffer.split_at_mut(size);
            let (sums, rest) = rest.split_at_mut(wide.width);
            let (squares, left) = rest.split_at_mut(wide.width);
            for part in wide.parts(size, piece) {
                let x = x.read(part.start, part.len(), line);
                dispatch(Taken { x, sums, squares, left, all: all.each_mut().map(|all| &mut all[..]) });
            }
        });
        let [counts, means, squares] = &all;
        let lanes = counts.iter().zip(means).zip(squares);
        let all: Vec<_> = lanes.map(|((&count, &mean), &squares)| Moments { count, mean, squares }).collect();
        wide.narrowed(&all, Moments::join)
    };
    let pieces = map_all(&wide.pieces(elements), elements, of_piece);
    halved(pieces, Moments::join).unwrap_or_else(|| vec![Moments::default(); rows.channels])
}

/// Joins the moments of the columns of some wide rows, of which the last may be short, with those in `all` (counts, means and
/// squares): sums, then squares of what differs from their means. Where that is so little that the rounding of a mean may be all of
/// it, what is left over when it is added up corrects it: a constant channel was normalised by that rounding.
///
/// Joined one lane after the other, moments took half of the time that the statistics of 64 channels took.
struct Taken<'a, A> {
    x: &'a [A],
    sums: &'a mut [A],
    squares: &'a mut [A],
    left: &'a mut [A],
    all: [&'a mut [A]; 3],
}

impl<A: Real> Kernel for Taken<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, sums, squares, left, mut all } = self;
        let width = sums.len();
        let (whole, rest) = (x.len() / width, x.len() % width);
        let short = &x[whole * width..];
        sums.fill(A::ZERO);
        squares.fill(A::ZERO);
        fold::<S, A, 1, 1>([x], squares, [&mut *sums], |[x], _, [sum]| [sum + x]);
        sums.iter_mut().zip(short).for_each(|(sum, &x)| *sum += x);
        let ends =
            [(0..rest, A::of((whole + 1) as f64)), (rest..if whole > 0 { width } else { rest }, A::of(whole as f64))];
        for (lanes, count) in &ends {
            sums[lanes.clone()].iter_mut().for_each(|sum| *sum = *sum / *count);
        }
        let squared = |[x]: [A::Lanes<S>; 1], mean, [square]: [_; 1]| [(x - mean).mul_add(x - mean, square)];
        fold::<S, A, 1, 1>([x], sums, [&mut *squares], squared);
        for ((square, &mean), &x) in squares.iter_mut().zip(&*sums).zip(short) {
            *square = (x - mean).mul_add::<S>(x - mean, *square);
        }
        let rounded = |(lanes, count): &(Range<usize>, A)| {
            let of = |(&mean, &squares)| Moments { count: *count, mean, squares }.may_be_rounding();
            sums[lanes.clone()].iter().zip(&squares[lanes.clone()]).fold(false, |any, lane| any | of(lane))
        };
        if ends.iter().any(rounded) {
            left.fill(A::ZERO);
            fold::<S, A, 1, 1>([x], sums, [&mut *left], |[x], mean, [left]| [left + (x - mean)]);
            left.iter_mut().zip(&*sums).zip(short).for_each(|((left, &mean), &x)| *left += x - mean);
            for (lanes, count) in &ends {
                correct([&mut sums[lanes.clone()], &mut squares[lanes.clone()]], &left[lanes.clone()], *count);
            }
        }
        for (lanes, count) in ends {
            join(all.each_mut().map(|all| &mut all[lanes.clone()]), count, [&sums[lanes.clone()], &squares[lanes]]);
        }
    }
}

/// [`Moments::corrected`] of each lane that needs it.
#[inline(always)]
fn correct<A: Real>([means, squares]: [&mut [A]; 2], left: &[A], count: A) {
    for ((mean, squares), &left) in means.iter_mut().zip(squares).zip(left) {
        let taken = Moments { count, mean: *mean, squares: *squares };
        if taken.may_be_rounding() {
            let corrected = taken.corrected(left);
            (*mean, *squares) = (corrected.mean, corrected.squares);
        }
    }
}

/// [`Moments::join`] of each lane with `count` elements of these means and squares.
#[inline(always)]
fn join<A: Real>([counts, means, squares]: [&mut [A]; 3], count: A, [mean, square]: [&[A]; 2]) {
    let all = counts.iter_mut().zip(means).zip(squares);
    for (((counts, means), squares), (&mean, &squared)) in all.zip(mean.iter().zip(square)) {
        let joined = Moments { count: *counts, mean: *means, squares: *squares };
        let joined = joined.join(Moments { count, mean, squares: squared });
        (*counts, *means, *squares) = (joined.count, joined.mean, joined.squares);
    }
}

/// Adds `Σ g (x - mean)` and `Σ g` of the columns of some wide rows, of which the last may be short.
pub(super) struct Products<'a, A> {
    /// The gradients, and the bits that say where they count as 0.
    pub g: Elements<'a, A>,
    pub dead: Option<&'a [u8]>,
    pub x: Elements<'a, A>,
    /// The number of the first of them, and so of its bit.
    pub first: usize,
    pub mean: &'a [A],
    pub sums: [&'a mut [A]; 2],
}

impl<A: Real> Kernel for Products<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, dead, x, first, mean, mut sums } = self;
        let mut memory = memory();
        let [from, masked, of_x] = rooms(&mut memory, x.len());
        let (width, len) = (mean.len(), x.len());
        // Rows of a block, or a part of a row.
        let (rows, across) = ((BLOCK / width).max(1), width.min(BLOCK));
        for row in (0..len).step_by(rows * width) {
            for lane in (0..width).step_by(across) {
                let lanes = lane..width.min(lane + across);
                let (at, end) = (row + lane, len.min(row + (rows - 1) * width + lanes.end));
                if at >= end {
                    break;
                }
                let g = gradient::<S, A>(g, dead, [first, at, end - at], [from, masked]);
                let x = x.block::<S>(at, end - at, of_x);
                products::<S, A>(g, x, &mean[lanes.clone()], sums.each_mut().map(|sums| &mut sums[lanes.clone()]));
            }
        }
    }
}

/// A block of gradients, 0 where there is a bit: `count` from `at` on, those of `first` and the elements after it.
#[inline(always)]
pub(super) fn gradient<'s, S: Simd, A: Real>(
    g: Elements<'s, A>,
    dead: Option<&[u8]>,
    [first, at, count]: [usize; 3],
    [from, masked]: [&'s mut [A]; 2],
) -> &'s [A] {
    let grad = g.block::<S>(at, count, from);
    let Some(dead) = dead else { return grad };
    let to = &mut masked[..count];
    mask::<S, A>(dead, first + at, grad, to);
    to
}

/// [`Products`] of a block of rows.
#[inline(always)]
fn products<S: Simd, A: Real>(g: &[A], x: &[A], mean: &[A], [products, sums]: [&mut [A]; 2]) {
    let add = |[g, x]: [A::Lanes<S>; 2], mean, [product, sum]: [_; 2]| [g.mul_add(x - mean, product), sum + g];
    fold::<S, A, 2, 2>([g, x], mean, [&mut *products, &mut *sums], add);
    let whole = g.len() / mean.len() * mean.len();
    let lanes = products.iter_mut().zip(sums).zip(mean);
    for (((product, sum), &mean), (&g, &x)) in lanes.zip(g[whole..].iter().zip(&x[whole..])) {
        *product = g.mul_add::<S>(x - mean, *product);
        *sum += g;
    }
}

/// Vectors whose sums are in registers at a time: one after the other they would wait for each other.
const AT_ONCE: usize = 4;

/// `f(lanes of the inputs, lanes of the mean, sums)` of all whole rows, which are as long as `mean`.
#[inline(always)]
fn fold<S: Simd, A: Real, const I: usize, const O: usize>(
    inputs: [&[A]; I],
    mean: &[A],
    mut sums: [&mut [A]; O],
    f: impl Fn([A::Lanes<S>; I], A::Lanes<S>, [A::Lanes<S>; O]) -> [A::Lanes<S>; O],
) {
    let width = mean.len();
    let whole = inputs[0].len() / width * width;
    let inputs = inputs.map(|input| &input[..whole]);
    let some = width - width % (AT_ONCE * LANES);
    for lane in (0..some).step_by(AT_ONCE * LANES) {
        let at = |i: usize| lane + i * LANES..lane + (i + 1) * LANES;
        let means: [_; AT_ONCE] = std::array::from_fn(|i| load::<S, A>(&mean[at(i)]));
        let mut all: [[_; O]; AT_ONCE] =
            std::array::from_fn(|i| std::array::from_fn(|o| load::<S, A>(&sums[o][at(i)])));
        for start in (lane..whole).step_by(width) {
            let rows = inputs.map(|input| &input[start..start + AT_ONCE * LANES]);
            for (i, (all, &mean)) in all.iter_mut().zip(&means).enumerate() {
                *all = f(rows.map(|row| load::<S, A>(&row[i * LANES..][..LANES])), mean, *all);
            }
        }
        for (i, all) in all.into_iter().enumerate() {
            all.into_iter().zip(&mut sums).for_each(|(lanes, sums)| lanes.store_part(&mut sums[at(i)]));
        }
    }
    for lane in (some..width).step_by(LANES) {
        let lanes = lane..width.min(lane + LANES);
        let mean = load::<S, A>(&mean[lanes.clone()]);
        let mut all: [_; O] = std::array::from_fn(|o| load::<S, A>(&sums[o][lanes.clone()]));
        for start in (0..whole).step_by(width) {
            let at = start + lanes.start..start + lanes.end;
            all = f(std::array::from_fn(|i| load::<S, A>(&inputs[i][at.clone()])), mean, all);
        }
        all.into_iter().zip(&mut sums).for_each(|(all, sums)| all.store_part(&mut sums[lanes.clone()]));
    }
}

/// Up to sixteen elements, then zeros.
#[inline(always)]
pub(super) fn load<S: Simd, A: Real>(from: &[A]) -> A::Lanes<S> {
    match from.try_into() {
        Ok(all) => Lanes::load(all),
        Err(_) => Lanes::load_part(from, A::ZERO),
    }
}
