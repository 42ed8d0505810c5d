//! Draws are functions of seed and position, and have the distribution they claim.

use super::*;

fn to_f64(s: &Storage) -> Vec<f64> {
    let mut values = vec![0.0; s.len()];
    f64::widen(s.as_slice(), &mut values);
    values
}

type Draw = fn(u64, usize, DType) -> Storage;

#[test]
fn an_element_depends_on_seed_and_position_alone() {
    let draws: [Draw; 3] = [
        |at, n, dtype| random_normal(7, at, 1.0, 2.0, n, dtype),
        |at, n, dtype| random_uniform(7, at, -1.0, 1.0, n, dtype),
        |at, n, _| random_mask(7, at, 0.3, n),
    ];
    for draw in draws {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let whole = to_f64(&draw(0, 5003, dtype));
            for (start, n) in [(0, 1), (1, 1), (1234, 77), (1023, 2050), (2, 0), (5002, 1)] {
                let part = to_f64(&draw(start as u64, n, dtype));
                assert_eq!(part, whole[start..start + n], "{n} elements of {dtype} from {start}");
            }
        }
    }
}

#[test]
fn moments_lie_within_six_standard_errors() {
    const N: usize = 200_000;
    for dtype in [DType::F32, DType::F64] {
        // Expected mean, variance, and the fourth central moment, which bounds the error of the variance.
        for (name, draw, mean, variance, fourth) in [
            ("uniform", random_uniform(11, 0, 2.0, 5.0, N, dtype), 3.5, 9.0 / 12.0, 81.0 / 80.0),
            ("normal", random_normal(11, 0, -1.0, 2.0, N, dtype), -1.0, 4.0, 48.0),
            ("mask", random_mask(11, 0, 0.3, N), 0.3, 0.21, 0.21 * (1.0 - 3.0 * 0.21)),
        ] {
            let x = to_f64(&draw);
            let found = x.iter().sum::<f64>() / N as f64;
            let spread = x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / N as f64;
            let root = (N as f64).sqrt();
            assert!((found - mean).abs() <= 6.0 * f64::sqrt(variance) / root, "{name} {dtype}: mean {found}");
            let error = 6.0 * f64::sqrt(fourth - variance * variance) / root;
            assert!((spread - variance).abs() <= error, "{name} {dtype}: variance {spread}");
        }
    }
}

#[test]
fn neighbours_of_a_normal_draw_are_uncorrelated() {
    const N: usize = 100_000;
    let x = to_f64(&random_normal(3, 0, 0.0, 1.0, N, DType::F32));
    for lag in [1, 2, 3, 4] {
        let product = x.iter().zip(&x[lag..]).map(|(a, b)| a * b).sum::<f64>() / N as f64;
        assert!(product.abs() <= 6.0 / (N as f64).sqrt(), "lag {lag}: {product}");
    }
}

#[test]
fn uniform_values_stay_below_the_upper_end_in_every_precision() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (low, high) in [(0.0, 1.0), (-1.0, 0.0), (1000.0, 1001.0), (-3.0, -2.5), (2.0, 2.0)] {
            let x = to_f64(&random_uniform(5, 0, low, high, 20_000, dtype));
            let outside = x.iter().find(|v| !(**v >= low && (**v < high || low == high)));
            assert_eq!(outside, None, "{dtype} on {low}..{high}");
        }
    }
}

#[test]
fn probabilities_0_and_1_are_certain() {
    assert!(to_f64(&random_mask(1, 0, 0.0, 5000)).iter().all(|v| *v == 0.0));
    assert!(to_f64(&random_mask(1, 0, 1.0, 5000)).iter().all(|v| *v == 1.0));
}

/// The two numbers of `[0, 1)` that each pair of normal values was made of.
fn units_of_pairs(normal: &[f64]) -> Vec<f64> {
    let units = |pair: &[f64; 2]| {
        let [x, y] = *pair;
        [-(-(x * x + y * y) / 2.0).exp_m1(), (y.atan2(x) / std::f64::consts::TAU).rem_euclid(1.0)]
    };
    normal.as_chunks::<2>().0.iter().flat_map(units).collect()
}

/// 32 numbers each: kinds with independent ones have no two within 1e-5 of each other but for one seed of eight; F32 normals
/// tell theirs to 1e-6.
#[test]
fn no_kind_of_draw_repeats_the_numbers_of_another() {
    const N: usize = 32;
    for seed in [1, 2, 3] {
        let uniform = |dtype| to_f64(&random_uniform(seed, 0, 0.0, 1.0, N, dtype));
        let normal = |dtype| units_of_pairs(&to_f64(&random_normal(seed, 0, 0.0, 1.0, N, dtype)));
        let kinds = [uniform(DType::F32), uniform(DType::F64), normal(DType::F32), normal(DType::F64)];
        for (i, a) in kinds.iter().enumerate() {
            for (j, b) in kinds.iter().enumerate().skip(i + 1) {
                let apart = a.iter().filter(|a| b.iter().all(|b| (**a - b).abs() > 1e-5)).count();
                assert_eq!(apart, N, "kinds {i} and {j}, seed {seed}");
            }
        }
    }
}
