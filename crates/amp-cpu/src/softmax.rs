//! Softmax, its logarithm, their gradients and log-sum-exp.

use crate::fold::{Fold, dot_of, fold_block, sum_of};
use crate::line::{Lines, map_lines};
use crate::num::{Real, in_real};
use crate::parallel;
use crate::reduce::{Largest, converted};
use crate::simd::Portable;
use crate::span::Cut;
use crate::{DType, Storage, View};

/// Softmax of `x` along `axis`, or its logarithm.
///
/// Each line is loaded once, shifted by its largest element and normalised in F32 (F64), then rounded to `out`. A line of
/// nothing but -inf gives NaN.
pub fn softmax(x: &View, axis: usize, log: bool, out: DType) -> Storage {
    in_real!(x.logical, A => map_lines::<A>(x, axis, out, |_, line| if log { log_softmax_line(line) } else { softmax_line(line) }))
}

/// Gradient of [`softmax`] with respect to its input, from its output `y` and the gradient of that.
pub fn softmax_grad(y: &View, grad: &View, axis: usize, log: bool, out: DType) -> Storage {
    let len = Cut::new(&y.layout.shape, axis).len;
    in_real!(grad.logical, A => {
        let outputs = Lines::new(y, axis);
        map_lines::<A>(grad, axis, out, |number, line| {
            let mut y = vec![A::default(); len];
            outputs.load(number, &mut y);
            if log { log_softmax_grad_line(&y, line) } else { softmax_grad_line(&y, line) }
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
        let mut values = vec![A::default(); cut.lines()];
        let chunk = 1 + (1 << 14) / cut.len.max(1);
        parallel::for_each_chunk_mut(&mut values, chunk, &|i, values| {
            let mut line = vec![A::default(); cut.len];
            for (j, value) in values.iter_mut().enumerate() {
                lines.load(i * chunk + j, &mut line);
                *value = logsumexp_line(&mut line);
            }
        });
        converted(values, out)
    })
}

/// `ln(Σ exp(x))` of one line, which is overwritten.
pub(crate) fn logsumexp_line<A: Real>(line: &mut [A]) -> A {
    let max = largest(line);
    // Infinite maxima are their own result; shifting by them would make NaN.
    if max == A::LEAST || max == A::GREATEST {
        return max;
    }
    exp_shifted(line, max);
    max + sum_of(line, &|e| e).ln::<Portable>()
}

fn softmax_line<A: Real>(line: &mut [A]) {
    exp_shifted(line, largest(line));
    let scale = A::ONE / sum_of(line, &|e| e);
    line.iter_mut().for_each(|e| *e = *e * scale);
}

fn log_softmax_line<A: Real>(line: &mut [A]) {
    let max = largest(line);
    let log_sum = sum_of(line, &|x| (x - max).exp::<Portable>()).ln::<Portable>();
    line.iter_mut().for_each(|x| *x = (*x - max) - log_sum);
}

/// `g ← y (g - Σ g y)`
fn softmax_grad_line<A: Real>(y: &[A], g: &mut [A]) {
    let dot = dot_of(y, g);
    g.iter_mut().zip(y).for_each(|(g, &y)| *g = y * (*g - dot));
}

/// `g ← g - exp(y) Σ g`
fn log_softmax_grad_line<A: Real>(y: &[A], g: &mut [A]) {
    let sum = sum_of(g, &|x| x);
    g.iter_mut().zip(y).for_each(|(g, &y)| *g = *g - y.exp::<Portable>() * sum);
}

pub(crate) fn largest<A: Real>(line: &[A]) -> A {
    fold_block(line, Largest::START, |x| x, Largest::join)
}

pub(crate) fn exp_shifted<A: Real>(line: &mut [A], shift: A) {
    line.iter_mut().for_each(|x| *x = (*x - shift).exp::<Portable>());
}
