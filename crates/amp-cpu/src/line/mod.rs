//! Kernels that turn lines along an axis into lines.

mod extreme;
mod scan;
mod sort;
mod span;
mod strip;
#[cfg(test)]
mod tests;

pub use extreme::running_extreme;
pub use scan::{cumprod_grad, scan};
pub use sort::{median, sort, topk};
pub(crate) use span::{Cut, Span};
pub(crate) use strip::{Strip, map_strips};

use crate::convert::Stored;
use crate::num::{Num, Real};
use crate::split::for_chunks;
use crate::{DType, SliceMut, Storage, View, scratch};
use span::ending_in;

/// Elements of one piece of work.
const WORK: usize = 1 << 14;
/// Lines that lie side by side and are handled together.
const TILE: usize = 32;

/// `f(number of the line, line, new line)`.
type ByLine<'f, A> = dyn Fn(usize, &[A], &mut [A]) + Sync + 'f;

/// `f(number of the line, line, room for one in A, new line)`.
type ByStored<'f, A, B> = dyn Fn(usize, &[B], &mut [A], &mut [B]) + Sync + 'f;

/// Turns every line of `x` along `axis` into one of `out`: `f(number of the line, line, new line)`.
///
/// Lines are numbered in row-major order of the other axes. Each is read once, where it is stored if that is contiguous
/// and of type `A`, and written once, likewise. Asking for all of the next line took longer than it saved: 1.76 ms and
/// not 1.16 for softmax of 4 M F32.
pub(crate) fn map_lines<A: Num>(x: &View, axis: usize, out: DType, f: &ByLine<'_, A>) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    let mut storage = Storage::unwritten(out, cut.outer * cut.len * cut.inner);
    if cut.inner == 1 {
        let span = Span::row_major(x);
        let lines = (WORK / cut.len.max(1)).max(1);
        for_chunks(&mut storage, lines * cut.len, &|i, mut piece| {
            scratch::with(2 * cut.len, |buffer: &mut [A]| {
                let (from, to) = buffer.split_at_mut(cut.len);
                for j in 0..piece.len() / cut.len {
                    let number = i * lines + j;
                    let line = span.read(number * cut.len, cut.len, from);
                    store(&mut piece.range(j * cut.len, cut.len), to, |to| f(number, line, to));
                }
            });
        });
    } else {
        let span = Span::row_major(x);
        for_chunks(&mut storage, cut.len * cut.inner, &|outer, mut piece| {
            for first in (0..cut.inner).step_by(TILE) {
                map_tile(&span, cut, outer, first, &mut piece, f);
            }
        });
    }
    storage
}

/// [`map_lines`] without a conversion on the way, where those of `x` lie one after the other in the type `B`: into lines of that
/// type.
pub(crate) fn map_stored<A: Real, B: Stored<A>>(x: &View, axis: usize, f: &ByStored<'_, A, B>) -> Option<Storage> {
    let lines = Lines::new(x, axis);
    let all = lines.stored::<A, B>()?;
    let mut storage = Storage::unwritten(x.data.dtype(), all.len());
    let count = (WORK / lines.len.max(1)).max(1);
    for_chunks(&mut storage, count * lines.len, &|i, mut piece| {
        let piece = B::same_mut(&mut piece).expect("of the type of `x`");
        scratch::with(lines.len, |room: &mut [A]| {
            for (j, to) in piece.chunks_mut(lines.len).enumerate() {
                f(i * count + j, &all[(i * count + j) * lines.len..][..lines.len], room, to);
            }
        });
    });
    Some(storage)
}

/// Lets `f` write its results straight to `out`, or by way of `scratch` when they have to be converted.
pub(crate) fn store<A: Num, R>(out: &mut SliceMut, scratch: &mut [A], f: impl FnOnce(&mut [A]) -> R) -> R {
    if let Some(out) = A::same_mut(out) {
        return f(out);
    }
    let result = f(scratch);
    A::narrow(scratch, out);
    result
}

/// Lines `first .. first + TILE` of one outer block, transposed while they are handled.
fn map_tile<A: Num>(span: &Span, cut: Cut, outer: usize, first: usize, out: &mut SliceMut, f: &ByLine<'_, A>) {
    let width = TILE.min(cut.inner - first);
    let mut row = [A::default(); TILE];
    scratch::with((width + 1) * cut.len, |lines: &mut [A]| {
        let (line, lines) = lines.split_at_mut(cut.len);
        for k in 0..cut.len {
            span.load((outer * cut.len + k) * cut.inner + first, &mut row[..width]);
            row[..width].iter().enumerate().for_each(|(j, &x)| lines[j * cut.len + k] = x);
        }
        for (j, to) in lines.chunks_mut(cut.len).enumerate() {
            line.copy_from_slice(to);
            f(outer * cut.inner + first + j, line, to);
        }
        for k in 0..cut.len {
            row[..width].iter_mut().enumerate().for_each(|(j, x)| *x = lines[j * cut.len + k]);
            let start = k * cut.inner + first;
            A::narrow(&row[..width], &mut out.range(start, width));
        }
    });
}

/// Loads lines of `x` along `axis` by their number in row-major order of the other axes.
pub(crate) struct Lines<'a> {
    span: Span<'a>,
    len: usize,
}

impl<'a> Lines<'a> {
    pub fn new(x: &'a View<'a>, axis: usize) -> Self {
        let shape = &x.layout.shape;
        Self { span: Span::new(x, ending_in(shape.len(), axis)), len: Cut::new(shape, axis).len }
    }

    /// All of them as they are stored, where they are row-major, along the last axis, and of this type.
    pub fn stored<A: Real, B: Stored<A>>(&self) -> Option<&'a [B]> {
        self.span.stored::<A, B>()
    }

    /// Line `number`: the stored one where that serves as it is, else loaded into `scratch`.
    pub fn read<'s, A: Num>(&'s self, number: usize, scratch: &'s mut [A]) -> &'s [A] {
        self.span.read(number * self.len, self.len, scratch)
    }
}
