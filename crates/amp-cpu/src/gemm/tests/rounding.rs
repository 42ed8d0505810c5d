//! Where sums of BF16 products are rounded makes no difference.

use super::super::*;
use super::levels::product_at;
use crate::convert::Cast;
use crate::gemm::product::product_with;
use crate::storage::Element;
use crate::testing::{Random, Tensor};

/// Tiles that end sums add the bias, round and store as it is done behind other tiles, denormal numbers and NaN included.
#[test]
fn tiles_round_as_sums_are_rounded_later() {
    let mut random = Random::new(15);
    let sizes = [(12, 64, 32), (8, 6, 64), (48, 1030, 96), (37, 514, 288), (25, 64, 40), (512, 34, 320)];
    let scales = [(1.0, 1.0, 1.0), (1e-20, 1e-20, 1e-39), (1e18, 1e20, 1e38)];
    for ((m, k, n), (left, right, added)) in sizes.into_iter().flat_map(|size| scales.map(|scale| (size, scale))) {
        let mut scaled = |shape: &[usize], dtype: DType, scale: f64| {
            let values: Vec<f64> = (0..shape.iter().product()).map(|_| scale * random.number()).collect();
            Tensor::from_values(shape, dtype, &values)
        };
        let (mut a, b) = (scaled(&[m, k], DType::BF16, left), scaled(&[k, n], DType::BF16, right));
        let bias = scaled(&[n], DType::F32, added);
        if let Storage::BF16(elements) = &mut a.storage {
            (elements[0], elements[k]) = (bf16::NAN, bf16::INFINITY);
        }
        for level in Level::ALL {
            let sums = product_at::<bf16>(level, &a, &b);
            for bias in [None, Some(&bias)] {
                let later = rounded_later(&sums, bias);
                assert_eq!(rounded_by_tiles(level, [&a, &b], bias), later, "{level:?}: {m} x {k} x {n}, {added}");
            }
        }
    }
}

/// Bits of sums in F32, and of a bias if there is one, in BF16; one NaN is as good as another.
fn rounded_later(sums: &Tensor, bias: Option<&Tensor>) -> Vec<u16> {
    let values = |tensor: &Tensor| f32::same(tensor.storage.as_slice()).expect("F32").to_vec();
    let (mut sums, columns) = (values(sums), sums.shape()[1]);
    if let Some(bias) = bias.map(values) {
        sums.chunks_exact_mut(columns).for_each(|row| row.iter_mut().zip(&bias).for_each(|(sum, bias)| *sum += bias));
    }
    sums.into_iter().map(|sum| any_nan(Cast::<bf16>::converted(sum))).collect()
}

/// Bits of a product that is stored in BF16.
fn rounded_by_tiles(level: Level, [a, b]: [&Tensor; 2], bias: Option<&Tensor>) -> Vec<u16> {
    let problem = Problem::new(&a.view(), &b.view());
    let columns = problem.b.rows;
    let mut result = Storage::unwritten(DType::BF16, problem.size());
    let places = Places { product: 0, start: 0, row_stride: columns, column_stride: 1, transposed: false };
    let bias = bias.map(|bias| f32::same(bias.storage.as_slice()).expect("F32")).unwrap_or_default();
    let sink = Rounded { output: Output::new(&mut result), places, bias, residual: None };
    product_with(bf16::kernel(level), &problem.a, &problem.b, &sink, Threads::Many);
    bf16::stored(&Tensor::contiguous(&[result.len()], result).view())
        .expect("BF16")
        .iter()
        .copied()
        .map(any_nan)
        .collect()
}

fn any_nan(value: bf16) -> u16 {
    if value.is_nan() { bf16::NAN.to_bits() } else { value.to_bits() }
}
