//! Softmax, its logarithm, their gradients and log-sum-exp.

mod columns;
mod cross_entropy;
mod exponentials;
mod labelled_columns;
#[cfg(test)]
mod tests;

pub use cross_entropy::{CrossEntropy, Labels, cross_entropy, cross_entropy_grad};

use crate::convert::Stored;
use crate::line::{Cut, Lines, Span, Strip, map_lines, map_stored, map_strips};
use crate::load::computes_in_f64;
use crate::num::{Num, Real, in_half, in_real};
use crate::parallel;
use crate::reduce::block::{Itself, Scaled, dot_of, largest, sum_of};
use crate::reduce::converted;
use crate::simd::{Kernel, Lanes, Level, Simd, dispatch};
use crate::{DType, Storage, View, scratch};
use exponentials::{exponentials, sum_of_exp};

/// Softmax of `x` along `axis`, or its logarithm.
///
/// Each line is loaded once, shifted by its largest element and normalised in F32 (F64), then rounded to `out`. A line of
/// nothing but -inf gives NaN.
pub fn softmax(x: &View, axis: usize, log: bool, out: DType) -> Storage {
    if let Some(len) = side_by_side(x, axis) {
        return in_real!(x.logical, A => map_strips([x], axis, len, out, &|[lines]: [&mut [A]; 1], Strip { width, .. }| {
            dispatch(columns::Softmax { lines, width, log });
        }));
    }
    let registers = !log && !computes_in_f64(x);
    let len = Cut::new(&x.layout.shape, axis).len;
    let narrow = if registers { in_half!(out, B => forward::<B>(x, len)) } else { None };
    narrow.unwrap_or_else(|| {
        in_real!(x.logical, A => map_lines::<A>(x, len, out, &|_, x, y| match log {
            true => dispatch(Logarithm { len, x, y }),
            false => dispatch(InPlace { len, x, y }),
        }))
    })
}

/// The length of lines along `axis` that lie side by side.
fn side_by_side(x: &View, axis: usize) -> Option<usize> {
    let cut = Cut::new(&x.layout.shape, axis);
    cut.is_side_by_side().then_some(cut.len)
}

/// Where `x` lies as the result will: nothing is widened or rounded outside of registers.
fn forward<B: Stored<f32>>(x: &View, len: usize) -> Option<Storage> {
    map_stored::<f32, B>(x, len, &|_, x, e, y| dispatch(Forward { x, e, y }))
}

/// Gradient of [`softmax`] with respect to its input, from its output `y` and the gradient of that.
pub fn softmax_grad(y: &View, grad: &View, axis: usize, log: bool, out: DType) -> Storage {
    if let Some(len) = side_by_side(y, axis) {
        return in_real!(y.logical, A => map_strips([y, grad], axis, len, out, &|[lines, grad]: [&mut [A]; 2], Strip { width, .. }| {
            dispatch(columns::Gradient { lines, grad, width, log });
        }));
    }
    let len = Cut::new(&y.layout.shape, axis).len;
    in_real!(y.logical, A => {
        let outputs = Lines::new(y, axis);
        map_lines::<A>(grad, len, out, &|first, g, to| {
            scratch::with(g.len(), |y: &mut [A]| {
                let y = outputs.read_all(first, y);
                if log {
                    dispatch(BackwardOfLogarithm { len, y, g, to });
                } else {
                    dispatch(Backward { len, y, g, to });
                }
            });
        })
    })
}

/// The same from the input `x` of [`softmax`], whose result is computed again in F32 (F64), line by line: where it was
/// rounded as it was written, its gradient needs what it was before.
pub fn softmax_grad_of_input(x: &View, grad: &View, axis: usize, log: bool, out: DType) -> Storage {
    if let Some(len) = side_by_side(x, axis) {
        return in_real!(x.logical, A => map_strips([x, grad], axis, len, out, &|[lines, grad]: [&mut [A]; 2], Strip { width, .. }| {
            dispatch(columns::Softmax { lines: &mut *lines, width, log });
            dispatch(columns::Gradient { lines, grad, width, log });
        }));
    }
    let len = Cut::new(&x.layout.shape, axis).len;
    let registers = !log && !computes_in_f64(x);
    let narrow = if registers { in_half!(out, B => backward::<B>(x, grad, len)) } else { None };
    narrow.unwrap_or_else(|| {
        in_real!(x.logical, A => {
            let inputs = Lines::new(x, axis);
            map_lines::<A>(grad, len, out, &|first, g, to| {
                scratch::with(2 * g.len(), |room: &mut [A]| {
                    let (x, y) = room.split_at_mut(g.len());
                    let x = inputs.read_all(first, x);
                    if log {
                        dispatch(Logarithm { len, x, y: &mut *y });
                        dispatch(BackwardOfLogarithm { len, y, g, to });
                    } else {
                        dispatch(BackwardOfInput { x, e: &mut y[..len], g, to });
                    }
                });
            })
        })
    })
}

/// As [`forward`], where both operands lie so.
///
/// With the sum of the exponentials in a pass of 15 operations for 18, 4096 lines of 1024 BF16 take two threads of a Xeon with AMX
/// 0.60 ms and their gradient 0.74, where lines widened and rounded in passes of their own took 0.81 and 1.10; lines of 197 four
/// fifths of the time.
fn backward<B: Stored<f32>>(x: &View, grad: &View, len: usize) -> Option<Storage> {
    let inputs = Span::row_major(x).stored::<f32, B>()?;
    map_stored::<f32, B>(grad, len, &|first, g, e, to| {
        let x = &inputs[first * e.len()..][..g.len()];
        dispatch(BackwardOfInput { x, e, g, to });
    })
}

/// `ln(Σ exp(x))` along `axis`; the output lacks that axis.
///
/// A line of nothing but -inf gives -inf, one that holds +inf gives +inf.
pub fn logsumexp(x: &View, axis: usize, out: DType) -> Storage {
    if side_by_side(x, axis).is_some() {
        return in_real!(x.logical, A => map_strips([x], axis, 1, out, &|[lines]: [&mut [A]; 1], Strip { width, .. }| {
            dispatch(columns::LogSum { lines, width });
        }));
    }
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

/// `y ← exp(x - max x) / Σ exp(x - max x)` of each line.
struct Forward<'a, A, B> {
    x: &'a [B],
    /// Room for the exponentials of one.
    e: &'a mut [A],
    y: &'a mut [B],
}

/// [`Forward`] with the exponentials where their quotients will be.
struct InPlace<'a, A> {
    len: usize,
    x: &'a [A],
    y: &'a mut [A],
}

/// `y ← (x - max x) - ln(Σ exp(x - max x))` of each line.
struct Logarithm<'a, A> {
    len: usize,
    x: &'a [A],
    y: &'a mut [A],
}

/// `to ← y (g - Σ g y)` of each line.
///
/// Takes the time of a loop that adds two operands from memory and writes a third: 1.0 ms for 4 M F32 on one thread of a Zen 5,
/// of which 0.4 are left when they come from the second-level cache.
struct Backward<'a, A> {
    len: usize,
    y: &'a [A],
    g: &'a [A],
    to: &'a mut [A],
}

/// [`Backward`] from the input of the softmax.
struct BackwardOfInput<'a, A, B> {
    x: &'a [B],
    /// Room for the exponentials of one line.
    e: &'a mut [A],
    g: &'a [B],
    to: &'a mut [B],
}

/// `to ← g - exp(y) Σ g` of each line: from the logarithm of a softmax.
struct BackwardOfLogarithm<'a, A> {
    len: usize,
    y: &'a [A],
    g: &'a [A],
    to: &'a mut [A],
}

/// `ln(Σ exp(x))` of one line.
struct LogSum<'a, A> {
    line: &'a [A],
}

impl<A: Real, B: Stored<A>> Kernel for Forward<'_, A, B> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, e, y } = self;
        for (x, y) in x.chunks(e.len()).zip(y.chunks_mut(e.len())) {
            let scale = exponentials::<S, A, B>(x, e, &[]);
            scaled_to::<S, A, B>(e, scale, y);
        }
    }
}

/// `y ← e · scale`
#[inline(always)]
fn scaled_to<S: Simd, A: Real, B: Stored<A>>(e: &[A], scale: A, y: &mut [B]) {
    let scale = A::Lanes::<S>::splat(scale);
    let ((e, e_rest), (y, y_rest)) = (e.as_chunks(), y.as_chunks_mut());
    for (e, y) in e.iter().zip(y) {
        let [first, second] = A::read_pair::<S>(e);
        B::write::<S>([first * scale, second * scale], y);
    }
    if !y_rest.is_empty() {
        let [first, second] = A::read_rest::<S>(e_rest);
        B::write_rest::<S>([first * scale, second * scale], y_rest);
    }
}

impl<A: Real> Kernel for InPlace<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { len, x, y } = self;
        for (x, y) in x.chunks(len).zip(y.chunks_mut(len)) {
            let scale = exponentials::<S, A, A>(x, y, &[]);
            for y in y {
                *y = *y * scale;
            }
        }
    }
}

impl<A: Real> Kernel for Logarithm<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { len, x, y } = self;
        for (x, y) in x.chunks(len).zip(y.chunks_mut(len)) {
            let max = largest::<S, A, _>(x);
            let log_sum = sum_of_exp::<S, A>(x, max).ln::<S>();
            for (y, &x) in y.iter_mut().zip(x) {
                *y = (x - max) - log_sum;
            }
        }
    }
}

/// `to ← y · scale · (g - dot)`
///
/// `y` is scaled as it is read: written before, it took 5 to 7 % of the gradient of 16-bit inputs.
#[inline(always)]
fn gradient_of_line<S: Simd, A: Real, B: Stored<A>>(y: &[A], scale: A, g: &[B], dot: A, to: &mut [B]) {
    let (scale, dot) = (A::Lanes::<S>::splat(scale), A::Lanes::<S>::splat(dot));
    let ((y, y_rest), (g, g_rest), (to, to_rest)) = (y.as_chunks(), g.as_chunks(), to.as_chunks_mut());
    for ((y, g), to) in y.iter().zip(g).zip(to) {
        B::write::<S>(pair_of_gradients::<S, A>(A::read_pair::<S>(y), scale, B::read_pair::<S>(g), dot), to);
    }
    if !to_rest.is_empty() {
        let rest = pair_of_gradients::<S, A>(A::read_rest::<S>(y_rest), scale, B::read_rest::<S>(g_rest), dot);
        B::write_rest::<S>(rest, to_rest);
    }
}

/// [`gradient_of_line`] of two vectors.
#[inline(always)]
fn pair_of_gradients<S: Simd, A: Real>(
    y: [A::Lanes<S>; 2],
    scale: A::Lanes<S>,
    g: [A::Lanes<S>; 2],
    dot: A::Lanes<S>,
) -> [A::Lanes<S>; 2] {
    [y[0] * scale * (g[0] - dot), y[1] * scale * (g[1] - dot)]
}

impl<A: Real> Kernel for Backward<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { len, y, g, to } = self;
        for ((y, g), to) in y.chunks(len).zip(g.chunks(len)).zip(to.chunks_mut(len)) {
            gradient_of_line::<S, A, A>(y, A::ONE, g, dot_of::<S, A>(y, Itself, g), to);
        }
    }
}

impl<A: Real, B: Stored<A>> Kernel for BackwardOfInput<'_, A, B> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, e, g, to } = self;
        let len = e.len();
        for ((x, g), to) in x.chunks(len).zip(g.chunks(len)).zip(to.chunks_mut(len)) {
            let scale = exponentials::<S, A, B>(x, e, &[g]);
            // Of what the result was before it was rounded: the gradient has the bits of that of the result.
            gradient_of_line::<S, A, B>(e, scale, g, dot_of::<S, A>(e, Scaled(scale), g), to);
        }
    }
}

impl<A: Real> Kernel for BackwardOfLogarithm<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { len, y, g, to } = self;
        for ((y, g), to) in y.chunks(len).zip(g.chunks(len)).zip(to.chunks_mut(len)) {
            let sum = sum_of::<S, A>(g, Itself);
            for ((to, &g), &y) in to.iter_mut().zip(g).zip(y) {
                *to = g - y.exp::<S>() * sum;
            }
        }
    }
}

impl<A: Real> Kernel for LogSum<'_, A> {
    type Output = A;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        let max = largest::<S, A, _>(self.line);
        let shift = if max == A::LEAST || max == A::GREATEST { A::ZERO } else { max };
        shift + sum_of_exp::<S, A>(self.line, shift).ln::<S>()
    }
}
