//! The geometries of few channels, at every level, against the reference of [`super::super::tests`].

use super::super::tests::{Case, spec};
use super::super::{Gather, forward, sizes, transposed};
use super::{gather, weight};
use crate::gemm::kernel::Full;
use crate::simd::Level;
use crate::testing::{Random, Tensor};
use crate::{Conv2d, DType, MemoryOrder, Storage};

/// Calls `$body` with the gathering of each level that this machine has.
macro_rules! at_levels {
    ($($level:ident),*; $at:ident, $gather:ident => $body:expr) => {$(
        if Level::$level <= Level::best() {
            let ($at, $gather): (Level, Gather<_>) = (Level::$level, |source, of_group, groups, lattice, target| {
                gather::gather_at(Level::$level, source, of_group, groups, lattice, target);
            });
            $body
        }
    )*};
}

fn check_at<T: Full>(case: &Case, out: DType) {
    let (x, w, grad, spec) = (case.x.view(), case.w.view(), case.grad.view(), &case.spec);
    at_levels!(Portable, Avx2, Avx512; level, gather => {
        let y = forward::<T>(&x, &w, None, spec, (out, MemoryOrder::RowMajor), gather);
        let dx = transposed::<T>(&grad, &w, None, sizes(&x), spec, (out, MemoryOrder::RowMajor), gather);
        let mut dw = Storage::zeros(T::DTYPE, w.layout.count());
        weight::accumulate_at::<T>(level, &grad, &x, sizes(&w), &case.lattice(), &mut dw);
        case.compare(y, dx, dw);
        let (x, grad) = (case.x.channels_last(), case.grad.channels_last());
        let (x, grad, out) = (x.view(), grad.view(), (out, MemoryOrder::ChannelsLast));
        let y = forward::<T>(&x, &w, None, spec, out, gather);
        let dx = transposed::<T>(&grad, &w, None, sizes(&x), spec, out, gather);
        let mut dw = Storage::zeros(T::DTYPE, w.layout.count());
        weight::accumulate_at::<T>(level, &grad, &x, sizes(&w), &case.lattice(), &mut dw);
        let [y, dx] = [(y, case.grad.shape()), (dx, case.x.shape())]
            .map(|(result, shape)| Tensor::row_major(shape, MemoryOrder::ChannelsLast, &result));
        case.compare(y, dx, dw);
    });
}

fn depthwise(channels: usize, multiplier: usize, kernel: [usize; 2]) -> [usize; 4] {
    [channels * multiplier, 1, kernel[0], kernel[1]]
}

fn geometries() -> Vec<([usize; 4], [usize; 4], Conv2d)> {
    vec![
        ([2, 5, 8, 8], depthwise(5, 1, [3; 2]), spec([1; 2], [1; 2], [1; 2], 5)),
        ([3, 3, 7, 7], depthwise(3, 2, [3; 2]), spec([1; 2], [1; 2], [1; 2], 3)),
        ([1, 70, 9, 9], depthwise(70, 1, [3; 2]), spec([2; 2], [1; 2], [1; 2], 70)),
        ([1, 2, 19, 35], depthwise(2, 1, [5; 2]), spec([1; 2], [2; 2], [1; 2], 2)),
        ([1, 2, 13, 70], depthwise(2, 1, [3; 2]), spec([2; 2], [1; 2], [1; 2], 2)),
        ([1, 1, 130, 129], depthwise(1, 1, [3; 2]), spec([1; 2], [1; 2], [1; 2], 1)),
        ([1, 1, 131, 140], depthwise(1, 1, [3; 2]), spec([2; 2], [1; 2], [1; 2], 1)),
        ([2, 2, 15, 16], depthwise(2, 1, [7; 2]), spec([1; 2], [3; 2], [1; 2], 2)),
        ([1, 3, 17, 33], depthwise(3, 1, [2, 4]), spec([3, 4], [2, 5], [1; 2], 3)),
        ([1, 2, 23, 31], depthwise(2, 1, [3; 2]), spec([1; 2], [4, 6], [4, 6], 2)),
        ([1, 2, 23, 31], depthwise(2, 1, [3; 2]), spec([2, 3], [4, 2], [2, 3], 2)),
        ([2, 3, 1, 1], depthwise(3, 1, [3; 2]), spec([1; 2], [1; 2], [1; 2], 3)),
        ([1, 2, 1, 37], depthwise(2, 3, [1, 3]), spec([1, 2], [0, 20], [1; 2], 2)),
        ([2, 8, 6, 5], [12, 2, 3, 3], spec([1; 2], [1; 2], [1; 2], 4)),
        ([1, 16, 9, 17], [16, 8, 3, 3], spec([2; 2], [1; 2], [1; 2], 2)),
        ([2, 37, 8, 8], depthwise(37, 1, [3; 2]), spec([1; 2], [1; 2], [1; 2], 37)),
        ([1, 9, 7, 5], depthwise(9, 1, [3; 2]), spec([2; 2], [1; 2], [1; 2], 9)),
        ([2, 16, 11, 3], depthwise(16, 1, [5, 2]), spec([2, 3], [4, 1], [2, 1], 16)),
        ([1, 17, 1, 1], depthwise(17, 1, [3; 2]), spec([1; 2], [3; 2], [1; 2], 17)),
        ([1, 10, 9, 10], depthwise(10, 1, [1; 2]), spec([3; 2], [0; 2], [1; 2], 10)),
        ([1, 12, 40, 4], depthwise(12, 1, [7, 1]), spec([1; 2], [0; 2], [1; 2], 12)),
        ([1, 300, 5, 33], depthwise(300, 1, [3; 2]), spec([1; 2], [1; 2], [1; 2], 300)),
        ([1, 256, 40, 9], depthwise(256, 1, [5, 3]), spec([1, 2], [2, 1], [1; 2], 256)),
        ([1, 70, 7, 160], depthwise(70, 1, [7; 2]), spec([2, 1], [3; 2], [1; 2], 70)),
        ([2, 20, 9, 12], depthwise(20, 1, [5; 2]), spec([1; 2], [2; 2], [1; 2], 20)),
        ([1, 40, 12, 13], depthwise(40, 1, [7; 2]), spec([1; 2], [3; 2], [1; 2], 40)),
        ([1, 12, 40, 1], depthwise(12, 1, [7, 1]), spec([1; 2], [0; 2], [1; 2], 12)),
        ([1, 16, 7, 14], depthwise(16, 1, [2, 6]), spec([1; 2], [1, 2], [1; 2], 16)),
        ([2, 20, 30, 34], depthwise(20, 1, [3; 2]), spec([2; 2], [0; 2], [2; 2], 20)),
        ([1, 8, 3, 3], depthwise(8, 1, [2; 2]), spec([1; 2], [3; 2], [1; 2], 8)),
        ([2, 3, 7, 18], [7, 3, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([1, 11, 9, 40], [4, 11, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([1, 3, 6, 37], [10, 3, 3, 3], spec([2; 2], [1; 2], [1; 2], 1)),
        ([1, 4, 5, 6], [5, 4, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
    ]
}

#[test]
fn few_channels_at_every_level() {
    let mut random = Random::new(21);
    for (x, w, spec) in geometries() {
        check_at::<f32>(&Case::new(&mut random, x, w, spec, DType::F32), DType::F32);
        check_at::<f64>(&Case::new(&mut random, x, w, spec, DType::F64), DType::F64);
        for dtype in [DType::F16, DType::BF16] {
            check_at::<f32>(&Case::new(&mut random, x, w, spec, dtype), dtype);
        }
    }
}

#[test]
fn what_is_not_finite_reaches_what_reads_it_and_nothing_else() {
    let mut random = Random::new(22);
    for (channels, width, stride) in
        [(3, 7, 1), (9, 7, 1), (3, 8, 2), (9, 8, 2), (3, 16, 1), (3, 21, 2), (3, 40, 1), (9, 40, 1)]
    {
        let spec = spec([stride; 2], [0, 1], [1; 2], channels);
        let (x, w) = ([1, channels, 9, width], depthwise(channels, 1, [3; 2]));
        let mut case = Case::new(&mut random, x, w, spec, DType::F32);
        let Storage::F32(x) = &mut case.x.storage else { unreachable!("asked for F32") };
        x[4 * width - 1] = f32::INFINITY;
        x[5 * width] = f32::NEG_INFINITY;
        x[(9 + 3) * width + 3] = f32::NAN;
        check_at::<f32>(&case, DType::F32);
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let mut random = Random::new(23);
    for (x, w, spec) in geometries() {
        let case = Case::new(&mut random, [5, x[1], x[2], x[3]], w, spec, DType::BF16);
        let together = (case.x.channels_last(), case.grad.channels_last());
        for ((x, grad), order) in
            [((&case.x, &case.grad), MemoryOrder::RowMajor), ((&together.0, &together.1), MemoryOrder::ChannelsLast)]
        {
            let (x, w, grad, out) = (x.view(), case.w.view(), grad.view(), (DType::F32, order));
            let run = |threads| {
                crate::with_num_threads(threads, || {
                    let y = crate::conv2d(&x, &w, None, &spec, out);
                    let dx = crate::conv_transpose2d(&grad, &w, None, sizes(&x), &spec, out);
                    (y, dx, crate::conv2d_grad_weight(&grad, &x, sizes(&w), &spec))
                })
            };
            assert_eq!(run(1), run(2));
        }
    }
}
