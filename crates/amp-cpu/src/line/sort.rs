//! Places in the order of a line's elements: stable sorting, the first few, the middle, and running extremes.

use super::{Cut, Span, WORK};
use crate::num::{Num, in_num};
use crate::split::for_chunks;
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

/// Where the middle element of each line along `axis` is, the lower of two, as I64; `axis` stays with size 1.
///
/// The last NaN of a line comes before all numbers, unless NaN is `left_out` and there are any. Lines are not empty.
pub fn median(x: &View, axis: usize, left_out: bool) -> Storage {
    positions(x, axis, 1, &Middle { left_out })
}

/// Where the largest (or least) element so far along `axis` is, as I64: the later of equals, NaN once it has come.
pub fn running_extreme(max: bool, x: &View, axis: usize) -> Storage {
    let len = Cut::new(&x.layout.shape, axis).len;
    in_num!(x.logical, A => by_line(x, axis, len, &|lines, number, out| {
        scratch::with(len, |line: &mut [A]| running(max, lines.read(number * len, len, line), out));
    }))
}

fn running<A: Num>(max: bool, line: &[A], out: &mut [i64]) {
    let (mut best, mut place) = (if max { A::LEAST } else { A::GREATEST }, 0);
    for (i, (&x, out)) in (0..).zip(line.iter().zip(out)) {
        if x.is_nan() || if max { x >= best } else { x <= best } {
            (best, place) = (x, i);
        }
        *out = place;
    }
}

/// `f(all lines, number of one, its positions)`.
type ByLine<'f> = dyn Fn(&Span, usize, &mut [i64]) + Sync + 'f;

/// I64 made of each line of `x`, `count` along `axis`.
///
/// Lines that lie side by side are turned first, and what is made of them is turned back: gathering each took longer than sorting.
fn by_line(x: &View, axis: usize, count: usize, f: &ByLine<'_>) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    if cut.inner > 1 {
        let last = x.layout.shape.len() - 1;
        let moved = |layout: &Layout, from, to| Layout {
            shape: layout.shape.moved(from, to),
            strides: layout.strides.moved(from, to),
            offset: layout.offset,
        };
        let turned = copy(&View { layout: &moved(x.layout, axis, last), ..*x }, x.logical);
        let layout = Layout::contiguous(x.layout.shape.moved(axis, last));
        let found = by_line(&View { data: turned.as_slice(), layout: &layout, logical: x.logical }, last, count, f);
        let layout = Layout::contiguous(with_size(layout.shape, last, count));
        let back = moved(&layout, last, axis);
        return copy(&View { data: found.as_slice(), layout: &back, logical: DType::I64 }, DType::I64);
    }
    let (span, lines) = (Span::row_major(x), (WORK / cut.len.max(1)).max(1));
    let mut storage = Storage::unwritten(DType::I64, cut.outer * count * cut.inner);
    for_chunks(&mut storage, lines * count, &|chunk, piece| {
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

/// Positions that are picked from a line's keys.
trait Pick: Sync {
    /// Whether the greatest comes first.
    fn descending(&self) -> bool {
        false
    }

    /// Fills `out`.
    fn pick<K: Key>(&self, keys: impl Iterator<Item = K>, out: &mut [i64]);
}

fn positions(x: &View, axis: usize, count: usize, pick: &impl Pick) -> Storage {
    let len = Cut::new(&x.layout.shape, axis).len;
    let flip = if pick.descending() { -1 } else { 0 };
    by_line(x, axis, count, &|lines, number, out| match x.logical {
        DType::F64 => scratch::with(len, |line: &mut [f64]| {
            let line = lines.read(number * len, len, line).iter();
            pick.pick((0..).zip(line).map(|(i, &x)| (rank(x) ^ flip, i)), out);
        }),
        _ if x.logical.is_float() && u32::try_from(len).is_ok() => scratch::with(len, |line: &mut [f32]| {
            let line = lines.read(number * len, len, line).iter();
            pick.pick((0..).zip(line).map(|(i, &x)| (i64::from(short_rank(x)) ^ flip) << 32 | i), out);
        }),
        _ => scratch::with(len, |line: &mut [i64]| {
            let line = lines.read(number * len, len, line).iter();
            pick.pick((0..).zip(line).map(|(i, &x)| (x ^ flip, i)), out);
        }),
    })
}

/// What orders elements: the rank of their value, then their position. Of floats of up to 32 bits both are one number.
trait Key: Ord + Copy {
    fn position(self) -> i64;
    /// Whether the value is NaN, in ascending order.
    fn is_nan(self) -> bool;
}

impl Key for (i64, i64) {
    fn position(self) -> i64 {
        self.1
    }

    fn is_nan(self) -> bool {
        self.0 == i64::MAX
    }
}

impl Key for i64 {
    fn position(self) -> i64 {
        self & i64::from(u32::MAX)
    }

    fn is_nan(self) -> bool {
        self >> 32 == i64::from(i32::MAX)
    }
}

/// Numbers in order, both zeros as one, then NaN.
fn rank(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = (value + 0.0).to_bits() as i64;
    // The greater a negative number's magnitude, the less it is.
    bits ^ (bits >> 63 & i64::MAX)
}

/// [`rank`] in 32 bits.
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

    /// Whatever is behind as many as are wanted is passed over: ten of 1024 took as long as sorting all.
    fn pick<K: Key>(&self, keys: impl Iterator<Item = K>, out: &mut [i64]) {
        let (count, mut bound) = (out.len(), None);
        let most = 2 * count.max(32);
        let mut first = Vec::with_capacity(most);
        for key in keys {
            if bound.is_some_and(|bound| key > bound) {
                continue;
            }
            first.push(key);
            if first.len() == most {
                bound = Some(*first.select_nth_unstable(count - 1).1);
                first.truncate(count);
            }
        }
        first.sort_unstable();
        out.iter_mut().zip(first).for_each(|(out, key)| *out = key.position());
    }
}

/// The middle of a line.
struct Middle {
    left_out: bool,
}

impl Pick for Middle {
    fn pick<K: Key>(&self, keys: impl Iterator<Item = K>, out: &mut [i64]) {
        let mut keys: Vec<K> = keys.collect();
        let numbers = keys.iter().filter(|key| !key.is_nan()).count();
        let wins = numbers < keys.len() && !self.left_out;
        let place = if wins { keys.len() - 1 } else { numbers.saturating_sub(1) / 2 };
        out[0] = keys.select_nth_unstable(place).1.position();
    }
}
