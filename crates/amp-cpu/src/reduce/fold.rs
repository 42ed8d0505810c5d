//! Parallel folds over the elements of a view, in an order that depends on sizes alone.
//!
//! Elements are combined in a balanced tree over blocks of [`BLOCK`], and of halves within a block. Errors
//! therefore grow with the logarithm of the count, and results do not depend on the number of threads.

use super::block::BLOCK;
use super::columns::{Side, fold_columns, fold_transposed};
use crate::View;
use crate::buffer::Buffer;
use crate::convert::Compute;
use crate::line::Span;
use crate::num::{Num, Real};
use crate::parallel;
use crate::simd::{Kernel, Lanes, Level, Simd, dispatch};
use crate::split::PARALLEL;
use std::marker::PhantomData;
use std::ops::Range;

/// What is folded: `join(.., join(map(x0), map(x1)))`. All functions must be `#[inline(always)]`.
pub(crate) trait Fold<A>: Sync {
    /// Neutral element of `join`, and what `map` makes of it.
    const START: A;

    /// Prepares one element.
    fn map(x: A) -> A;
    /// Combines two values; associative up to rounding.
    fn join(a: A, b: A) -> A;

    /// Prepares sixteen.
    #[inline(always)]
    fn map_lanes<S: Simd>(x: A::Lanes<S>) -> A::Lanes<S>
    where
        A: Real,
    {
        Lanes::load(&x.array().map(Self::map))
    }

    /// Combines sixteen and sixteen.
    #[inline(always)]
    fn join_lanes<S: Simd>(a: A::Lanes<S>, b: A::Lanes<S>) -> A::Lanes<S>
    where
        A: Real,
    {
        let (a, b) = (a.array(), b.array());
        Lanes::load(&std::array::from_fn(|i| Self::join(a[i], b[i])))
    }
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
    pub fn columns(&self, x: &View) -> usize {
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
    fn block<S: Simd>(&self, first: usize, block: &[A]) -> Self::Partial;
    /// The result of both together.
    fn join(&self, a: Self::Partial, b: Self::Partial) -> Self::Partial;
}

/// A [`Leaf`] behind `dyn`: what goes through a tensor is compiled once for all folds of a type.
pub(super) trait Leaves<A, P>: Sync {
    /// [`Leaf::none`].
    fn none(&self) -> P;
    /// [`Leaf::block`] of each `count` elements; from one to the next the number of the first one grows by `step`.
    fn blocks(&self, first: usize, step: usize, count: usize, elements: &[A], out: &mut [P]);
    /// [`Leaf::join`].
    fn join(&self, a: P, b: P) -> P;
}

impl<A: Compute, L: Leaf<A>> Leaves<A, L::Partial> for L {
    fn none(&self) -> L::Partial {
        Leaf::none(self)
    }

    fn blocks(&self, first: usize, step: usize, count: usize, elements: &[A], out: &mut [L::Partial]) {
        dispatch(Blocks { leaf: self, first, step, count, elements, out });
    }

    fn join(&self, a: L::Partial, b: L::Partial) -> L::Partial {
        Leaf::join(self, a, b)
    }
}

/// The leaf of a plain fold.
pub(super) struct Folded<F>(PhantomData<F>);

impl<A: Num, F: Fold<A>> Leaf<A> for Folded<F> {
    type Partial = A;

    fn none(&self) -> A {
        F::START
    }

    #[inline(always)]
    fn block<S: Simd>(&self, _: usize, block: &[A]) -> A {
        A::fold::<S, F>(block)
    }

    fn join(&self, a: A, b: A) -> A {
        F::join(a, b)
    }
}

/// Folds the axes `axes.reduced` of `x`, one value per output.
pub(crate) fn fold<A: Num, F: Fold<A>>(x: &View, axes: &Axes) -> Vec<A> {
    let fold = Folded::<F>(PhantomData);
    match Side::of(x, axes) {
        Some(side) => fold_columns(&side, &fold),
        None => fold_rows(x, axes, &fold),
    }
}

/// Folds the axes `axes.reduced` of `x` as `leaf` says.
pub(crate) fn fold_leaf<A: Num, L: Leaf<A>>(x: &View, axes: &Axes, leaf: &L) -> Vec<L::Partial> {
    match Side::of(x, axes) {
        Some(side) => fold_transposed(&side, leaf),
        None => fold_rows(x, axes, leaf),
    }
}

/// One block of each of several outputs, or several of one.
struct Blocks<'a, A, L: Leaf<A>> {
    leaf: &'a L,
    first: usize,
    step: usize,
    count: usize,
    elements: &'a [A],
    out: &'a mut [L::Partial],
}

impl<A: Compute, L: Leaf<A>> Kernel for Blocks<'_, A, L> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (i, (o, row)) in self.out.iter_mut().zip(self.elements.chunks(self.count)).enumerate() {
            *o = self.leaf.block::<S>(self.first + i * self.step, row);
        }
    }
}

/// Elements that are folded block after block where they serve as they lie.
const PIECE: usize = 16 * BLOCK;

/// Folds each output's elements, block by block, then in a tree.
fn fold_rows<A: Num, P: Copy + Send + Sync>(x: &View, axes: &Axes, leaf: &dyn Leaves<A, P>) -> Vec<P> {
    let span = Span::new(x, axes.kept.iter().chain(&axes.reduced).copied());
    let (count, mut out) = (axes.count, vec![leaf.none(); axes.outputs]);
    if count == 0 {
        return out;
    }
    // Nothing is loaded of what lies as it is wanted.
    let rows = (if span.is_wide::<A>() { PIECE } else { BLOCK } / count).max(1);
    let whole = count > BLOCK && span.row() >= BLOCK && span.has_wide_rows::<A>();
    let (run, piece) = (span.row().max(1), if whole { PIECE } else { BLOCK });
    let short = |chunk: usize, out: &mut [P]| {
        let mut scratch = Buffer::new();
        let elements = span.read_lazily(chunk * rows * count, out.len() * count, &mut scratch);
        leaf.blocks(0, 0, count, elements, out);
    };
    let block = |row: usize, range: Range<usize>| {
        let (mut scratch, mut parts) = (Buffer::new(), [leaf.none(); PIECE / BLOCK]);
        let parts = &mut parts[..range.len().div_ceil(BLOCK)];
        let elements = span.read_lazily(row * count + range.start, range.len(), &mut scratch);
        leaf.blocks(range.start, BLOCK, BLOCK, elements, parts);
        joined(parts, &|a, b| leaf.join(a, b))
    };
    let long = |row: usize, out: &mut P| {
        *out = fold_tree(0..count, [run, piece], &|range| block(row, range), &|a, b| leaf.join(a, b));
    };
    match (count <= BLOCK, axes.outputs * count < PARALLEL) {
        (true, true) => out.chunks_mut(rows).enumerate().for_each(|(i, out)| short(i, out)),
        (true, false) => parallel::for_each_chunk_mut(&mut out, rows, &short),
        (false, true) => out.iter_mut().enumerate().for_each(|(i, out)| long(i, out)),
        (false, false) => parallel::for_each_mut(&mut out, &long),
    }
    out
}

/// All `parts` in a balanced tree, in their order.
fn joined<P: Copy>(parts: &mut [P], join: &dyn Fn(P, P) -> P) -> P {
    let mut count = parts.len();
    while count > 1 {
        for i in 0..count / 2 {
            parts[i] = join(parts[2 * i], parts[2 * i + 1]);
        }
        if count % 2 == 1 {
            parts[count / 2] = parts[count - 1];
        }
        count = count.div_ceil(2);
    }
    parts[0]
}

/// What `block` makes of the pieces of `range`, joined in a balanced tree. Pieces end where runs do, so as to serve as they lie.
///
/// Its arguments come as `dyn`: one copy serves every fold of a type.
fn fold_tree<P: Send>(
    range: Range<usize>,
    [run, piece]: [usize; 2],
    block: &(dyn Fn(Range<usize>) -> P + Sync),
    join: &(dyn Fn(P, P) -> P + Sync),
) -> P {
    let Some(middle) = middle(range.len(), run, piece).map(|m| range.start + m) else {
        return block(range);
    };
    let left = || fold_tree(range.start..middle, [run, piece], block, join);
    let right = || fold_tree(middle..range.end, [run, piece], block, join);
    let (a, b) = if range.len() >= 2 * PARALLEL { parallel::join(left, right) } else { (left(), right()) };
    join(a, b)
}

/// Where some runs, or a run of more than one piece, are cut in two.
fn middle(len: usize, run: usize, piece: usize) -> Option<usize> {
    if len > run && run >= BLOCK {
        return Some(len.div_ceil(run) / 2 * run);
    }
    (len > piece).then(|| len.div_ceil(piece) / 2 * piece)
}
