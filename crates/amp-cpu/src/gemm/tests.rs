//! Every product is compared with a sum in F64 over the rounded operands.

use super::kernel::Multiply;
use super::product::{Sink, Threads, product_with};
use super::*;
use crate::Slice;
use crate::convert::Cast;
use crate::num::{Num, Real};
use crate::simd::Level;
use crate::testing::{Random, Tensor, epsilon};
use half::bf16;

mod levels;
mod residuals;
mod rounding;
mod sums;

/// `n·eps(acc)·Σ|a·b| + eps(out)·|ref|`, element by element.
fn check_matmul(a: &Tensor, b: &Tensor, bias: Option<&Tensor>, out: DType) {
    check_added(a, b, [bias, None], out);
}

/// The same with a bias, a residual, both or neither.
fn check_added(a: &Tensor, b: &Tensor, [bias, residual]: [Option<&Tensor>; 2], out: DType) {
    let epilogue = Epilogue { bias: bias.map(Tensor::view), residual: residual.map(Tensor::view) };
    let got = Tensor::contiguous(&result_shape(a, b), matmul(&a.view(), &b.view(), &epilogue, out));
    compare_with(dot::multiplies_halves(&a.view(), &b.view()), a, b, [bias, residual], &got);
}

fn result_shape(a: &Tensor, b: &Tensor) -> Vec<usize> {
    let mut shape = a.shape().to_vec();
    *shape.last_mut().unwrap() = *b.shape().last().unwrap();
    shape
}

pub(super) fn compare(a: &Tensor, b: &Tensor, bias: Option<&Tensor>, got: &Tensor) {
    compare_with(dot::multiplies_halves(&a.view(), &b.view()), a, b, [bias, None], got);
}

/// With `halves`, four products of each term are summed, or three and the fourth is left out, as AMX multiplies F16.
pub(super) fn compare_with(halves: bool, a: &Tensor, b: &Tensor, [bias, residual]: [Option<&Tensor>; 2], got: &Tensor) {
    let (rank, depth) = (a.shape().len(), *a.shape().last().unwrap());
    let (products, left_out) = match depth {
        _ if !halves => (1.0, 0.0),
        ..=128 => (4.07, 0.0),
        _ => (3.05, 2.0_f64.powi(-16)),
    };
    let accumulator = if a.logical() == DType::F64 { DType::F64 } else { DType::F32 };
    for index in got.indices() {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        let (mut left, mut right) = (index.clone(), index.clone());
        for d in 0..depth {
            left[rank - 1] = d;
            right[rank - 2] = d;
            let term = a.at(&left) * b.at(&right);
            sum += term;
            magnitude += term.abs();
        }
        let added = [bias.map(|bias| bias.at(&index[rank - 1..])), residual.map(|residual| residual.at(&index))];
        for value in added.into_iter().flatten() {
            sum += value;
            magnitude += value.abs();
        }
        let summed = (products * depth as f64 + 1.0 + f64::from(residual.is_some())) * epsilon(accumulator);
        // Half of the smallest number of F16: the error of a rounding among subnormal ones.
        let least = if got.logical() == DType::F16 { 2.0_f64.powi(-25) } else { 0.0 };
        let tolerance = (summed + left_out) * magnitude + (epsilon(got.logical()) * sum.abs()).max(least);
        let diff = (got.at(&index) - sum).abs();
        assert!(
            diff <= tolerance,
            "{:?} {:?} {:?} {:?} {:?} at {index:?}: {} instead of {sum}, off by {diff} > {tolerance}",
            a.storage.dtype(),
            a.logical(),
            b.storage.dtype(),
            b.logical(),
            got.logical(),
            got.at(&index)
        );
    }
}

#[test]
fn every_size_agrees_with_the_reference() {
    let mut random = Random::new(1);
    for (m, k, n) in [
        (0, 3, 2),
        (3, 0, 2),
        (3, 2, 0),
        (1, 1, 1),
        (1, 7, 1),
        (20, 10, 1),
        (1, 300, 33),
        (13, 17, 31),
        (37, 257, 67),
        (401, 3, 5),
        (5, 3, 401),
        (130, 520, 200),
        (1100, 31, 9),
        (16, 512, 32),
    ] {
        let (a, b) = (random.tensor(&[m, k], DType::F32), random.tensor(&[k, n], DType::F32));
        let bias = random.tensor(&[n], DType::F32);
        check_matmul(&a, &b, None, DType::F32);
        check_matmul(&a, &b, Some(&bias), DType::F32);
    }
}

/// Small, thin, transposed, in panels, by lines: with everything that may be added, in every precision.
#[test]
fn random_sizes_agree_with_the_reference() {
    let mut random = Random::new(23);
    let floats = [DType::BF16, DType::F16, DType::BF16, DType::F32];
    for _ in 0..300 {
        let [m, k, n] = [220, 40, 220].map(|most| 1 + random.below(most));
        let (dtype, other) = (floats[random.below(4)], floats[random.below(4)]);
        let out = if random.below(4) > 0 { dtype } else { other };
        let a = match random.below(2) {
            0 => random.tensor(&[m, k], dtype),
            _ => random.tensor(&[k, m], dtype).transposed(0, 1),
        };
        let b = match random.below(2) {
            0 => random.tensor(&[k, n], dtype),
            _ => random.tensor(&[n, k], dtype).transposed(0, 1),
        };
        let (bias, residual) = (random.tensor(&[n], DType::F32), random.tensor(&[m, n], out));
        let added = [Some(&bias).filter(|_| random.below(3) > 0), Some(&residual).filter(|_| random.below(3) == 0)];
        println!("{m} × {k} × {n}, {dtype:?} to {out:?}, added: {:?}", added.map(|tensor| tensor.is_some()));
        check_added(&a, &b, added, out);
    }
}

#[test]
fn every_mix_of_stored_and_logical_precision() {
    let mut random = Random::new(2);
    let floats = [DType::F16, DType::BF16, DType::F32];
    for stored in floats {
        for logical in floats {
            for other in floats {
                for out in floats {
                    let a = random.tensor(&[19, 23], stored).meant_as(logical);
                    let b = random.tensor(&[29, 23], other).meant_as(logical).transposed(0, 1);
                    check_matmul(&a, &b, None, out);
                }
            }
        }
    }
    for stored in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let a = random.tensor(&[19, 23], stored).meant_as(DType::F64);
        check_matmul(&a, &random.tensor(&[23, 5], DType::F64), None, DType::F64);
    }
}

#[test]
fn strides_and_batches() {
    let mut random = Random::new(3);
    for dtype in [DType::F32, DType::BF16] {
        let a = random.tensor(&[3, 2, 11, 13], dtype);
        let b = random.tensor(&[3, 2, 13, 7], dtype);
        check_matmul(&a, &b, None, DType::F32);
        check_matmul(&a.transposed(0, 1), &b.transposed(0, 1), None, DType::F32);
        let shared = random.tensor(&[13, 7], dtype);
        check_matmul(&a, &shared.broadcast(&[3, 2, 13, 7]), None, dtype);
        check_matmul(&a.transposed(0, 1), &shared.broadcast(&[2, 3, 13, 7]), None, dtype);
        let column = random.tensor(&[1, 7], dtype).broadcast(&[13, 7]).broadcast(&[3, 2, 13, 7]);
        check_matmul(&a, &column, None, dtype);
        let every_second = random.tensor(&[12, 26], dtype).every(1, 2);
        check_matmul(&every_second, &shared, None, dtype);
    }
}

/// A few columns of short rows are transposed, however they lie.
#[test]
fn few_columns_of_short_rows() {
    let mut random = Random::new(13);
    for (m, k, n) in [(64, 1, 1), (300, 16, 1), (301, 64, 2), (517, 13, 3), (70, 65, 3)] {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let (b, bias) = (random.tensor(&[k, n], dtype), random.tensor(&[n], DType::F32));
            let residual = random.tensor(&[m, n], dtype);
            let every_second = random.tensor(&[m, 2 * k], dtype).every(1, 2);
            let across = random.tensor(&[k, m], DType::F32).meant_as(dtype).transposed(0, 1);
            for a in [random.tensor(&[m, k], dtype), every_second, across] {
                check_added(&a, &b, [Some(&bias), None], dtype);
                check_added(&a, &b, [Some(&bias), Some(&residual)], DType::F32);
                check_added(&b.transposed(0, 1), &a.transposed(0, 1), [None, None], dtype);
            }
        }
    }
}

/// Lone rows have several sums each where they are deep, and fewer columns than rows are done as rows.
#[test]
fn deep_rows_and_fewer_columns_than_rows() {
    let mut random = Random::new(19);
    for (m, k, n) in [(1, 128, 16), (2, 131, 5), (3, 515, 24), (16, 512, 8), (20, 130, 3), (32, 16, 1)] {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let (a, b) = (random.tensor(&[m, k], dtype), random.tensor(&[k, n], dtype));
            let across = random.tensor(&[k, m], dtype).transposed(0, 1);
            let (bias, residual) = (random.tensor(&[n], dtype), random.tensor(&[m, n], dtype));
            for a in [a, across] {
                check_added(&a, &b, [Some(&bias), None], dtype);
                check_added(&a, &b, [Some(&bias), Some(&residual)], dtype);
                check_added(&a, &random.tensor(&[n, k], dtype).transposed(0, 1), [None, None], DType::F64);
            }
        }
    }
}

/// Rows of products with few columns are done in groups, of which the last one begins early: none may differ for it.
#[test]
fn every_number_of_rows_gives_the_same_rows() {
    let mut random = Random::new(17);
    for (k, n) in [(1, 16), (9, 1), (9, 5), (16, 16), (7, 24), (12, 32)] {
        for dtype in [DType::BF16, DType::F32, DType::F64] {
            let (b, bias) = (random.tensor(&[k, n], dtype), random.tensor(&[n], dtype));
            let (along, across) = (random.tensor(&[70, k], dtype), random.tensor(&[k, 70], dtype).transposed(0, 1));
            check_matmul(&along, &random.tensor(&[k, 1], dtype).broadcast(&[k, n]), Some(&bias), dtype);
            check_matmul(&across, &random.tensor(&[1, n], dtype).broadcast(&[k, n]), Some(&bias), dtype);
            for a in [along, across] {
                let epilogue = Epilogue { bias: Some(bias.view()), residual: None };
                let rows = |count: usize| {
                    let part = a.narrow(0, 0, count);
                    check_matmul(&part, &b, Some(&bias), dtype);
                    let result = matmul(&part.view(), &b.view(), &epilogue, DType::F64);
                    Tensor::contiguous(&[count, n], result).values()
                };
                let whole = rows(70);
                for count in [1, 3, 4, 6, 8, 11, 15, 16, 17, 31, 32, 35] {
                    assert_eq!(rows(count), whole[..count * n], "{count} × {k} × {n} {dtype:?}");
                }
            }
        }
    }
}

#[test]
fn long_sums_stay_in_the_accumulator() {
    let mut random = Random::new(4);
    for dtype in [DType::F16, DType::BF16] {
        let (a, b) = (random.tensor(&[3, 65536], dtype), random.tensor(&[65536, 2], dtype));
        check_matmul(&a, &b, None, DType::F32);
        check_matmul(&a, &b, None, dtype);
    }
    let ones = Tensor::filled(&[1, 65536], DType::BF16, 1.0);
    let sum = matmul(&ones.view(), &ones.transposed(0, 1).view(), &Epilogue::default(), DType::F32);
    assert_eq!(sum, Storage::F32(vec![65536.0].into()));
}

#[test]
fn a_subnormal_bias_is_rounded_and_not_lost() {
    let bias: Vec<f64> = (0..64).map(|i| f64::from(i) * 1e-40).collect();
    let (a, b) = (Tensor::filled(&[40, 64], DType::BF16, 0.0), Tensor::filled(&[64, 64], DType::BF16, 1.0));
    let added = Tensor::from_values(&[64], DType::F32, &bias);
    let epilogue = Epilogue { bias: Some(added.view()), residual: None };
    let y = Tensor::contiguous(&[40, 64], matmul(&a.view(), &b.view(), &epilogue, DType::BF16));
    for index in y.indices() {
        assert_eq!(y.at(&index), f64::from(bf16::from_f32(added.at(&index[1..]) as f32)), "{index:?}");
    }
}

#[test]
fn infinities_and_nans_arrive() {
    let specials = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for (special, columns) in specials.into_iter().flat_map(|special| [(special, 33), (special, 20)]) {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let mut values = vec![1.0; 30 * 40];
            values[7 * 40 + 3] = special;
            let a = Tensor::from_values(&[30, 40], dtype, &values);
            let b = Tensor::filled(&[40, columns], dtype, 1.0);
            let y = Tensor::contiguous(&[30, columns], matmul(&a.view(), &b.view(), &Epilogue::default(), dtype));
            for index in y.indices() {
                let expected = if index[0] == 7 { special } else { 40.0 };
                let got = y.at(&index);
                assert!(got == expected || got.is_nan() && expected.is_nan(), "{got} instead of {expected}");
            }
        }
    }
}

#[test]
fn accumulates_without_rounding() {
    let mut random = Random::new(5);
    let (a, b) = (random.tensor(&[4, 6, 5], DType::BF16), random.tensor(&[4, 5, 7], DType::BF16));
    let zero = matmul(&a.view(), &b.view(), &Epilogue::default(), DType::F32);
    let Storage::F32(each) = &zero else { unreachable!("asked for F32") };
    let mut into = Storage::from(vec![1.0_f32; 4 * 6 * 7]);
    matmul_acc(&a.view(), &b.view(), &mut into);
    assert_eq!(into, Storage::F32(each.iter().map(|v| v + 1.0).collect()));
    let mut into = Storage::from(vec![0.0_f32; 6 * 7]);
    matmul_acc(&a.view(), &b.view(), &mut into);
    let sum: Vec<f32> = (0..42).map(|i| each[i] + each[42 + i] + each[84 + i] + each[126 + i]).collect();
    assert_eq!(into, Storage::from(sum));
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let mut random = Random::new(6);
    let (a, b) = (random.tensor(&[150, 700], DType::BF16), random.tensor(&[700, 210], DType::F32));
    let residual = random.tensor(&[150, 210], DType::F16);
    let epilogue = Epilogue { bias: None, residual: Some(residual.view()) };
    let run = |threads| crate::with_num_threads(threads, || matmul(&a.view(), &b.view(), &epilogue, DType::F32));
    assert_eq!(run(1), run(2));
}

/// A depth that is summed in parts, from sides of every order, and lone rows of many columns.
#[test]
fn small_results_of_long_depths_and_wide_rows() {
    let mut random = Random::new(29);
    let all = [DType::F16, DType::BF16, DType::F32, DType::F64];
    for ((m, k, n), dtypes) in [
        ((16, 16_400, 16), &all[1..2]),
        ((20, 8195, 44), &all[2..]),
        ((2, 75_000, 5), &all[2..3]),
        ((1, 263_001, 1), &all[2..3]),
        ((1, 9, 5001), &all[..]),
        ((3, 30, 2300), &all[1..3]),
    ] {
        for &dtype in dtypes {
            let (a, b) = (random.tensor(&[m, k], dtype), random.tensor(&[k, n], dtype));
            let [across, along] = [[k, m], [n, k]].map(|shape| random.tensor(&shape, dtype).transposed(0, 1));
            let (bias, residual) = (random.tensor(&[n], dtype), random.tensor(&[m, n], dtype));
            check_added(&a, &b, [Some(&bias), Some(&residual)], DType::F32);
            check_added(&across, &along, [Some(&bias), None], dtype);
            let sums = if dtype == DType::F64 { dtype } else { DType::F32 };
            let run = |threads| {
                let product = || matmul(&across.view(), &b.view(), &Epilogue::default(), sums);
                crate::with_num_threads(threads, product)
            };
            assert_eq!(run(1), run(2));
            let mut into = run(2);
            matmul_acc(&across.view(), &b.view(), &mut into);
            let values = |storage| Tensor::contiguous(&[m, n], storage).values();
            assert!(values(into).iter().zip(values(run(2))).all(|(twice, once)| *twice == 2.0 * once));
        }
    }
}

/// Keeps the whole result, row-major.
pub(super) struct Collect<T>(std::sync::Mutex<Vec<T>>, usize);

impl<T: Real> Collect<T> {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self(vec![T::ZERO; rows * columns].into(), columns)
    }

    pub(super) fn values(self) -> Vec<T> {
        self.0.into_inner().expect("no task panicked")
    }
}

impl<T: Real> Sink<T> for Collect<T> {
    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        let at = row * self.1 + column;
        self.0.lock().expect("no task panicked")[at..at + values.len()].copy_from_slice(values);
    }
}
