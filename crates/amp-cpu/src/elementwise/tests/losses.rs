//! Losses and their gradients against operations one by one, and against differences.

use super::functions::arguments;
use super::{layout, storage, to_f64, values, viewed};
use crate::*;

const LOSSES: [PairLoss; 5] = [
    PairLoss::Squared,
    PairLoss::Absolute,
    PairLoss::Huber { delta: 0.75, factor: 1.0 / 0.75 },
    PairLoss::Logits,
    PairLoss::Probabilities,
];

/// Elements from about -8 to 8 as arguments of a loss: probabilities from `0.5 - reach` to `0.5 + reach` where it takes such.
fn fit(loss: PairLoss, x: &[f64], reach: f64) -> Vec<f64> {
    match loss {
        PairLoss::Probabilities => x.iter().map(|x| 0.5 + x * reach / 8.0).collect(),
        _ => x.to_vec(),
    }
}

/// The loss of each element by operations of one or two operands.
fn one_by_one(loss: PairLoss, x: &View, t: &View) -> Storage {
    let dtype = x.logical;
    fn whole<'a>(storage: &'a Storage, x: &View<'a>) -> View<'a> {
        View { data: storage.as_slice(), ..*x }
    }
    let curve = match loss {
        PairLoss::Squared => Unary::Sqr,
        PairLoss::Absolute => Unary::Abs,
        PairLoss::Huber { delta, factor } => Unary::Huber { delta, factor },
        PairLoss::Logits => {
            let (rest, log) =
                (unary(Unary::Affine { mul: -1.0, add: 1.0 }, t, dtype), unary(Unary::LogSigmoid, x, dtype));
            let linear = binary(Binary::Mul, &whole(&rest, x), x, dtype);
            return binary(Binary::Sub, &whole(&linear, x), &whole(&log, x), dtype);
        }
        PairLoss::Probabilities => {
            let negated = |add| move |of: &View| unary(Unary::Affine { mul: -1.0, add }, of, dtype);
            let log = |op: Unary, of: &View| {
                let log = unary(op, of, dtype);
                unary(Unary::Clamp { min: -100.0, max: f64::INFINITY }, &whole(&log, x), dtype)
            };
            let (of_x, of_rest) = (log(Unary::Log, x), log(Unary::Log1p, &whole(&negated(0.0)(x), x)));
            let hit = binary(Binary::Mul, t, &whole(&of_x, x), dtype);
            let miss = binary(Binary::Mul, &whole(&negated(1.0)(t), x), &whole(&of_rest, x), dtype);
            let sum = binary(Binary::Add, &whole(&hit, x), &whole(&miss, x), dtype);
            return unary(Unary::Affine { mul: -1.0, add: 0.0 }, &whole(&sum, x), dtype);
        }
    };
    let difference = binary(Binary::Sub, x, t, dtype);
    unary(curve, &whole(&difference, x), dtype)
}

#[test]
fn losses_are_those_of_operations_one_by_one() {
    let x = arguments();
    let at = layout(&[x.len()], &[1], 0);
    for dtype in [DType::F32, DType::F64] {
        for shift in [0, 1, 7, 40] {
            let mut turned = x.clone();
            turned.rotate_left(shift);
            let (stored, target) = (storage(&x, dtype), storage(&turned, dtype));
            let (stored, target) = (viewed(&stored, &at), viewed(&target, &at));
            for loss in LOSSES {
                let found = to_f64(&losses(loss, &stored, &target, dtype));
                let expected = to_f64(&one_by_one(loss, &stored, &target));
                for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let alike = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                    assert!(alike, "{loss:?} of {} and {}: {found}, not {expected}", x[i], turned[i]);
                }
            }
        }
    }
}

/// Derivatives by differences in F64, away from the corners; those in F32 beside them.
#[test]
fn gradients_of_losses_agree_with_differences() {
    let away = |(x, t): &(f64, f64)| [0.0, 0.75].iter().all(|corner| ((x - t).abs() - corner).abs() > 1e-3);
    let (x, t): (Vec<f64>, Vec<f64>) =
        (0..997).map(|i| (f64::from(i % 89) / 11.0 - 4.03, f64::from(i % 97) / 97.0)).filter(away).unzip();
    let g: Vec<f64> = (0..x.len()).map(|i| 0.25 + (i % 5) as f64).collect();
    let at = layout(&[x.len()], &[1], 0);
    for (loss, of_target) in LOSSES.into_iter().flat_map(|loss| [(loss, false), (loss, true)]) {
        let x = fit(loss, &x, 0.5);
        let moved = |by: f64| {
            let [x, t] = [(&x, !of_target), (&t, of_target)]
                .map(|(of, moves)| of.iter().map(|v| if moves { v + by } else { *v }).collect::<Vec<_>>())
                .map(|values| storage(&values, DType::F64));
            let view = |data| View { data, layout: &at, logical: DType::F64 };
            to_f64(&losses(loss, &view(x.as_slice()), &view(t.as_slice()), DType::F64))
        };
        let (above, below) = (moved(1e-5), moved(-1e-5));
        for (dtype, bound) in [(DType::F64, 1e-8), (DType::F32, 4e-6)] {
            let [x, t, g] = [&x, &t, &g].map(|values| storage(values, dtype));
            let view = |data| View { data, layout: &at, logical: dtype };
            let (x, t, grad) = (view(x.as_slice()), view(t.as_slice()), view(g.as_slice()));
            let grads = to_f64(&loss_grad(loss, &x, &t, &grad, of_target, dtype));
            for (i, found) in grads.iter().enumerate() {
                let g = 0.25 + (i % 5) as f64;
                let expected = (above[i] - below[i]) / 2e-5 * g;
                // Twice a difference of numbers up to 5, in units of 2^-24.
                let tolerance = bound * (1.0 + expected.abs() + 8.0 * g);
                assert!((found - expected).abs() <= tolerance, "{loss:?} {dtype} {i}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn totals_of_losses_are_sums_of_all() {
    for n in [0, 1, 1023, 1025, 50_000, 200_001] {
        let (numbers, at) = (values(2 * n + 1), layout(&[n], &[2], 1));
        let t: Vec<f64> = (0..n).map(|i| (i % 3) as f64 / 2.0).collect();
        let row = layout(&[n], &[1], 0);
        for (dtype, out) in [(DType::F32, DType::F32), (DType::BF16, DType::F32), (DType::F64, DType::F64)] {
            let t = storage(&t, dtype);
            for loss in LOSSES {
                let x = storage(&fit(loss, &numbers, 0.45), dtype);
                let (x, t) = (viewed(&x, &at), viewed(&t, &row));
                let each = to_f64(&losses(loss, &x, &t, DType::F64));
                let total = |mean| loss_total(loss, &x, &t, mean, out);
                let alone = with_num_threads(1, || total(false));
                assert_eq!(alone, with_num_threads(2, || total(false)), "{n} {dtype} {loss:?}");
                let (sum, magnitude) = (each.iter().sum::<f64>(), each.iter().map(|v| v.abs()).sum::<f64>());
                // Each loss to a few units, and a tree of less than 32 levels.
                let bound = if dtype == DType::F64 { 1e-13 } else { 48.0 * 2f64.powi(-24) } * (magnitude + n as f64);
                let found = to_f64(&alone)[0];
                assert!((found - sum).abs() <= bound, "{n} {dtype} {loss:?}: {found}, not {sum}");
                let mean = to_f64(&with_num_threads(2, || total(true)))[0];
                assert!(if n == 0 { mean.is_nan() } else { (mean * n as f64 - found).abs() <= bound }, "{n} {loss:?}");
            }
        }
    }
}

/// As `sigmoid(x) - t` has it, without cancellation: relative to a few units, wherever the answer was easy.
#[test]
fn slopes_of_easy_answers_do_not_vanish() {
    let (x, t) = ([-17.0, -60.0, 17.0, 60.0, -17.0, 17.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.5]);
    let at = layout(&[x.len()], &[1], 0);
    let exact = |x: f64, t: f64| (1.0 - t) / (1.0 + (-x).exp()) - t / (1.0 + x.exp());
    for (dtype, unit) in [(DType::F32, 2f64.powi(-24)), (DType::F64, 2f64.powi(-53))] {
        let ([x_stored, t_stored], g) = ([x, t].map(|v| storage(&v, dtype)), storage(&[1.0; 7], dtype));
        let view = |data| View { data, layout: &at, logical: dtype };
        let (x_view, t_view, g) = (view(x_stored.as_slice()), view(t_stored.as_slice()), view(g.as_slice()));
        let found = to_f64(&loss_grad(PairLoss::Logits, &x_view, &t_view, &g, false, dtype));
        for (i, found) in found.into_iter().enumerate() {
            let expected = exact(x[i], t[i]);
            // A sigmoid of 3 ulp, and three roundings.
            assert!((found - expected).abs() <= 10.0 * unit * expected.abs(), "{dtype} {}: {found}", x[i]);
        }
    }
}
