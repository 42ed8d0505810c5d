//! Kernels that turn lines along an axis into lines.

mod scan;
mod sort;
mod span;
#[cfg(test)]
mod tests;

pub use scan::{cumprod_grad, scan};
pub use sort::sort;
pub(crate) use span::{Cut, Span};

use crate::num::Num;
use crate::split::for_chunks;
use crate::{DType, SliceMut, Storage, View};
use span::ending_in;

/// Elements of one piece of work.
const WORK: usize = 1 << 14;
/// Lines that lie side by side and are handled together.
const TILE: usize = 32;

/// Replaces every line of `x` along `axis` by `f(number of the line, line)` and stores it as `out`.
///
/// Lines are numbered in row-major order of the other axes. They are loaded, changed and stored once.
pub(crate) fn map_lines<A: Num>(x: &View, axis: usize, out: DType, f: impl Fn(usize, &mut [A]) + Sync) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    let mut storage = Storage::unwritten(out, cut.outer * cut.len * cut.inner);
    if cut.inner == 1 {
        let span = Span::row_major(x);
        let lines = (WORK / cut.len.max(1)).max(1);
        for_chunks(&mut storage, lines * cut.len, |i, mut piece| {
            let mut line = vec![A::default(); cut.len];
            for j in 0..piece.len() / cut.len {
                let number = i * lines + j;
                span.load(number * cut.len, &mut line);
                f(number, &mut line);
                A::narrow(&line, &mut piece.range(j * cut.len, cut.len));
            }
        });
    } else {
        let span = Span::row_major(x);
        for_chunks(&mut storage, cut.len * cut.inner, |outer, mut piece| {
            for first in (0..cut.inner).step_by(TILE) {
                map_tile(&span, cut, outer, first, &mut piece, &f);
            }
        });
    }
    storage
}

/// Lines `first .. first + TILE` of one outer block, transposed while they are handled.
fn map_tile<A: Num>(
    span: &Span,
    cut: Cut,
    outer: usize,
    first: usize,
    out: &mut SliceMut,
    f: &impl Fn(usize, &mut [A]),
) {
    let width = TILE.min(cut.inner - first);
    let mut row = [A::default(); TILE];
    let mut lines = vec![A::default(); width * cut.len];
    for k in 0..cut.len {
        span.load((outer * cut.len + k) * cut.inner + first, &mut row[..width]);
        row[..width].iter().enumerate().for_each(|(j, &x)| lines[j * cut.len + k] = x);
    }
    for (j, line) in lines.chunks_mut(cut.len).enumerate() {
        f(outer * cut.inner + first + j, line);
    }
    for k in 0..cut.len {
        row[..width].iter_mut().enumerate().for_each(|(j, x)| *x = lines[j * cut.len + k]);
        let start = k * cut.inner + first;
        A::narrow(&row[..width], &mut out.range(start, width));
    }
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

    /// Loads line `number`, or a part of it that starts at `first`.
    pub fn load<A: Num>(&self, number: usize, out: &mut [A]) {
        self.span.load(number * self.len, out);
    }
}
