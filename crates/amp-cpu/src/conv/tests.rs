//! The three convolutions are compared with one loop over all (output pixel, kernel element) pairs in F64.

use super::*;
use crate::MemoryOrder::{ChannelsLast, RowMajor};
use crate::gemm::kernel::Multiply;
use crate::simd::Level;
use crate::testing::{Random, Tensor, epsilon};
use half::bf16;

mod case;

pub(super) use case::Case;

pub(super) const fn spec(stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], groups: usize) -> Conv2d {
    Conv2d { stride, padding, dilation, groups }
}

#[test]
fn every_geometry() {
    let mut random = Random::new(11);
    let one = spec([1; 2], [0; 2], [1; 2], 1);
    for (x, w, spec) in [
        ([1, 1, 1, 1], [1, 1, 1, 1], one),
        ([2, 3, 7, 5], [4, 3, 3, 3], one),
        ([2, 3, 8, 8], [5, 3, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([3, 2, 9, 11], [3, 2, 3, 2], spec([2, 3], [1, 0], [1; 2], 1)),
        ([1, 2, 11, 13], [3, 2, 3, 3], spec([1, 2], [2, 3], [2, 3], 1)),
        ([1, 2, 13, 13], [2, 2, 2, 3], spec([3, 2], [4, 1], [2, 1], 1)),
        ([2, 6, 6, 6], [4, 3, 3, 3], spec([1; 2], [1; 2], [1; 2], 2)),
        ([2, 5, 7, 7], [10, 1, 3, 3], spec([2; 2], [1; 2], [1; 2], 5)),
        ([2, 4, 6, 5], [4, 1, 5, 5], spec([1; 2], [2; 2], [1; 2], 4)),
        ([2, 3, 9, 37], [3, 1, 3, 3], spec([1; 2], [1; 2], [1; 2], 3)),
        ([1, 3, 9, 43], [6, 1, 3, 3], spec([1, 2], [1; 2], [2, 1], 3)),
        ([2, 35, 5, 19], [17, 35, 3, 2], spec([1, 2], [1; 2], [1; 2], 1)),
        ([5, 3, 1, 29], [4, 3, 1, 4], spec([1, 2], [0, 2], [1; 2], 1)),
        ([2, 5, 6, 6], [7, 5, 1, 1], spec([2; 2], [0; 2], [1; 2], 1)),
        ([1, 3, 4, 4], [2, 3, 2, 2], spec([4, 5], [3; 2], [1; 2], 1)),
        ([1, 2, 40, 37], [3, 2, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([2, 37, 9, 8], [35, 37, 3, 3], spec([2; 2], [1; 2], [1; 2], 1)),
        ([3, 9, 8, 7], [12, 9, 3, 3], spec([2, 1], [1; 2], [1, 2], 1)),
        ([2, 33, 6, 6], [40, 33, 1, 1], spec([2; 2], [0; 2], [1; 2], 1)),
        ([1, 32, 3, 4], [300, 32, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([1, 96, 4, 3], [34, 96, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([2, 20, 5, 5], [30, 10, 3, 3], spec([3; 2], [2; 2], [1; 2], 2)),
    ] {
        Case::new(&mut random, x, w, spec, DType::F32).check(DType::F32);
        Case::new(&mut random, x, w, spec, DType::F64).check(DType::F64);
    }
}

#[test]
fn taps_outside_of_many_small_images() {
    let mut random = Random::new(15);
    for (x, w, spec) in [
        ([25, 8, 4, 4], [5, 8, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([13, 6, 3, 5], [9, 6, 3, 3], spec([1; 2], [3, 1], [2, 1], 1)),
        ([14, 10, 4, 4], [12, 5, 3, 3], spec([2, 1], [1, 0], [1; 2], 2)),
        ([30, 6, 2, 2], [6, 6, 1, 1], spec([1; 2], [2, 1], [1; 2], 1)),
        ([12, 70, 1, 2], [9, 70, 3, 5], spec([1; 2], [1, 2], [1; 2], 1)),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            Case::new(&mut random, x, w, spec, dtype).check(dtype);
        }
    }
}

/// Most of them asks for more memory than machines have where all that lies between elements of a kernel is laid out.
#[test]
fn elements_of_kernels_that_only_read_padding() {
    let mut random = Random::new(19);
    for (x, w, spec) in [
        ([1, 1, 8, 8], [1, 1, 3, 3], spec([1; 2], [50_000; 2], [50_000; 2], 1)),
        ([2, 20, 8, 7], [24, 20, 3, 3], spec([1; 2], [50_000; 2], [50_000; 2], 1)),
        ([2, 6, 8, 7], [6, 1, 3, 3], spec([1, 2], [1, 50_000], [1, 50_000], 6)),
        ([2, 20, 9, 8], [24, 10, 3, 2], spec([2, 1], [50_000, 0], [50_000, 3], 2)),
        // None reads anything.
        ([1, 2, 5, 5], [3, 2, 2, 1], spec([1; 2], [25_000, 0], [50_000, 1], 1)),
        ([1, 20, 5, 5], [24, 20, 1, 2], spec([1; 2], [0, 25_000], [1, 50_000], 1)),
        // Three of five rows, the last columns.
        ([2, 20, 8, 8], [24, 20, 5, 5], spec([1; 2], [14; 2], [7; 2], 1)),
        ([2, 20, 4, 3], [24, 20, 3, 7], spec([1; 2], [1, 8], [1; 2], 1)),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            Case::new(&mut random, x, w, spec, dtype).check(DType::F32);
        }
    }
}

#[test]
fn kernels_of_more_taps_than_are_turned_at_a_time() {
    let mut random = Random::new(16);
    for (x, w, spec) in [
        ([2, 3, 17, 16], [5, 3, 16, 16], spec([16; 2], [0; 2], [1; 2], 1)),
        ([1, 4, 25, 24], [4, 2, 23, 21], spec([1; 2], [1; 2], [1; 2], 2)),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
            Case::new(&mut random, x, w, spec, dtype).check(dtype);
        }
    }
}

#[test]
fn lines_longer_than_the_scratch_that_they_are_turned_in() {
    let mut random = Random::new(41);
    for (x, w, stride) in [
        ([1, 16, 1, 4097], [16, 16, 1, 3], 1),
        ([1, 4, 1, 9001], [16, 4, 1, 3], 3),
        ([2, 16, 1, 8501], [3, 16, 1, 2], 2),
        ([1, 16, 3, 1501], [8, 16, 3, 3], 1),
        ([1, 8, 1, 5000], [16, 8, 1, 4], 2),
    ] {
        for dtype in [DType::F32, DType::BF16] {
            Case::new(&mut random, x, w, spec([1, stride], [0, 1], [1; 2], 1), dtype).check(DType::F32);
        }
    }
}

#[test]
fn pixels_are_told_apart_where_it_pays() {
    let spec = spec([1; 2], [1; 2], [1; 2], 1);
    let classes = |images: usize, size: usize| {
        let lattice = Lattice::forward(&spec, [size; 2], [3; 2]);
        let band = lattice::Band { images: 0..images, rows: 0..size };
        let planes = planes::Planes::new(&lattice, &band, 64, 2, 0);
        let classes = planes.classes(&lattice.phases[0], [size; 2], 12);
        let taps = |class: &patch::Class| class.inside.iter().filter(|&&inside| inside).count();
        classes.iter().map(|class| (class.pixels.len(), taps(class))).collect::<Vec<_>>()
    };
    let [corner, edge] = [(12, 4), (24, 6)];
    assert_eq!(classes(12, 4), [corner, edge, corner, edge, (48, 9), edge, corner, edge, corner]);
    assert_eq!(classes(1, 4), [(16, 9)]);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn amx() -> tile::Kernel<bf16> {
    crate::gemm::amx::emulator::install();
    tile::Kernel::packed(crate::gemm::amx::kernel())
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const ON_AMX: Gather<bf16> = |source, of_group, groups, lattice, target| {
    gather::gather_with(amx(), source, of_group, groups, lattice, target);
};

#[test]
fn tiles_of_eleven_outputs_and_pixels_that_would_collide() {
    let mut random = Random::new(15);
    for (inputs, outputs) in [(32, 64), (66, 11), (16, 22), (512, 13)] {
        let spec = spec([1; 2], [1; 2], [1; 2], 1);
        Case::new(&mut random, [2, inputs, 4, 3], [outputs, inputs, 3, 3], spec, DType::BF16).check(DType::F32);
        let [x, w] = [[2, inputs, 4, 3], [2 * outputs, inputs / 2, 3, 3]];
        Case::new(&mut random, x, w, Conv2d { groups: 2, ..spec }, DType::BF16).check(DType::F32);
    }
    let spec = spec([2; 2], [1; 2], [1; 2], 1);
    Case::new(&mut random, [2, 256, 5, 5], [12, 256, 3, 3], spec, DType::F32).check(DType::F32);
}

/// Geometries of all kinds.
const GEOMETRIES: [([usize; 4], [usize; 4], Conv2d); 6] = [
    ([2, 3, 7, 5], [4, 3, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
    ([3, 9, 8, 7], [12, 9, 3, 3], spec([2, 1], [1; 2], [1, 2], 1)),
    ([2, 33, 6, 6], [40, 33, 1, 1], spec([2; 2], [0; 2], [1; 2], 1)),
    ([1, 32, 7, 16], [33, 32, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
    ([2, 10, 5, 5], [12, 5, 3, 3], spec([3; 2], [2; 2], [1; 2], 2)),
    ([1, 4, 3, 300], [5, 4, 1, 2], spec([1; 2], [0; 2], [1; 2], 1)),
];

#[test]
fn gradients_and_vectors_that_are_packed() {
    let mut random = Random::new(14);
    for (x, w, spec) in GEOMETRIES {
        let case = Case::new(&mut random, x, w, spec, DType::BF16);
        case.check_kernels_packed(tile::Kernel::packed(crate::gemm::dot::portable()));
        case.check_kernels_packed(tile::Kernel::packed(bf16::kernel(Level::current())));
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn every_arrangement_of_pixels_on_amx() {
    let mut random = Random::new(14);
    let padded = spec([1; 2], [1; 2], [1; 2], 1);
    let cases = [
        // Patches at even distances: of two rows, of two images, and of every second column.
        ([1, 32, 4, 16], [40, 32, 3, 3], padded),
        ([2, 64, 1, 16], [33, 64, 1, 3], spec([1; 2], [0, 1], [1; 2], 1)),
        ([1, 64, 4, 64], [8, 32, 1, 1], spec([2; 2], [0; 2], [1; 2], 2)),
        // Images side by side, of whole tiles and of a half, and some beside; pixels that read few taps, and none; long patches.
        ([35, 32, 3, 2], [33, 32, 3, 3], padded),
        ([16, 32, 5, 3], [32, 32, 3, 2], spec([2; 2], [1; 2], [1; 2], 1)),
        ([16, 64, 2, 1], [8, 32, 1, 1], spec([1; 2], [2, 1], [1; 2], 2)),
        ([16, 416, 1, 2], [64, 416, 1, 3], spec([1; 2], [0, 1], [1; 2], 1)),
        // Rows and what lies between them.
        ([1, 32, 3, 20], [32, 32, 3, 3], padded),
        ([3, 64, 3, 17], [12, 64, 2, 2], spec([1; 2], [0, 1], [2, 1], 1)),
        // Steps of a gradient of kernels that are a pixel or neighbours, of patches, too.
        ([64, 32, 4, 3], [34, 32, 3, 3], padded),
        ([32, 40, 4, 5], [8, 20, 3, 2], spec([2; 2], [1; 2], [1; 2], 2)),
        ([4, 18, 3, 8], [9, 18, 3, 3], padded),
        ([6, 16, 2, 16], [5, 16, 1, 3], spec([1; 2], [0, 2], [1, 2], 1)),
        ([32, 16, 1, 1], [4, 16, 1, 1], spec([1; 2], [2, 1], [1; 2], 1)),
        ([32, 3, 5, 4], [33, 3, 3, 3], spec([2; 2], [1; 2], [1; 2], 1)),
        ([2, 10, 4, 16], [12, 5, 3, 4], spec([1; 2], [1; 2], [1; 2], 2)),
    ];
    for (x, w, spec) in cases.into_iter().chain(GEOMETRIES) {
        Case::new(&mut random, x, w, spec, DType::BF16).check_on_amx();
    }
}

#[test]
fn tiles_round_as_whole_results_are_rounded() {
    let mut random = Random::new(17);
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -1e-40, -0.0, 3.3e38, 1.003_906_25];
    for (stride, kernel) in [(1, 3), (2, 1)] {
        let (x, w) = ([3, 33, 6, 5], [64, 33, kernel, kernel]);
        let mut case = Case::new(&mut random, x, w, spec([stride; 2], [kernel / 2; 2], [1; 2], 1), DType::BF16);
        let values: Vec<f64> =
            (0..x.iter().product()).map(|i| if i % 7 < 6 { 0.0 } else { special[i / 7 % 8] }).collect();
        case.x = Tensor::from_values(&x, DType::BF16, &values);
        let of = |order| {
            let y = conv2d(&case.x.view(), &case.w.view(), None, &case.spec, (DType::BF16, order));
            let Storage::BF16(bits) = Tensor::row_major(case.grad.shape(), order, &y) else {
                unreachable!("asked for BF16")
            };
            bits.iter().map(|value| value.to_bits()).collect::<Vec<u16>>()
        };
        assert_eq!(of(RowMajor), of(ChannelsLast));
    }
}

#[test]
fn every_mix_of_precisions_and_strides() {
    let mut random = Random::new(12);
    let spec = spec([2, 1], [1; 2], [1; 2], 1);
    for dtype in [DType::F16, DType::BF16] {
        for out in [DType::F16, DType::BF16, DType::F32] {
            let mut case = Case::new(&mut random, [2, 3, 6, 7], [4, 3, 3, 3], spec, dtype);
            case.check(out);
            Case::new(&mut random, [2, 35, 6, 7], [33, 35, 3, 3], spec, dtype).check(out);
            case.x = random.tensor(&[6, 3, 7, 2], DType::F32).meant_as(dtype).transposed(0, 3).transposed(2, 3);
            case.w = random.tensor(&[3, 4, 3, 3], DType::F32).meant_as(dtype).transposed(0, 1);
            case.grad = case.grad.meant_as(DType::F32);
            case.check(out);
        }
    }
}

#[test]
fn empty_dimensions() {
    let padded = spec([1; 2], [1; 2], [1; 2], 1);
    let bias = Tensor::from_values(&[2], DType::F32, &[1.5, -2.0]);
    let x = Tensor::filled(&[0, 3, 4, 4], DType::F32, 0.0);
    let w = Tensor::filled(&[2, 3, 3, 3], DType::F32, 1.0);
    assert_eq!(conv2d(&x.view(), &w.view(), None, &padded, (DType::F32, RowMajor)).len(), 0);
    let no_channels = Tensor::filled(&[1, 0, 1, 2], DType::F32, 0.0);
    let w = Tensor::filled(&[2, 0, 3, 3], DType::F32, 1.0);
    let y = conv2d(&no_channels.view(), &w.view(), Some(&bias.view()), &padded, (DType::F32, RowMajor));
    assert_eq!(y, Storage::F32(vec![1.5, 1.5, -2.0, -2.0].into()));
    // Images of no width, of which there is padding alone.
    for (dtype, channels) in [DType::F32, DType::F64, DType::BF16].into_iter().flat_map(|d| [(d, 2), (d, 16)]) {
        let (x, w) = ([1, channels, 4, 0], [2, channels, 3, 3]);
        let [x, w] = [&x[..], &w].map(|shape| Tensor::filled(shape, dtype, 1.0));
        let y =
            conv2d(&x.view(), &w.view(), Some(&bias.view()), &spec([1; 2], [2; 2], [1; 2], 1), (DType::F32, RowMajor));
        assert_eq!(y, Storage::F32([[1.5; 12], [-2.0; 12]].concat().into()), "{dtype:?} {channels}");
    }
    assert_eq!(padded.output_size([1, 1], [4, 1]), None);
    assert_eq!(spec([0, 1], [0; 2], [1; 2], 1).output_size([3, 3], [1, 1]), None);
}

#[test]
fn biases_of_channels_that_lie_together() {
    let mut random = Random::new(16);
    for (channels, outputs, groups) in [(3, 10, 1), (5, 37, 1), (6, 4, 2), (4, 4, 4), (20, 20, 20)] {
        let spec = spec([1; 2], [1; 2], [1; 2], groups);
        let (x, w) = ([2, channels, 6, 19], [outputs, channels / groups, 3, 3]);
        let case = Case::new(&mut random, x, w, spec, DType::BF16);
        let bias = random.tensor(&[outputs], DType::F32);
        let (x, w, shape) = (case.x.view(), case.w.view(), case.grad.shape());
        let of = |order| conv2d(&x, &w, Some(&bias.view()), &spec, (DType::F32, order));
        assert_eq!(of(RowMajor), Tensor::row_major(shape, ChannelsLast, &of(ChannelsLast)));
    }
}

#[test]
fn bias_is_added_before_rounding() {
    let x = Tensor::filled(&[1, 1, 3, 3], DType::BF16, 1.0);
    let w = Tensor::filled(&[1, 1, 3, 3], DType::BF16, 1.0);
    let bias = Tensor::from_values(&[1], DType::F32, &[256.0 - 9.0 + 1.0]);
    let spec = Conv2d::default();
    let y = conv2d(&x.view(), &w.view(), Some(&bias.view()), &spec, (DType::F32, RowMajor));
    assert_eq!(y, Storage::F32(vec![257.0].into()));
    let turned =
        conv_transpose2d(&x.view(), &w.view(), Some(&bias.view()), [1, 1, 5, 5], &spec, (DType::F32, RowMajor));
    let Storage::F32(values) = turned else { unreachable!("asked for F32") };
    assert_eq!((values[0], values[12]), (249.0, 257.0));
}

#[test]
fn gradients_of_kernels_are_added_to_what_is_there() {
    let mut random = Random::new(18);
    for inputs in [5, 32] {
        let (x, w) = ([2, inputs, 5, 4], [13, inputs, 3, 3]);
        let case = Case::new(&mut random, x, w, spec([1; 2], [1; 2], [1; 2], 1), DType::BF16);
        let (x, grad) = (case.x.view(), case.grad.view());
        let Storage::F32(fresh) = conv2d_grad_weight(&grad, &x, w, &case.spec) else { unreachable!("sums are F32") };
        let mut sums = Storage::F32(vec![1.5; fresh.len()].into());
        conv2d_grad_weight_acc(&grad, &x, w, &case.spec, &mut sums);
        assert_eq!(sums, Storage::F32(fresh.iter().map(|sum| 1.5 + sum).collect::<Vec<_>>().into()));
    }
}

#[test]
fn gradients_of_images_begin_with_what_is_there() {
    let mut random = Random::new(19);
    for (x, w, spec) in [
        ([2, 64, 6, 5], [96, 64, 3, 3], spec([1; 2], [1; 2], [1; 2], 1)),
        ([2, 37, 5, 6], [12, 37, 3, 3], spec([2; 2], [1; 2], [1; 2], 1)),
        ([3, 64, 7, 6], [40, 64, 1, 1], spec([2; 2], [0; 2], [1; 2], 1)),
        ([2, 64, 5, 5], [24, 32, 3, 3], spec([3, 1], [1; 2], [1, 2], 2)),
    ] {
        for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
            let case = Case::new(&mut random, x, w, spec, dtype);
            let earlier = random.tensor(&x, case.sum());
            let add = |into: &mut Storage| conv_transpose2d_acc(&case.grad.view(), &case.w.view(), x, &spec, into);
            case.compare_onto(&earlier, add);
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            if dtype == DType::BF16 {
                case.compare_onto(&earlier, |into| {
                    let target = Target::onto(into, w[1], x[1], [x[2], x[3]]);
                    gather_back(&case.grad.view(), &case.w.view(), &spec, &target, ON_AMX);
                    true
                });
            }
        }
    }
}

#[test]
fn few_channels_and_lines_are_not_added_to() {
    let mut random = Random::new(20);
    for (x, w) in [([2, 3, 5, 6], [12, 3, 3, 3]), ([2, 32, 1, 9], [32, 32, 1, 3])] {
        let case = Case::new(&mut random, x, w, Conv2d::default(), DType::BF16);
        let mut into = Storage::zeros(DType::F32, x.iter().product());
        assert!(!conv_transpose2d_acc(&case.grad.view(), &case.w.view(), x, &case.spec, &mut into));
        assert_eq!(into, Storage::zeros(DType::F32, x.iter().product()));
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let mut random = Random::new(13);
    let padded = spec([1; 2], [1; 2], [1; 2], 1);
    for (x, w) in [([6, 5, 17, 19], [7, 5, 3, 3]), ([9, 64, 8, 8], [96, 64, 3, 3]), ([34, 64, 4, 4], [64, 64, 3, 3])] {
        let case = Case::new(&mut random, x, w, padded, DType::BF16);
        let (x, w, grad) = (case.x.view(), case.w.view(), case.grad.view());
        let run = |threads| {
            crate::with_num_threads(threads, || {
                let y = conv2d(&x, &w, None, &padded, (DType::BF16, ChannelsLast));
                let dx = conv_transpose2d(&grad, &w, None, sizes(&x), &padded, (DType::F32, RowMajor));
                let mut twice = conv_transpose2d(&grad, &w, None, sizes(&x), &padded, (DType::F32, ChannelsLast));
                conv_transpose2d_acc(&grad, &w, sizes(&x), &padded, &mut twice);
                (y, dx, twice, conv2d_grad_weight(&grad, &x, sizes(&w), &padded))
            })
        };
        assert_eq!(run(1), run(2));
    }
}
