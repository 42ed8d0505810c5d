use crate::testing::{Random, Tensor};
use crate::{Binary, DType, NormKind, Normalized, Storage, Unary, View, with_num_threads};
use crate::{
    alive, batch_norm_relu, batch_norm_relu_grad, binary, dead, normalize, normalize_grad, normalize_with, unary,
};

const EPS: f64 = 1e-5;
const SHAPES: &[&[usize]] =
    &[&[2, 1], &[700, 3], &[600, 65], &[9, 2100], &[3, 5, 7, 7], &[4, 70, 4, 4], &[5, 11, 27, 29], &[0, 3, 2]];

/// Numbers with some that are no numbers, too great, too small or 0 among them.
fn odd(random: &mut Random, shape: &[usize], dtype: DType) -> Tensor {
    let mut values = random.tensor(shape, dtype).values();
    let odd = [0.0, -0.0, 1e-40, -1e-40];
    values.iter_mut().step_by(31).zip(odd).for_each(|(x, odd)| *x = odd);
    if let Some(last) = values.last_mut().filter(|_| shape[0] > 2) {
        *last = f64::NAN;
    }
    Tensor::from_values(shape, dtype, &values)
}

/// Bits of every element, of which NaN count as equal.
fn bits(storage: &Storage) -> Vec<u64> {
    let tensor = Tensor::contiguous(&[storage.len()], storage.clone());
    tensor.values().into_iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect()
}

fn same(what: &str, left: &Normalized, right: &Normalized) {
    for (left, right) in [(&left.y, &right.y), (&left.mean, &right.mean), (&left.var, &right.var)] {
        assert_eq!(left.dtype(), right.dtype());
        assert!(bits(left) == bits(right), "{what}");
    }
}

#[test]
fn one_pass_gives_the_bits_of_norm_sum_and_relu() {
    let mut random = Random::new(11);
    for (&shape, dtype) in
        SHAPES.iter().flat_map(|shape| [DType::BF16, DType::F16, DType::F32, DType::F64].map(|d| (shape, d)))
    {
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (x, residual) = (odd(&mut random, shape, dtype), odd(&mut random, shape, wide));
        let [w, b, mean] = [0; 3].map(|_| random.tensor(&[shape[1]], wide));
        let var = Tensor::from_values(&[shape[1]], wide, &vec![0.7; shape[1]]);
        // As it is widened in a network: stored in 16 bits, counted as F32.
        let view = View { logical: wide, ..x.view() };
        for (given, residual) in [(false, None), (false, Some(&residual)), (true, None), (true, Some(&residual))] {
            let (statistics, residual) = ((mean.view(), var.view()), residual.map(|r| r.view()));
            let given = given.then_some((&statistics.0, &statistics.1));
            let (w, b) = (w.view(), b.view());
            let plain = match given {
                Some((mean, var)) => normalize_with(&view, mean, var, Some(&w), Some(&b), EPS, wide),
                None => normalize(&view, NormKind::Batch, Some(&w), Some(&b), EPS, wide).y,
            };
            let mut sum = Tensor::contiguous(shape, plain);
            if let Some(residual) = &residual {
                sum = Tensor::contiguous(shape, binary(Binary::Add, &sum.view(), residual, wide));
            }
            for out in [wide, DType::BF16, DType::F16] {
                let what = format!("{shape:?} {dtype} to {out}, residual {}", residual.is_some());
                let run = || batch_norm_relu(&view, given, (Some(&w), Some(&b)), EPS, residual.as_ref(), true, out);
                let (found, signs) = run();
                assert!(bits(&found.y) == bits(&unary(Unary::Relu, &sum.view(), out)), "{what}");
                assert_eq!(signs, Some(dead(&sum.view())), "{what}");
                let (alone, signs) = with_num_threads(1, run);
                same(&what, &found, &alone);
                assert_eq!(signs, Some(dead(&sum.view())), "{what}");
                let without = batch_norm_relu(&view, given, (Some(&w), Some(&b)), EPS, residual.as_ref(), false, out);
                assert!(without.1.is_none());
                same(&what, &found, &without.0);
            }
        }
    }
}

#[test]
fn gradients_are_those_of_what_is_above_zero() {
    let mut random = Random::new(12);
    let dtypes =
        [(DType::BF16, DType::BF16), (DType::BF16, DType::F32), (DType::F32, DType::F16), (DType::F64, DType::F64)];
    for (&shape, (dtype, of_grad)) in SHAPES.iter().flat_map(|shape| dtypes.map(|d| (shape, d))) {
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (x, y, g) = (odd(&mut random, shape, dtype), random.tensor(shape, wide), random.tensor(shape, of_grad));
        let wide_grad = View { logical: wide, ..g.view() };
        let [w, mean, rstd] = [0; 3].map(|_| random.tensor(&[shape[1]], wide));
        let Storage::U8(signs) = dead(&y.view()) else { unreachable!("bits are bytes") };
        let view = View { logical: wide, ..x.view() };
        let masked = Tensor::contiguous(shape, alive(&signs, &wide_grad, wide));
        for out in [dtype, wide] {
            let what = format!("{shape:?} {dtype}, {of_grad} to {out}");
            let (mean, rstd, w) = (mean.view(), rstd.view(), w.view());
            let run = || batch_norm_relu_grad((&wide_grad, &signs), &view, &mean, &rstd, Some(&w), out);
            let parts =
                normalize_grad((&masked.view(), None), &view, &mean, &rstd, Some(&w), NormKind::Batch, (out, None));
            for found in [run(), with_num_threads(1, run)] {
                for (found, part) in [(&found.x, &parts.x), (&found.weight, &parts.weight), (&found.bias, &parts.bias)]
                {
                    assert!(bits(found) == bits(part), "{what}");
                }
            }
        }
    }
}

/// Means of what does not add up without rounding are exact once the deviations from them are added up too.
#[test]
fn constant_channels_become_their_bias() {
    let constants = [12345.678, -0.1, 1e-3, 3.3e7];
    for shape in [[100, 4, 1, 1], [7, 4, 9, 11], [3000, 4, 1, 1]] {
        let (images, pixels) = (shape[0], shape[2] * shape[3]);
        for dtype in [DType::F32, DType::F64] {
            let pixel: Vec<f64> = constants.into_iter().cycle().take(4 * images * pixels).collect();
            let [n, c, h, w] = shape;
            let together = Tensor::from_values(&[n, h, w, c], dtype, &pixel).transposed(2, 3).transposed(1, 2);
            let planes = Tensor::from_values(&shape, dtype, &together.values());
            for x in [together, planes] {
                let found = normalize(&x.view(), NormKind::Batch, None, None, EPS, dtype);
                for values in [&found.y, &found.var] {
                    let values = Tensor::contiguous(&[values.len()], values.clone()).values();
                    assert!(values.iter().all(|y| *y == 0.0), "{shape:?} {dtype}: {values:?}");
                }
            }
        }
    }
}
