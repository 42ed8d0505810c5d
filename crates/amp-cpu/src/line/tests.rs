use super::{cumprod_grad, median, running_extreme, scan, sort, topk};
use crate::testing::{Random, Tensor, epsilon};
use crate::{DType, Scan, Storage, with_num_threads};
use std::cmp::Ordering;

/// Lines of `x` along `axis` as positions in row-major order.
fn lines(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let line = |o: usize, i: usize| (0..shape[axis]).map(|k| (o * shape[axis] + k) * inner + i).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| line(o, i))).collect()
}

#[test]
fn running_sums_and_products_along_every_axis() {
    let mut random = Random::new(1);
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let x = random.tensor(&[3, 5, 67], dtype);
        for view in [x.clone(), x.transposed(0, 2), x.every(2, 3)] {
            for axis in 0..3 {
                for reverse in [false, true] {
                    for op in [Scan::Sum, Scan::Prod] {
                        check(op, &view, axis, reverse);
                    }
                }
            }
        }
    }
}

fn check(op: Scan, x: &Tensor, axis: usize, reverse: bool) {
    let out = if x.logical() == DType::F64 { DType::F64 } else { DType::F32 };
    let found = Tensor::contiguous(x.shape(), scan(op, &x.view(), axis, reverse, out)).values();
    let values = x.values();
    for mut line in lines(x.shape(), axis) {
        if reverse {
            line.reverse();
        }
        let (mut exact, mut size) = (if op == Scan::Sum { 0.0 } else { 1.0 }, 0.0_f64);
        for (i, at) in line.into_iter().enumerate() {
            match op {
                Scan::Sum => (exact, size) = (exact + values[at], size + values[at].abs()),
                Scan::Prod => (exact, size) = (exact * values[at], (exact * values[at]).abs()),
            }
            let tolerance = (i + 1) as f64 * epsilon(out) * size + f64::from(f32::MIN_POSITIVE);
            assert!((found[at] - exact).abs() <= tolerance, "{op:?}: {} is not {exact} ± {tolerance}", found[at]);
        }
    }
}

#[test]
fn the_gradient_of_products_is_exact_at_zeros() {
    let x = Tensor::from_values(&[4], DType::F64, &[2.0, 0.0, 3.0, 5.0]);
    let last = Tensor::from_values(&[4], DType::F64, &[0.0, 0.0, 0.0, 1.0]);
    assert_eq!(cumprod_grad(&x.view(), &last.view(), 0, DType::F64), Storage::F64(vec![0.0, 30.0, 0.0, 0.0].into()));
    let all = Tensor::filled(&[4], DType::F64, 1.0);
    assert_eq!(cumprod_grad(&x.view(), &all.view(), 0, DType::F64), Storage::F64(vec![1.0, 38.0, 0.0, 0.0].into()));
}

/// Several strips of lines, of any layout: the bits of the same lines end to end.
#[test]
fn lines_side_by_side_have_the_bits_of_those_end_to_end() {
    let mut random = Random::new(3);
    for dtype in [DType::BF16, DType::F32, DType::F64] {
        let out = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (x, g) = (random.tensor(&[2, 9, 300], dtype), random.tensor(&[2, 9, 300], out));
        for (x, g) in [(x.clone(), g.clone()), (x.every(2, 3), g.every(2, 3)), (x.every(1, 8), g.every(1, 8))] {
            let (ends, g_ends) = (x.transposed(1, 2), g.transposed(1, 2));
            let same = |found: Storage, expected: Storage| {
                let found = Tensor::contiguous(x.shape(), found).transposed(1, 2);
                assert_eq!(found.values(), Tensor::contiguous(ends.shape(), expected).values(), "{dtype}");
            };
            same(cumprod_grad(&x.view(), &g.view(), 1, out), cumprod_grad(&ends.view(), &g_ends.view(), 2, out));
            for (op, reverse) in [(Scan::Sum, false), (Scan::Sum, true), (Scan::Prod, false), (Scan::Prod, true)] {
                same(scan(op, &x.view(), 1, reverse, dtype), scan(op, &ends.view(), 2, reverse, dtype));
            }
        }
    }
}

#[test]
fn sorting_is_stable_along_every_axis() {
    let mut random = Random::new(2);
    for dtype in [DType::BF16, DType::F32, DType::F64, DType::I64] {
        let values: Vec<f64> = (0..3 * 37 * 4).map(|_| (random.number() * 9.0).round()).collect();
        let x = Tensor::from_values(&[3, 37, 4], dtype, &values);
        for view in [x.clone(), x.transposed(0, 1)] {
            for axis in 0..3 {
                for descending in [false, true] {
                    let (sorted, positions) = sort(&view.view(), axis, descending);
                    let sorted = Tensor::contiguous(view.shape(), sorted).values();
                    let positions = Tensor::contiguous(view.shape(), positions).values();
                    let values = view.values();
                    for line in lines(view.shape(), axis) {
                        for (k, i) in in_order(&values, &line, descending).into_iter().enumerate() {
                            assert_eq!((sorted[line[k]], positions[line[k]]), (values[line[i]], i as f64));
                        }
                    }
                }
            }
        }
    }
}

/// A line's elements in order, the positions of equal ones in theirs, NaN last.
fn in_order(values: &[f64], line: &[usize], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..line.len()).collect();
    order.sort_by(|&i, &j| {
        let (a, b) = (values[line[i]], values[line[j]]);
        let order = a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal));
        if descending { order.reverse() } else { order }
    });
    order
}

/// Ties, infinities and NaN in lines of which little or much is wanted, along every axis and in every layout.
#[test]
fn the_first_the_middle_and_the_extremes_so_far() {
    let mut random = Random::new(4);
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let mut values: Vec<f64> = (0..3 * 301 * 5).map(|_| (random.number() * 99.0).round()).collect();
        for i in 0..40 {
            values[random.below(3 * 301 * 5)] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0][i % 4];
        }
        let x = Tensor::from_values(&[3, 301, 5], dtype, &values);
        for view in [x.clone(), x.transposed(0, 1), x.every(1, 3)] {
            for axis in 0..3 {
                for count in [0, 1, 3, view.shape()[axis]] {
                    let count = count.min(view.shape()[axis]);
                    check_first(&view, axis, count, count % 2 == 1);
                }
                check_middle(&view, axis);
                check_extremes(&view, axis);
            }
        }
    }
}

/// Lines of several groups of blocks and a rest: in order, in reverse, all alike, of few numbers and of many.
#[test]
fn the_first_few_of_long_lines() {
    let mut random = Random::new(6);
    for (len, dtype) in
        [(255, DType::F32), (256, DType::F32), (600, DType::I64), (1111, DType::F32), (2049, DType::F64)]
    {
        let kinds: [&mut dyn FnMut(usize) -> f64; 6] = [
            &mut |i| i as f64,
            &mut |i| -(i as f64),
            &mut |_| 3.0,
            &mut |i| (i % 7) as f64,
            &mut |_| (random.number() * 9000.0).round(),
            &mut |i| if i % 100 == 99 && dtype != DType::I64 { f64::NAN } else { ((i * 37) % 101) as f64 },
        ];
        let values: Vec<f64> = kinds.into_iter().flat_map(|kind| (0..len).map(kind).collect::<Vec<_>>()).collect();
        let x = Tensor::from_values(&[6, len], dtype, &values);
        for count in [1, 2, 5, len / 32, len / 32 + 1, len / 2] {
            check_first(&x, 1, count, false);
            check_first(&x, 1, count, true);
        }
    }
}

fn check_first(x: &Tensor, axis: usize, count: usize, descending: bool) {
    let mut shape = x.shape().to_vec();
    shape[axis] = count;
    let (values, positions) = topk(&x.view(), axis, count, descending);
    let (values, positions) =
        (Tensor::contiguous(&shape, values).values(), Tensor::contiguous(&shape, positions).values());
    let all = x.values();
    for (line, places) in lines(x.shape(), axis).iter().zip(lines(&shape, axis)) {
        for (&place, i) in places.iter().zip(in_order(&all, line, descending)) {
            let (found, expected) = (values[place], all[line[i]]);
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{found} is not {expected}");
            assert_eq!(positions[place], i as f64, "{count} along {axis}, {descending}");
        }
    }
}

fn check_middle(x: &Tensor, axis: usize) {
    for left_out in [false, true] {
        let found = median(&x.view(), axis, left_out);
        let (found, values) = (Tensor::contiguous(&[found.len()], found).values(), x.values());
        for (line, found) in lines(x.shape(), axis).iter().zip(found) {
            let order = in_order(&values, line, false);
            let numbers = order.iter().filter(|&&i| !values[line[i]].is_nan()).count();
            let wins = numbers < line.len() && !left_out;
            let place = if wins { numbers } else { numbers.saturating_sub(1) / 2 };
            assert_eq!(found, order[place] as f64, "along {axis}, {left_out}");
        }
    }
}

fn check_extremes(x: &Tensor, axis: usize) {
    for max in [false, true] {
        let (extremes, found) = with_num_threads(2, || running_extreme(max, &x.view(), axis));
        assert_eq!(found, with_num_threads(1, || running_extreme(max, &x.view(), axis)).1);
        let (extremes, found) =
            (Tensor::contiguous(x.shape(), extremes), Tensor::contiguous(x.shape(), found).values());
        assert_eq!(extremes.logical(), x.logical());
        let (values, extremes) = (x.values(), extremes.values());
        for line in lines(x.shape(), axis) {
            let mut best = 0;
            for (i, &at) in line.iter().enumerate() {
                let (new, old) = (values[at], values[line[best]]);
                if new.is_nan() || if max { new >= old } else { new <= old } {
                    best = i;
                }
                assert_eq!(found[at], best as f64, "along {axis}, {max}");
                assert_eq!(extremes[at].to_bits(), values[line[best]].to_bits(), "along {axis}, {max}");
            }
        }
    }
}

#[test]
fn nan_is_largest() {
    let x = Tensor::from_values(&[4], DType::F32, &[f64::NAN, 1.0, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(sort(&x.view(), 0, false).1, Storage::I64(vec![3, 1, 2, 0].into()));
    assert_eq!(sort(&x.view(), 0, true).1, Storage::I64(vec![0, 2, 1, 3].into()));
}

#[test]
fn values_next_to_each_other_are_told_apart_and_zeros_are_not() {
    let ordered = [f64::NEG_INFINITY, -1.0 - f64::EPSILON, -1.0, -5e-324, 0.0, -0.0, 5e-324, 1.0, f64::MAX];
    let x = Tensor::from_values(&[9], DType::F64, &ordered);
    assert_eq!(sort(&x.view(), 0, false).1, Storage::I64((0..9).collect::<Vec<_>>().into()));
    assert_eq!(sort(&x.view(), 0, true).1, Storage::I64(vec![8, 7, 6, 4, 5, 3, 2, 1, 0].into()));
    let Storage::F64(values) = sort(&x.view(), 0, true).0 else { panic!("in the precision of the input") };
    assert!(values.iter().zip([8, 7, 6, 4, 5, 3, 2, 1, 0]).all(|(v, i)| v.to_bits() == ordered[i].to_bits()));
}

#[test]
fn empty_lines() {
    let x = Tensor::from_values(&[2, 0], DType::F32, &[]);
    assert_eq!(scan(Scan::Sum, &x.view(), 1, false, DType::F32), Storage::F32(vec![].into()));
    for axis in 0..2 {
        assert_eq!(sort(&x.view(), axis, false).0, Storage::F32(vec![].into()));
        assert_eq!(running_extreme(true, &x.view(), axis).1, Storage::I64(vec![].into()));
    }
    assert_eq!(topk(&x.transposed(0, 1).view(), 1, 0, true).1, Storage::I64(vec![].into()));
}
