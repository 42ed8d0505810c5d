//! Softmax of lines that lie side by side: a strip of them, one row below the other, sixteen lines at a time.

use crate::num::Real;
use crate::reduce::block::Tree;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd};

/// Rows that are summed before the tree begins.
const ROWS: usize = 16;

/// Softmax of each line, or its logarithm, in its place.
pub(super) struct Softmax<'a, A> {
    pub lines: &'a mut [A],
    pub width: usize,
    pub log: bool,
}

/// Its gradient from the result and the gradient of that, in the place of the result.
pub(super) struct Gradient<'a, A> {
    pub lines: &'a mut [A],
    pub grad: &'a [A],
    pub width: usize,
    pub log: bool,
}

/// `ln(Σ exp(x))` of each line, in the place of its first element.
pub(super) struct LogSum<'a, A> {
    pub lines: &'a mut [A],
    pub width: usize,
}

impl<A: Real> Kernel for Softmax<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (lines, step) = (self.lines.as_chunks_mut::<LANES>().0, self.width / LANES);
        for first in 0..step {
            let lines = &mut lines[first..];
            let max = largest::<S, A>(lines, step);
            if self.log {
                let sum = sum::<S, A>(&Exponentials(lines, max), lines.len(), step);
                let log_sum = logarithms::<S, A>(sum);
                for x in lines.iter_mut().step_by(step) {
                    ((A::Lanes::<S>::load(x) - max) - log_sum).store(x);
                }
                continue;
            }
            for x in lines.iter_mut().step_by(step) {
                (A::Lanes::<S>::load(x) - max).exp_below().store(x);
            }
            let scale = inverses::<S, A>(sum::<S, A>(&Themselves(lines), lines.len(), step));
            for x in lines.iter_mut().step_by(step) {
                (A::Lanes::<S>::load(x) * scale).store(x);
            }
        }
    }
}

impl<A: Real> Kernel for Gradient<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (lines, grad) = (self.lines.as_chunks_mut::<LANES>().0, self.grad.as_chunks::<LANES>().0);
        let step = self.width / LANES;
        for first in 0..step {
            let (lines, grad) = (&mut lines[first..], &grad[first..]);
            if self.log {
                let sum = sum::<S, A>(&Themselves(grad), grad.len(), step);
                for (y, g) in lines.iter_mut().zip(grad).step_by(step) {
                    let (power, g) = (A::Lanes::<S>::load(y).exp(), A::Lanes::<S>::load(g));
                    (g - power * sum).store(y);
                }
            } else {
                let dot = sum::<S, A>(&Products(lines, grad), grad.len(), step);
                for (y, g) in lines.iter_mut().zip(grad).step_by(step) {
                    (A::Lanes::<S>::load(y) * (A::Lanes::<S>::load(g) - dot)).store(y);
                }
            }
        }
    }
}

impl<A: Real> Kernel for LogSum<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (lines, step) = (self.lines.as_chunks_mut::<LANES>().0, self.width / LANES);
        for first in 0..step {
            let lines = &mut lines[first..];
            let mut shift = largest::<S, A>(lines, step).array();
            for max in &mut shift {
                *max = if *max == A::LEAST || *max == A::GREATEST { A::ZERO } else { *max };
            }
            let shift = A::Lanes::<S>::load(&shift);
            let sum = sum::<S, A>(&Exponentials(lines, shift), lines.len(), step);
            (shift + logarithms::<S, A>(sum)).store(&mut lines[0]);
        }
    }
}

/// The greatest element of each line; NaN may be passed over, as by [`crate::reduce::block::largest`].
#[inline(always)]
pub(super) fn largest<S: Simd, A: Real>(lines: &[[A; LANES]], step: usize) -> A::Lanes<S> {
    let mut most = A::Lanes::<S>::splat(A::LEAST);
    for x in lines.iter().step_by(step) {
        most = most.greater(Lanes::load(x));
    }
    most
}

/// What is summed of each vector: types and not closures, which might be compiled without the level's instructions.
pub(super) trait Terms<S: Simd, A: Real> {
    /// Adds that of vector `at` to `sum`; must be `#[inline(always)]`.
    fn add(&self, at: usize, sum: A::Lanes<S>) -> A::Lanes<S>;
}

pub(super) struct Themselves<'a, A>(pub &'a [[A; LANES]]);
struct Products<'a, A>(&'a [[A; LANES]], &'a [[A; LANES]]);
pub(super) struct Exponentials<'a, A, L>(pub &'a [[A; LANES]], pub L);

impl<S: Simd, A: Real> Terms<S, A> for Themselves<'_, A> {
    #[inline(always)]
    fn add(&self, at: usize, sum: A::Lanes<S>) -> A::Lanes<S> {
        sum + Lanes::load(&self.0[at])
    }
}

impl<S: Simd, A: Real> Terms<S, A> for Products<'_, A> {
    #[inline(always)]
    fn add(&self, at: usize, sum: A::Lanes<S>) -> A::Lanes<S> {
        A::Lanes::<S>::load(&self.0[at]).mul_add(Lanes::load(&self.1[at]), sum)
    }
}

impl<S: Simd, A: Real> Terms<S, A> for Exponentials<'_, A, A::Lanes<S>> {
    #[inline(always)]
    fn add(&self, at: usize, sum: A::Lanes<S>) -> A::Lanes<S> {
        sum + (A::Lanes::<S>::load(&self.0[at]) - self.1).exp()
    }
}

/// The sum of every `step`-th term, in a tree over blocks; of short lines the tree's memory would take as long.
#[inline(always)]
pub(super) fn sum<S: Simd, A: Real>(terms: &impl Terms<S, A>, end: usize, step: usize) -> A::Lanes<S> {
    let none = A::Lanes::<S>::splat(A::ZERO);
    if end <= ROWS * step {
        return sum_of_block(terms, 0, end, step);
    }
    let mut tree = Tree::new(none);
    for start in (0..end).step_by(ROWS * step) {
        tree.push(sum_of_block(terms, start, end.min(start + ROWS * step), step), |a, b| a + b);
    }
    tree.finish(|a, b| a + b)
}

#[inline(always)]
fn sum_of_block<S: Simd, A: Real>(terms: &impl Terms<S, A>, start: usize, end: usize, step: usize) -> A::Lanes<S> {
    let mut sum = A::Lanes::<S>::splat(A::ZERO);
    for at in (start..end).step_by(step) {
        sum = terms.add(at, sum);
    }
    sum
}

#[inline(always)]
pub(super) fn logarithms<S: Simd, A: Real>(x: A::Lanes<S>) -> A::Lanes<S> {
    let mut all = x.array();
    for x in &mut all {
        *x = x.ln::<S>();
    }
    Lanes::load(&all)
}

#[inline(always)]
pub(super) fn inverses<S: Simd, A: Real>(x: A::Lanes<S>) -> A::Lanes<S> {
    let mut all = x.array();
    for x in &mut all {
        *x = A::ONE / *x;
    }
    Lanes::load(&all)
}
