//! Softmax, its logarithm, their gradients and log-sum-exp.

mod cross_entropy;
#[cfg(test)]
mod tests;

pub use cross_entropy::{CrossEntropy, Labels, cross_entropy, cross_entropy_grad};

use crate::line::{Cut, Lines, map_lines};
use crate::num::{Num, Real, in_real};
use crate::parallel;
use crate::reduce::block::{Accumulators, BLOCK, Exponential, GROUP, Itself, Scaled, Tree, dot_of, largest, sum_of};
use crate::reduce::converted;
use crate::simd::{Kernel, Lanes, Level, Simd, dispatch};
use crate::{DType, Storage, View, scratch};

/// Softmax of `x` along `axis`, or its logarithm.
///
/// Each line is loaded once, shifted by its largest element and normalised in F32 (F64), then rounded to `out`. A line of
/// nothing but -inf gives NaN.
pub fn softmax(x: &View, axis: usize, log: bool, out: DType) -> Storage {
    in_real!(x.logical, A => map_lines::<A>(x, axis, out, &|_, x, y| dispatch(Forward { x, y, log })))
}

/// Gradient of [`softmax`] with respect to its input, from its output `y` and the gradient of that.
pub fn softmax_grad(y: &View, grad: &View, axis: usize, log: bool, out: DType) -> Storage {
    let len = Cut::new(&y.layout.shape, axis).len;
    in_real!(y.logical, A => {
        let outputs = Lines::new(y, axis);
        map_lines::<A>(grad, axis, out, &|number, g, to| {
            scratch::with(len, |y: &mut [A]| dispatch(Backward { y: outputs.read(number, y), scale: A::ONE, g, to, log }));
        })
    })
}

/// The same from the input `x` of [`softmax`], whose result is computed again in F32 (F64), line by line: where it was
/// rounded as it was written, its gradient needs what it was before.
pub fn softmax_grad_of_input(x: &View, grad: &View, axis: usize, log: bool, out: DType) -> Storage {
    let len = Cut::new(&x.layout.shape, axis).len;
    in_real!(x.logical, A => {
        let inputs = Lines::new(x, axis);
        map_lines::<A>(grad, axis, out, &|number, g, to| {
            scratch::with(2 * len, |room: &mut [A]| {
                let (x, y) = room.split_at_mut(len);
                let x = inputs.read(number, x);
                let scale = if log {
                    dispatch(Forward { x, y, log });
                    A::ONE
                } else {
                    dispatch(Exponentials { x, y })
                };
                dispatch(Backward { y, scale, g, to, log });
            });
        })
    })
}

/// `ln(Σ exp(x))` along `axis`; the output lacks that axis.
///
/// A line of nothing but -inf gives -inf, one that holds +inf gives +inf.
pub fn logsumexp(x: &View, axis: usize, out: DType) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    in_real!(x.logical, A => {
        let lines = Lines::new(x, axis);
        let mut values = vec![A::ZERO; cut.lines()];
        let chunk = 1 + (1 << 14) / cut.len.max(1);
        parallel::for_each_chunk_mut(&mut values, chunk, &|i, values| {
            scratch::with(cut.len, |line: &mut [A]| {
                for (j, value) in values.iter_mut().enumerate() {
                    *value = dispatch(LogSum { line: lines.read(i * chunk + j, line) });
                }
            });
        });
        converted(values, out)
    })
}

/// Softmax of one line, or its logarithm.
struct Forward<'a, A> {
    x: &'a [A],
    y: &'a mut [A],
    log: bool,
}

/// `y ← exp(x - max x)` of one line; returns what makes that its softmax.
struct Exponentials<'a, A> {
    x: &'a [A],
    y: &'a mut [A],
}

/// `to ← y (g - Σ g y)`, or `to ← g - exp(y) Σ g` for the logarithm.
///
/// `y` is scaled as it is read: written before, it took 5 to 7 % of the gradient of 16-bit inputs.
///
/// The first takes the time of a loop that adds two operands from memory and writes a third: 1.0 ms for 4 M F32 on one thread of
/// a Zen 5, of which 0.4 are left when they come from the second-level cache.
struct Backward<'a, A> {
    y: &'a [A],
    /// What `y` is multiplied with first, 1 for the logarithm.
    scale: A,
    g: &'a [A],
    to: &'a mut [A],
    log: bool,
}

/// `ln(Σ exp(x))` of one line.
struct LogSum<'a, A> {
    line: &'a [A],
}

/// `y ← exp(x - shift)`; returns the sum.
///
/// One pass, about 11 cycles for 16 elements with AVX-512: the polynomial's 13 operations on two ports set the pace.
#[inline(always)]
fn exp_to<S: Simd, A: Real>(x: &[A], shift: A, y: &mut [A]) -> A {
    let (mut tree, shift) = (Tree::new(A::ZERO), A::Lanes::<S>::splat(shift));
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        let ((x, x_rest), (y, y_rest)) = (x.as_chunks(), y.as_chunks_mut());
        let ((x, x_single), (y, y_single)) = (x.as_chunks::<GROUP>(), y.as_chunks_mut::<GROUP>());
        let mut sums = Accumulators::<S, A>::new();
        for (x, y) in x.iter().zip(y) {
            for i in 0..GROUP {
                let e = (A::Lanes::<S>::load(&x[i]) - shift).exp();
                e.store(&mut y[i]);
                sums.add(i, e);
            }
        }
        for (x, y) in x_single.iter().zip(y_single) {
            let e = (A::Lanes::<S>::load(x) - shift).exp();
            e.store(y);
            sums.add(0, e);
        }
        if !x_rest.is_empty() {
            let e = (A::Lanes::<S>::load_part(x_rest, A::LEAST) - shift).exp();
            e.store_part(y_rest);
            sums.add(1, A::Lanes::<S>::load_part(y_rest, A::ZERO));
        }
        tree.push(sums.total(), Num::add);
    }
    tree.finish(Num::add)
}

/// `Σ exp(x - shift)`; where the largest `x` is infinite the shift has to be 0, any other one makes NaN.
#[inline(always)]
fn sum_of_exp<S: Simd, A: Real>(line: &[A], shift: A) -> A {
    sum_of::<S, A>(line, Exponential(shift))
}

impl<A: Real> Kernel for Forward<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, y, log } = self;
        if log {
            let max = largest::<S, A>(x);
            let log_sum = sum_of_exp::<S, A>(x, max).ln::<S>();
            for (y, &x) in y.iter_mut().zip(x) {
                *y = (x - max) - log_sum;
            }
        } else {
            let scale = Exponentials { x, y: &mut *y }.run::<S>();
            for e in y {
                *e = *e * scale;
            }
        }
    }
}

impl<A: Real> Kernel for Exponentials<'_, A> {
    type Output = A;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        A::ONE / exp_to::<S, A>(self.x, largest::<S, A>(self.x), self.y)
    }
}

impl<A: Real> Kernel for Backward<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { y, scale, g, to, log } = self;
        if log {
            let sum = sum_of::<S, A>(g, Itself);
            for ((to, &g), &y) in to.iter_mut().zip(g).zip(y) {
                *to = g - y.exp::<S>() * sum;
            }
        } else {
            let dot = dot_of::<S, A>(y, Scaled(scale), g);
            for ((to, &g), &y) in to.iter_mut().zip(g).zip(y) {
                *to = y * scale * (g - dot);
            }
        }
    }
}

impl<A: Real> Kernel for LogSum<'_, A> {
    type Output = A;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        let max = largest::<S, A>(self.line);
        let shift = if max == A::LEAST || max == A::GREATEST { A::ZERO } else { max };
        shift + sum_of_exp::<S, A>(self.line, shift).ln::<S>()
    }
}
