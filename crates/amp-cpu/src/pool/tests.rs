//! Poolings against the definition, written with padding made explicit.

use super::*;
use crate::testing::{Random, Tensor, epsilon};
use crate::{DType, MemoryOrder, Storage, with_num_threads};

const SHAPE: [usize; 4] = [2, 3, 7, 9];
const ROWS: (DType, MemoryOrder) = (DType::F32, MemoryOrder::RowMajor);

fn pool(kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2]) -> Pool2d {
    Pool2d { kernel, stride, padding, dilation, ceil_mode: false }
}

/// For every output place: the input pixels of its window and the number of pixels with padding.
fn windows(spec: &Pool2d, input: [usize; 2]) -> Vec<(Vec<[usize; 2]>, usize)> {
    let size = spec.output_size(input).expect("the windows fit");
    let places = (0..size[0]).flat_map(|y| (0..size[1]).map(move |x| [y, x]));
    places
        .map(|place| {
            let mut pixels = Vec::new();
            let mut covered = 0;
            for ky in 0..spec.kernel[0] {
                for kx in 0..spec.kernel[1] {
                    let at: [usize; 2] =
                        std::array::from_fn(|i| place[i] * spec.stride[i] + [ky, kx][i] * spec.dilation[i]);
                    covered += usize::from((0..2).all(|i| at[i] < input[i] + 2 * spec.padding[i]));
                    let at: [usize; 2] = std::array::from_fn(|i| at[i].wrapping_sub(spec.padding[i]));
                    if at[0] < input[0] && at[1] < input[1] {
                        pixels.push(at);
                    }
                }
            }
            (pixels, covered)
        })
        .collect()
}

fn specs() -> Vec<Pool2d> {
    vec![
        pool([1; 2], [1; 2], [0; 2], [1; 2]),
        pool([2; 2], [2; 2], [0; 2], [1; 2]),
        pool([3, 2], [2, 3], [1, 1], [1; 2]),
        pool([7, 9], [1; 2], [0; 2], [1; 2]),
        pool([4, 5], [3, 1], [2, 2], [1; 2]),
        Pool2d { ceil_mode: true, ..pool([2; 2], [2; 2], [0; 2], [1; 2]) },
        Pool2d { ceil_mode: true, ..pool([3; 2], [4, 5], [1; 2], [1; 2]) },
    ]
}

#[test]
fn maxima_and_their_places() {
    let mut random = Random::new(21);
    let mut specs = specs();
    specs.push(pool([3, 2], [1, 2], [1, 1], [2, 3]));
    for (spec, dtype) in specs.iter().flat_map(|s| [DType::F32, DType::F16, DType::F64].map(|d| (s, d))) {
        let x = random.tensor(&SHAPE, dtype).transposed(2, 3).transposed(2, 3);
        let (y, indices) = max_pool2d(&x.view(), spec, ROWS.1);
        let size = spec.output_size([7, 9]).expect("the windows fit");
        let y = Tensor::contiguous(&[2, 3, size[0], size[1]], y);
        assert_eq!(y.logical(), dtype);
        let Storage::I64(indices) = indices else { panic!("indices are I64") };
        for (plane, (values, places)) in
            y.values().chunks(size[0] * size[1]).zip(indices.chunks(size[0] * size[1])).enumerate()
        {
            for ((pixels, _), (&value, &place)) in windows(spec, [7, 9]).iter().zip(values.iter().zip(places)) {
                let at = |p: &[usize; 2]| x.at(&[plane / 3, plane % 3, p[0], p[1]]);
                let largest = pixels.iter().map(at).fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(value, largest);
                assert_eq!(at(&[place as usize / 9, place as usize % 9]), largest);
            }
        }
    }
}

#[test]
fn nan_is_the_largest_and_the_first_of_equals_counts() {
    let x = Tensor::from_values(&[1, 1, 1, 5], DType::F32, &[1.0, f64::NAN, 3.0, 3.0, f64::NEG_INFINITY]);
    let (y, indices) = max_pool2d(&x.view(), &pool([1, 2], [1, 1], [0; 2], [1; 2]), ROWS.1);
    let Storage::F32(y) = y else { panic!("pooling keeps the precision") };
    assert!(y[0].is_nan() && y[1].is_nan() && y[2..] == [3.0, 3.0]);
    assert_eq!(indices, Storage::I64(vec![1, 1, 2, 3].into()));
    let low = Tensor::filled(&[1, 1, 2, 2], DType::F32, f64::NEG_INFINITY);
    let (y, indices) = max_pool2d(&low.view(), &pool([2; 2], [1; 2], [1; 2], [1; 2]), ROWS.1);
    assert_eq!(y, Storage::F32(vec![f32::NEG_INFINITY; 9].into()));
    assert_eq!(indices, Storage::I64(vec![0, 0, 1, 0, 0, 1, 2, 2, 3].into()));
}

#[test]
fn maxima_pass_their_gradient_back() {
    let mut random = Random::new(22);
    let x = random.tensor(&SHAPE, DType::F32);
    let spec = pool([3, 3], [1, 2], [1, 1], [1; 2]);
    let (y, indices) = max_pool2d(&x.view(), &spec, ROWS.1);
    let size = spec.output_size([7, 9]).expect("the windows fit");
    let grad = Tensor::filled(&[2, 3, size[0], size[1]], DType::BF16, 1.0);
    let Storage::I64(indices) = indices else { panic!("indices are I64") };
    let dx = max_pool2d_grad(&grad.view(), &indices, [7, 9], Some(&spec), ROWS);
    let mut expected = vec![0.0_f32; dx.len()];
    for (i, place) in indices.iter().enumerate() {
        expected[i / (size[0] * size[1]) * 63 + *place as usize] += 1.0;
    }
    assert_eq!(y.len(), indices.len());
    assert_eq!(dx, Storage::from(expected));
}

#[test]
fn means_and_their_gradient() {
    let mut random = Random::new(23);
    for (spec, include) in specs().iter().flat_map(|s| [true, false].map(|i| (s, i))) {
        let x = random.tensor(&SHAPE, DType::BF16);
        let size = spec.output_size([7, 9]).expect("the windows fit");
        let y = Tensor::contiguous(&[2, 3, size[0], size[1]], avg_pool2d(&x.view(), spec, include, ROWS.1));
        let grad = random.tensor(y.shape(), DType::F32);
        let dx = avg_pool2d_grad(&grad.view(), [7, 9], spec, include, ROWS);
        let dx = Tensor::contiguous(&SHAPE, dx);
        for plane in 0..6 {
            let mut expected = vec![0.0; 63];
            for (i, (pixels, covered)) in windows(spec, [7, 9]).iter().enumerate() {
                let count = if include { *covered } else { pixels.len() } as f64;
                let at = |y: usize, x: usize| [plane / 3, plane % 3, y, x];
                let place = at(i / size[1], i % size[1]);
                let sum: f64 = pixels.iter().map(|p| x.at(&at(p[0], p[1]))).sum();
                assert!((y.at(&place) - sum / count).abs() <= 1.01 * epsilon(DType::BF16) * (sum / count).abs() + 1e-6);
                pixels.iter().for_each(|p| expected[p[0] * 9 + p[1]] += grad.at(&place) / count);
            }
            for (i, expected) in expected.iter().enumerate() {
                let diff = (dx.at(&[plane / 3, plane % 3, i / 9, i % 9]) - expected).abs();
                assert!(diff <= 64.0 * epsilon(DType::F32));
            }
        }
    }
}

#[test]
fn adaptive_windows_cover_everything() {
    let mut random = Random::new(24);
    let x = random.tensor(&SHAPE, DType::F32);
    for size in [[1, 1], [7, 9], [3, 4], [10, 2], [0, 4], [3, 0]] {
        let shape = [2, 3, size[0], size[1]];
        let mean = Tensor::contiguous(&shape, adaptive_avg_pool2d(&x.view(), size, ROWS.1));
        let (max, _) = adaptive_max_pool2d(&x.view(), size, ROWS.1);
        let max = Tensor::contiguous(&shape, max);
        let ones = Tensor::filled(&shape, DType::F32, 1.0);
        let spread = Tensor::contiguous(&SHAPE, adaptive_avg_pool2d_grad(&ones.view(), [7, 9], ROWS));
        for index in mean.indices() {
            let range = |i: usize, n: usize| index[i + 2] * n / size[i]..((index[i + 2] + 1) * n).div_ceil(size[i]);
            let pixels: Vec<f64> = range(0, 7)
                .flat_map(|y| range(1, 9).map(move |x| (y, x)))
                .map(|(row, column)| x.at(&[index[0], index[1], row, column]))
                .collect();
            let expected = pixels.iter().sum::<f64>() / pixels.len() as f64;
            assert!((mean.at(&index) - expected).abs() <= 64.0 * epsilon(DType::F32));
            assert_eq!(max.at(&index), pixels.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
        let total: f64 = spread.values().iter().sum();
        assert!((total - (6 * size[0] * size[1]) as f64).abs() <= 1e-3);
    }
}

/// All results of a pooling and its gradients in an order, as text: NaN equals itself, and 0 has a sign.
fn everything(x: &Tensor, spec: &Pool2d, size: [usize; 2], order: MemoryOrder) -> Vec<String> {
    let [n, c, h, w] = *x.shape() else { panic!("images") };
    let (logical, mut random) = (x.logical(), Random::new(25));
    let mut results = Vec::new();
    for spec in [Some(spec), None] {
        let output = spec.map_or(size, |spec| spec.output_size([h, w]).expect("the windows fit"));
        let (shape, input) = ([n, c, output[0], output[1]], [h, w]);
        let grad =
            random.tensor(&shape, DType::BF16).meant_as(if logical == DType::F64 { logical } else { DType::F32 });
        let grad = if order == MemoryOrder::RowMajor { grad } else { grad.channels_last() };
        let (x, grad) = (x.view(), grad.view());
        let (y, indices) = match spec {
            Some(spec) => max_pool2d(&x, spec, order),
            None => adaptive_max_pool2d(&x, size, order),
        };
        let Storage::I64(places) = &indices else { panic!("indices are I64") };
        let values = max_pool2d_values(&x, spec, output, order);
        assert_eq!(format!("{values:?}"), format!("{y:?}"), "{spec:?}");
        let dx = max_pool2d_grad(&grad, places, input, spec, (logical, order));
        let ordered = |shape: &[usize], result| format!("{:?}", Tensor::row_major(shape, order, &result));
        results.extend([ordered(&shape, y), ordered(&shape, indices), ordered(x.layout.shape.as_ref(), dx)]);
        let counted: &[bool] = if spec.is_some_and(|spec| spec.dilation != [1; 2]) { &[] } else { &[true, false] };
        for &include in counted {
            let (y, dx) = match spec {
                Some(spec) => (
                    avg_pool2d(&x, spec, include, order),
                    avg_pool2d_grad(&grad, input, spec, include, (logical, order)),
                ),
                None => {
                    (adaptive_avg_pool2d(&x, size, order), adaptive_avg_pool2d_grad(&grad, input, (logical, order)))
                }
            };
            results.extend([ordered(&shape, y), ordered(x.layout.shape.as_ref(), dx)]);
        }
    }
    results
}

/// Images with what is easily lost: NaN, infinities, zeros with a sign and subnormals.
fn wild(random: &mut Random, shape: &[usize], dtype: DType) -> Tensor {
    let mut values = random.tensor(shape, DType::F32).values();
    let rare = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-7, -3e-39];
    values.iter_mut().step_by(5).zip(rare.iter().cycle()).for_each(|(value, rare)| *value = *rare);
    Tensor::from_values(shape, dtype, &values)
}

#[test]
fn both_orders_have_the_same_bits() {
    let mut random = Random::new(26);
    let mut specs = specs();
    specs.push(pool([3, 2], [1, 2], [1, 1], [2, 3]));
    let shapes = [[2, 3, 7, 9], [1, 37, 7, 9], [1, 2, 8, 75], [0, 2, 7, 9]];
    for (spec, dtype) in
        specs.iter().flat_map(|s| [DType::F32, DType::BF16, DType::F16, DType::F64].map(|dtype| (s, dtype)))
    {
        for (shape, size) in shapes.iter().flat_map(|shape| [[1, 1], [3, 4], [10, 2]].map(|size| (shape, size))) {
            let x = wild(&mut random, shape, dtype);
            let expected = everything(&x, spec, size, MemoryOrder::RowMajor);
            for x in [x.channels_last(), x] {
                let found = everything(&x, spec, size, MemoryOrder::ChannelsLast);
                assert!(found == expected, "{spec:?} of {shape:?} {dtype:?}, parts {size:?}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let x = wild(&mut Random::new(27), &[4, 64, 25, 24], DType::F32).meant_as(DType::BF16).channels_last();
    let spec = pool([3, 3], [2, 2], [1, 1], [1, 1]);
    for order in [MemoryOrder::RowMajor, MemoryOrder::ChannelsLast] {
        let [one, two] = [1, 2].map(|n| with_num_threads(n, || everything(&x, &spec, [2, 1], order)));
        assert!(one == two, "{order:?}");
    }
}

#[test]
fn windows_side_by_side_and_one_by_one_have_the_same_maxima() {
    let x = wild(&mut Random::new(30), &[1, 1, 11, 45], DType::F32);
    let Storage::F32(source) = &x.storage else { panic!("made so") };
    for spec in specs() {
        let [rows, columns] = spec.windows([11, 45]);
        let mut each = (vec![0.0; rows.len() * columns.len()], vec![0; rows.len() * columns.len()]);
        max::each_largest(source, 45, [&rows, &columns], &mut each.0, &mut each.1);
        let (y, indices) = max_pool2d(&x.view(), &spec, ROWS.1);
        let found = format!("{y:?} {indices:?}");
        assert_eq!(found, format!("{:?} {:?}", Storage::from(each.0), Storage::from(each.1)), "{spec:?}");
    }
}

/// The one row is skipped by windows of rows above and below it.
#[test]
fn windows_of_padding_alone_have_no_place_and_give_no_gradient() {
    let spec = pool([2, 1], [1, 1], [1, 0], [2, 1]);
    for (shape, logical) in [([1, 2, 1, 3], DType::F32), ([2, 20, 1, 3], DType::BF16)] {
        let x = Random::new(28).tensor(&shape, logical);
        let elements = shape.iter().product();
        for order in [MemoryOrder::RowMajor, MemoryOrder::ChannelsLast] {
            let (y, indices) = max_pool2d(&x.view(), &spec, order);
            assert_eq!(y, Tensor::filled(&shape, logical, f64::NEG_INFINITY).storage);
            assert_eq!(indices, Storage::I64(vec![-1; elements].into()));
            let dx = max_pool2d_grad(&x.view(), &vec![-1; elements], [1, 3], Some(&spec), (logical, order));
            assert_eq!(dx, Storage::zeros(logical, elements));
        }
    }
}

/// With `ceil_mode` a window may end behind the padding, the only one too.
#[test]
fn windows_may_be_larger_than_the_padded_input() {
    let size = |kernel, stride, padding, dilation, input: [usize; 2]| {
        Pool2d { ceil_mode: true, ..pool(kernel, stride, padding, dilation) }.output_size(input)
    };
    assert_eq!(size([3, 5], [3, 5], [1, 1], [1, 1], [1, 2]), Some([1, 1]));
    assert_eq!(size([5, 3], [5, 2], [0, 1], [2, 1], [7, 16]), Some([1, 9]));
    assert_eq!(size([3, 3], [1, 1], [0, 0], [1, 1], [2, 2]), None);
    assert_eq!(size([2, 2], [2, 2], [0, 0], [1, 1], [4, 5]), Some([2, 3]));
    let spec = Pool2d { ceil_mode: true, ..pool([3, 5], [3, 5], [1, 1], [1, 1]) };
    let x = Random::new(29).tensor(&[1, 17, 1, 2], DType::F32);
    for (x, order) in [(x.clone(), MemoryOrder::RowMajor), (x.channels_last(), MemoryOrder::ChannelsLast)] {
        let y = Tensor::contiguous(&[1, 17, 1, 1], avg_pool2d(&x.view(), &spec, false, order));
        for (c, mean) in y.values().into_iter().enumerate() {
            let expected = (x.at(&[0, c, 0, 0]) + x.at(&[0, c, 0, 1])) / 2.0;
            assert!((mean - expected).abs() <= 1e-6, "{mean} is not {expected}");
        }
    }
}
