//! Folds of one line, inside the kernel that loaded it.

use super::fold::Fold;
use crate::buffer::Buffer;
use crate::convert::Stored;
use crate::num::{Num, Real};
use crate::output::prefetch_at;
use crate::parallel::CHUNK;
use crate::simd::{LANES, Lanes, Simd};

/// Elements that are combined before the tree begins.
pub(crate) const BLOCK: usize = CHUNK;
/// Elements from which a block is folded by halves.
const HALVED: usize = 64;
/// Elements that are prefetched, half as much before each half of a block: the hardware stops at the end of each page,
/// which is where blocks end.
const AHEAD: usize = BLOCK;

/// Folds one block of integers: joins its halves, and those of what comes of it.
///
/// No loop carries anything: 64 accumulators were kept in memory, whose loads waited for the stores before.
#[inline(always)]
pub(crate) fn fold_block<S: Simd, A: Num, F: Fold<A>>(block: &[A]) -> A {
    if block.len() < HALVED {
        return block.iter().fold(F::START, |acc, &x| F::join(acc, F::map(x)));
    }
    let mut room = Buffer::<A, { BLOCK / 2 }>::new();
    let mut width = block.len().next_power_of_two() / 2;
    let folds = room.first(width);
    let (left, right) = block.split_at(width);
    let (both, alone) = left.split_at(right.len());
    let pieces = both.chunks(HALVED).zip(right.chunks(HALVED));
    for (to, (a, b)) in folds.chunks_mut(HALVED).zip(pieces) {
        prefetch_at(a.as_ptr().wrapping_add(AHEAD), a.len());
        prefetch_at(b.as_ptr().wrapping_add(AHEAD), b.len());
        to.iter_mut().zip(a).zip(b).for_each(|((to, &a), &b)| *to = F::join(F::map(a), F::map(b)));
    }
    folds[right.len()..].iter_mut().zip(alone).for_each(|(to, &x)| *to = F::map(x));
    while width > 1 {
        width /= 2;
        let (to, other) = folds.split_at_mut(width);
        to.iter_mut().zip(&*other).for_each(|(a, &b)| *a = F::join(*a, b));
    }
    folds[0]
}

/// Folds one block of floats, [`GROUP`] vectors at a time.
///
/// By halves of a block, which went through memory, maxima of 1024 rows of 64 F32 took a core of Zen 5 33 µs and products 20, those of
/// 64 rows of 1024 9 and 8.
#[inline(always)]
pub(crate) fn fold_in_registers<S: Simd, A: Real, F: Fold<A>>(block: &[A]) -> A {
    let (vectors, rest) = block.as_chunks();
    let (groups, single) = vectors.as_chunks::<GROUP>();
    let mut folds = [A::Lanes::<S>::splat(F::START); GROUP];
    for group in groups {
        prefetch_at(group.as_flattened().as_ptr().wrapping_add(AHEAD), GROUP * LANES);
        for (fold, x) in folds.iter_mut().zip(group) {
            *fold = F::join_lanes::<S>(*fold, F::map_lanes::<S>(Lanes::load(x)));
        }
    }
    for x in single {
        folds[0] = F::join_lanes::<S>(folds[0], F::map_lanes::<S>(Lanes::load(x)));
    }
    if !rest.is_empty() {
        folds[1] = F::join_lanes::<S>(folds[1], F::map_lanes::<S>(Lanes::load_part(rest, F::START)));
    }
    let [a, b, c, d] = folds;
    let fold = F::join_lanes::<S>(F::join_lanes::<S>(a, b), F::join_lanes::<S>(c, d));
    let fold = F::join_lanes::<S>(fold, fold.swapped(8));
    let fold = F::join_lanes::<S>(fold, fold.swapped(4));
    let fold = F::join_lanes::<S>(fold, fold.swapped(2));
    F::join_lanes::<S>(fold, fold.swapped(1)).array()[0]
}

/// Levels of a tree: more leaves than any memory holds.
const HEIGHT: usize = 40;

/// Values that come one after the other, joined in a balanced tree.
///
/// Callers loop over blocks themselves: a closure for the block might be compiled on its own, without the instructions
/// of the level it is called from.
pub(crate) struct Tree<T> {
    /// As in a binary counter: heights and values of subtrees; equal heights merge as soon as there are two.
    pending: [(u32, T); HEIGHT],
    depth: usize,
    none: T,
}

impl<T: Copy> Tree<T> {
    #[inline(always)]
    pub fn new(none: T) -> Self {
        Self { pending: [(0, none); HEIGHT], depth: 0, none }
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

    /// By reference: a tree that is moved is copied by vectors, which wait for a value that was just pushed to reach the
    /// cache, behind all stores before it. Softmax and layer norm of rows of 1024 in the second-level cache took up to
    /// 20 % longer.
    #[inline(always)]
    pub fn finish(&self, join: impl Fn(T, T) -> T) -> T {
        let subtrees = self.pending[..self.depth].iter().rev().map(|(_, value)| *value);
        subtrees.reduce(|right, left| join(left, right)).unwrap_or(self.none)
    }
}

/// What is summed of each element: types and not closures, which might be compiled on their own, without the level's
/// instructions.
pub(crate) trait Term<A: Real>: Copy {
    /// An element that adds nothing.
    fn nothing(self) -> A;

    /// The summands of sixteen elements; must be `#[inline(always)]`.
    fn of<S: Simd>(self, x: A::Lanes<S>) -> A::Lanes<S>;
}

/// The element itself.
#[derive(Clone, Copy)]
pub(crate) struct Itself;

/// `x - centre`
#[derive(Clone, Copy)]
pub(crate) struct Deviation<A>(pub A);

/// `(x - centre)²`
#[derive(Clone, Copy)]
pub(crate) struct Square<A>(pub A);

/// `e^(x - shift)`
#[derive(Clone, Copy)]
pub(crate) struct Exponential<A>(pub A);

/// `x · scale`
#[derive(Clone, Copy)]
pub(crate) struct Scaled<A>(pub A);

impl<A: Real> Term<A> for Itself {
    #[inline(always)]
    fn nothing(self) -> A {
        A::ZERO
    }

    #[inline(always)]
    fn of<S: Simd>(self, x: A::Lanes<S>) -> A::Lanes<S> {
        x
    }
}

impl<A: Real> Term<A> for Deviation<A> {
    #[inline(always)]
    fn nothing(self) -> A {
        self.0
    }

    #[inline(always)]
    fn of<S: Simd>(self, x: A::Lanes<S>) -> A::Lanes<S> {
        x - Lanes::splat(self.0)
    }
}

impl<A: Real> Term<A> for Square<A> {
    #[inline(always)]
    fn nothing(self) -> A {
        self.0
    }

    #[inline(always)]
    fn of<S: Simd>(self, x: A::Lanes<S>) -> A::Lanes<S> {
        let deviation = x - Lanes::splat(self.0);
        deviation * deviation
    }
}

impl<A: Real> Term<A> for Exponential<A> {
    #[inline(always)]
    fn nothing(self) -> A {
        A::LEAST
    }

    #[inline(always)]
    fn of<S: Simd>(self, x: A::Lanes<S>) -> A::Lanes<S> {
        (x - Lanes::splat(self.0)).exp()
    }
}

impl<A: Real> Term<A> for Scaled<A> {
    #[inline(always)]
    fn nothing(self) -> A {
        A::ZERO
    }

    #[inline(always)]
    fn of<S: Simd>(self, x: A::Lanes<S>) -> A::Lanes<S> {
        x * Lanes::splat(self.0)
    }
}

/// `Σ term(x)` of a line of any length.
#[inline(always)]
pub(crate) fn sum_of<S: Simd, A: Real>(line: &[A], term: impl Term<A>) -> A {
    if line.len() <= BLOCK {
        return sum_in_block::<S, A>(line, term);
    }
    let mut tree = Tree::new(A::ZERO);
    for block in line.chunks(BLOCK) {
        tree.push(sum_in_block::<S, A>(block, term), Num::add);
    }
    tree.finish(Num::add)
}

/// As [`sum_of`], of one block, which needs no tree: making one took as long as a sum of 64 elements.
#[inline(always)]
fn sum_in_block<S: Simd, A: Real>(block: &[A], term: impl Term<A>) -> A {
    let (vectors, rest) = block.as_chunks();
    let (groups, single) = vectors.as_chunks::<GROUP>();
    let mut sums = Accumulators::<S, A>::new();
    for group in groups {
        for (i, x) in group.iter().enumerate() {
            sums.add(i, term.of::<S>(Lanes::load(x)));
        }
    }
    for x in single {
        sums.add(0, term.of::<S>(Lanes::load(x)));
    }
    if !rest.is_empty() {
        sums.add(1, term.of::<S>(Lanes::load_part(rest, term.nothing())));
    }
    sums.total()
}

/// `Σ term(a) b` of two lines of one length.
#[inline(always)]
pub(crate) fn dot_of<S: Simd, A: Real>(a: &[A], term: impl Term<A>, b: &[impl Stored<A>]) -> A {
    if a.len() <= BLOCK {
        return dot_in_block::<S, A>(a, term, b);
    }
    let mut tree = Tree::new(A::ZERO);
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        tree.push(dot_in_block::<S, A>(a, term, b), Num::add);
    }
    tree.finish(Num::add)
}

/// As [`dot_of`], of one block.
#[inline(always)]
fn dot_in_block<S: Simd, A: Real>(a: &[A], term: impl Term<A>, b: &[impl Stored<A>]) -> A {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
    let ((a, a_single), (b, b_single)) = (a.as_chunks::<GROUP>(), b.as_chunks::<GROUP>());
    let mut sums = Accumulators::<S, A>::new();
    for (a, b) in a.iter().zip(b) {
        for i in 0..GROUP {
            sums.add_product(i, term.of::<S>(Lanes::load(&a[i])), Stored::read::<S>(&b[i]));
        }
    }
    for (a, b) in a_single.iter().zip(b_single) {
        sums.add_product(0, term.of::<S>(Lanes::load(a)), Stored::read::<S>(b));
    }
    if !a_rest.is_empty() {
        let a = term.of::<S>(Lanes::load_part(a_rest, term.nothing()));
        sums.add_product(1, a, Stored::read_part::<S>(b_rest, Default::default()));
    }
    sums.total()
}

/// The greatest element of a line, of nothing the least value; NaN may be passed over: who shifts exponentials by it finds NaN
/// in their sum, and looking for it here took two instructions of three.
#[inline(always)]
pub(crate) fn largest<S: Simd, A: Real, B: Stored<A>>(line: &[B]) -> A {
    let (vectors, rest) = line.as_chunks();
    let (groups, single) = vectors.as_chunks::<GROUP>();
    let mut most = [B::read_part::<S>(rest, B::LOWEST); GROUP];
    for group in groups {
        for (most, x) in most.iter_mut().zip(group) {
            *most = most.greater(Stored::read::<S>(x));
        }
    }
    for x in single {
        most[0] = most[0].greater(Stored::read::<S>(x));
    }
    let [a, b, c, d] = most;
    greatest::<S, A>(a.greater(b).greater(c.greater(d)))
}

/// The greatest of all lanes, where none is NaN.
///
/// One lane after the other took as long as exponentials of a hundred elements.
#[inline(always)]
pub(crate) fn greatest<S: Simd, A: Real>(most: A::Lanes<S>) -> A {
    let most = most.greater(most.swapped(8));
    let most = most.greater(most.swapped(4));
    let most = most.greater(most.swapped(2));
    most.greater(most.swapped(1)).array()[0]
}

/// Vectors that are summed independently of each other: additions take several cycles, but may overlap.
pub(crate) const GROUP: usize = 4;

/// The sums of one block.
pub(crate) struct Accumulators<S: Simd, A: Real>([A::Lanes<S>; GROUP]);

impl<S: Simd, A: Real> Accumulators<S, A> {
    #[inline(always)]
    pub fn new() -> Self {
        Self([Lanes::splat(A::ZERO); GROUP])
    }

    /// Adds to the sums of vector `i` of a group.
    #[inline(always)]
    pub fn add(&mut self, i: usize, x: A::Lanes<S>) {
        self.0[i] = self.0[i] + x;
    }

    /// Adds a product to the sums of vector `i` of a group.
    #[inline(always)]
    pub fn add_product(&mut self, i: usize, a: A::Lanes<S>, b: A::Lanes<S>) {
        self.0[i] = a.mul_add(b, self.0[i]);
    }

    /// The sum of all of them.
    #[inline(always)]
    pub fn total(self) -> A {
        let [a, b, c, d] = self.0;
        total::<S, A>((a + b) + (c + d))
    }
}

/// The sum of all lanes, always in the same order.
#[inline(always)]
pub(crate) fn total<S: Simd, A: Real>(lanes: A::Lanes<S>) -> A {
    let lanes = lanes + lanes.swapped(8);
    let lanes = lanes + lanes.swapped(4);
    let lanes = lanes + lanes.swapped(2);
    (lanes + lanes.swapped(1)).array()[0]
}
