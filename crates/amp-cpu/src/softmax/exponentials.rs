//! Exponentials of a line and their sums, which softmax and cross-entropy are made of.

use crate::convert::Stored;
use crate::num::{Num, Real};
use crate::output::prefetch_at;
use crate::reduce::block::{Accumulators, BLOCK, Exponential, GROUP, Tree, sum_of};
use crate::simd::{LANES, Lanes, Simd};

/// `Σ exp(x - shift)`; where the largest `x` is infinite the shift has to be 0, any other one makes NaN.
#[inline(always)]
pub(super) fn sum_of_exp<S: Simd, A: Real>(line: &[A], shift: A) -> A {
    sum_of::<S, A>(line, Exponential(shift))
}

/// `e ← exp(x - shift)`; returns the sum.
#[inline(always)]
pub(super) fn exp_to<S: Simd, A: Real, B: Stored<A>>(x: &[B], shift: A, e: &mut [A]) -> A {
    let [sum, _] = Pass::<A, B, false> { x, shift, g: x }.run::<S>(e);
    sum
}

/// `e ← exp(x - shift)`; returns the sum and `Σ e g`.
#[inline(always)]
pub(super) fn exp_and_dot<S: Simd, A: Real, B: Stored<A>>(x: &[B], shift: A, e: &mut [A], g: &[B]) -> [A; 2] {
    Pass::<A, B, true> { x, shift, g }.run::<S>(e)
}

/// One pass over a line, about 8 cycles for 16 elements with AVX-512: the exponential's 14 operations and the sum's on two ports
/// set the pace.
///
/// Multiplied by the gradient in the same pass: read again for that, exponentials took a gradient of BF16 8 % longer. What follows
/// the line is asked for meanwhile, as much as is computed: 4096 lines of 1024 BF16 took two threads of a Xeon with AMX 18 % longer
/// without it, their gradient 14 %, F32 12 %; all of a line at once took longer than not to ask.
struct Pass<'a, A, B, const DOT: bool> {
    x: &'a [B],
    shift: A,
    g: &'a [B],
}

/// The sums of one block.
struct Sums<S: Simd, A: Real, const DOT: bool> {
    sum: Accumulators<S, A>,
    dot: Accumulators<S, A>,
}

impl<S: Simd, A: Real, const DOT: bool> Sums<S, A, DOT> {
    #[inline(always)]
    fn add<B: Stored<A>>(&mut self, i: usize, e: A::Lanes<S>, g: &[B]) {
        self.sum.add(i, e);
        if DOT {
            self.dot.add_product(i, e, B::read_some::<S>(g));
        }
    }
}

impl<A: Real, B: Stored<A>, const DOT: bool> Pass<'_, A, B, DOT> {
    #[inline(always)]
    fn run<S: Simd>(&self, e: &mut [A]) -> [A; 2] {
        let mut trees = [Tree::new(A::ZERO), Tree::new(A::ZERO)];
        let blocks = self.x.chunks(BLOCK).zip(self.g.chunks(BLOCK));
        for ((x, g), e) in blocks.zip(e.chunks_mut(BLOCK)) {
            let Sums { sum, dot } = self.block::<S>(x, g, e);
            trees[0].push(sum.total(), Num::add);
            if DOT {
                trees[1].push(dot.total(), Num::add);
            }
        }
        [trees[0].finish(Num::add), trees[1].finish(Num::add)]
    }

    #[inline(always)]
    fn block<S: Simd>(&self, x: &[B], g: &[B], e: &mut [A]) -> Sums<S, A, DOT> {
        let ((x, x_rest), (g, g_rest), (e, e_rest)) = (x.as_chunks(), g.as_chunks::<LANES>(), e.as_chunks_mut());
        let ((x, x_single), (g, g_single)) = (x.as_chunks::<GROUP>(), g.as_chunks::<GROUP>());
        let (e, e_single) = e.as_chunks_mut::<GROUP>();
        let shift = A::Lanes::<S>::splat(self.shift);
        let mut sums = Sums { sum: Accumulators::new(), dot: Accumulators::new() };
        for ((x, g), e) in x.iter().zip(g).zip(e) {
            prefetch_at(x.as_ptr().wrapping_byte_add(size_of_val(self.x)), x.len());
            if DOT {
                prefetch_at(g.as_ptr().wrapping_byte_add(size_of_val(self.g)), g.len());
            }
            for i in 0..GROUP {
                let power = (B::read::<S>(&x[i]) - shift).exp_below();
                power.store(&mut e[i]);
                sums.add(i, power, &g[i]);
            }
        }
        for ((x, g), e) in x_single.iter().zip(g_single).zip(e_single) {
            let power = (B::read::<S>(x) - shift).exp_below();
            power.store(e);
            sums.add(0, power, g);
        }
        if !x_rest.is_empty() {
            (B::read_part::<S>(x_rest, B::LOWEST) - shift).exp_below().store_part(e_rest);
            sums.add(1, Lanes::load_part(e_rest, A::ZERO), g_rest);
        }
        sums
    }
}
