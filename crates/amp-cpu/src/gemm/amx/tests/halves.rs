//! F16 as sums of two BF16 numbers.

use super::super::{emulator, halves};
use super::{bits, integers};
use crate::gemm::product::Threads;
use crate::gemm::tests::{Collect, compare_with};
use crate::gemm::{Places, Problem, Rounded};
use crate::output::Output;
use crate::testing::{Random, Tensor, epsilon};
use crate::{DType, with_num_threads};

/// The product of two matrices of F16 by halves.
fn product_of_halves(a: &Tensor, b: &Tensor) -> Tensor {
    emulator::install();
    let problem = Problem::new(&a.view(), &b.view());
    let (rows, columns) = (problem.a.rows, problem.b.rows);
    let sink = Collect::new(rows, columns);
    halves::product(&problem.a, &problem.b, &sink, Threads::Many);
    Tensor::contiguous(&[rows, columns], sink.values().into())
}

#[test]
fn halves_of_every_size_and_layout_agree_with_the_reference() {
    let mut random = Random::new(25);
    let sizes = [1, 15, 16, 17, 31, 32, 33, 63, 100];
    let depths = [0, 1, 2, 31, 32, 33, 97, 128, 129, 257];
    for (i, m) in sizes.into_iter().enumerate() {
        for (j, n) in sizes.into_iter().enumerate() {
            let k = depths[(i + 3 * j) % depths.len()];
            let stored = [DType::F16, DType::F32, DType::BF16][(i + j) % 3];
            let mut of = |shape: &[usize]| random.tensor(shape, stored).meant_as(DType::F16);
            let (a, b) = (of(&[m, k]), of(&[k, n]));
            compare_with(true, &a, &b, [None; 2], &product_of_halves(&a, &b));
            let (a, b) = (of(&[k, m]).transposed(0, 1), of(&[n, k]).transposed(0, 1));
            compare_with(true, &a, &b, [None; 2], &product_of_halves(&a, &b));
        }
    }
    let (a, b) = (random.tensor(&[700, 5], DType::F16), random.tensor(&[5, 3], DType::F16));
    compare_with(true, &a, &b, [None; 2], &product_of_halves(&a, &b));
}

/// Against one, every F16 number comes back as it is: its halves are exact.
#[test]
fn halves_hold_every_number() {
    let values: Vec<f64> = (0..=u16::MAX).map(|bits| f64::from(half::f16::from_bits(bits))).collect();
    let one =
        Tensor::from_values(&[32, 32], DType::F16, &std::array::from_fn::<f64, 1024, _>(|i| f64::from(i % 33 == 0)));
    for values in values.chunks(256 * 32) {
        let numbers = Tensor::from_values(&[256, 32], DType::F16, values);
        let got = product_of_halves(&numbers, &one);
        for (row, got) in values.chunks(32).zip(got.values().chunks(32)) {
            let all_finite = row.iter().all(|x| x.is_finite());
            for (x, got) in row.iter().zip(got) {
                assert!(if all_finite { x == got } else { got.is_nan() }, "{got:e} from {x:e}");
            }
        }
    }
}

/// Integers of 11 bits times ones: only the second halves differ between sums.
#[test]
fn halves_are_no_less_exact_than_f32_where_low_parts_do_not_meet() {
    let mut random = Random::new(26);
    let values: Vec<f64> = (0..20 * 40).map(|_| (random.next() % 4095) as f64 - 2047.0).collect();
    let a = Tensor::from_values(&[20, 40], DType::F16, &values);
    let b = integers(&mut random, &[40, 18]).values();
    let b = Tensor::from_values(&[40, 18], DType::F16, &b);
    let got = product_of_halves(&a, &b);
    for index in got.indices() {
        let expected: f64 = (0..40).map(|d| a.at(&[index[0], d]) * b.at(&[d, index[1]])).sum();
        assert_eq!(got.at(&index), expected);
    }
}

/// Integers of 11 bits, three products of which are exact in F32: what cancels takes nothing with it.
#[test]
fn short_sums_of_halves_are_exact() {
    let mut random = Random::new(28);
    let mut of = |shape: &[usize]| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| (random.next() % 4095) as f64 - 2047.0).collect();
        Tensor::from_values(shape, DType::F16, &values)
    };
    let (a, b) = (of(&[40, 3]), of(&[3, 50]));
    let got = product_of_halves(&a, &b);
    for index in got.indices() {
        let expected: f64 = (0..3).map(|d| a.at(&[index[0], d]) * b.at(&[d, index[1]])).sum();
        assert_eq!(got.at(&index), expected, "at {index:?}");
    }
}

#[test]
fn infinities_and_nans_of_halves_arrive_where_they_belong() {
    let inf = f64::INFINITY;
    for (special, other) in [(inf, 1.0), (inf, 1.0 + 2.0_f64.powi(-10)), (-inf, -0.3), (f64::NAN, 1.0), (inf, 0.0)] {
        for place in [0, 1, 31, 32, 40] {
            let mut values = vec![1.0; 35 * 41];
            values[17 * 41 + place] = special;
            let a = Tensor::from_values(&[35, 41], DType::F16, &values);
            let b = Tensor::filled(&[41, 33], DType::F16, other);
            for (transposed, y) in [
                (false, product_of_halves(&a, &b)),
                (true, product_of_halves(&b.transposed(0, 1), &a.transposed(0, 1))),
            ] {
                for index in y.indices() {
                    let (row, got) = (index[usize::from(transposed)], y.at(&index));
                    let expected = special * other;
                    let right = got == expected || got.is_nan() && expected.is_nan();
                    assert!(if row == 17 { right } else { got.is_finite() }, "{got} instead of {expected}");
                }
            }
        }
    }
}

/// Sums that an infinity goes into are computed in F32, and stored once: the bias is added to none twice.
#[test]
fn what_is_not_finite_is_left_out_and_then_computed() {
    let mut random = Random::new(29);
    let (m, k, n) = (70, 200, 101);
    let mut of = |shape: &[usize], special: &[(usize, f64)]| {
        let mut values = random.tensor(shape, DType::F16).values();
        special.iter().for_each(|&(at, value)| values[at] = value);
        Tensor::from_values(shape, DType::F16, &values)
    };
    let inf = f64::INFINITY;
    let a = of(&[m, k], &[(3 * k + 7, inf), (40 * k + 199, f64::NAN), (69 * k, -inf), (69 * k + 1, inf)]);
    let b = of(&[k, n], &[(5 * n + 100, -inf), (150 * n + 33, f64::NAN)]);
    for out in [DType::F32, DType::BF16, DType::F16] {
        let run = |threads| {
            with_num_threads(threads, || {
                let mut storage = Tensor::filled(&[m, n], out, 0.0).storage;
                let output = Output::new(&mut storage);
                let places = Places { product: 0, start: 0, row_stride: n, column_stride: 1, transposed: false };
                let problem = Problem::new(&a.view(), &b.view());
                let sink = Rounded { output, places, bias: &[1.0; 101], residual: None };
                emulator::install();
                halves::product(&problem.a, &problem.b, &sink, Threads::Many);
                Tensor::contiguous(&[m, n], storage)
            })
        };
        let (y, again) = (run(1), run(2));
        for index in y.indices() {
            let terms = (0..k).map(|d| a.at(&[index[0], d]) * b.at(&[d, index[1]]));
            let (sum, magnitude) = terms.fold((1.0, 1.0), |(sum, all), term| (sum + term, all + f64::abs(term)));
            let (got, twice) = (y.at(&index), again.at(&index));
            assert!(
                got.to_bits() == twice.to_bits() || got.is_nan() && twice.is_nan(),
                "{got} and {twice} at {index:?}"
            );
            let tolerance = (2.0_f64.powi(-16) + 700.0 * epsilon(DType::F32)) * magnitude + epsilon(out) * sum.abs();
            let near = if sum.is_finite() { (got - sum).abs() <= tolerance } else { got == sum };
            assert!(near || sum.is_nan() && got.is_nan(), "{got} instead of {sum} at {index:?}");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits_of_halves() {
    let mut random = Random::new(27);
    let (a, b) = (random.tensor(&[200, 100], DType::F16), random.tensor(&[100, 130], DType::F16));
    let run = |threads| with_num_threads(threads, || bits(&product_of_halves(&a, &b)));
    assert_eq!(run(1), run(2));
}
