use super::{Labels, cross_entropy, cross_entropy_grad, logsumexp, softmax, softmax_grad, softmax_grad_of_input};
use crate::testing::{Random, Tensor, epsilon};
use crate::{DType, Storage, with_num_threads};

const LENGTHS: [usize; 9] = [1, 2, 15, 16, 17, 64, 101, 1025, 3001];

fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Exact softmax, its logarithm, and the log-sum-exp.
type Exact = (Vec<f64>, Vec<f64>, f64);

fn reference(line: &[f64]) -> Exact {
    let max = line.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let lse = max + line.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
    (line.iter().map(|x| (x - lse).exp()).collect(), line.iter().map(|x| x - lse).collect(), lse)
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: impl Fn(f64) -> f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance(*e), "{what}: element {i} is {f}, not {e} ± {}", tolerance(*e));
    }
}

#[test]
fn lines_of_every_length_and_precision() {
    let mut random = Random::new(1);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let (out, eps) = (accumulator(dtype), epsilon(accumulator(dtype)));
        for len in LENGTHS {
            // Short ones are handled several by a call.
            let rows = if len < 64 { 5000 / len + 3 } else { 3 };
            let wide: Vec<f64> = (0..rows * len).map(|_| random.number() * 20.0).collect();
            let x = Tensor::from_values(&[rows, len], dtype, &wide);
            let columns = Tensor::from_values(&[rows, len, 1], dtype, &wide);
            let lines: Vec<_> = x.values().chunks(len).map(reference).collect();
            let gather = |f: fn(&Exact) -> Vec<f64>| lines.iter().flat_map(f).collect::<Vec<_>>();
            for (view, axis, transposed) in [(x.clone(), 1, false), (columns, 1, false), (x.transposed(0, 1), 0, true)]
            {
                let ordered = |storage: Storage| {
                    let y = Tensor::contiguous(view.shape(), storage);
                    if transposed { y.transposed(0, 1).values() } else { y.values() }
                };
                // A shift of up to 40 is rounded before exp, whose own error is 2 ulp; then a sum and a product. In F64 the
                // reference errs as much.
                let soft = ordered(softmax(&view.view(), axis, false, out));
                assert_close("softmax", &soft, &gather(|l| l.0.clone()), |e| 2.0 * (40.0 + 30.0) * eps * e + 1e-37);
                let log = ordered(softmax(&view.view(), axis, true, out));
                assert_close("log_softmax", &log, &gather(|l| l.1.clone()), |e| 4.0 * eps * (e.abs() + 40.0));
                let lse = Tensor::contiguous(&[rows], logsumexp(&view.view(), axis, out)).values();
                assert_close("logsumexp", &lse, &gather(|l| vec![l.2]), |e| 4.0 * eps * (e.abs() + 40.0));
            }
        }
    }
}

/// Strips of every width and several of them, blocks of rows and a tree of blocks: what the same lines give end to end, but for
/// the order of sums, and the same bits on any number of threads.
#[test]
fn lines_side_by_side_are_those_end_to_end() {
    let mut random = Random::new(9);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let (out, eps) = (accumulator(dtype), epsilon(accumulator(dtype)));
        for shape in [[2, 5, 3], [3, 16, 16], [2, 17, 300], [1, 257, 40], [1, 5000, 35]] {
            let (x, g) = (random.tensor(&shape, dtype), random.tensor(&shape, dtype));
            let (x_ends, g_ends) = (end_to_end(&x), end_to_end(&g));
            let same = |what, f: &dyn Fn(&Tensor, &Tensor, usize) -> Storage, shapes: [&[usize]; 2], bound: f64| {
                let found = with_num_threads(2, || f(&x, &g, 1));
                assert_eq!(found, with_num_threads(1, || f(&x, &g, 1)), "{what} {dtype} {shape:?}");
                let found = end_to_end(&Tensor::contiguous(shapes[0], found)).values();
                let expected = Tensor::contiguous(shapes[1], f(&x_ends, &g_ends, 2)).values();
                assert_close(what, &found, &expected, |e| bound * eps * (e.abs() + 1.0));
            };
            let [n, len, inner] = shape;
            let (across, along) = (&[n, len, inner], &[n, inner, len]);
            same("logsumexp", &|x, _, axis| logsumexp(&x.view(), axis, out), [&[n, 1, inner], &[n, inner, 1]], 40.0);
            for log in [false, true] {
                same("softmax", &|x, _, axis| softmax(&x.view(), axis, log, out), [across, along], 40.0);
                let gradient = |x: &Tensor, g: &Tensor, axis| softmax_grad(&x.view(), &g.view(), axis, log, out);
                // A sum of `len` products of numbers below 1, or below e.
                same("gradient", &gradient, [across, along], 40.0 * (len as f64).sqrt());
            }
        }
    }
}

/// Lines along the second axis as lines along the third.
fn end_to_end(x: &Tensor) -> Tensor {
    let turned = x.transposed(1, 2);
    Tensor::contiguous(turned.shape(), crate::copy(&turned.view(), x.logical()))
}

/// Some lines with infinities and NaN among their elements.
fn lines_with_specials(random: &mut Random, shape: [usize; 2], dtype: DType) -> Tensor {
    let mut values: Vec<f64> = (0..shape[0] * shape[1]).map(|_| random.number() * 8.0).collect();
    (values[1], values[shape[1] + 2], values[2 * shape[1] + 3]) = (f64::NEG_INFINITY, f64::INFINITY, f64::NAN);
    Tensor::from_values(&shape, dtype, &values)
}

/// Where all lie in 16 bits they are widened and rounded in registers.
#[test]
fn lines_of_16_bits_are_those_of_f32_rounded_once() {
    let mut random = Random::new(8);
    for dtype in [DType::BF16, DType::F16] {
        for len in [4, 15, 16, 17, 31, 32, 33, 64, 101, 1025, 3001] {
            let rows = if len < 40 { 600 } else { 5 };
            let x = lines_with_specials(&mut random, [rows, len], dtype).meant_as(DType::F32);
            let wide = Tensor::contiguous(&[rows, len], softmax(&x.view(), 1, false, DType::F32)).values();
            let rounded = Tensor::from_values(&[rows, len], dtype, &wide).values();
            let found = Tensor::contiguous(&[rows, len], softmax(&x.view(), 1, false, dtype)).values();
            let bits = |values: Vec<f64>| -> Vec<u64> {
                values.into_iter().map(|v| if v.is_nan() { u64::MAX } else { v.to_bits() }).collect()
            };
            assert_eq!(bits(found), bits(rounded), "{dtype} {len}");
        }
    }
}

/// Narrow, wide and columns; infinities and NaN among them.
#[test]
fn gradients_of_inputs_have_the_bits_of_those_of_results() {
    let mut random = Random::new(7);
    let shapes = [(DType::BF16, [5, 1030], 1), (DType::F16, [67, 9], 0), (DType::F16, [5, 1055], 1)];
    for (dtype, shape, axis) in shapes.into_iter().chain([(DType::BF16, [900, 20], 1), (DType::F32, [400, 17], 1)]) {
        let (x, g) = (lines_with_specials(&mut random, shape, dtype), random.tensor(&shape, dtype));
        for log in [false, true] {
            let wide = x.clone().meant_as(DType::F32);
            let y = Tensor::contiguous(&shape, softmax(&wide.view(), axis, log, DType::F32));
            for out in [dtype, DType::F32] {
                let of_result = softmax_grad(&y.view(), &g.view(), axis, log, out);
                let of_input = softmax_grad_of_input(&wide.view(), &g.view(), axis, log, out);
                let bits = |storage| -> Vec<u64> {
                    let values = Tensor::contiguous(&shape, storage).values();
                    values.iter().map(|v| if v.is_nan() { u64::MAX } else { v.to_bits() }).collect()
                };
                assert_eq!(bits(of_input), bits(of_result), "{dtype} {shape:?} to {out}, logarithm: {log}");
            }
        }
    }
}

#[test]
fn gradients_agree_with_the_formula() {
    let mut random = Random::new(2);
    for (dtype, shape, axis) in [(DType::F32, [1200, 7], 1), (DType::F64, [33, 5], 0), (DType::BF16, [3, 1030], 1)] {
        let (out, eps) = (accumulator(dtype), epsilon(accumulator(dtype)));
        let (x, g) = (random.tensor(&shape, out), random.tensor(&shape, dtype));
        for log in [false, true] {
            let y = Tensor::contiguous(&shape, softmax(&x.view(), axis, log, out));
            let found = Tensor::contiguous(&shape, softmax_grad(&y.view(), &g.view(), axis, log, out));
            let (y, g, found) = (y.transposed(axis, 1), g.transposed(axis, 1), found.transposed(axis, 1));
            let len = y.shape()[1];
            for ((y, g), found) in y.values().chunks(len).zip(g.values().chunks(len)).zip(found.values().chunks(len)) {
                let weight = |i: usize| if log { g[i] } else { g[i] * y[i] };
                let sum: f64 = (0..len).map(weight).sum();
                let expected: Vec<f64> =
                    (0..len).map(|i| if log { g[i] - y[i].exp() * sum } else { y[i] * (g[i] - sum) }).collect();
                let magnitude = (0..len).map(|i| weight(i).abs()).sum::<f64>() + 1.0;
                assert_close("gradient", found, &expected, |_| 40.0 * eps * magnitude);
            }
        }
    }
}

#[test]
fn infinite_logits() {
    let inf = f64::INFINITY;
    let x = Tensor::from_values(&[3, 2], DType::F32, &[-inf, -inf, -inf, 0.0, inf, 0.0]);
    let y = Tensor::contiguous(&[3, 2], softmax(&x.view(), 1, false, DType::F32)).values();
    assert!(y[0].is_nan() && y[1].is_nan() && y[4].is_nan());
    assert_eq!(y[2..4], [0.0, 1.0]);
    assert_eq!(logsumexp(&x.view(), 1, DType::F32), Storage::F32(vec![f32::NEG_INFINITY, 0.0, f32::INFINITY].into()));
    for smoothing in [0.0, 0.1] {
        let labels = Labels { targets: &[0, 1, 1], weight: None, ignore_index: -100, smoothing };
        let losses = Tensor::contiguous(&[3], cross_entropy(&x.view(), 1, labels).loss).values();
        assert!(losses[0].is_nan() && (losses[1] == if smoothing == 0.0 { 0.0 } else { inf }) && losses[2].is_nan());
    }
}

/// The largest element is looked for without regard to NaN: the sum has to show it.
#[test]
fn nan_anywhere_makes_the_whole_line_nan() {
    for dtype in [DType::F32, DType::F64] {
        let lengths = [1, 2, 17, 64, 81, 1030].into_iter();
        for (len, beside) in lengths.flat_map(|len| [0.0, f64::INFINITY, f64::NEG_INFINITY].map(|beside| (len, beside)))
        {
            for place in [0, len / 2, len - 1] {
                let mut values = vec![beside; len];
                values[place] = f64::NAN;
                let x = Tensor::from_values(&[1, len], dtype, &values);
                let labels = Labels { targets: &[0], weight: None, ignore_index: -100, smoothing: 0.0 };
                let all = [softmax(&x.view(), 1, false, dtype), softmax(&x.view(), 1, true, dtype)];
                let columns = stored_turned(&Tensor::from_values(&[1, 2, len], dtype, &values.repeat(2)));
                let both = Labels { targets: &[0, 0], ..labels };
                let one = [
                    logsumexp(&x.view(), 1, dtype),
                    cross_entropy(&x.view(), 1, labels).loss,
                    cross_entropy(&columns.view(), 1, both).loss,
                ];
                for (storage, len) in
                    all.into_iter().map(|s| (s, len)).chain(one.map(|s| (s.len(), s)).map(|(n, s)| (s, n)))
                {
                    let found = Tensor::contiguous(&[len], storage).values();
                    assert!(found.iter().all(|v| v.is_nan()), "{dtype}, {place} of {len} beside {beside}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn empty_axes() {
    let x = Tensor::from_values(&[2, 0], DType::F32, &[]);
    assert_eq!(softmax(&x.view(), 1, false, DType::F32), Storage::F32(vec![].into()));
    assert_eq!(logsumexp(&x.view(), 1, DType::F32), Storage::F32(vec![f32::NEG_INFINITY; 2].into()));
    assert_eq!(logsumexp(&x.view(), 0, DType::F32), Storage::F32(vec![].into()));
}

#[test]
fn cross_entropy_with_every_option() {
    let mut random = Random::new(3);
    for (dtype, classes, lines) in
        [(DType::F16, 10, 3), (DType::F32, 1000, 21), (DType::F64, 37, 300), (DType::F32, 1, 5)]
    {
        let (out, eps) = (accumulator(dtype), epsilon(accumulator(dtype)));
        let x = random.tensor(&[2, lines, classes], dtype);
        let columns = stored_turned(&x);
        let weight = random.tensor(&[classes], out);
        let targets: Vec<i64> =
            (0..2 * lines).map(|i| if i % 7 == 2 { -100 } else { (i * 13 % classes) as i64 }).collect();
        let all = [2 * lines];
        for (smoothing, weighted, side_by_side) in options() {
            let view = weight.view();
            let labels = Labels { targets: &targets, weight: weighted.then_some(&view), ignore_index: -100, smoothing };
            let (x, axis) = if side_by_side { (&columns, 1) } else { (&x, 2) };
            let found = cross_entropy(&x.view(), axis, labels);
            let scale = Tensor::filled(&all, out, 0.5);
            let (loss, lse) = (Tensor::contiguous(&all, found.loss), Tensor::contiguous(&all, found.lse));
            let both = (out, Some(DType::BF16));
            let (grad, copy) = cross_entropy_grad(&x.view(), axis, labels, &lse.view(), &scale.view(), both);
            let [grad, copy] = [grad, copy.expect("asked for")].map(|grad| Tensor::contiguous(x.shape(), grad));
            assert!(copy.storage == crate::copy(&grad.view(), DType::BF16), "{dtype}, side by side: {side_by_side}");
            let [x, grad] = match side_by_side {
                true => [x.transposed(1, 2), grad.transposed(1, 2)].map(|tensor| tensor.values()),
                false => [x.values(), grad.values()],
            };
            let w: Vec<f64> = if weighted { weight.values() } else { vec![1.0; classes] };
            for (row, line) in x.chunks(classes).enumerate() {
                let (p, log, _) = reference(line);
                let (loss, grad) = (loss.values()[row], &grad[row * classes..][..classes]);
                let Ok(t) = usize::try_from(targets[row]) else {
                    assert!(loss == 0.0 && grad.iter().all(|&g| g == 0.0));
                    continue;
                };
                let share = |c: usize| w[c] * (smoothing / classes as f64 + if c == t { 1.0 - smoothing } else { 0.0 });
                let expected: f64 = (0..classes).map(|c| -share(c) * log[c]).sum();
                let total: f64 = (0..classes).map(share).sum();
                let size: f64 = (0..classes).map(|c| share(c).abs()).sum::<f64>() * 10.0;
                assert_close("loss", &[loss], &[expected], |_| 40.0 * eps * size);
                let expected: Vec<f64> = (0..classes).map(|c| 0.5 * (p[c] * total - share(c))).collect();
                assert_close("gradient", grad, &expected, |_| 40.0 * eps * size);
            }
        }
    }
}

/// `[N, lines, classes]` stored as `[N, classes, lines]`.
fn stored_turned(x: &Tensor) -> Tensor {
    let turned = x.transposed(1, 2);
    Tensor::from_values(turned.shape(), x.logical(), &turned.values())
}

/// Smoothing, whether classes are weighted, whether lines lie side by side.
fn options() -> impl Iterator<Item = (f64, bool, bool)> {
    (0..8).map(|i| (if i & 1 == 0 { 0.0 } else { 0.1 }, i & 2 != 0, i & 4 != 0))
}
