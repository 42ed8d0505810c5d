//! Parallel folds over the elements of a view, in an order that depends on sizes alone.
//!
//! Elements are combined in a balanced tree over blocks of [`BLOCK`]; a block is combined by [`LANES`] independent
//! accumulators. Errors therefore grow with the logarithm of the count, and results do not depend on the number of
//! threads.

use crate::View;
use crate::num::Num;
use crate::parallel::{self, CHUNK};
use crate::span::Span;
use crate::split::PARALLEL;
use std::ops::Range;

/// Elements that are combined before the tree begins.
pub(crate) const BLOCK: usize = CHUNK;
/// Independent accumulators within a block.
const LANES: usize = 64;
/// Columns that are folded side by side.
const TILE: usize = 512;
/// Rows that are folded one after another.
const ROWS: usize = 16;

/// What is folded: `join(.., join(map(x0), map(x1)))`.
pub(crate) trait Fold<A>: Sync {
    /// Neutral element of `join`.
    const START: A;

    /// Prepares one element.
    fn map(x: A) -> A;
    /// Combines two values; associative up to rounding.
    fn join(a: A, b: A) -> A;
}

/// How the axes of a view fall into kept and reduced ones.
pub(crate) struct Axes {
    /// Kept axes, in order.
    pub kept: Vec<usize>,
    /// Reduced axes, in order.
    pub reduced: Vec<usize>,
    /// Elements of the output.
    pub outputs: usize,
    /// Elements that go into each output.
    pub count: usize,
}

impl Axes {
    /// Splits the axes of `x`.
    pub fn new(x: &View, reduced: &[usize]) -> Self {
        let shape = &x.layout.shape;
        let (reduced, kept): (Vec<_>, Vec<_>) = (0..shape.len()).partition(|a| reduced.contains(a));
        let count = |axes: &[usize]| axes.iter().map(|&a| shape[a]).product();
        Self { outputs: count(&kept), count: count(&reduced), kept, reduced }
    }

    /// Number of trailing kept axes whose elements lie side by side while reduced neighbours do not.
    ///
    /// Such columns are added row by row; everything else is folded output by output.
    fn columns(&self, x: &View) -> usize {
        let (shape, strides) = (&x.layout.shape, &x.layout.strides);
        let near = |axes: &[usize]| axes.iter().any(|&a| shape[a] > 1 && strides[a] <= 1);
        if near(&self.reduced) || self.count <= 1 {
            return 0;
        }
        let mut step = 1;
        let side_by_side = self.kept.iter().rev().take_while(|&&a| {
            let fits = shape[a] == 1 || strides[a] == step;
            step *= shape[a];
            fits
        });
        side_by_side.count()
    }
}

/// Folds the axes `axes.reduced` of `x`, one value per output.
pub(crate) fn fold<A: Num, F: Fold<A>>(x: &View, axes: &Axes) -> Vec<A> {
    let columns = axes.columns(x);
    let inner: usize = axes.kept[axes.kept.len() - columns..].iter().map(|&a| x.layout.shape[a]).product();
    if columns > 0 && inner >= 8 {
        fold_columns::<A, F>(x, axes, columns, inner)
    } else {
        fold_with(x, axes, F::START, |_, block| fold_block(block, F::START, F::map, F::join), F::join)
    }
}

/// Folds each output's elements, block by block: `leaf(position of the first, elements)`, then a tree of `join`.
pub(crate) fn fold_with<A: Num, T: Copy + Send + Sync>(
    x: &View,
    axes: &Axes,
    start: T,
    leaf: impl Fn(usize, &[A]) -> T + Sync,
    join: impl Fn(T, T) -> T + Sync,
) -> Vec<T> {
    let span = Span::new(x, axes.kept.iter().chain(&axes.reduced).copied());
    let (count, mut out) = (axes.count, vec![start; axes.outputs]);
    if count == 0 {
        return out;
    }
    let rows = (BLOCK / count).max(1);
    let short = |chunk: usize, out: &mut [T]| {
        let mut scratch = [A::ZERO; CHUNK];
        let block = span.read(chunk * rows * count, out.len() * count, &mut scratch);
        out.iter_mut().zip(block.chunks(count)).for_each(|(o, row)| *o = leaf(0, row));
    };
    let long =
        |row: usize, out: &mut T| *out = fold_tree(&span, row * count, row * count..(row + 1) * count, &leaf, &join);
    match (count <= BLOCK, axes.outputs * count < PARALLEL) {
        (true, true) => out.chunks_mut(rows).enumerate().for_each(|(i, out)| short(i, out)),
        (true, false) => parallel::for_each_chunk_mut(&mut out, rows, &short),
        (false, true) => out.iter_mut().enumerate().for_each(|(i, out)| long(i, out)),
        (false, false) => parallel::for_each_mut(&mut out, &long),
    }
    out
}

fn fold_tree<A: Num, T: Copy + Send>(
    span: &Span,
    first: usize,
    range: Range<usize>,
    leaf: &(impl Fn(usize, &[A]) -> T + Sync),
    join: &(impl Fn(T, T) -> T + Sync),
) -> T {
    let len = range.len();
    let Some(middle) = middle(len).map(|m| range.start + m) else {
        let mut scratch = [A::ZERO; BLOCK];
        return leaf(range.start - first, span.read(range.start, len, &mut scratch));
    };
    let left = || fold_tree(span, first, range.start..middle, leaf, join);
    let right = || fold_tree(span, first, middle..range.end, leaf, join);
    let (a, b) = if len >= 2 * PARALLEL { parallel::join(left, right) } else { (left(), right()) };
    join(a, b)
}

/// Folds one block with [`LANES`] accumulators, then halves them.
#[inline(always)]
pub(crate) fn fold_block<A: Copy>(block: &[A], start: A, map: impl Fn(A) -> A, join: impl Fn(A, A) -> A) -> A {
    if block.len() < LANES {
        return block.iter().fold(start, |acc, &x| join(acc, map(x)));
    }
    let mut lanes = [start; LANES];
    let (chunks, tail) = block.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &x)| *lane = join(*lane, map(x)));
    }
    lanes.iter_mut().zip(tail).for_each(|(lane, &x)| *lane = join(*lane, map(x)));
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// `Σ f(x)` of a line of any length.
pub(crate) fn sum_of<A: Num>(line: &[A], f: &impl Fn(A) -> A) -> A {
    match middle(line.len()) {
        None => fold_block(line, A::ZERO, f, A::add),
        Some(m) => sum_of(&line[..m], f).add(sum_of(&line[m..], f)),
    }
}

/// `Σ a b` of two lines of one length.
pub(crate) fn dot_of<A: Num>(a: &[A], b: &[A]) -> A {
    if let Some(m) = middle(a.len()) {
        return dot_of(&a[..m], &b[..m]).add(dot_of(&a[m..], &b[m..]));
    }
    let mut lanes = [A::ZERO; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (&a, &b))| *lane = lane.add(a.mul(b)));
    }
    fold_block(&lanes, A::ZERO, |x| x, A::add)
}

/// Where a line of more than one block is cut in two.
pub(crate) fn middle(len: usize) -> Option<usize> {
    (len > BLOCK).then(|| len.div_ceil(BLOCK) / 2 * BLOCK)
}

/// Rows of `width` neighbouring elements, folded into one row.
struct Columns<'a> {
    span: Span<'a>,
    first: usize,
    step: usize,
}

fn fold_columns<A: Num, F: Fold<A>>(x: &View, axes: &Axes, columns: usize, inner: usize) -> Vec<A> {
    let (before, side_by_side) = axes.kept.split_at(axes.kept.len() - columns);
    let order = || before.iter().chain(&axes.reduced).chain(side_by_side).copied();
    let mut out = vec![F::START; axes.outputs];
    let tiles = inner.div_ceil(TILE);
    let mut pieces: Vec<&mut [A]> = out.chunks_mut(inner.max(1)).flat_map(|line| line.chunks_mut(TILE)).collect();
    let tile = |i: usize, piece: &mut &mut [A]| {
        let (line, column) = (i / tiles, i % tiles * TILE);
        let columns = Columns { span: Span::new(x, order()), first: line * axes.count * inner + column, step: inner };
        columns.fold::<A, F>(0..axes.count, piece);
    };
    if axes.outputs * axes.count < PARALLEL {
        pieces.iter_mut().enumerate().for_each(|(i, piece)| tile(i, piece));
    } else {
        parallel::for_each_mut(&mut pieces, &tile);
    }
    out
}

impl Columns<'_> {
    fn fold<A: Num, F: Fold<A>>(&self, rows: Range<usize>, out: &mut [A]) {
        if rows.len() <= ROWS {
            let mut scratch = [A::ZERO; CHUNK];
            for row in rows {
                add_row::<A, F>(self.span.read(self.first + row * self.step, out.len(), &mut scratch), out);
            }
            return;
        }
        let middle = rows.start + (rows.len().div_ceil(ROWS) / 2) * ROWS;
        let mut right = [F::START; TILE];
        let right = &mut right[..out.len()];
        if rows.len() * out.len() >= 2 * PARALLEL {
            let rest = middle..rows.end;
            parallel::join(|| self.fold::<A, F>(rows.start..middle, out), || self.fold::<A, F>(rest, right));
        } else {
            self.fold::<A, F>(rows.start..middle, out);
            self.fold::<A, F>(middle..rows.end, right);
        }
        out.iter_mut().zip(right).for_each(|(a, &mut b)| *a = F::join(*a, b));
    }
}

#[inline(always)]
fn add_row<A: Num, F: Fold<A>>(row: &[A], out: &mut [A]) {
    out.iter_mut().zip(row).for_each(|(o, &x)| *o = F::join(*o, F::map(x)));
}
