//! Folds of outputs that lie side by side: row after row, so that memory is read in order.

use super::fold::{Axes, Fold, Folded, Leaves};
use crate::View;
use crate::buffer::Buffer;
use crate::line::Span;
use crate::num::Num;
use crate::parallel;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::split::PARALLEL;
use std::marker::PhantomData;
use std::ops::Range;

/// Columns that are folded side by side.
const TILE: usize = 512;
/// Rows that are folded one after another.
const ROWS: usize = 16;

/// Rows that are prefetched: where they are longer than a tile, the hardware sees no pattern. Sums of 2048
/// rows of 1536 BF16 took 1.0 ms without, and take 0.47.
const AHEAD: usize = 4;

/// Outputs that lie side by side: rows of `inner` neighbours, `count` of them below one another, `lines` times.
pub(super) struct Side<'a> {
    span: Span<'a>,
    lines: usize,
    count: usize,
    inner: usize,
}

impl<'a> Side<'a> {
    pub fn of(x: &View<'a>, axes: &Axes) -> Option<Self> {
        let columns = axes.columns(x);
        let (before, inside) = axes.kept.split_at(axes.kept.len() - columns);
        let inner: usize = inside.iter().map(|&a| x.layout.shape[a]).product();
        let span = || Span::new(x, before.iter().chain(&axes.reduced).chain(inside).copied());
        (columns > 0 && inner >= 4).then(|| Self {
            span: span(),
            lines: axes.outputs / inner,
            count: axes.count,
            inner,
        })
    }

    /// Calls `tile(position of its first element, outputs)` for tiles of up to `width` outputs side by side.
    fn tiles<T: Send>(&self, out: &mut [T], width: usize, tile: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let tiles = self.inner.div_ceil(width);
        let first = |i: usize| i / tiles * self.count * self.inner + i % tiles * width;
        let mut pieces: Vec<&mut [T]> = Vec::with_capacity(self.lines * tiles);
        out.chunks_mut(self.inner).for_each(|line| pieces.extend(line.chunks_mut(width)));
        if self.lines * self.count * self.inner < PARALLEL {
            pieces.iter_mut().enumerate().for_each(|(i, piece)| tile(first(i), piece));
        } else {
            parallel::for_each_mut(&mut pieces, &|i, piece: &mut &mut [T]| tile(first(i), piece));
        }
    }
}

/// Rows of neighbouring elements, folded into one row.
struct Columns<'a> {
    span: &'a Span<'a>,
    first: usize,
    step: usize,
}

/// A fold behind `dyn`: what goes through a tensor is compiled once for all folds of a type.
pub(super) trait Rows<A>: Sync {
    /// The fold of nothing.
    fn start(&self) -> A;
    /// Folds one more element into each output.
    fn add(&self, row: &[A], out: &mut [A]);
    /// Joins each output with another fold of its elements.
    fn join(&self, row: &[A], out: &mut [A]);
}

impl<A: Num, F: Fold<A>> Rows<A> for Folded<F> {
    fn start(&self) -> A {
        F::START
    }

    fn add(&self, row: &[A], out: &mut [A]) {
        dispatch(AddRow::<A, F> { row, out, fold: PhantomData });
    }

    fn join(&self, row: &[A], out: &mut [A]) {
        out.iter_mut().zip(row).for_each(|(a, &b)| *a = F::join(*a, b));
    }
}

pub(super) fn fold_columns<A: Num>(side: &Side, fold: &dyn Rows<A>) -> Vec<A> {
    let mut out = vec![fold.start(); side.lines * side.inner];
    side.tiles(&mut out, TILE, &|first, piece| {
        Columns { span: &side.span, first, step: side.inner }.fold_grouped(fold, side.count, piece);
    });
    out
}

/// Columns that are turned into rows together, and how many of their elements at a time.
const TURNED: (usize, usize) = (32, 256);

pub(super) fn fold_transposed<A: Num, P: Copy + Send + Sync>(side: &Side, leaf: &dyn Leaves<A, P>) -> Vec<P> {
    let mut out = vec![leaf.none(); side.lines * side.inner];
    side.tiles(&mut out, TURNED.0, &|first, piece| {
        Columns { span: &side.span, first, step: side.inner }.fold_turned(leaf, 0..side.count, piece);
    });
    out
}

impl Columns<'_> {
    /// As [`Self::fold`], for a leaf that wants the elements of one output together.
    fn fold_turned<A: Num, P: Copy + Send + Sync>(&self, leaf: &dyn Leaves<A, P>, rows: Range<usize>, out: &mut [P]) {
        let (width, count) = (out.len(), rows.len());
        if count <= TURNED.1 {
            let (mut row, mut elements) = ([A::ZERO; TURNED.0], vec![A::ZERO; width * count]);
            for (i, r) in rows.clone().enumerate() {
                self.span.load(self.first + r * self.step, &mut row[..width]);
                row[..width].iter().enumerate().for_each(|(j, &x)| elements[j * count + i] = x);
            }
            return leaf.blocks(rows.start, 0, count, &elements, out);
        }
        let middle = rows.start + count.div_ceil(TURNED.1) / 2 * TURNED.1;
        let mut right = vec![leaf.none(); width];
        let halves = (rows.start..middle, middle..rows.end);
        if count * width >= 2 * PARALLEL {
            parallel::join(|| self.fold_turned(leaf, halves.0, out), || self.fold_turned(leaf, halves.1, &mut right));
        } else {
            self.fold_turned(leaf, halves.0, out);
            self.fold_turned(leaf, halves.1, &mut right);
        }
        out.iter_mut().zip(right).for_each(|(a, b)| *a = leaf.join(*a, b));
    }

    /// Folds `count` rows. Short rows that follow one another are taken several at a time, as one wide row.
    fn fold_grouped<A: Num>(&self, fold: &dyn Rows<A>, count: usize, out: &mut [A]) {
        let width = out.len();
        let group = if width == self.step { (TILE / width).min(count) } else { 1 };
        if group == 1 {
            return self.fold(fold, 0..count, out);
        }
        let wide = Columns { span: self.span, first: self.first, step: width * group };
        let mut sums = [fold.start(); TILE];
        let sums = &mut sums[..width * group];
        wide.fold(fold, 0..count / group, sums);
        sums.chunks(width).for_each(|row| fold.join(row, out));
        self.fold(fold, count / group * group..count, out);
    }

    fn fold<A: Num>(&self, fold: &dyn Rows<A>, rows: Range<usize>, out: &mut [A]) {
        if rows.len() <= ROWS {
            let mut scratch = Buffer::new();
            for row in rows {
                self.span.prefetch(self.first + (row + AHEAD) * self.step, out.len());
                let row = self.span.read_lazily(self.first + row * self.step, out.len(), &mut scratch);
                fold.add(row, out);
            }
            return;
        }
        let middle = rows.start + (rows.len().div_ceil(ROWS) / 2) * ROWS;
        let mut right = [fold.start(); TILE];
        let right = &mut right[..out.len()];
        if rows.len() * out.len() >= 2 * PARALLEL {
            parallel::join(|| self.fold(fold, rows.start..middle, out), || self.fold(fold, middle..rows.end, right));
        } else {
            self.fold(fold, rows.start..middle, out);
            self.fold(fold, middle..rows.end, right);
        }
        fold.join(right, out);
    }
}

struct AddRow<'a, A, F> {
    row: &'a [A],
    out: &'a mut [A],
    fold: PhantomData<F>,
}

impl<A: Num, F: Fold<A>> Kernel for AddRow<'_, A, F> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.out.iter_mut().zip(self.row).for_each(|(o, &x)| *o = F::join(*o, F::map(x)));
    }
}
