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

mod rounding;

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

/// Small, thin, turned, in panels, by lines: with everything that may be added, in every precision.
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

/// A few columns of short rows are turned, however they lie.
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

/// Sizes that every kind of product takes part in: small, thin on either side, turned, in panels.
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

/// The product at a level, whatever the level of this process.
fn product_at<E: Multiply>(level: Level, a: &Tensor, b: &Tensor) -> Tensor {
    let problem = Problem::new(&a.view(), &b.view());
    let (rows, columns) = (problem.a.rows, problem.b.rows);
    let sink = Collect::new(rows, columns);
    product_with(E::kernel(level), &problem.a, &problem.b, &sink, Threads::Many);
    let values: Vec<f64> = sink.values().iter().map(|&v| v.converted()).collect();
    Tensor::from_values(&[rows, columns], E::Sum::DTYPE, &values)
}

fn check_levels<E: Multiply>(dtype: DType) {
    let mut random = Random::new(7);
    for (m, k, n) in [(53, 300, 71), (1, 1, 1), (5, 7, 3), (13, 31, 33), (31, 33, 1), (7, 1027, 40)] {
        let (a, b) = (random.tensor(&[m, k], dtype), random.tensor(&[k, n], dtype));
        let turned = [&a, &b].map(|t| random.tensor(&[t.shape()[1], t.shape()[0]], dtype).transposed(0, 1));
        for level in Level::ALL {
            compare(&a, &b, None, &product_at::<E>(level, &a, &b));
            compare(&turned[0], &turned[1], None, &product_at::<E>(level, &turned[0], &turned[1]));
        }
    }
}

#[test]
fn every_level_of_this_machine() {
    check_levels::<f32>(DType::F32);
    check_levels::<f64>(DType::F64);
    check_levels::<bf16>(DType::BF16);
}

/// The left side is multiplied where it lies, if it lies in lines.
#[test]
fn lines_give_the_bits_that_panels_give() {
    let mut random = Random::new(10);
    for (m, k, n) in
        [(12, 2, 1), (25, 64, 40), (37, 1030, 33), (26, 513, 70), (24, 512, 256), (48, 96, 257), (37, 515, 300)]
            .into_iter()
            .chain((4..30).map(|m| (m, 34, 64)))
            .chain((1..10).map(|k| (13, k, 33)))
    {
        check_lines::<bf16>(&mut random, [m, k, n], DType::BF16);
        check_lines::<f32>(&mut random, [m, k, n], DType::F32);
    }
}

fn check_lines<E: Multiply>(random: &mut Random, [m, k, n]: [usize; 3], dtype: DType) {
    let (wide, b) = (random.tensor(&[m, 2 * k], dtype), random.tensor(&[k, n], dtype));
    let lines = wide.narrow(1, k, k);
    let mut columns = vec![0.0; m * k];
    for index in lines.indices() {
        columns[index[1] * m + index[0]] = lines.at(&index);
    }
    let turned = Tensor::from_values(&[k, m], dtype, &columns).transposed(0, 1);
    for level in Level::ALL {
        let got = product_at::<E>(level, &lines, &b);
        compare(&lines, &b, None, &got);
        assert_eq!(got.storage, product_at::<E>(level, &turned, &b).storage, "{level:?}: {m} x {k} x {n} {dtype:?}");
    }
}

/// A left side that many blocks of columns multiply is widened in advance: it is then as if it had been stored so.
#[test]
fn lines_widened_in_advance_give_the_bits_of_lines_that_lie_there() {
    let mut random = Random::new(21);
    let (a, b) = (random.tensor(&[30, 2040], DType::F16), random.tensor(&[2040, 700], DType::F32));
    let wide = Tensor::from_values(a.shape(), DType::F32, &a.values());
    let epilogue = Epilogue::default();
    let [narrow, wide] = [a, wide].map(|a| matmul(&a.meant_as(DType::F32).view(), &b.view(), &epilogue, DType::F32));
    assert!(narrow == wide, "sums differ");
}

/// F32 is rounded on the way into lines and panels as a cast would round it.
#[test]
fn operands_rounded_while_packed_give_the_bits_of_a_cast() {
    let mut random = Random::new(13);
    for (m, k, n) in [(26, 70, 64), (26, 71, 65), (4, 6, 96), (300, 530, 320), (32, 64, 300)] {
        let mut wide = [vec![m, k], vec![k, n], vec![9, m, k], vec![9, k, n]]
            .map(|shape| random.tensor(&shape, DType::F32).meant_as(DType::BF16));
        // The smallest subnormal that is rounded up to a normal number, a NaN whose upper half is infinite, and infinity.
        if let Storage::F32(values) = &mut wide[1].storage {
            let special = [0x007f_c000, 0x7f80_0001, 0x7f80_0000].map(f32::from_bits);
            values[..3].copy_from_slice(&special);
        }
        let narrow = wide.each_ref().map(|wide| {
            let rounded = wide.values();
            Tensor::from_values(wide.shape(), DType::BF16, &rounded)
        });
        let product = |a: &Tensor, b: &Tensor| matmul(&a.view(), &b.view(), &Epilogue::default(), DType::BF16);
        for [a, b] in [[0, 1], [2, 3]] {
            let [got, expected] = [&wide, &narrow].map(|of| bits(&product(&of[a], &of[b])));
            assert_eq!(got, expected, "{m} x {k} x {n}");
            let turned = [&wide, &narrow].map(|of| {
                let rank = of[a].shape().len();
                let (left, right) = (of[b].transposed(rank - 2, rank - 1), of[a].transposed(rank - 2, rank - 1));
                bits(&product(&left, &right))
            });
            assert_eq!(turned[0], turned[1], "turned: {m} x {k} x {n}");
        }
    }
}

/// Results by their bits, every NaN as the same one.
fn bits(storage: &Storage) -> Vec<u16> {
    match storage.as_slice() {
        Slice::BF16(values) => {
            values.iter().map(|value| if value.is_nan() { bf16::NAN } else { *value }.to_bits()).collect()
        }
        _ => unreachable!("results are BF16"),
    }
}

#[test]
fn panels_of_bf16_round_what_they_load() {
    let mut random = Random::new(8);
    for stored in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let a = random.tensor(&[21, 72], stored).meant_as(DType::BF16).every(1, 2);
        let b = random.tensor(&[23, 36], stored).meant_as(DType::BF16).transposed(0, 1);
        let row = random.tensor(&[1, 23], stored).meant_as(DType::BF16).broadcast(&[36, 23]);
        for level in Level::ALL {
            compare(&a, &b, None, &product_at::<bf16>(level, &a, &b));
            compare(&a, &row, None, &product_at::<bf16>(level, &a, &row));
        }
    }
}

/// `n * 2^-126 * (2 + max|a| + max|b|)` on top of the usual bound (see `dot` and `amx`).
#[test]
fn subnormals_are_lost_within_the_bound() {
    let mut random = Random::new(9);
    let sizes = [(1e-38, 1.0), (1.0, 1e-38), (1e-20, 1e-19), (1e-39, 1e30), (3e-39, 3e38), (1e-40, 1e-3)];
    for ((left, right), (depth, columns)) in sizes.into_iter().flat_map(|sizes| [(sizes, (37, 35)), (sizes, (38, 20))])
    {
        let scaled = |shape: &[usize], factor: f64, random: &mut Random| {
            let count = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|_| factor * random.number()).collect();
            Tensor::from_values(shape, DType::BF16, &values)
        };
        let (a, b) = (scaled(&[14, depth], left, &mut random), scaled(&[depth, columns], right, &mut random));
        let flushed = depth as f64 * 2.0_f64.powi(-126) * (2.0 + left + right);
        let alone = matmul(&a.view(), &b.view(), &Epilogue::default(), DType::F32);
        let alone = (None, Tensor::contiguous(&[14, columns], alone));
        let levels = Level::ALL.map(|level| (Some(level), product_at::<bf16>(level, &a, &b)));
        for (level, got) in levels.into_iter().chain([alone]) {
            for index in got.indices() {
                let terms = (0..depth).map(|d| a.at(&[index[0], d]) * b.at(&[d, index[1]]));
                let (sum, magnitude) = terms.fold((0.0, 0.0), |(s, m), term| (s + term, m + term.abs()));
                let tolerance = (depth + 2) as f64 * epsilon(DType::F32) * magnitude + flushed;
                let diff = (got.at(&index) - sum).abs();
                assert!(diff <= tolerance, "{level:?}: {} instead of {sum}, off by {diff}", got.at(&index));
            }
        }
    }
}

#[test]
fn infinities_and_nans_arrive_at_every_level() {
    for level in Level::ALL {
        for (special, other) in [(f64::INFINITY, 1.0), (f64::NEG_INFINITY, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 0.0)]
        {
            for place in [0, 6, 8, 40] {
                let mut values = vec![1.0; 13 * 41];
                values[7 * 41 + place] = special;
                let a = Tensor::from_values(&[13, 41], DType::BF16, &values);
                let b = Tensor::filled(&[41, 33], DType::BF16, other);
                let y = product_at::<bf16>(level, &a, &b);
                for index in y.indices() {
                    let expected = if index[0] == 7 { special * other } else { 41.0 * other };
                    let got = y.at(&index);
                    assert!(got == expected || got.is_nan() && expected.is_nan(), "{level:?}: {got} not {expected}");
                }
            }
        }
    }
}

/// A product that sums the rows of its left side, if it does, and the same product alone: rows of `a` as columns of memory.
fn check_sums<E: sums::Grouped>(kernel: &kernel::Kernel<E>, [m, k, n]: [usize; 3], dtype: DType) -> bool {
    let mut random = Random::new(7);
    let (a, b) = (random.tensor(&[k, m], dtype).transposed(0, 1), random.tensor(&[k, n], dtype));
    let sums = |threads| crate::with_num_threads(threads, || sums::multiply(kernel, &a.view(), &b.view(), DType::F32));
    let Some([product, rows]) = sums(1) else { return false };
    assert_eq!(sums(2), Some([product.clone(), rows.clone()]), "{m} {k} {n}: two threads");
    compare(&a, &b, None, &Tensor::contiguous(&[m, n], product));
    let rows = Tensor::contiguous(&[m], rows);
    for row in 0..m {
        let terms: Vec<f64> = (0..k).map(|d| a.at(&[row, d])).collect();
        let magnitude: f64 = terms.iter().map(|term| term.abs()).sum();
        let diff = (rows.at(&[row]) - terms.iter().sum::<f64>()).abs();
        assert!(diff <= k as f64 * epsilon(rows.logical()) * magnitude, "{m} {k} {n}: row {row} is off by {diff}");
    }
    true
}

#[test]
fn rows_of_the_left_side_are_summed_where_they_are_packed() {
    for (size, packed) in [([60, 70, 50], true), ([40, 90, 300], true), ([20, 1031, 60], true), ([2, 90, 90], false)] {
        assert_eq!(check_sums(&dot::portable(), size, DType::BF16), packed, "{size:?}");
        for level in Level::ALL.into_iter().filter(|level| *level <= Level::best()) {
            check_sums(&f32::kernel(level), size, DType::F32);
            check_sums(&f32::kernel(level), size, DType::F16);
            if level == Level::Avx512Bf16 {
                check_sums(&bf16::kernel(level), size, DType::BF16);
            }
        }
        check_sums(&f64::kernel(Level::current()), size, DType::F64);
    }
}

#[test]
fn rows_of_a_small_left_side_are_summed_where_they_follow_one_another() {
    for (size, summed) in [([16, 512, 16], true), ([16, 101, 8], true), ([1, 77, 16], true), ([7, 90, 16], false)] {
        assert_eq!(check_sums(&f32::kernel(Level::current()), size, DType::F32), summed, "{size:?}");
        assert_eq!(check_sums(&dot::portable(), size, DType::BF16), summed, "{size:?}");
        assert_eq!(check_sums(&f64::kernel(Level::current()), size, DType::F64), summed, "{size:?}");
    }
}

#[test]
fn sums_of_rows_keep_what_is_no_number_and_what_is_small() {
    let tiny = f64::from(f32::from_bits(1 << 16));
    let values = [tiny, f64::INFINITY, f64::NAN, 1.0];
    // Three lines of them; 64 columns, whose first four are looked at.
    let lines: Vec<f64> = (0..64 * 64).map(|i| if i < 3 * 64 { values[i % 4] } else { 0.0 }).collect();
    let a = Tensor::from_values(&[64, 64], DType::BF16, &lines).transposed(0, 1);
    let b = Tensor::filled(&[64, 64], DType::BF16, 0.0);
    let [_, sums] = sums::multiply(&dot::portable(), &a.view(), &b.view(), DType::F32).expect("packed by columns");
    let sums = Tensor::contiguous(&[64], sums);
    assert_eq!([0, 1, 3].map(|row| sums.at(&[row])), [3.0 * tiny, f64::INFINITY, 3.0]);
    assert!(sums.at(&[2]).is_nan());
}
