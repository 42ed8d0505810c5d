//! The gated linear unit and its gradient.

use super::stream::{Body, stream};
use crate::line::{Cut, Span, store};
use crate::math::Float;
use crate::num::{Real, in_real};
use crate::output::Output;
use crate::parallel::{CHUNK, Cost, for_each};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Layout, Storage, View, scratch};

/// The first half of `x` along `axis` times the sigmoid of the second, in precision `out`.
///
/// PyTorch: `F.glu`. Computed in F32 (F64), rounded once.
pub fn glu(x: &View, axis: usize, out: DType) -> Storage {
    let layouts = halves(x.layout, axis);
    let [a, b] = layouts.each_ref().map(|layout| View { layout, ..*x });
    in_real!(x.logical, A => stream::<A, 2>([&a, &b], out, Cost::Heavy, Gate))
}

fn halves(layout: &Layout, axis: usize) -> [Layout; 2] {
    let mut first = *layout;
    first.shape[axis] /= 2;
    let behind = if first.count() == 0 { 0 } else { first.shape[axis] * first.strides[axis] };
    [first, Layout { offset: first.offset + behind, ..first }]
}

#[derive(Clone, Copy)]
struct Gate;

impl<T: Float> Body<T, 2> for Gate {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [a, b]: [&[T]; 2], y: &mut [T]) {
        each!(y, (a, b) => a * b.sigmoid::<S>());
    }
}

/// Gradient of [`glu`] with respect to `x`, from that of its result, in precision `out`.
///
/// In one pass: of sigmoids, derivatives and products one after the other, and joined, those of 4 M F32 took three times as long.
pub fn glu_grad(x: &View, grad: &View, axis: usize, out: DType) -> Storage {
    let cut = Cut::new(&grad.layout.shape, axis);
    let half = cut.len * cut.inner;
    let mut storage = Storage::unwritten(out, 2 * cut.outer * half);
    let (output, x_span, grad_span) = (Output::new(&mut storage), Span::row_major(x), Span::row_major(grad));
    let blocks = half.div_ceil(CHUNK);
    in_real!(x.logical, A => for_each(cut.outer * blocks, 8 * cut.outer * half, |task| {
        let (row, column) = (task / blocks, task % blocks * CHUNK);
        let (count, at) = (CHUNK.min(half - column), row * half + column);
        let first = at + row * half;
        scratch::with(5 * count, |room: &mut [A]| {
            let mut rooms = room.chunks_exact_mut(count);
            let [a, b, g, of_a, of_b] = std::array::from_fn(|_| rooms.next().expect("five of them"));
            let (a, b) = (x_span.read(first, count, a), x_span.read(first + half, count, b));
            let g = grad_span.read(at, count, g);
            // SAFETY: no other task has these elements, and the second half begins behind the first.
            let (mut left, mut right) = unsafe { (output.part(first, count), output.part(first + half, count)) };
            store(&mut left, of_a, |of_a| store(&mut right, of_b, |of_b| dispatch(Gradient { a, b, g, of_a, of_b })));
        });
    }));
    storage
}

struct Gradient<'a, A> {
    a: &'a [A],
    b: &'a [A],
    g: &'a [A],
    of_a: &'a mut [A],
    of_b: &'a mut [A],
}

impl<A: Real> Kernel for Gradient<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { a, b, g, of_a, of_b } = self;
        each!(of_a, (b) => b.sigmoid::<S>());
        for ((of_b, of_a), (&a, &g)) in of_b.iter_mut().zip(of_a).zip(a.iter().zip(g)) {
            let gate = *of_a;
            *of_a = g * gate;
            *of_b = g * (gate * (A::ONE - gate) * a);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{glu, glu_grad};
    use crate::testing::{Random, Tensor, epsilon};
    use crate::{DType, with_num_threads};

    /// Against F64: of values below 10 no sum or product has more than ten roundings.
    fn check(x: &Tensor, grad: &Tensor, axis: usize, out: DType) {
        let run = |threads| {
            let (x, grad) = (x.view(), grad.view());
            with_num_threads(threads, || [glu(&x, axis, out), glu_grad(&x, &grad, axis, out)])
        };
        assert_eq!(format!("{:?}", run(1)), format!("{:?}", run(2)));
        let [y, dx] = run(2);
        let (y, dx) = (Tensor::contiguous(grad.shape(), y), Tensor::contiguous(x.shape(), dx));
        // Half of what F16 has between 0 and the next number.
        let least = if out == DType::F16 { 2.0_f64.powi(-25) } else { f64::from(f32::MIN_POSITIVE) };
        let close = |found: f64, exact: f64| {
            let tolerance = (10.0 * epsilon(DType::F32) + epsilon(out)) * exact.abs() + least;
            let same = found.is_nan() && exact.is_nan() || found == exact;
            assert!(
                same || (found - exact).abs() <= tolerance,
                "{found} is not {exact}, along {axis} of {:?}",
                x.shape()
            );
        };
        for at in grad.indices() {
            let mut behind = at.clone();
            behind[axis] += grad.shape()[axis];
            let (a, b, g) = (x.at(&at), x.at(&behind), grad.at(&at));
            let (gate, rest) = (1.0 / (1.0 + (-b).exp()), 1.0 / (1.0 + b.exp()));
            close(y.at(&at), a * gate);
            close(dx.at(&at), g * gate);
            let (of_b, exact) = (dx.at(&behind), g * (gate * rest * a));
            // 1 less the gate is exact to a rounding of 1.
            let slack = 2.0 * epsilon(DType::F32) * (g * gate * a).abs() + least;
            let near = (of_b - exact).abs() <= slack;
            if !near {
                close(of_b, exact);
            }
        }
    }

    #[test]
    fn halves_along_every_axis_of_every_layout() {
        let mut random = Random::new(1);
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let mut values: Vec<f64> = (0..6 * 4 * 34).map(|_| random.number() * 9.0).collect();
            (values[5], values[77], values[301]) = (f64::NAN, f64::INFINITY, -0.0);
            let x = Tensor::from_values(&[6, 4, 34], dtype, &values);
            for x in [x.clone(), x.transposed(0, 2), x.narrow(1, 1, 2), x.narrow(0, 0, 0)] {
                for axis in 0..3 {
                    let mut shape = x.shape().to_vec();
                    shape[axis] /= 2;
                    for out in [DType::F32, dtype] {
                        check(&x, &random.tensor(&shape, DType::F32), axis, out);
                    }
                }
            }
        }
    }

    #[test]
    fn long_and_many_halves_are_cut_for_several_threads() {
        let mut random = Random::new(2);
        for (shape, axis) in [([2, 1, 70_003], 0), ([501, 1, 514], 2), ([3, 2, 40_001], 1)] {
            let mut half = shape;
            half[axis] /= 2;
            check(&random.tensor(&shape, DType::F32), &random.tensor(&half, DType::BF16), axis, DType::F32);
        }
    }
}
