use super::{arg_reduce, reduce, variance};
use crate::testing::{Random, Tensor, epsilon};
use crate::{DType, Reduce, Storage};

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// The precision in which a type accumulates.
fn accumulator(dtype: DType) -> f64 {
    epsilon(if dtype == DType::F64 { DType::F64 } else { DType::F32 })
}

/// Half the distance between subnormal numbers: the error of one rounding there.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2.0_f64.powi(-25),
        DType::BF16 => 2.0_f64.powi(-134),
        DType::F32 => 2.0_f64.powi(-150),
        _ => 0.0,
    }
}

/// The elements that go into each output, in order.
fn groups(x: &Tensor, axes: &[usize]) -> Vec<Vec<f64>> {
    let kept: Vec<usize> = (0..x.shape().len()).filter(|a| !axes.contains(a)).collect();
    let outputs: usize = kept.iter().map(|&a| x.shape()[a]).product();
    let mut groups = vec![Vec::new(); outputs];
    for index in x.indices() {
        let place = kept.iter().fold(0, |place, &a| place * x.shape()[a] + index[a]);
        groups[place].push(x.at(&index));
    }
    groups
}

/// Values, and how much each may be off apart from rounding to the output.
fn reference(op: Reduce, group: &[f64], eps: f64) -> (f64, f64) {
    // A balanced tree over blocks of 1024, in which at most 16 + 6 additions follow one another.
    let depth = 24.0 + (group.len().max(2) as f64).log2();
    let magnitude: f64 = group.iter().map(|x| x.abs()).sum();
    let nan = group.iter().any(|x| x.is_nan());
    let extreme = |start: f64, f: fn(f64, f64) -> f64| {
        (if nan { f64::NAN } else { group.iter().fold(start, |a, &b| f(a, b)) }, 0.0)
    };
    match op {
        Reduce::Sum => (group.iter().sum(), depth * eps * magnitude),
        Reduce::Mean => (group.iter().sum::<f64>() / group.len() as f64, depth * eps * magnitude / group.len() as f64),
        Reduce::Prod => {
            let product: f64 = group.iter().product();
            (product, group.len() as f64 * eps * product.abs() + f64::from(f32::MIN_POSITIVE))
        }
        Reduce::Max => extreme(f64::NEG_INFINITY, f64::max),
        Reduce::Min => extreme(f64::INFINITY, f64::min),
        Reduce::SumSquares => {
            let sum: f64 = group.iter().map(|x| x * x).sum();
            (sum, (depth + 1.0) * eps * sum)
        }
        Reduce::SumAbs => (magnitude, depth * eps * magnitude),
        Reduce::All => (f64::from(u8::from(group.iter().all(|&x| x != 0.0))), 0.0),
        Reduce::Any => (f64::from(u8::from(group.iter().any(|&x| x != 0.0))), 0.0),
    }
}

fn check(op: Reduce, x: &Tensor, axes: &[usize], out: DType) {
    let found = Tensor::contiguous(&[groups(x, axes).len()], reduce(op, &x.view(), axes, out)).values();
    for (i, (found, group)) in found.iter().zip(groups(x, axes)).enumerate() {
        let (expected, slack) = reference(op, &group, accumulator(x.logical()));
        let tolerance = slack + (epsilon(out) * expected.abs()).max(least(out));
        let same = found.is_nan() && expected.is_nan() || *found == expected;
        assert!(
            same || (found - expected).abs() <= tolerance,
            "{op:?} over {axes:?} of {:?} {}: output {i} is {found}, not {expected} ± {tolerance}",
            x.shape(),
            x.logical()
        );
    }
}

fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1_usize << rank).map(move |bits| (0..rank).filter(|a| bits >> a & 1 == 1).collect())
}

#[test]
fn every_subset_of_axes_of_every_layout_and_precision() {
    let mut random = Random::new(1);
    for dtype in FLOATS {
        let x = random.tensor(&[3, 5, 2, 7], dtype);
        let narrow = random.tensor(&[3, 1, 5], dtype);
        let views = [x.clone(), x.transposed(0, 3), x.transposed(1, 2), x.every(1, 2), narrow.broadcast(&[2, 3, 4, 5])];
        for view in &views {
            for axes in subsets(4) {
                check(Reduce::Sum, view, &axes, if dtype == DType::F64 { dtype } else { DType::F32 });
                check(Reduce::Max, view, &axes, dtype);
            }
        }
    }
}

/// Blocks end where runs of elements that follow one another do.
#[test]
fn runs_of_more_and_less_than_a_block_between_other_axes() {
    let mut random = Random::new(11);
    for shape in [[3, 2, 41, 29], [5, 3, 1, 1024], [4, 2, 2, 1025], [2, 2, 33, 100], [40, 2, 7, 7], [1, 2, 1, 40_001]] {
        for dtype in [DType::F32, DType::BF16] {
            let x = random.tensor(&shape, dtype);
            for view in [x.clone(), x.transposed(0, 1), x.every(3, 1), x.every(2, 1)] {
                for op in [Reduce::Sum, Reduce::SumSquares, Reduce::Max, Reduce::Mean] {
                    check(op, &view, &[0, 2, 3], DType::F32);
                }
            }
        }
    }
}

#[test]
fn every_operation_at_lengths_around_the_vector_width() {
    let mut random = Random::new(2);
    let ops = [
        Reduce::Sum,
        Reduce::Mean,
        Reduce::Prod,
        Reduce::Max,
        Reduce::Min,
        Reduce::SumSquares,
        Reduce::SumAbs,
        Reduce::All,
        Reduce::Any,
    ];
    for len in [1, 2, 15, 16, 17, 63, 64, 65, 127, 509, 1023, 1024, 1025, 2049, 5003] {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            for op in ops {
                let out = if matches!(op, Reduce::All | Reduce::Any) { DType::Bool } else { dtype };
                check(op, &random.tensor(&[2, len], dtype), &[1], out);
                check(op, &random.tensor(&[len, 2], dtype), &[0], out);
                check(op, &random.tensor(&[len, 9], dtype), &[0], out);
            }
        }
    }
}

#[test]
fn columns_in_tiles_and_groups() {
    let mut random = Random::new(3);
    for (rows, columns) in [(1, 513), (17, 512), (100, 511), (1000, 10), (37, 300), (600, 1030)] {
        let x = random.tensor(&[rows, columns], DType::F32);
        check(Reduce::Sum, &x, &[0], DType::F32);
        check(Reduce::Max, &x, &[0], DType::F32);
        check(Reduce::Sum, &x.every(0, 2), &[0], DType::F32);
    }
    check(Reduce::Sum, &random.tensor(&[3, 40, 11], DType::BF16), &[1], DType::F32);
}

#[test]
fn nothing_gives_the_neutral_element() {
    let x = Tensor::from_values(&[2, 0], DType::F32, &[]);
    let of = |op, out| reduce(op, &x.view(), &[1], out);
    assert_eq!(of(Reduce::Sum, DType::F32), Storage::F32(vec![0.0; 2].into()));
    assert_eq!(of(Reduce::Prod, DType::F32), Storage::F32(vec![1.0; 2].into()));
    assert_eq!(of(Reduce::All, DType::Bool), Storage::Bool(vec![true; 2].into()));
    assert_eq!(of(Reduce::Any, DType::Bool), Storage::Bool(vec![false; 2].into()));
    assert!(Tensor::contiguous(&[2], of(Reduce::Mean, DType::F32)).values().iter().all(|m| m.is_nan()));
    assert_eq!(reduce(Reduce::Sum, &x.view(), &[0], DType::F32), Storage::F32(vec![].into()));
}

#[test]
fn special_values_go_through() {
    let inf = f64::INFINITY;
    for position in [0, 40, 99] {
        for special in [f64::NAN, inf, -inf] {
            let mut values = vec![1.0; 200];
            values[position] = special;
            for dtype in FLOATS {
                let x = Tensor::from_values(&[2, 100], dtype, &values);
                for op in [Reduce::Sum, Reduce::Max, Reduce::Min, Reduce::Mean, Reduce::All] {
                    check(op, &x, &[1], if op == Reduce::All { DType::Bool } else { dtype });
                    check(op, &x, &[0], if op == Reduce::All { DType::Bool } else { dtype });
                }
            }
        }
    }
}

#[test]
fn a_million_half_ones_sum_to_a_million() {
    for shape in [[1, 1_000_000], [1_000_000, 1]] {
        let x = Tensor::filled(&shape, DType::F16, 1.0);
        assert_eq!(reduce(Reduce::Sum, &x.view(), &[0, 1], DType::F32), Storage::F32(vec![1_000_000.0].into()));
    }
    let x = Tensor::filled(&[100_000, 10], DType::F16, 1.0);
    assert_eq!(reduce(Reduce::Sum, &x.view(), &[0], DType::F32), Storage::F32(vec![100_000.0; 10].into()));
}

#[test]
fn long_sums_are_as_accurate_as_pairwise_ones() {
    let x = Tensor::filled(&[1 << 22], DType::F32, 0.1);
    let Storage::F32(sum) = reduce(Reduce::Sum, &x.view(), &[0], DType::F32) else { panic!("F32 asked for") };
    let exact = f64::from(0.1_f32) * f64::from(1 << 22);
    assert!((f64::from(sum[0]) - exact).abs() <= 24.0 * epsilon(DType::F32) * exact, "{} is not {exact}", sum[0]);
}

#[test]
fn values_stored_wide_and_meant_narrow_are_rounded_first() {
    let x = Tensor::from_values(&[4], DType::F32, &[1.000_1, 2.000_3, -0.333_3, 70_000.0]).meant_as(DType::BF16);
    check(Reduce::Sum, &x, &[0], DType::F32);
    let x = Tensor::from_values(&[2], DType::F16, &[60_000.0, 60_000.0]).meant_as(DType::F32);
    assert_eq!(reduce(Reduce::Sum, &x.view(), &[0], DType::F32), Storage::F32(vec![120_000.0].into()));
}

#[test]
fn integers_and_truth_values() {
    let x = Tensor::from_values(&[2, 3], DType::I64, &[3.0, -1.0, 4.0, 1.0, -5.0, 9.0]);
    assert_eq!(reduce(Reduce::Sum, &x.view(), &[1], DType::I64), Storage::I64(vec![6, 5].into()));
    assert_eq!(reduce(Reduce::Min, &x.view(), &[0], DType::I64), Storage::I64(vec![1, -5, 4].into()));
    let mask = Tensor::from_values(&[3], DType::Bool, &[1.0, 0.0, 1.0]);
    assert_eq!(reduce(Reduce::Sum, &mask.view(), &[0], DType::F32), Storage::F32(vec![2.0].into()));
    assert_eq!(reduce(Reduce::Max, &mask.view(), &[0], DType::Bool), Storage::Bool(vec![true].into()));
}

#[test]
fn variance_does_not_cancel() {
    let mut random = Random::new(5);
    for (shape, axes) in [(vec![3, 5000], vec![1]), (vec![70, 3, 11], vec![0, 2]), (vec![700, 37], vec![0])] {
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|_| 1000.0 + random.number()).collect();
        let x = Tensor::from_values(&shape, DType::F32, &values);
        let (mean, var) = variance(&x.view(), &axes, 1.0, DType::F32);
        let outputs = groups(&x, &axes);
        let (mean, var) = (Tensor::contiguous(&[outputs.len()], mean), Tensor::contiguous(&[outputs.len()], var));
        for ((mean, var), group) in mean.values().iter().zip(var.values()).zip(outputs) {
            let n = group.len() as f64;
            let exact_mean = group.iter().sum::<f64>() / n;
            let exact = group.iter().map(|x| (x - exact_mean).powi(2)).sum::<f64>() / (n - 1.0);
            // Deviations from a rounded mean: its error, squared, is all that the size of the mean contributes.
            let mean_error = 40.0 * epsilon(DType::F32) * exact_mean.abs();
            assert!((mean - exact_mean).abs() <= mean_error, "{mean} is not {exact_mean}");
            let tolerance = 40.0 * epsilon(DType::F32) * exact + mean_error * mean_error + 2.0 * mean_error * 1e-3;
            assert!((var - exact).abs() <= tolerance, "{var} is not {exact} ± {tolerance}");
        }
    }
    let one = Tensor::from_values(&[1], DType::F32, &[2.0]);
    let Storage::F32(var) = variance(&one.view(), &[0], 1.0, DType::F32).1 else { panic!("F32 asked for") };
    assert!(var[0].is_nan());
}

#[test]
fn what_is_all_alike_has_no_variance() {
    let mut random = Random::new(8);
    for (dtype, value) in FLOATS.into_iter().flat_map(|dtype| [0.1, 12.3, -14.580299].map(|value| (dtype, value))) {
        for shape in [[3, 7], [2, 300], [1025, 5], [4, 1025]] {
            let scale = 1.0 + random.number().abs();
            let x = Tensor::from_values(&shape, dtype, &vec![value * scale; shape.iter().product()]);
            for axes in [&[0][..], &[1], &[0, 1]] {
                let (mean, var) = variance(&x.view(), axes, 0.0, DType::F64);
                let [mean, var] = [mean, var].map(|storage| Tensor::contiguous(&[storage.len()], storage).values());
                assert!(var.iter().all(|var| *var == 0.0), "{dtype}, {shape:?} over {axes:?}: {var:?}");
                assert!(mean.iter().all(|mean| *mean == x.at(&[0, 0])), "{dtype}, {shape:?} over {axes:?}: {mean:?}");
            }
        }
    }
}

#[test]
fn positions_are_the_first_of_equals() {
    let mut random = Random::new(7);
    for dtype in FLOATS {
        for len in [1, 7, 64, 65, 1024, 3000, 40_001] {
            let x = random.tensor(&[3, len], dtype);
            for (view, axis) in [(&x, 1), (&x.transposed(0, 1), 0)] {
                for max in [false, true] {
                    let found = arg_reduce(max, &view.view(), axis);
                    let expected = groups(view, &[axis]).iter().map(|g| first_extreme(g, max)).collect();
                    assert_eq!(found, Storage::I64(expected), "{dtype} {len} {max}");
                }
            }
        }
    }
    let ties = Tensor::filled(&[2, 2000], DType::F16, 1.0);
    assert_eq!(arg_reduce(true, &ties.view(), 1), Storage::I64(vec![0, 0].into()));
    let mut values = vec![0.0; 3000];
    (values[1500], values[2500], values[2900]) = (f64::NAN, f64::NAN, 9.0);
    let nan = Tensor::from_values(&[3000], DType::F32, &values);
    assert_eq!(arg_reduce(true, &nan.view(), 0), Storage::I64(vec![1500].into()));
    assert_eq!(arg_reduce(false, &nan.view(), 0), Storage::I64(vec![1500].into()));
    let low = Tensor::filled(&[2000], DType::F32, f64::NEG_INFINITY);
    assert_eq!(arg_reduce(true, &low.view(), 0), Storage::I64(vec![0].into()));
}

fn first_extreme(group: &[f64], max: bool) -> i64 {
    let better = |a: f64, b: f64| if max { a > b } else { a < b };
    (1..group.len()).fold(0, |best, i| if better(group[i], group[best]) { i } else { best }) as i64
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let x = Random::new(11).tensor(&[300, 1000], DType::F32);
    let all = || {
        let sums = [vec![0, 1], vec![0], vec![1]].map(|axes| reduce(Reduce::Sum, &x.view(), &axes, DType::F32));
        let spread = [vec![0, 1], vec![0], vec![1]].map(|axes| variance(&x.view(), &axes, 0.0, DType::F32));
        (sums, spread)
    };
    let alone = crate::with_num_threads(1, all);
    let together = crate::with_num_threads(5, all);
    assert_eq!(alone, together);
}
