use super::*;
use crate::testing::{Random, Tensor, epsilon};

const MODES: [Interpolation; 3] = [
    Interpolation::Nearest,
    Interpolation::Bilinear { align_corners: true },
    Interpolation::Bilinear { align_corners: false },
];

/// Figures from PyTorch's `interpolate`.
#[test]
fn agrees_with_pytorch() {
    let x = Tensor::from_values(&[1, 1, 2, 2], DType::F32, &[1.0, 2.0, 3.0, 4.0]);
    let to_4 = |how| match upsample2d(&x.view(), [2, 4], how, DType::F32) {
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
        assert_eq!(upsample2d(&x.view(), [5, 7], how, DType::F16), x.storage);
        assert_eq!(upsample2d_grad(&x.view(), [5, 7], how, DType::F16), x.storage);
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
            let y = Tensor::contiguous(g.shape(), upsample2d(&x.view(), size, how, DType::F64));
            let dx = Tensor::contiguous(x.shape(), upsample2d_grad(&g.view(), input, how, DType::F64));
            let dot = |a: &Tensor, b: &Tensor| -> f64 { a.values().iter().zip(b.values()).map(|(a, b)| a * b).sum() };
            let diff = (dot(&y, &g) - dot(&x, &dx)).abs();
            assert!(diff <= 1e3 * epsilon(DType::F64) * g.values().len() as f64, "{input:?} {size:?} {how:?}: {diff}");
        }
    }
}
