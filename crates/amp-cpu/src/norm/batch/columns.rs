//! Sums over samples whose elements are channels: side by side, so that each has a lane.

use super::LINE;
use crate::line::Span;
use crate::norm::rows::Rows;
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
        let mut all = vec![Moments::default(); wide.width];
        scratch::with(size + 2 * wide.width, |buffer: &mut [A]| {
            let (line, rest) = buffer.split_at_mut(size);
            let (sums, squares) = rest.split_at_mut(wide.width);
            for part in wide.parts(size, piece) {
                let x = x.read(part.start, part.len(), line);
                dispatch(Taken { x, sums, squares, all: &mut all });
            }
        });
        wide.narrowed(&all, Moments::join)
    };
    let pieces = map_all(&wide.pieces(elements), elements, of_piece);
    halved(pieces, Moments::join).unwrap_or_else(|| vec![Moments::default(); rows.channels])
}

/// Joins neighbours until one row is left.
pub(super) fn halved<A: Copy>(mut all: Vec<Vec<A>>, join: impl Fn(A, A) -> A) -> Option<Vec<A>> {
    while all.len() > 1 {
        let mut pairs = all.into_iter();
        let mut half = Vec::new();
        while let Some(mut a) = pairs.next() {
            let b = pairs.next().unwrap_or_default();
            a.iter_mut().zip(b).for_each(|(a, b)| *a = join(*a, b));
            half.push(a);
        }
        all = half;
    }
    all.pop()
}

/// Joins the moments of the columns of some wide rows, of which the last may be short, with those in `all`: sums, then
/// squares of what differs from their means.
struct Taken<'a, A> {
    x: &'a [A],
    sums: &'a mut [A],
    squares: &'a mut [A],
    all: &'a mut [Moments<A>],
}

impl<A: Real> Kernel for Taken<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, sums, squares, all } = self;
        let width = sums.len();
        let (whole, rest) = (x.len() / width, x.len() % width);
        sums.fill(A::ZERO);
        squares.fill(A::ZERO);
        for row in x.chunks(width) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
        let count = |lane: usize| A::of((whole + usize::from(lane < rest)) as f64);
        let mean = |sums: &mut [A], count: A| sums.iter_mut().for_each(|sum| *sum = *sum / count);
        mean(&mut sums[..rest], count(0));
        mean(&mut sums[rest..], count(rest));
        for row in x.chunks(width) {
            for ((square, &mean), &x) in squares.iter_mut().zip(&*sums).zip(row) {
                *square += (x - mean) * (x - mean);
            }
        }
        let filled = if whole > 0 { width } else { rest };
        for (lane, (all, (&mean, &squares))) in all.iter_mut().zip(sums.iter().zip(&*squares)).take(filled).enumerate()
        {
            *all = all.join(Moments { count: count(lane), mean, squares });
        }
    }
}

/// Adds `Σ g (x - mean)` and `Σ g` of the columns of some wide rows, of which the last may be short.
///
/// Column by column of vectors, whose sums stay in registers.
pub(super) struct Products<'a, A> {
    pub g: &'a [A],
    pub x: &'a [A],
    pub mean: &'a [A],
    pub sums: [&'a mut [A]; 2],
}

impl<A: Real> Kernel for Products<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, x, mean, sums: [products, sums] } = self;
        let width = mean.len();
        for lane in (0..width).step_by(LANES) {
            let count = LANES.min(width - lane);
            let part = |row: &[A]| A::Lanes::<S>::load_part(row, A::ZERO);
            let means = part(&mean[lane..lane + count]);
            let mut both = [part(&products[lane..lane + count]), part(&sums[lane..lane + count])];
            for start in (lane..g.len()).step_by(width) {
                let (g, x) = match (g.get(start..start + LANES), x.get(start..start + LANES)) {
                    (Some(g), Some(x)) if count == LANES => {
                        (A::Lanes::<S>::load(whole(g)), A::Lanes::<S>::load(whole(x)))
                    }
                    _ => {
                        let end = g.len().min(start + count);
                        // What is added to lanes beyond the row is left out, and `g` is 0 there.
                        (part(&g[start..end]), A::Lanes::<S>::load_part(&x[start..end], A::ZERO))
                    }
                };
                both = [g.mul_add(x - means, both[0]), both[1] + g];
            }
            both[0].store_part(&mut products[lane..lane + count]);
            both[1].store_part(&mut sums[lane..lane + count]);
        }
    }
}

#[inline(always)]
fn whole<A>(slice: &[A]) -> &[A; LANES] {
    slice.try_into().expect("a whole vector")
}
