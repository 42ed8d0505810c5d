//! Attention against the textbook formula in F64, its gradient against differences and the formula's transpose.

use super::*;
use crate::testing::{Random, Tensor, epsilon};
use crate::{Dims, Layout};

/// An element of a gradient in F64, with what its errors are in proportion to.
#[derive(Clone, Default)]
struct Sum {
    value: f64,
    /// The magnitudes of the terms: gradients of scores, multiplied.
    terms: f64,
    /// The same before the mean is subtracted: what a relative error of the weights or of the products makes.
    parts: f64,
    /// What a relative error of the mean gradient of the weights makes.
    mean: f64,
}

impl Sum {
    fn add(&mut self, factor: f64, [term, parts, mean]: [f64; 3]) {
        self.value += factor * term;
        self.terms += (factor * term).abs();
        self.parts += factor.abs() * parts;
        self.mean += factor.abs() * mean;
    }
}

struct Case {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Option<Tensor>,
    causal: bool,
    scale: f64,
}

impl Case {
    fn new(random: &mut Random, [b, h, t, s, d, e]: [usize; 6], dtype: DType) -> Self {
        let [q, k, v] = [[b, h, t, d], [b, h, s, d], [b, h, s, e]].map(|shape| random.tensor(&shape, dtype));
        Self { q, k, v, mask: None, causal: false, scale: 1.0 / (d.max(1) as f64).sqrt() }
    }

    fn scores(&self) -> Scores<'_> {
        Scores { mask: self.mask.as_ref().map(Tensor::view), causal: self.causal, scale: self.scale }
    }

    fn run(&self, out: DType) -> Attended {
        attention(&self.q.view(), &self.k.view(), &self.v.view(), &self.scores(), out)
    }

    /// A result `[B, T, H, E]` as `[B, H, T, E]`.
    fn result(&self, y: Storage) -> Tensor {
        let [b, h, t, e] = self.shape();
        Tensor::contiguous(&[b, t, h, e], y).transposed(1, 2)
    }

    fn shape(&self) -> [usize; 4] {
        [self.q.shape()[0], self.q.shape()[1], self.q.shape()[2], self.v.shape()[3]]
    }

    /// The weights of the keys for one query, in F64; all zero where nothing is allowed.
    fn weights(&self, b: usize, h: usize, t: usize) -> Vec<f64> {
        let (keys, width) = (self.k.shape()[2], self.k.shape()[3]);
        let score = |s: usize| {
            let allowed = self.mask.as_ref().is_none_or(|m| m.at(&[b, h, t, s]) != 0.0) && (!self.causal || s <= t);
            let dot: f64 = (0..width).map(|d| self.q.at(&[b, h, t, d]) * self.k.at(&[b, h, s, d])).sum();
            if allowed { dot * self.scale } else { f64::NEG_INFINITY }
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> =
            scores.iter().map(|s| if *s == f64::NEG_INFINITY { 0.0 } else { (s - most).exp() }).collect();
        let total: f64 = powers.iter().sum();
        powers.iter().map(|p| if total == 0.0 { 0.0 } else { p / total }).collect()
    }

    fn check(&self, out: DType) {
        let y = self.result(self.run(out).y);
        let acc = if self.q.logical() == DType::F64 { DType::F64 } else { DType::F32 };
        let mut weights = vec![];
        for index in y.indices() {
            if index[3] == 0 {
                weights = self.weights(index[0], index[1], index[2]);
            }
            let value = |s: usize| self.v.at(&[index[0], index[1], s, index[3]]);
            let expected: f64 = weights.iter().enumerate().map(|(s, w)| w * value(s)).sum();
            // A score is off by its depth times eps, and so is, relatively, its exponential; values are below 1.
            let terms = (self.q.shape()[3] + weights.len() + 8) as f64;
            // Weights of BF16 products are rounded; they add up to 1.
            let rounded = if self.q.logical() == DType::BF16 { epsilon(DType::BF16) } else { 0.0 };
            let tolerance = 4.0 * terms * epsilon(acc) + rounded + epsilon(out) * expected.abs();
            let diff = (y.at(&index) - expected).abs();
            assert!(diff <= tolerance, "at {index:?}: {} instead of {expected}", y.at(&index));
        }
    }

    /// Gradients from the formulas, all in F64.
    fn expected_grads(&self, grad: &Tensor) -> [Vec<Sum>; 3] {
        let [batch, heads, queries, value_width] = self.shape();
        let (keys, width) = (self.k.shape()[2], self.k.shape()[3]);
        let [mut dq, mut dk, mut dv] = [&self.q, &self.k, &self.v].map(|t| vec![Sum::default(); t.values().len()]);
        for (b, h, t) in (0..batch * heads * queries).map(|i| (i / queries / heads, i / queries % heads, i % queries)) {
            let (weights, head) = (self.weights(b, h, t), b * heads + h);
            let product = |s: usize, e: usize| grad.at(&[b, h, t, e]) * self.v.at(&[b, h, s, e]);
            let of_weights: Vec<f64> = (0..keys).map(|s| (0..value_width).map(|e| product(s, e)).sum()).collect();
            let sizes: Vec<f64> = (0..keys).map(|s| (0..value_width).map(|e| product(s, e).abs()).sum()).collect();
            let average = |of: &[f64]| -> f64 { weights.iter().zip(of).map(|(w, of)| w * of).sum() };
            let (mean, mean_size) = (average(&of_weights), average(&sizes));
            for (s, weight) in weights.iter().enumerate() {
                for e in 0..value_width {
                    let g = grad.at(&[b, h, t, e]);
                    dv[(head * keys + s) * value_width + e].add(*weight, [g, g.abs(), 0.0]);
                }
                let of_score = [of_weights[s] - mean, sizes[s] + mean_size, mean_size];
                for d in 0..width {
                    let [to_q, to_k] = [self.k.at(&[b, h, s, d]), self.q.at(&[b, h, t, d])];
                    dq[(head * queries + t) * width + d].add(weight * self.scale * to_q, of_score);
                    dk[(head * keys + s) * width + d].add(weight * self.scale * to_k, of_score);
                }
            }
        }
        [dq, dk, dv]
    }

    fn check_grad(&self, random: &mut Random, out: DType) {
        let y = self.run(self.q.logical());
        let grad = random.tensor(&self.shape(), self.q.logical());
        let views = [&self.q.view(), &self.k.view(), &self.v.view()];
        let result = self.result(y.y);
        let got = apart(attention_grad(&grad.view(), views, &result.view(), &y.lse, &self.scores(), out));
        let expected = self.expected_grads(&grad);
        for (name, ((got, expected), of)) in ["dq", "dk", "dv"].iter().zip(got.into_iter().zip(expected).zip(views)) {
            for (got, expected) in Tensor::contiguous(&of.layout.shape, got).values().iter().zip(expected) {
                let (tolerance, diff) = (self.tolerance(&expected, out), (got - expected.value).abs());
                assert!(diff <= tolerance, "{name}: {got} instead of {}, may be {tolerance} off", expected.value);
            }
        }
    }

    fn tolerance(&self, expected: &Sum, out: DType) -> f64 {
        let acc = if out == DType::F64 { DType::F64 } else { DType::F32 };
        let lengths = [self.q.shape()[3], self.v.shape()[3], self.q.shape()[2], self.k.shape()[2]];
        let terms = (lengths.iter().sum::<usize>() + 16) as f64;
        // Weights and gradients of scores that BF16 products multiply are rounded.
        let rounded = if self.q.logical() == DType::BF16 { epsilon(DType::BF16) } else { 0.0 };
        // The mean is read from `y`, which was summed with such weights and then rounded to the operands' precision.
        let mean = (epsilon(self.q.logical()) + rounded) * expected.mean;
        let error = 16.0 * terms * epsilon(acc) * expected.parts + mean + rounded * (expected.terms + mean);
        // F16 has no numbers between 0 and 2^-24.
        let least = if out == DType::F16 { 2.0_f64.powi(-25) } else { 0.0 };
        error + epsilon(out) * (expected.value.abs() + error) + least
    }
}

/// Gradients of operands in buffers of their own.
fn apart(grads: AttentionGrads<Storage>) -> [Storage; 3] {
    let AttentionGrads::Apart(grads) = grads else { panic!("the operands do not share a buffer") };
    grads
}

#[test]
fn gradients_of_a_tensor_taken_apart_lie_as_its_parts_do() {
    let mut random = Random::new(46);
    for (sizes, axis) in [([2, 37, 3, 3, 8], 2), ([3, 2, 5, 97, 33], 0), ([1, 800, 1, 3, 4], 3), ([2, 3, 40, 3, 64], 1)]
    {
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
            let whole = random.tensor(&sizes, dtype);
            let rows = Dims::new(&sizes).expect("five dimensions").removed(axis);
            let heads_first = |x: Tensor| if axis == 0 { x } else { x.transposed(1, 2) };
            let part = |of: &Tensor, i: usize| of.narrow(axis, i, 1).values();
            let copies = [0, 1, 2].map(|i| heads_first(Tensor::from_values(&rows, dtype, &part(&whole, i))));
            let layouts = [0, 1, 2].map(|i| {
                let (part, swap) = (*whole.narrow(axis, i, 1).view().layout, usize::from(axis != 0));
                let turned = |dims: Dims| dims.removed(axis).moved(1, 1 + swap);
                Layout { shape: turned(part.shape), strides: turned(part.strides), offset: part.offset }
            });
            let parts = layouts.each_ref().map(|layout| View { layout, ..whole.view() });
            let mut case = Case::new(&mut random, [1; 6], dtype);
            ([case.q, case.k, case.v], case.causal) = (copies, true);
            let Attended { y, lse } = case.run(dtype);
            let (y, grad) = (case.result(y), random.tensor(&case.shape(), dtype));
            let run =
                |[q, k, v]: [&View; 3]| attention_grad(&grad.view(), [q, k, v], &y.view(), &lse, &case.scores(), dtype);
            let expected = apart(run([&case.q.view(), &case.k.view(), &case.v.view()]));
            let [q, k, v] = parts.each_ref();
            let AttentionGrads::Together(got) = run([q, k, v]) else { panic!("the operands fill a buffer") };
            let got = Tensor::contiguous(&sizes, got);
            for (i, expected) in expected.into_iter().enumerate() {
                let expected = heads_first(Tensor::contiguous(case.q.shape(), expected)).values();
                assert_eq!(part(&got, i), expected, "{sizes:?} {dtype:?}");
            }
            apart(run([v, k, q]));
            apart(run([q, q, q]));
        }
    }
}

#[test]
fn every_size_mask_and_precision() {
    let mut random = Random::new(41);
    for sizes in [
        [1, 1, 1, 1, 1, 1],
        [2, 3, 5, 7, 4, 6],
        [1, 2, 37, 71, 16, 8],
        [1, 1, 70, 70, 9, 5],
        [1, 1, 131, 197, 33, 35],
        [2, 1, 1, 333, 70, 16],
        [1, 1, 3, 700, 16, 1],
    ] {
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
            check_masks(&mut random, sizes, dtype);
        }
    }
}

/// Few enough for tiles that are emulated.
#[test]
fn some_sizes_of_16_bits() {
    let mut random = Random::new(46);
    for sizes in [[2, 3, 5, 7, 4, 6], [1, 2, 37, 71, 32, 8], [1, 1, 2, 300, 16, 32]] {
        for dtype in [DType::BF16, DType::F16] {
            check_masks(&mut random, sizes, dtype);
        }
    }
}

/// All keys, earlier ones, and with either only some.
fn check_masks(random: &mut Random, sizes: [usize; 6], dtype: DType) {
    let mut case = Case::new(random, sizes, dtype);
    for causal in [false, true] {
        case.causal = causal;
        case.mask = None;
        case.check(dtype);
        case.check_grad(random, dtype);
        let [b, h, t, s, ..] = sizes;
        let allowed: Vec<f64> = (0..b * t * s).map(|_| f64::from(random.number() > -0.3)).collect();
        case.mask = Some(Tensor::from_values(&[b, 1, t, s], DType::Bool, &allowed).broadcast(&[b, h, t, s]));
        case.check(dtype);
        case.check_grad(random, dtype);
    }
}

#[test]
fn rows_without_keys_give_zeros() {
    let mut random = Random::new(42);
    let mut case = Case::new(&mut random, [1, 2, 3, 4, 8, 8], DType::F32);
    case.mask = Some(Tensor::filled(&[1, 2, 3, 4], DType::Bool, 0.0));
    assert_eq!(case.run(DType::F32).y, Storage::zeros(DType::F32, 48));
    case.check_grad(&mut random, DType::F32);
    let none = Case::new(&mut random, [1, 2, 3, 0, 8, 8], DType::F32);
    assert_eq!(none.run(DType::F32).y, Storage::zeros(DType::F32, 48));
    let empty = Case::new(&mut random, [2, 0, 3, 4, 8, 8], DType::F32);
    assert_eq!(empty.run(DType::F32).y.len(), 0);
    // As many keys as are summed in parts.
    for sizes in [[0, 4, 3, 1024, 8, 8], [2, 0, 3, 1024, 8, 8], [1, 2, 0, 1024, 8, 8], [1, 2, 3, 1024, 0, 8]] {
        Case::new(&mut random, sizes, DType::F32).check_grad(&mut random, DType::F32);
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let mut random = Random::new(43);
    let mut case = Case::new(&mut random, [1, 1, 4, 300, 8, 4], DType::F32);
    case.scale = 1e4;
    let y = case.result(case.run(DType::F32).y);
    assert!(y.values().iter().all(|v| v.abs() <= 1.0));
}

#[test]
fn nans_stay_in_their_row() {
    let mut random = Random::new(44);
    let mut case = Case::new(&mut random, [1, 1, 3, 5, 4, 4], DType::F32);
    let mut values = case.q.values();
    values[4] = f64::NAN;
    case.q = Tensor::from_values(&[1, 1, 3, 4], DType::F32, &values);
    let y = case.result(case.run(DType::F32).y);
    for index in y.indices() {
        assert_eq!(y.at(&index).is_nan(), index[2] == 1);
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let mut random = Random::new(45);
    for sizes in [[1, 3, 90, 150, 32, 32], [3, 5, 2, 900, 64, 64], [1, 1, 1, 2000, 64, 64]] {
        let mut case = Case::new(&mut random, sizes, DType::BF16);
        case.causal = true;
        let grad = random.tensor(&case.shape(), DType::BF16);
        let run = |threads| {
            crate::with_num_threads(threads, || {
                let forward = case.run(DType::F32);
                let y = case.result(forward.y);
                let views = [&case.q.view(), &case.k.view(), &case.v.view()];
                (attention_grad(&grad.view(), views, &y.view(), &forward.lse, &case.scores(), DType::F32), y.storage)
            })
        };
        assert_eq!(run(1), run(2));
    }
}
