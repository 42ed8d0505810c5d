//! Softmax, its logarithm, their gradients and log-sum-exp.

mod cross_entropy;
#[cfg(test)]
mod tests;

pub use cross_entropy::{CrossEntropy, Labels, cross_entropy, cross_entropy_grad};

use crate::line::{Cut, Lines, map_lines};
use crate::num::{Num, Real, in_real};
use crate::parallel;
use crate::reduce::block::{BLOCK, Tree, dot_of, fold_block, largest, sum_of};
use crate::reduce::converted;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{DType, Storage, View};

/// Softmax of `x` along `axis`, or its logarithm.
///
/// Each line is loaded once, shifted by its largest element and normalised in F32 (F64), then rounded to `out`. A line of
/// nothing but -inf gives NaN.
pub fn softmax(x: &View, axis: usize, log: bool, out: DType) -> Storage {
    in_real!(x.logical, A => map_lines::<A>(x, axis, out, |_, line| dispatch(Forward { line, log })))
}

/// Gradient of [`softmax`] with respect to its input, from its output `y` and the gradient of that.
pub fn softmax_grad(y: &View, grad: &View, axis: usize, log: bool, out: DType) -> Storage {
    let len = Cut::new(&y.layout.shape, axis).len;
    in_real!(y.logical, A => {
        let outputs = Lines::new(y, axis);
        map_lines::<A>(grad, axis, out, |number, g| {
            let mut y = vec![A::ZERO; len];
            outputs.load(number, &mut y);
            dispatch(Backward { y: &y, g, log });
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
            let mut line = vec![A::ZERO; cut.len];
            for (j, value) in values.iter_mut().enumerate() {
                lines.load(i * chunk + j, &mut line);
                *value = dispatch(LogSum { line: &line });
            }
        });
        converted(values, out)
    })
}

/// Softmax of one line in place.
struct Forward<'a, A> {
    line: &'a mut [A],
    log: bool,
}

/// `g ← y (g - Σ g y)`, or `g ← g - exp(y) Σ g` for the logarithm.
struct Backward<'a, A> {
    y: &'a [A],
    g: &'a mut [A],
    log: bool,
}

/// `ln(Σ exp(x))` of one line.
struct LogSum<'a, A> {
    line: &'a [A],
}

/// `x ← exp(x - shift)`; returns the sum.
#[inline(always)]
fn exp_in_place<S: Simd, A: Real>(line: &mut [A], shift: A) -> A {
    for x in line.iter_mut() {
        *x = (*x - shift).exp::<S>();
    }
    sum_of(line, |e| e)
}

/// `Σ exp(x - shift)`
#[inline(always)]
fn sum_of_exp<S: Simd, A: Real>(line: &[A], shift: A) -> A {
    let (mut exps, mut tree) = ([A::ZERO; BLOCK], Tree::new(A::ZERO));
    for block in line.chunks(BLOCK) {
        let exps = &mut exps[..block.len()];
        for (e, &x) in exps.iter_mut().zip(block) {
            *e = (x - shift).exp::<S>();
        }
        tree.push(fold_block(exps, A::ZERO, |e| e, Num::add), Num::add);
    }
    tree.finish(Num::add)
}

impl<A: Real> Kernel for Forward<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let max = largest(self.line);
        if self.log {
            let log_sum = sum_of_exp::<S, A>(self.line, max).ln::<S>();
            for x in self.line {
                *x = (*x - max) - log_sum;
            }
        } else {
            let scale = A::ONE / exp_in_place::<S, A>(self.line, max);
            for e in self.line {
                *e = *e * scale;
            }
        }
    }
}

impl<A: Real> Kernel for Backward<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { y, g, log } = self;
        if log {
            let sum = sum_of(g, |g| g);
            for (g, &y) in g.iter_mut().zip(y) {
                *g = *g - y.exp::<S>() * sum;
            }
        } else {
            let dot = dot_of(y, g);
            for (g, &y) in g.iter_mut().zip(y) {
                *g = y * (*g - dot);
            }
        }
    }
}

impl<A: Real> Kernel for LogSum<'_, A> {
    type Output = A;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        let max = largest(self.line);
        // Infinite maxima are their own result; shifting by them would make NaN.
        if max == A::LEAST || max == A::GREATEST {
            return max;
        }
        max + sum_of_exp::<S, A>(self.line, max).ln::<S>()
    }
}
