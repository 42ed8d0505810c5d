//! Products that sum the rows of their left side.

use super::super::{kernel, sums};
use super::*;

/// A product that sums the rows of its left side, if it does, and the same product alone: rows of `a` as columns of memory.
fn check_sums<E: sums::Grouped>(kernel: &kernel::MicroKernel<E>, [m, k, n]: [usize; 3], dtype: DType) -> bool {
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
