//! Places in the order of a line's elements: stable sorting, the first few and the middle.

use super::{Cut, Span, WORK, lines_of};
use crate::simd::{Kernel, Simd, dispatch};
use crate::split::for_chunks_of;
use crate::{DType, Dims, Layout, SliceMut, Storage, View, copy, gather, scratch};

/// Sorts `x` along `axis`: the values in `x`'s precision and the positions they came from, as I64.
///
/// Equal elements keep their order in both directions. NaN counts as greater than everything.
pub fn sort(x: &View, axis: usize, descending: bool) -> (Storage, Storage) {
    topk(x, axis, Cut::new(&x.layout.shape, axis).len, descending)
}

/// The first `count` elements of each line of [`sort`], no more than there are.
pub fn topk(x: &View, axis: usize, count: usize, descending: bool) -> (Storage, Storage) {
    let positions = positions(x, axis, count, &First { descending });
    let layout = Layout::contiguous(with_size(x.layout.shape, axis, count));
    let index = View { data: positions.as_slice(), layout: &layout, logical: DType::I64 };
    (gather(x, axis, &index), positions)
}

/// Where the middle element of each line of floats along `axis` is, the lower of two, as I64; `axis` stays with size 1.
///
/// The first NaN of a line comes before all numbers, unless NaN is `left_out` and there are any. Lines are not empty.
pub fn median(x: &View, axis: usize, left_out: bool) -> Storage {
    positions(x, axis, 1, &Middle { left_out })
}

/// What `f(x, axis)` makes of lines that lie end to end, `count` elements of each, in the order of `x`.
///
/// Lines that lie side by side are turned first, and what is made of them is turned back: gathering each took longer than sorting.
pub(super) fn end_to_end<const N: usize>(
    x: &View,
    axis: usize,
    count: usize,
    f: &dyn Fn(&View, usize) -> [Storage; N],
) -> [Storage; N] {
    let last = x.layout.shape.len() - 1;
    let turned = copy(&View { layout: &x.layout.moved(axis, last), ..*x }, x.logical);
    let layout = Layout::contiguous(x.layout.shape.moved(axis, last));
    let found = f(&View { data: turned.as_slice(), layout: &layout, logical: x.logical }, last);
    let back = Layout::contiguous(with_size(layout.shape, last, count)).moved(last, axis);
    found.map(|found| copy(&View { data: found.as_slice(), layout: &back, logical: found.dtype() }, found.dtype()))
}

/// `f(all lines, number of one, its positions)`.
type ByLine<'f> = dyn Fn(&Span, usize, &mut [i64]) + Sync + 'f;

/// I64 made of each line of `x`, `count` along `axis`.
fn by_line(x: &View, axis: usize, count: usize, f: &ByLine<'_>) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    if cut.inner > 1 {
        let [found] = end_to_end(x, axis, count, &|x, last| [by_line(x, last, count, f)]);
        return found;
    }
    let (span, lines) = (Span::row_major(x), lines_of(WORK, cut.len));
    let mut storage = Storage::unwritten(DType::I64, cut.outer * count * cut.inner);
    for_chunks_of(&mut storage, lines * count, x.layout.count(), &|chunk, piece| {
        if let SliceMut::I64(piece) = piece {
            piece.chunks_mut(count).enumerate().for_each(|(i, out)| f(&span, chunk * lines + i, out));
        }
    });
    storage
}

fn with_size(mut shape: Dims, axis: usize, size: usize) -> Dims {
    shape.get_mut(axis).into_iter().for_each(|old| *old = size);
    shape
}

/// Positions that are picked from a line.
trait Pick: Sync {
    /// Whether the greatest comes first.
    fn descending(&self) -> bool {
        false
    }

    /// Fills `out`. Must be `#[inline(always)]`, as what it calls for each element: see [`Kernel::run`].
    fn pick<A: Copy, R: Rank>(&self, line: &[A], rank: impl Fn(A) -> R, out: &mut [i64]);
}

fn positions(x: &View, axis: usize, count: usize, pick: &impl Pick) -> Storage {
    let len = Cut::new(&x.layout.shape, axis).len;
    by_line(x, axis, count, &|lines, number, out| match x.logical {
        dtype if dtype.is_float() && dtype != DType::F64 && u32::try_from(len).is_ok() => {
            scratch::with(len, |line: &mut [f32]| {
                dispatch(Picked { pick, line: lines.read(number * len, len, line), rank: short_rank, out });
            });
        }
        dtype if dtype.is_float() => scratch::with(len, |line: &mut [f64]| {
            dispatch(Picked { pick, line: lines.read(number * len, len, line), rank, out });
        }),
        _ => scratch::with(len, |line: &mut [i64]| {
            dispatch(Picked { pick, line: lines.read(number * len, len, line), rank: |x| x, out });
        }),
    })
}

/// What is picked from one line.
struct Picked<'a, A, P, F> {
    pick: &'a P,
    line: &'a [A],
    rank: F,
    out: &'a mut [i64],
}

impl<A: Copy, R: Rank, P: Pick, F: Fn(A) -> R> Kernel for Picked<'_, A, P, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { pick, line, rank, out } = self;
        let flip = if pick.descending() { R::ALL } else { R::NONE };
        pick.pick(line, |x| rank(x) ^ flip, out);
    }
}

/// What orders the values of elements.
trait Rank: Ord + Copy + std::ops::BitXor<Output = Self> {
    /// That and the position; of floats of up to 32 bits both are one number.
    type Key: Ord + Copy;
    /// No bits.
    const NONE: Self;
    /// All bits, which turn the order round.
    const ALL: Self;
    /// That of NaN, in ascending order.
    const NAN: Self;

    fn at(self, position: usize) -> Self::Key;
    fn position(key: Self::Key) -> i64;
    fn of(key: Self::Key) -> Self;
}

impl Rank for i64 {
    type Key = (i64, i64);
    const NONE: Self = 0;
    const ALL: Self = -1;
    const NAN: Self = i64::MAX;

    fn at(self, position: usize) -> Self::Key {
        (self, position as i64)
    }

    fn position(key: Self::Key) -> i64 {
        key.1
    }

    fn of(key: Self::Key) -> Self {
        key.0
    }
}

impl Rank for i32 {
    type Key = i64;
    const NONE: Self = 0;
    const ALL: Self = -1;
    const NAN: Self = i32::MAX;

    fn at(self, position: usize) -> i64 {
        i64::from(self) << 32 | position as i64
    }

    fn position(key: i64) -> i64 {
        key & i64::from(u32::MAX)
    }

    fn of(key: i64) -> Self {
        (key >> 32) as i32
    }
}

/// Numbers in order, both zeros as one, then NaN.
#[inline(always)]
fn rank(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = (value + 0.0).to_bits() as i64;
    // The greater a negative number's magnitude, the less it is.
    bits ^ (bits >> 63 & i64::MAX)
}

/// [`rank`] in 32 bits.
#[inline(always)]
fn short_rank(value: f32) -> i32 {
    if value.is_nan() {
        return i32::MAX;
    }
    let bits = (value + 0.0).to_bits() as i32;
    bits ^ (bits >> 31 & i32::MAX)
}

/// The first in order, as many as there is room for.
struct First {
    descending: bool,
}

impl Pick for First {
    fn descending(&self) -> bool {
        self.descending
    }

    #[inline(always)]
    fn pick<A: Copy, R: Rank>(&self, line: &[A], rank: impl Fn(A) -> R, out: &mut [i64]) {
        let Some(last) = out.len().checked_sub(1) else { return };
        let mut first = if line.len() >= BLOCK * BLOCK && out.len() <= line.len() / FEW {
            leading(line, rank, out.len())
        } else {
            line.iter().enumerate().map(|(i, &x)| rank(x).at(i)).collect()
        };
        if last + 1 < first.len() {
            first.select_nth_unstable(last);
            first.truncate(last + 1);
        }
        first.sort_unstable();
        out.iter_mut().zip(first).for_each(|(out, key)| *out = R::position(key));
    }
}

/// Elements of a line for each that is wanted, from which on it is worth finding out which ones cannot be.
const FEW: usize = 2 * BLOCK;
/// Elements of which the first in order is found: every sixteenth of 256, so that sixteen blocks are compared at once.
const BLOCK: usize = 16;

/// The elements of a line that may be among the first `count` in order.
///
/// The blocks whose first elements are the first of all blocks' hold as many as are wanted: what comes behind the last of those is
/// not one of them. Five of 1024 took a core of Zen 5 3.6 µs by passing over what is behind the last of those that were seen.
#[inline(always)]
fn leading<A: Copy, R: Rank>(line: &[A], rank: impl Fn(A) -> R, count: usize) -> Vec<R::Key> {
    let (rows, rest) = line.as_chunks::<BLOCK>();
    let (groups, rows) = rows.as_chunks::<BLOCK>();
    let mut leads = Vec::with_capacity(groups.len() * BLOCK);
    for group in groups {
        let mut lead = group[0].map(&rank);
        for row in &group[1..] {
            for (lead, &x) in lead.iter_mut().zip(row) {
                *lead = (*lead).min(rank(x));
            }
        }
        leads.extend(lead);
    }
    let mut found = Vec::with_capacity(4 * count);
    let bound = *leads.clone().select_nth_unstable(count - 1).1;
    for (block, _) in leads.iter().enumerate().filter(|(_, lead)| **lead <= bound) {
        let (group, column) = (block / BLOCK, block % BLOCK);
        for (row, x) in groups[group].iter().enumerate() {
            let rank = rank(x[column]);
            if rank <= bound {
                found.push(rank.at((group * BLOCK + row) * BLOCK + column));
            }
        }
    }
    let tail = groups.len() * BLOCK * BLOCK;
    for (i, &x) in rows.as_flattened().iter().chain(rest).enumerate() {
        let rank = rank(x);
        if rank <= bound {
            found.push(rank.at(tail + i));
        }
    }
    found
}

/// The middle of a line.
struct Middle {
    left_out: bool,
}

impl Pick for Middle {
    #[inline(always)]
    fn pick<A: Copy, R: Rank>(&self, line: &[A], rank: impl Fn(A) -> R, out: &mut [i64]) {
        let mut keys: Vec<R::Key> = line.iter().enumerate().map(|(i, &x)| rank(x).at(i)).collect();
        let numbers = keys.iter().filter(|&&key| R::of(key) != R::NAN).count();
        let wins = numbers < keys.len() && !self.left_out;
        let place = if wins { numbers } else { numbers.saturating_sub(1) / 2 };
        out[0] = R::position(*keys.select_nth_unstable(place).1);
    }
}
