//! Multi-tensor kernels of training: gradient norms with the finite check in the same pass, optimizer updates, and the
//! loss scale's rule.
//!
//! All state is F32 and arithmetic is in F32; sums of squares are in F64, where no finite F32 gradient can overflow.

mod rule;
mod scale;
mod steps;

pub use rule::UpdateRule;
pub use scale::{ScaleRule, ScaleState};

use crate::convert::Compute;
use crate::parallel::{CHUNK, distribute};
use crate::simd::{Kernel, Simd, dispatch};
use crate::split::{PARALLEL, map_all};
use crate::{Slice, SliceMut};

/// Elements that one thread takes at a time.
const PIECE: usize = 32 * CHUNK;

/// Elements that are updated before they are copied: with their state they stay in the second-level cache. Each chunk
/// begins with the latency of memory: by a page of memory at a time AdamW took half as long again.
const COPIED: usize = 8 * CHUNK;

/// One parameter in an update: what it reads and writes.
#[derive(Debug)]
pub struct UpdateSlot<'a> {
    /// The F32 master.
    pub master: &'a mut [f32],
    /// Its gradient, of the same length.
    pub grad: &'a [f32],
    /// State, that of [`UpdateRule::moments`] in its order, each of the same length.
    pub moments: Vec<&'a mut [f32]>,
    /// 16-bit copies of the master that are rewritten in the same pass.
    pub copies: Vec<SliceMut<'a>>,
    /// Which step of this parameter this is, from 1.
    pub step: u64,
}

impl<'a> UpdateSlot<'a> {
    /// The first `n` elements of everything, and the rest.
    fn split_at(self, n: usize) -> (Self, Self) {
        let (master, master_rest) = self.master.split_at_mut(n);
        let (grad, grad_rest) = self.grad.split_at(n);
        let (moments, moments_rest) = self.moments.into_iter().map(|m| m.split_at_mut(n)).unzip();
        let (copies, copies_rest) = self.copies.into_iter().map(|c| c.split_at(n)).unzip();
        let step = self.step;
        let rest = Self { master: master_rest, grad: grad_rest, moments: moments_rest, copies: copies_rest, step };
        (Self { master, grad, moments, copies, step }, rest)
    }

    /// One slot for each of the rows numbered in `rows`, each once and in ascending order; the gradient holds just these.
    pub fn rows(self, rows: &[i64]) -> Vec<Self> {
        let width = self.grad.len() / rows.len().max(1);
        let Self { mut master, grad, mut moments, mut copies, step } = self;
        let mut found = Vec::with_capacity(rows.len());
        let mut from = 0;
        for (i, &row) in rows.iter().enumerate() {
            let (skipped, after) = ((row as usize - from) * width, row as usize + 1);
            let (part, rest) = master.split_at_mut(skipped).1.split_at_mut(width);
            let cut = |m: &'a mut [f32]| m.split_at_mut(skipped).1.split_at_mut(width);
            let (moment, moment_rest) = moments.into_iter().map(cut).unzip();
            let cut = |c: SliceMut<'a>| c.split_at(skipped).1.split_at(width);
            let (copy, copy_rest) = copies.into_iter().map(cut).unzip();
            let grad = &grad[i * width..][..width];
            found.push(Self { master: part, grad, moments: moment, copies: copy, step });
            (master, moments, copies, from) = (rest, moment_rest, copy_rest, after);
        }
        found
    }

    /// `f` of each piece of `n` elements, and of what is left.
    fn for_each_piece(self, n: usize, mut f: impl FnMut(Self)) {
        let mut rest = self;
        while rest.master.len() > n {
            let (piece, tail) = rest.split_at(n);
            f(piece);
            rest = tail;
        }
        f(rest);
    }
}

/// Applies `rule` to every slot, with each gradient multiplied by `factor` first, and rewrites the 16-bit copies.
pub fn update(rule: &UpdateRule, factor: f32, slots: Vec<UpdateSlot<'_>>) {
    let elements: usize = slots.iter().map(|slot| slot.master.len()).sum();
    let update = |correction, piece: UpdateSlot<'_>| {
        // Chunk by chunk, so that the copies are made from what is still in a cache.
        let chunk = if piece.copies.is_empty() { PIECE } else { COPIED };
        piece.for_each_piece(chunk, |mut chunk| {
            rule.apply(factor, correction, &mut chunk);
            for copy in &mut chunk.copies {
                f32::narrow(chunk.master, copy);
            }
        });
    };
    let count = elements / PIECE + slots.len();
    // NAdam's goes through all steps so far: once for all neighbours that have taken as many.
    let mut known = (0, rule.correction(0));
    let slots = slots.into_iter().map(|slot| {
        if slot.step != known.0 {
            known = (slot.step, rule.correction(slot.step));
        }
        (known.1, slot)
    });
    if elements < PARALLEL {
        return slots.for_each(|(correction, slot)| update(correction, slot));
    }
    let mut pieces = Vec::with_capacity(count);
    slots.for_each(|(correction, slot)| slot.for_each_piece(PIECE, |piece| pieces.push((correction, piece))));
    distribute(pieces, &|_, (correction, piece)| update(correction, piece));
}

/// The sum of squares of each gradient times `factor`: finite exactly when every element times `factor` is.
///
/// The same bits for any number of threads.
pub fn square_sums(grads: &[&[f32]], factor: f32) -> Vec<f64> {
    let pieces: Vec<(usize, &[f32])> =
        grads.iter().enumerate().flat_map(|(i, g)| g.chunks(PIECE).map(move |piece| (i, piece))).collect();
    let elements = grads.iter().map(|g| g.len()).sum();
    let partial = map_all(&pieces, elements, |&(_, values)| dispatch(SquareSum { values, factor }));
    let mut sums = vec![0.0; grads.len()];
    for ((i, _), sum) in pieces.iter().zip(partial) {
        sums[*i] += sum;
    }
    sums
}

struct SquareSum<'a> {
    values: &'a [f32],
    factor: f32,
}

impl Kernel for SquareSum<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self) -> f64 {
        const LANES: usize = 16;
        let mut sums = [0.0f64; LANES];
        let whole = self.values.chunks_exact(LANES);
        let tail = whole.remainder();
        for block in whole {
            for (sum, v) in sums.iter_mut().zip(block) {
                let v = f64::from(v * self.factor);
                *sum = S::mul_add_f64(v, v, *sum);
            }
        }
        for (sum, v) in sums.iter_mut().zip(tail) {
            let v = f64::from(v * self.factor);
            *sum = S::mul_add_f64(v, v, *sum);
        }
        sums.iter().sum()
    }
}

/// The largest magnitude of each gradient, infinite or NaN exactly when an element is; 0 for none.
pub fn peaks(grads: &[&[f32]]) -> Vec<f32> {
    let pieces: Vec<(usize, &[f32])> =
        grads.iter().enumerate().flat_map(|(i, g)| g.chunks(PIECE).map(move |piece| (i, piece))).collect();
    let elements = grads.iter().map(|g| g.len()).sum();
    let partial = map_all(&pieces, elements, |&(_, values)| dispatch(Peak { values }));
    let mut peaks = vec![0; grads.len()];
    for (&(i, _), peak) in pieces.iter().zip(partial) {
        peaks[i] = peak.max(peaks[i]);
    }
    peaks.into_iter().map(f32::from_bits).collect()
}

/// Without its sign, a greater float has greater bits, and infinities and NaN have the greatest.
struct Peak<'a> {
    values: &'a [f32],
}

impl Kernel for Peak<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self) -> u32 {
        const LANES: usize = 64;
        let bits = |v: &f32| v.to_bits() & (u32::MAX >> 1);
        let mut peaks = [0u32; LANES];
        let whole = self.values.chunks_exact(LANES);
        let tail = whole.remainder().iter().map(bits).max().unwrap_or(0);
        for block in whole {
            for (peak, v) in peaks.iter_mut().zip(block) {
                *peak = bits(v).max(*peak);
            }
        }
        peaks.into_iter().fold(tail, u32::max)
    }
}

/// The elements of a gradient that are not finite, and the largest magnitude among the others: for reports, not for training.
pub fn magnitude(values: Slice<'_>) -> (usize, f64) {
    let mut buffer = [0.0f64; CHUNK];
    let (mut bad, mut largest) = (0, 0.0f64);
    let mut at = 0;
    while at < values.len() {
        let n = CHUNK.min(values.len() - at);
        f64::widen(values.range(at, n), &mut buffer[..n]);
        for v in &buffer[..n] {
            bad += usize::from(!v.is_finite());
            largest = if v.is_finite() { largest.max(v.abs()) } else { largest };
        }
        at += n;
    }
    (bad, largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn one_non_finite_element_shows_in_its_own_sum_only() {
        let mut long = vec![1e30f32; 3 * PIECE + 5];
        let fine = vec![2.0f32; 7];
        assert_eq!(square_sums(&[&fine, &[]], 0.5), [7.0, 0.0]);
        assert!(square_sums(&[&long], 1.0)[0].is_finite());
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            for at in [0, PIECE, long.len() - 1] {
                let good = std::mem::replace(&mut long[at], bad);
                let sums = square_sums(&[&fine, &long], 1.0);
                assert!(sums[0].is_finite() && !sums[1].is_finite(), "{bad} at {at}");
                long[at] = good;
            }
        }
        assert!(!square_sums(&[&long], 1e10)[0].is_finite(), "overflow of the unscaled value is found");
    }

    #[test]
    fn a_peak_is_the_largest_magnitude_and_shows_what_is_not_finite() {
        for n in [1, 63, 64, 65, PIECE - 1, PIECE + 1, 3 * PIECE + 7] {
            let mut values: Vec<f32> = (0..n).map(|i| -((i * 7919 % n) as f32) / n as f32).collect();
            let expected = values.iter().fold(0.0, |m: f32, v| m.max(v.abs()));
            assert_eq!(peaks(&[&[], &values, &[-0.0, 1e-45]]), [0.0, expected, 1e-45], "{n}");
            for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
                for at in [0, n / 2, n - 1] {
                    let good = std::mem::replace(&mut values[at], bad);
                    assert!(!peaks(&[&values])[0].is_finite(), "{bad} at {at} of {n}");
                    values[at] = good;
                }
            }
        }
    }

    /// The square of such a gradient is infinite, and so is that of its mean.
    #[test]
    fn what_is_no_number_stays_none() {
        let step = |rule: &UpdateRule, grad: f32, moments: &mut [[f32; 1]]| {
            let (mut master, moments) = ([1.0f32], moments.iter_mut().map(|m| &mut m[..]).collect());
            update(
                rule,
                1.0,
                vec![UpdateSlot { master: &mut master, grad: &[grad], moments, copies: vec![], step: 1 }],
            );
            master[0]
        };
        let centered =
            UpdateRule::RmsProp { lr: 0.1, alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: true, weight_decay: 0.0 };
        assert!(step(&centered, 1e22, &mut [[0.0]; 2]).is_nan(), "infinite less infinite");
        let (lr, beta1, beta2, eps, weight_decay) = (0.1, 0.9, 0.99, 1e-8, 0.0);
        let amsgrad = UpdateRule::Adam { lr, beta1, beta2, eps, weight_decay, decoupled: false, amsgrad: true };
        let mut moments = [[0.0], [0.0], [2.0]];
        assert!(step(&amsgrad, f32::NAN, &mut moments).is_nan());
        assert!(moments.as_flattened().iter().all(|m| m.is_nan()), "{moments:?}");
    }

    /// A weight that refuses something for good may be infinite: without decay nothing multiplies it by 0.
    #[test]
    fn infinite_weights_without_decay_stay_as_they_are() {
        let (lr, eps, weight_decay) = (0.1, 1e-8, 0.0);
        let rules = [
            UpdateRule::Sgd { lr, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay },
            UpdateRule::Sgd { lr, momentum: 0.9, dampening: 0.0, nesterov: true, weight_decay },
            UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: false, amsgrad: false },
            UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay: 0.1, decoupled: true, amsgrad: true },
            UpdateRule::RmsProp { lr, alpha: 0.99, eps, momentum: 0.9, centered: true, weight_decay },
            UpdateRule::Adagrad { lr, lr_decay: 0.5, initial: 0.0, eps, weight_decay },
            UpdateRule::Adadelta { lr, rho: 0.9, eps, weight_decay },
            UpdateRule::RAdam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: false },
            UpdateRule::NAdam { lr, beta1: 0.9, beta2: 0.9, eps, momentum_decay: 0.1, weight_decay, decoupled: false },
            UpdateRule::Adamax { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay },
            UpdateRule::Lion { lr, beta1: 0.9, beta2: 0.99, weight_decay },
        ];
        for rule in rules {
            let mut master: Vec<f32> = (0..50).map(|i| [1.0, f32::INFINITY, f32::NEG_INFINITY][i % 3]).collect();
            let (before, grad) = (master.clone(), vec![0.5; master.len()]);
            let mut state = vec![vec![0.0; master.len()]; rule.moments().len()];
            for step in 1..=2 {
                let moments = state.iter_mut().map(Vec::as_mut_slice).collect();
                update(
                    &rule,
                    1.0,
                    vec![UpdateSlot { master: &mut master, grad: &grad, moments, copies: vec![], step }],
                );
            }
            for (after, before) in master.iter().zip(before) {
                let kept = if before.is_infinite() { *after == before } else { after.is_finite() };
                assert!(kept, "{rule:?} makes {after} of {before}");
            }
            assert!(state.iter().flatten().all(|v| v.is_finite()), "{rule:?}: {state:?}");
        }
    }

    #[test]
    fn copies_are_the_rounded_master_whatever_the_length() {
        let rule = UpdateRule::Sgd { lr: 0.1, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 };
        for n in [0, 1, CHUNK - 1, CHUNK, PIECE + 1] {
            let mut master: Vec<f32> = (0..n).map(|i| i as f32 * 0.37).collect();
            let expected: Vec<f32> = master.iter().map(|v| v - 0.1 * 2.0).collect();
            let (grad, mut copy) = (vec![1.0f32; n], vec![f16::ZERO; n]);
            let copies = vec![SliceMut::F16(&mut copy)];
            update(&rule, 2.0, vec![UpdateSlot { master: &mut master, grad: &grad, moments: vec![], copies, step: 1 }]);
            for i in 0..n {
                assert!((master[i] - expected[i]).abs() <= 1e-6 * expected[i].abs().max(1.0), "{n}: element {i}");
                assert_eq!(copy[i], f16::from_f32(master[i]), "{n}: element {i}");
            }
        }
    }
}
