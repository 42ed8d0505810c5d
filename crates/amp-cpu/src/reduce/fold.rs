//! Parallel folds over the elements of a view, in an order that depends on sizes alone.
//!
//! Elements are combined in a balanced tree over blocks of [`BLOCK`]; a block is combined by [`LANES`] independent
//! accumulators. Errors therefore grow with the logarithm of the count, and results do not depend on the number of
//! threads.

use crate::View;
use crate::line::Span;
use crate::num::Num;
use crate::parallel::{self, CHUNK};
use crate::simd::{Kernel, Simd, dispatch};
use crate::split::PARALLEL;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements that are combined before the tree begins.
pub(crate) const BLOCK: usize = CHUNK;
/// Independent accumulators within a block.
const LANES: usize = 64;
/// Columns that are folded side by side.
const TILE: usize = 512;
/// Rows that are folded one after another.
const ROWS: usize = 16;

/// What is folded: `join(.., join(map(x0), map(x1)))`. Both functions must be `#[inline(always)]`.
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

/// What a block of elements is reduced to, and how blocks come together.
pub(crate) trait Leaf<A>: Sync {
    /// The result of some elements.
    type Partial: Copy + Send + Sync;

    /// The result of no elements.
    fn none(&self) -> Self::Partial;
    /// The result of `block`, whose first element is number `first` of its output; must be `#[inline(always)]`.
    fn block(&self, first: usize, block: &[A]) -> Self::Partial;
    /// The result of both together.
    fn join(&self, a: Self::Partial, b: Self::Partial) -> Self::Partial;
}

/// The leaf of a plain fold.
struct Folded<F>(PhantomData<F>);

impl<A: Num, F: Fold<A>> Leaf<A> for Folded<F> {
    type Partial = A;

    fn none(&self) -> A {
        F::START
    }

    #[inline(always)]
    fn block(&self, _: usize, block: &[A]) -> A {
        fold_block(block, F::START, F::map, F::join)
    }

    fn join(&self, a: A, b: A) -> A {
        F::join(a, b)
    }
}

/// Folds the axes `axes.reduced` of `x`, one value per output.
pub(crate) fn fold<A: Num, F: Fold<A>>(x: &View, axes: &Axes) -> Vec<A> {
    let columns = axes.columns(x);
    let inner: usize = axes.kept[axes.kept.len() - columns..].iter().map(|&a| x.layout.shape[a]).product();
    if columns > 0 && inner >= 4 {
        fold_columns::<A, F>(x, axes, columns, inner)
    } else {
        fold_rows(x, axes, &Folded::<F>(PhantomData))
    }
}

/// One block of each of several outputs.
struct Blocks<'a, A, L: Leaf<A>> {
    leaf: &'a L,
    first: usize,
    count: usize,
    elements: &'a [A],
    out: &'a mut [L::Partial],
}

impl<A, L: Leaf<A>> Kernel for Blocks<'_, A, L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (o, row) in self.out.iter_mut().zip(self.elements.chunks(self.count)) {
            *o = self.leaf.block(self.first, row);
        }
    }
}

/// Folds each output's elements, block by block, then in a tree.
pub(crate) fn fold_rows<A: Num, L: Leaf<A>>(x: &View, axes: &Axes, leaf: &L) -> Vec<L::Partial> {
    let span = Span::new(x, axes.kept.iter().chain(&axes.reduced).copied());
    let (count, mut out) = (axes.count, vec![leaf.none(); axes.outputs]);
    if count == 0 {
        return out;
    }
    let rows = (BLOCK / count).max(1);
    let short = |chunk: usize, out: &mut [L::Partial]| {
        let mut scratch = [A::ZERO; CHUNK];
        let elements = span.read(chunk * rows * count, out.len() * count, &mut scratch);
        dispatch(Blocks { leaf, first: 0, count, elements, out });
    };
    let long = |row: usize, out: &mut L::Partial| *out = fold_tree(&span, row * count, 0..count, leaf);
    match (count <= BLOCK, axes.outputs * count < PARALLEL) {
        (true, true) => out.chunks_mut(rows).enumerate().for_each(|(i, out)| short(i, out)),
        (true, false) => parallel::for_each_chunk_mut(&mut out, rows, &short),
        (false, true) => out.iter_mut().enumerate().for_each(|(i, out)| long(i, out)),
        (false, false) => parallel::for_each_mut(&mut out, &long),
    }
    out
}

/// Elements `range` of the output whose elements begin at `start`.
fn fold_tree<A: Num, L: Leaf<A>>(span: &Span, start: usize, range: Range<usize>, leaf: &L) -> L::Partial {
    let len = range.len();
    let Some(middle) = middle(len).map(|m| range.start + m) else {
        let (mut scratch, mut out) = ([A::ZERO; CHUNK], [leaf.none()]);
        let elements = span.read(start + range.start, len, &mut scratch);
        dispatch(Blocks { leaf, first: range.start, count: len, elements, out: &mut out });
        return out[0];
    };
    let left = || fold_tree(span, start, range.start..middle, leaf);
    let right = || fold_tree(span, start, middle..range.end, leaf);
    let (a, b) = if len >= 2 * PARALLEL { parallel::join(left, right) } else { (left(), right()) };
    leaf.join(a, b)
}

/// Where a run of more than one block is cut in two.
fn middle(len: usize) -> Option<usize> {
    (len > BLOCK).then(|| len.div_ceil(BLOCK) / 2 * BLOCK)
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
    halve(lanes, join)
}

#[inline(always)]
fn halve<A: Copy>(mut lanes: [A; LANES], join: impl Fn(A, A) -> A) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// `join` of `block(range)` over the blocks of a line of `len` elements, in a balanced tree.
#[inline(always)]
pub(crate) fn over_blocks<T: Copy>(len: usize, block: impl Fn(Range<usize>) -> T, join: impl Fn(T, T) -> T) -> T {
    if len <= BLOCK {
        return block(0..len);
    }
    // As in a binary counter: entry `k` holds a subtree, and equal ones merge as soon as there are two.
    let mut pending = [(0_u32, None); usize::BITS as usize];
    let mut depth = 0_usize;
    for start in (0..len).step_by(BLOCK) {
        let (mut height, mut value) = (0, block(start..len.min(start + BLOCK)));
        while let Some((h, Some(left))) = depth.checked_sub(1).map(|top| pending[top])
            && h == height
        {
            (height, value, depth) = (height + 1, join(left, value), depth - 1);
        }
        pending[depth] = (height, Some(value));
        depth += 1;
    }
    let subtrees = pending[..depth].iter().rev().filter_map(|(_, value)| *value);
    subtrees.reduce(|right, left| join(left, right)).expect("a long line has blocks")
}

/// `Σ f(x)` of a line of any length.
#[inline(always)]
pub(crate) fn sum_of<A: Num>(line: &[A], f: impl Fn(A) -> A) -> A {
    over_blocks(line.len(), |range| fold_block(&line[range], A::ZERO, &f, A::add), A::add)
}

/// `Σ a b` of two lines of one length.
#[inline(always)]
pub(crate) fn dot_of<A: Num>(a: &[A], b: &[A]) -> A {
    let block = |range: Range<usize>| {
        let ((a, a_tail), (b, b_tail)) = (a[range.clone()].as_chunks::<LANES>(), b[range].as_chunks::<LANES>());
        let mut lanes = [A::ZERO; LANES];
        for (a, b) in a.iter().zip(b) {
            lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (&a, &b))| *lane = lane.add(a.mul(b)));
        }
        lanes.iter_mut().zip(a_tail.iter().zip(b_tail)).for_each(|(lane, (&a, &b))| *lane = lane.add(a.mul(b)));
        halve(lanes, A::add)
    };
    over_blocks(a.len(), block, A::add)
}

/// The greatest element of a line; NaN wins, nothing gives the least value.
#[inline(always)]
pub(crate) fn largest<A: Num>(line: &[A]) -> A {
    fold_block(line, A::LEAST, |x| x, <super::Largest as Fold<A>>::join)
}

/// Rows of neighbouring elements, folded into one row.
struct Columns<'a> {
    span: &'a Span<'a>,
    first: usize,
    step: usize,
}

fn fold_columns<A: Num, F: Fold<A>>(x: &View, axes: &Axes, columns: usize, inner: usize) -> Vec<A> {
    let (before, side_by_side) = axes.kept.split_at(axes.kept.len() - columns);
    let span = Span::new(x, before.iter().chain(&axes.reduced).chain(side_by_side).copied());
    let mut out = vec![F::START; axes.outputs];
    let tiles = inner.div_ceil(TILE);
    let tile = |i: usize, piece: &mut [A]| {
        let (line, column) = (i / tiles, i % tiles * TILE);
        let first = line * axes.count * inner + column;
        Columns { span: &span, first, step: inner }.fold_grouped::<A, F>(axes.count, piece);
    };
    let mut pieces: Vec<&mut [A]> = out.chunks_mut(inner.max(1)).flat_map(|line| line.chunks_mut(TILE)).collect();
    if axes.outputs * axes.count < PARALLEL {
        pieces.iter_mut().enumerate().for_each(|(i, piece)| tile(i, piece));
    } else {
        parallel::for_each_mut(&mut pieces, &|i, piece: &mut &mut [A]| tile(i, piece));
    }
    out
}

impl Columns<'_> {
    /// Folds `count` rows. Short rows that follow one another are taken several at a time, as one wide row.
    fn fold_grouped<A: Num, F: Fold<A>>(&self, count: usize, out: &mut [A]) {
        let width = out.len();
        let group = if width == self.step { (TILE / width).min(count) } else { 1 };
        if group == 1 {
            return self.fold::<A, F>(0..count, out);
        }
        let wide = Columns { span: self.span, first: self.first, step: width * group };
        let mut sums = [F::START; TILE];
        let sums = &mut sums[..width * group];
        wide.fold::<A, F>(0..count / group, sums);
        sums.chunks(width).for_each(|row| join_row::<A, F>(out, row));
        self.fold::<A, F>(count / group * group..count, out);
    }

    fn fold<A: Num, F: Fold<A>>(&self, rows: Range<usize>, out: &mut [A]) {
        if rows.len() <= ROWS {
            let mut scratch = [A::ZERO; CHUNK];
            for row in rows {
                let row = self.span.read(self.first + row * self.step, out.len(), &mut scratch);
                dispatch(AddRow::<A, F> { row, out, fold: PhantomData });
            }
            return;
        }
        let middle = rows.start + (rows.len().div_ceil(ROWS) / 2) * ROWS;
        let mut right = [F::START; TILE];
        let right = &mut right[..out.len()];
        if rows.len() * out.len() >= 2 * PARALLEL {
            parallel::join(
                || self.fold::<A, F>(rows.start..middle, out),
                || self.fold::<A, F>(middle..rows.end, right),
            );
        } else {
            self.fold::<A, F>(rows.start..middle, out);
            self.fold::<A, F>(middle..rows.end, right);
        }
        join_row::<A, F>(out, right);
    }
}

fn join_row<A: Num, F: Fold<A>>(out: &mut [A], row: &[A]) {
    out.iter_mut().zip(row).for_each(|(a, &b)| *a = F::join(*a, b));
}

struct AddRow<'a, A, F> {
    row: &'a [A],
    out: &'a mut [A],
    fold: PhantomData<F>,
}

impl<A: Num, F: Fold<A>> Kernel for AddRow<'_, A, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.out.iter_mut().zip(self.row).for_each(|(o, &x)| *o = F::join(*o, F::map(x)));
    }
}
