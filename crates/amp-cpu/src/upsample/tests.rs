use super::*;
use crate::testing::{Random, Tensor, epsilon};
use crate::with_num_threads;

const MODES: [Interpolation; 3] = [
    Interpolation::Nearest,
    Interpolation::Bilinear { align_corners: true },
    Interpolation::Bilinear { align_corners: false },
];

/// Figures from PyTorch's `interpolate`.
#[test]
fn agrees_with_pytorch() {
    let x = Tensor::from_values(&[1, 1, 2, 2], DType::F32, &[1.0, 2.0, 3.0, 4.0]);
    let to_4 = |how| match upsample2d(&x.view(), [2, 4], how, (DType::F32, MemoryOrder::RowMajor)) {
        Storage::F32(values) => values[..4].to_vec(),
        _ => panic!("asked for F32"),
    };
    assert_eq!(to_4(MODES[0]), [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(to_4(MODES[2]), [1.0, 1.25, 1.75, 2.0]);
    for (got, expected) in to_4(MODES[1]).iter().zip([1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0]) {
        assert!((got - expected).abs() <= 4.0 * f32::EPSILON);
    }
}

#[test]
fn same_size_changes_nothing() {
    let x = Random::new(31).tensor(&[2, 2, 5, 7], DType::F16);
    for how in MODES {
        assert_eq!(upsample2d(&x.view(), [5, 7], how, (DType::F16, MemoryOrder::RowMajor)), x.storage);
        assert_eq!(upsample2d_grad(&x.view(), [5, 7], how, (DType::F16, MemoryOrder::RowMajor)), x.storage);
    }
}

/// `<up(x), g> = <x, up_grad(g)>`: the gradient is the transpose of the linear map.
#[test]
fn gradient_is_the_transpose() {
    let mut random = Random::new(32);
    for (input, size) in [([3, 5], [7, 11]), ([1, 1], [3, 2]), ([6, 4], [3, 1]), ([5, 2], [10, 4])] {
        for how in MODES {
            let x = random.tensor(&[2, 3, input[0], input[1]], DType::F64);
            let g = random.tensor(&[2, 3, size[0], size[1]], DType::F64);
            let y =
                Tensor::contiguous(g.shape(), upsample2d(&x.view(), size, how, (DType::F64, MemoryOrder::RowMajor)));
            let dx = Tensor::contiguous(
                x.shape(),
                upsample2d_grad(&g.view(), input, how, (DType::F64, MemoryOrder::RowMajor)),
            );
            let dot = |a: &Tensor, b: &Tensor| -> f64 { a.values().iter().zip(b.values()).map(|(a, b)| a * b).sum() };
            let diff = (dot(&y, &g) - dot(&x, &dx)).abs();
            assert!(diff <= 1e3 * epsilon(DType::F64) * g.values().len() as f64, "{input:?} {size:?} {how:?}: {diff}");
        }
    }
}

/// A resized image and its gradient in an order, as text: NaN equals itself, and 0 has a sign.
fn both(x: &Tensor, size: [usize; 2], how: Interpolation, order: MemoryOrder) -> [String; 2] {
    let [n, c, h, w] = *x.shape() else { panic!("images") };
    let shape = [n, c, size[0], size[1]];
    let grad = Random::new(33).tensor(&shape, DType::F32).meant_as(if x.logical() == DType::F64 {
        DType::F64
    } else {
        DType::F32
    });
    let y = upsample2d(&x.view(), size, how, (x.logical(), order));
    let dx = upsample2d_grad(&grad.view(), [h, w], how, (x.logical(), order));
    [(&shape[..], y), (x.shape(), dx)].map(|(shape, result)| format!("{:?}", Tensor::row_major(shape, order, &result)))
}

#[test]
fn both_orders_and_any_number_of_threads_give_the_same_bits() {
    let mut random = Random::new(34);
    let rare = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-7, -3e-39];
    for ((shape, size), how) in [
        ([2, 3, 3, 5], [7, 11]),
        ([1, 37, 6, 4], [3, 1]),
        ([3, 16, 1, 2], [3, 2]),
        ([2, 5, 5, 2], [10, 4]),
        ([1, 2, 3, 21], [9, 63]),
        ([1, 2, 7, 37], [14, 74]),
        ([1, 2, 7, 5], [3, 5]),
        ([2, 48, 12, 17], [25, 34]),
    ]
    .into_iter()
    .flat_map(|sizes| MODES.map(|how| (sizes, how)))
    {
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
            let mut values = random.tensor(&shape, DType::F32).values();
            values.iter_mut().step_by(7).zip(rare.iter().cycle()).for_each(|(value, rare)| *value = *rare);
            let x = Tensor::from_values(&shape, dtype, &values);
            let expected = both(&x, size, how, MemoryOrder::RowMajor);
            for x in [x.channels_last(), x] {
                for threads in [1, 2] {
                    let found = with_num_threads(threads, || both(&x, size, how, MemoryOrder::ChannelsLast));
                    assert!(found == expected, "{shape:?} to {size:?}, {how:?}, {dtype:?}");
                }
            }
        }
    }
}
