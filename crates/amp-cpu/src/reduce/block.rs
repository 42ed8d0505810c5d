//! Folds of one line, inside the kernel that loaded it.

use super::Largest;
use super::fold::Fold;
use crate::num::Num;
use crate::parallel::CHUNK;

/// Elements that are combined before the tree begins.
pub(crate) const BLOCK: usize = CHUNK;
/// Independent accumulators within a block.
const LANES: usize = 64;

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

/// Values that come one after the other, joined in a balanced tree.
///
/// Callers loop over blocks themselves: a closure for the block might be compiled on its own, without the instructions
/// of the level it is called from.
pub(crate) struct Tree<T> {
    /// As in a binary counter: heights and values of subtrees; equal heights merge as soon as there are two.
    pending: [(u32, T); usize::BITS as usize],
    depth: usize,
    none: T,
}

impl<T: Copy> Tree<T> {
    #[inline(always)]
    pub fn new(none: T) -> Self {
        Self { pending: [(0, none); usize::BITS as usize], depth: 0, none }
    }

    #[inline(always)]
    pub fn push(&mut self, value: T, join: impl Fn(T, T) -> T) {
        let (mut height, mut value) = (0, value);
        while self.depth > 0 && self.pending[self.depth - 1].0 == height {
            self.depth -= 1;
            (height, value) = (height + 1, join(self.pending[self.depth].1, value));
        }
        self.pending[self.depth] = (height, value);
        self.depth += 1;
    }

    #[inline(always)]
    pub fn finish(self, join: impl Fn(T, T) -> T) -> T {
        let subtrees = self.pending[..self.depth].iter().rev().map(|(_, value)| *value);
        subtrees.reduce(|right, left| join(left, right)).unwrap_or(self.none)
    }
}

/// `Σ f(x)` of a line of any length; `f` must be no more than a few instructions.
#[inline(always)]
pub(crate) fn sum_of<A: Num>(line: &[A], f: impl Fn(A) -> A) -> A {
    if line.len() <= BLOCK {
        return fold_block(line, A::ZERO, f, A::add);
    }
    let mut tree = Tree::new(A::ZERO);
    for block in line.chunks(BLOCK) {
        tree.push(fold_block(block, A::ZERO, &f, A::add), A::add);
    }
    tree.finish(A::add)
}

/// `Σ a b` of two lines of one length.
#[inline(always)]
pub(crate) fn dot_of<A: Num>(a: &[A], b: &[A]) -> A {
    if a.len() <= BLOCK {
        return dot_block(a, b);
    }
    let mut tree = Tree::new(A::ZERO);
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        tree.push(dot_block(a, b), A::add);
    }
    tree.finish(A::add)
}

#[inline(always)]
fn dot_block<A: Num>(a: &[A], b: &[A]) -> A {
    if a.len() < LANES {
        return a.iter().zip(b).fold(A::ZERO, |sum, (&a, &b)| sum.add(a.mul(b)));
    }
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [A::ZERO; LANES];
    for (a, b) in a.iter().zip(b) {
        for (lane, (&a, &b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = lane.add(a.mul(b));
        }
    }
    for (lane, (&a, &b)) in lanes.iter_mut().zip(a_tail.iter().zip(b_tail)) {
        *lane = lane.add(a.mul(b));
    }
    halve(lanes, A::add)
}

/// The greatest element of a line; NaN wins, nothing gives the least value.
#[inline(always)]
pub(crate) fn largest<A: Num>(line: &[A]) -> A {
    fold_block(line, A::LEAST, |x| x, <Largest as Fold<A>>::join)
}
