//! Products with a residual.

use super::*;

/// Sizes that every kind of product takes part in: small, thin on either side, transposed, in panels.
#[test]
fn residuals_are_added_before_rounding() {
    let mut random = Random::new(11);
    let floats = [DType::F16, DType::BF16, DType::F32];
    let panels = [(37, 30, 53), (160, 24, 40)];
    for (m, k, n) in
        panels.into_iter().chain([(20, 10, 1), (1, 300, 33), (70, 5, 16), (301, 8, 5), (5, 8, 301), (3, 0, 2)])
    {
        for stored in floats {
            for operands in floats {
                let (a, b) = (random.tensor(&[m, k], operands), random.tensor(&[k, n], operands));
                let residual = random.tensor(&[m, n], stored);
                let turned = random.tensor(&[n, m], stored).transposed(0, 1);
                let row = random.tensor(&[1, n], stored).broadcast(&[m, n]);
                let every_second = random.tensor(&[2 * m, 2 * n], stored).every(0, 2).every(1, 2);
                let bias = random.tensor(&[n], DType::F32);
                check_added(&a, &random.tensor(&[n, k], operands).transposed(0, 1), [Some(&bias), None], stored);
                check_added(&a, &b, [None, Some(&residual)], operands);
                check_added(&a, &b, [Some(&bias), Some(&residual)], DType::F32);
                check_added(&a, &b, [Some(&bias), Some(&turned)], stored);
                check_added(&a, &b, [None, Some(&row)], DType::F32);
                check_added(&a, &b, [None, Some(&every_second.meant_as(DType::BF16))], DType::F32);
            }
        }
    }
    let (a, b) = (random.tensor(&[14, 23], DType::F64), random.tensor(&[23, 5], DType::F64));
    check_added(&a, &b, [None, Some(&random.tensor(&[14, 5], DType::F64))], DType::F64);
}

#[test]
fn residuals_of_batches() {
    let mut random = Random::new(12);
    for dtype in [DType::F32, DType::BF16] {
        let (a, b) = (random.tensor(&[3, 2, 11, 13], dtype), random.tensor(&[3, 2, 13, 7], dtype));
        let shared = random.tensor(&[13, 7], dtype).broadcast(&[3, 2, 13, 7]);
        let each = random.tensor(&[3, 2, 11, 7], DType::F32);
        let swapped = random.tensor(&[2, 3, 11, 7], DType::F32).transposed(0, 1);
        let repeated = random.tensor(&[2, 1, 7], DType::F32).broadcast(&[3, 2, 11, 7]);
        for residual in [&each, &swapped, &repeated] {
            check_added(&a, &b, [None, Some(residual)], dtype);
            check_added(&a, &shared, [None, Some(residual)], DType::F32);
        }
    }
    for shape in [[0, 4, 3], [2, 0, 3]] {
        let (a, b) = (random.tensor(&shape, DType::F32), random.tensor(&[3, 5], DType::F32));
        let residual = random.tensor(&[shape[0], shape[1], 5], DType::F32);
        check_added(&a, &b.broadcast(&[shape[0], 3, 5]), [None, Some(&residual)], DType::F32);
    }
}

#[test]
fn infinities_and_nans_of_residuals_arrive() {
    for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let mut values = vec![1.0; 30 * 33];
        values[7 * 33 + 3] = special;
        let residual = Tensor::from_values(&[30, 33], DType::F32, &values);
        let (a, b) = (Tensor::filled(&[30, 40], DType::BF16, 1.0), Tensor::filled(&[40, 33], DType::BF16, 1.0));
        let epilogue = Epilogue { bias: None, residual: Some(residual.view()) };
        let y = Tensor::contiguous(&[30, 33], matmul(&a.view(), &b.view(), &epilogue, DType::BF16));
        for index in y.indices() {
            let (expected, got) = (if index == [7, 3] { special } else { 41.0 }, y.at(&index));
            assert!(got == expected || got.is_nan() && expected.is_nan(), "{got} instead of {expected}");
        }
    }
}
