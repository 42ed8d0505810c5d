//! Short patches at every level, against the reference of [`super::super::tests`].

use super::super::tests::{Case, spec};
use super::super::tile::Convolve;
use super::super::{Conv2d, Gather, forward, sizes};
use super::{gather, weight};
use crate::MemoryOrder::{ChannelsLast, RowMajor};
use crate::simd::Level;
use crate::testing::{Random, Tensor};
use crate::{DType, Storage};
use half::bf16;

fn geometries() -> Vec<([usize; 4], [usize; 4], Conv2d)> {
    vec![
        ([2, 3, 8, 8], [32, 3, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([1, 3, 33, 32], [64, 3, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([1, 3, 5, 37], [32, 3, 3, 3], spec([1; 2], [0, 2], [1; 2], 1)),
        ([3, 2, 7, 5], [32, 2, 3, 4], spec([1; 2], [3, 1], [1; 2], 1)),
        ([1, 1, 140, 67], [64, 1, 5, 5], spec([1; 2], [2; 2], [1; 2], 1)),
        ([2, 1, 9, 130], [32, 1, 3, 3], spec([1; 2], [1; 2], [1, 2], 1)),
        ([2, 1, 3, 3], [32, 1, 3, 3], spec([1; 2], [0; 2], [1; 2], 1)),
    ]
}

/// The gathering of a level.
fn at(level: Level) -> Gather<bf16> {
    match level {
        Level::Portable => |source, of_group, _, lattice, target| {
            gather::gather_with(gather::kernel(Level::Portable), source, &of_group(0), lattice, target);
        },
        _ => gather::gather,
    }
}

fn images(case: &Case, level: Level, out: DType) -> [Storage; 2] {
    let (x, w, together) = (case.x.view(), case.w.view(), case.x.channels_last());
    let of = |x, order| forward(x, &w, None, &case.spec, (out, order), at(level));
    [of(&x, RowMajor), of(&together.view(), ChannelsLast)]
}

fn kernels(case: &Case, level: Level) -> Storage {
    let (x, grad, shape) = (case.x.view(), case.grad.channels_last(), sizes(&case.w.view()));
    let mut into = Storage::zeros(DType::F32, case.w.view().layout.count());
    assert!(weight::accumulate(bf16::convolve(level), &grad.view(), &x, shape, &case.lattice(), &mut into));
    into
}

/// The levels of these kernels that this machine has.
fn levels() -> impl Iterator<Item = Level> {
    [Level::Portable, Level::Avx512Bf16].into_iter().filter(|level| *level <= Level::current())
}

#[test]
fn every_geometry() {
    let mut random = Random::new(31);
    for (x, w, spec) in geometries() {
        let case = Case::new(&mut random, x, w, spec, DType::BF16);
        for (level, out) in levels().flat_map(|level| [(level, DType::F32), (level, DType::BF16)]) {
            let [y, turned] = images(&case, level, out);
            assert_eq!(y, Tensor::row_major(case.grad.shape(), ChannelsLast, &turned));
            case.compare_images(y);
            case.compare_kernels(kernels(&case, level));
        }
    }
}

#[test]
fn what_is_not_finite_reaches_what_reads_it_and_nothing_else() {
    let mut random = Random::new(32);
    for (x, w, spec) in geometries() {
        let mut case = Case::new(&mut random, x, w, spec, DType::BF16);
        let Storage::BF16(values) = &mut case.x.storage else { unreachable!("asked for BF16") };
        let last = values.len() - 1;
        (values[0], values[last / 2], values[last]) = (bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY);
        for level in levels() {
            case.compare_images(images(&case, level, DType::F32)[0].clone());
            case.compare_kernels(kernels(&case, level));
        }
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let mut random = Random::new(33);
    for (x, w, spec) in geometries() {
        let case = Case::new(&mut random, [5, x[1], x[2], x[3]], w, spec, DType::BF16);
        for level in levels() {
            let run = |threads| {
                crate::with_num_threads(threads, || (images(&case, level, DType::F32), kernels(&case, level)))
            };
            assert_eq!(run(1), run(2));
        }
    }
}
