//! Cross-entropy of lines that lie side by side: images `[N, C, H, W]`, sixteen pixels at a time.
//!
//! Turned into rows and back, `[4, 21, 128, 128]` F32 took two threads of a Zen 5 4.0 ms, and with its gradient 5.0; it takes 0.7
//! and 2.5.

use super::columns::{Exponentials, Terms, Themselves, inverses, largest, logarithms, sum};
use super::cross_entropy::{CrossEntropy, Rule};
use crate::line::{Cut, Strip, map_strips};
use crate::num::Real;
use crate::output::Output;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::{DType, Storage, View};

/// Loss and log-sum-exp of each line.
pub(super) fn losses<A: Real>(logits: &View, axis: usize, rule: &Rule<A>) -> CrossEntropy {
    let mut kept = Storage::unwritten(A::DTYPE, rule.labels.targets.len());
    let lse = Output::new(&mut kept);
    let loss = map_strips([logits], axis, 1, A::DTYPE, &|[lines]: [&mut [A]; 1], strip| {
        dispatch(Losses { rule, lines, strip, lse });
    });
    CrossEntropy { loss, lse: kept }
}

/// Gradient with respect to the logits, from the log-sum-exp and the scale of each line; also to `narrow`.
pub(super) fn gradients<A: Real>(
    logits: &View,
    axis: usize,
    rule: &Rule<A>,
    [lse, scale]: [&[A]; 2],
    out: DType,
    narrow: Option<Output>,
) -> Storage {
    let inner = Cut::new(&logits.layout.shape, axis).inner;
    map_strips([logits], axis, rule.classes, out, &|[lines]: [&mut [A]; 1], strip| {
        dispatch(Gradients { rule, lines: &mut *lines, strip, lse, scale });
        let Some(narrow) = narrow else { return };
        let first = strip.first / inner * rule.classes * inner + strip.first % inner;
        for (k, row) in lines.chunks_exact(strip.width).enumerate() {
            // SAFETY: each line has its own elements.
            unsafe { narrow.store(first + k * inner, 1, &row[..strip.lines]) };
        }
    })
}

/// Up to sixteen lines of a strip.
struct Group<A> {
    /// Number of the first.
    first: usize,
    targets: [Option<usize>; LANES],
    /// Weight of the loss of each line's label.
    sharp: [A; LANES],
}

impl<A: Real> Group<A> {
    /// Lines `at .. at + LANES` of the strip; what lies beyond its end counts nothing.
    #[inline(always)]
    fn new(rule: &Rule<A>, strip: Strip, at: usize) -> Self {
        let first = strip.first + at;
        let end = strip.first + strip.lines;
        let targets = std::array::from_fn(|i| if first + i < end { rule.target(first + i) } else { None });
        Self { first, targets, sharp: targets.map(|target| target.map_or(A::ZERO, |target| rule.sharp(target))) }
    }

    /// What each line has of `all`, one for every line.
    #[inline(always)]
    fn of<S: Simd>(&self, all: &[A]) -> A::Lanes<S> {
        Lanes::load_up_to(all.get(self.first..).unwrap_or_default())
    }

    /// The lines that count, each with its label.
    #[inline(always)]
    fn counting(&self) -> impl Iterator<Item = (usize, usize)> {
        self.targets.into_iter().enumerate().filter_map(|(i, target)| Some((i, target?)))
    }
}

struct Losses<'a, 'r, A> {
    rule: &'a Rule<'r, A>,
    lines: &'a mut [A],
    strip: Strip,
    lse: Output<'a>,
}

impl<A: Real> Kernel for Losses<'_, '_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rule, strip, lse, .. } = self;
        let (lines, step) = (self.lines.as_chunks_mut::<LANES>().0, strip.width / LANES);
        let smooth = rule.labels.smoothing != 0.0;
        for at in 0..step {
            let (lines, group) = (&mut lines[at..], Group::new(rule, strip, at * LANES));
            let mut shift = largest::<S, A>(lines, step).array();
            for max in &mut shift {
                *max = if *max == A::LEAST { A::ZERO } else { *max };
            }
            let max = A::Lanes::<S>::load(&shift);
            let logs = logarithms::<S, A>(sum::<S, A>(&Exponentials(lines, max), lines.len(), step)).array();
            let weighted = match smooth {
                true => sum::<S, A>(&Weighted(lines, max, &rule.weight, step), lines.len(), step).array(),
                false => [A::ZERO; LANES],
            };
            let (mut loss, mut kept) = ([A::ZERO; LANES], [A::ZERO; LANES]);
            for (i, target) in group.counting() {
                let spread = if smooth { rule.even * (rule.total * logs[i] - weighted[i]) } else { A::ZERO };
                loss[i] = group.sharp[i] * (logs[i] - (lines[target * step][i] - shift[i])) + spread;
                kept[i] = shift[i] + logs[i];
            }
            let count = LANES.min(strip.lines.saturating_sub(at * LANES));
            // SAFETY: each line has its own element.
            unsafe { lse.store(group.first, 1, &kept[..count]) };
            lines[0] = loss;
        }
    }
}

/// `weight (x - shift)`
struct Weighted<'a, A, L>(&'a [[A; LANES]], L, &'a [A], usize);

impl<S: Simd, A: Real> Terms<S, A> for Weighted<'_, A, A::Lanes<S>> {
    #[inline(always)]
    fn add(&self, at: usize, sum: A::Lanes<S>) -> A::Lanes<S> {
        let weight = A::Lanes::<S>::splat(self.2[at / self.3]);
        (A::Lanes::<S>::load(&self.0[at]) - self.1).mul_add(weight, sum)
    }
}

struct Gradients<'a, 'r, A> {
    rule: &'a Rule<'r, A>,
    lines: &'a mut [A],
    strip: Strip,
    lse: &'a [A],
    scale: &'a [A],
}

impl<A: Real> Kernel for Gradients<'_, '_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rule, strip, lse, scale, .. } = self;
        let (lines, step) = (self.lines.as_chunks_mut::<LANES>().0, strip.width / LANES);
        for at in 0..step {
            let (lines, group) = (&mut lines[at..], Group::new(rule, strip, at * LANES));
            let (lse, scale) = (group.of::<S>(lse), group.of::<S>(scale));
            for x in lines.iter_mut().step_by(step) {
                (A::Lanes::<S>::load(x) - lse).exp_below().store(x);
            }
            // The sum is 1 but for the rounding of `lse`, which is large where the logits are.
            let sums = sum::<S, A>(&Themselves(lines), lines.len(), step);
            let spread = A::Lanes::<S>::splat(rule.even * rule.total);
            let all = (A::Lanes::<S>::load(&group.sharp) + spread) * scale * inverses::<S, A>(sums);
            let even = A::Lanes::<S>::splat(A::ZERO - rule.even) * scale;
            for (x, &weight) in lines.iter_mut().step_by(step).zip(&rule.weight) {
                let share = A::Lanes::<S>::load(x) * all;
                match rule.even == A::ZERO {
                    true => share.store(x),
                    false => even.mul_add(A::Lanes::<S>::splat(weight), share).store(x),
                }
            }
            let scale = scale.array();
            for (i, target) in group.targets.into_iter().enumerate() {
                match target {
                    Some(target) => lines[target * step][i] = lines[target * step][i] - group.sharp[i] * scale[i],
                    None => lines.iter_mut().step_by(step).for_each(|x| x[i] = A::ZERO),
                }
            }
        }
    }
}
