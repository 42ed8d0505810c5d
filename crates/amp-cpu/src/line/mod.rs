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
use crate::parallel::CHUNK;
use crate::split::for_chunks;
use crate::{DType, SliceMut, Storage, View, scratch};
use span::ending_in;

/// Elements of one piece of work.
const WORK: usize = 1 << 14;
/// Elements of the lines that are handled by one call, where these are short.
///
/// A call a line took 37 ns, longer than a softmax of 64 elements: 65536 of these in F32 took two threads of a Zen 5 1.75 ms and
/// with their gradient 3.2 to 4.4, and take 1.09 and 1.92.
const CALL: usize = 2 * CHUNK;

/// `f(number of the first line, lines, new lines)`.
type ByLines<'f, A> = dyn Fn(usize, &[A], &mut [A]) + Sync + 'f;

/// `f(number of the first line, lines, room for one in A, new lines)`.
type ByStored<'f, A, B> = dyn Fn(usize, &[B], &mut [A], &mut [B]) + Sync + 'f;

/// Turns lines of `len` elements of `x`, one after the other, into as many of `out`.
///
/// Lines are numbered in row-major order of the other axes. Each is read once, where it is stored if that is contiguous
/// and of type `A`, and written once, likewise. Prefetching all of the next line took longer than it saved: 1.76 ms and
/// not 1.16 for softmax of 4 M F32.
pub(crate) fn map_lines<A: Num>(x: &View, len: usize, out: DType, f: &ByLines<'_, A>) -> Storage {
    let span = Span::row_major(x);
    let mut storage = Storage::unwritten(out, span.len());
    let (lines, call) = (lines_of(WORK, len), lines_of(CALL, len) * len);
    for_chunks(&mut storage, lines * len, &|i, mut piece| {
        let first = i * lines * len;
        scratch::with(2 * call, |buffer: &mut [A]| {
            for at in (0..piece.len()).step_by(call) {
                let n = call.min(piece.len() - at);
                let (from, to) = buffer[..2 * n].split_at_mut(n);
                let lines = span.read(first + at, n, from);
                store(&mut piece.range(at, n), to, |to| f((first + at) / len, lines, to));
            }
        });
    });
    storage
}

/// Lines of `len` elements that make up so many, if that is one.
fn lines_of(elements: usize, len: usize) -> usize {
    (elements / len.max(1)).max(1)
}

/// [`map_lines`] without a conversion on the way, where those of `x` lie one after the other in the type `B`: into lines of that
/// type.
pub(crate) fn map_stored<A: Real, B: Stored<A>>(x: &View, len: usize, f: &ByStored<'_, A, B>) -> Option<Storage> {
    let all = Span::row_major(x).stored::<A, B>()?;
    let mut storage = Storage::unwritten(x.data.dtype(), all.len());
    let count = lines_of(WORK, len);
    for_chunks(&mut storage, count * len, &|i, mut piece| {
        let piece = B::same_mut(&mut piece).expect("of the type of `x`");
        scratch::with(len, |room: &mut [A]| f(i * count, &all[i * count * len..][..piece.len()], room, piece));
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

    /// Lines from `first` on that fill `scratch`: the stored ones where these serve as they are, else loaded into it.
    pub fn read_all<'s, A: Num>(&'s self, first: usize, scratch: &'s mut [A]) -> &'s [A] {
        self.span.read(first * self.len, scratch.len(), scratch)
    }

    /// Line `number`: the stored one where that serves as it is, else loaded into `scratch`.
    pub fn read<'s, A: Num>(&'s self, number: usize, scratch: &'s mut [A]) -> &'s [A] {
        self.span.read(number * self.len, self.len, scratch)
    }
}
