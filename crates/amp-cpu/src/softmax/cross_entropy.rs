//! Softmax and cross-entropy in one pass.

use super::exponentials::{exp_to, sum_of_exp};
use super::labelled_columns;
use crate::line::{Cut, Lines, map_lines};
use crate::norm::parameters;
use crate::num::{Num, Real, in_real};
use crate::output::Output;
use crate::reduce::block::{BLOCK, Itself, Tree, dot_of, largest, sum_of};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::split::map_all;
use crate::{DType, Storage, View, scratch};

/// What [`cross_entropy`] computes for every line of logits.
#[derive(Debug)]
pub struct CrossEntropy {
    /// Weighted loss `[N]`, 0 for ignored lines; F32, F64 for F64 logits.
    pub loss: Storage,
    /// `ln(Σ exp(logits))` `[N]`, kept for the gradient.
    pub lse: Storage,
}

/// How [`cross_entropy`] weighs classes and lines.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Class of each line.
    pub targets: &'a [i64],
    /// Weight of each class `[C]`.
    pub weight: Option<&'a View<'a>>,
    /// The target whose lines count nothing.
    pub ignore_index: i64,
    /// Share of the target that is spread evenly over all classes.
    pub smoothing: f64,
}

/// Cross-entropy between logits, whose classes lie along `axis`, and labels, line by line, in F32 (F64).
///
/// PyTorch: `cross_entropy(.., reduction = "none")`. Lines are numbered in row-major order of the other axes. Targets other than
/// `ignore_index` lie in `0..C`.
pub fn cross_entropy(logits: &View, axis: usize, labels: Labels) -> CrossEntropy {
    let cut = Cut::new(&logits.layout.shape, axis);
    in_real!(logits.logical, A => {
        let rule = Rule::<A>::new(cut.len, labels);
        if cut.is_side_by_side() {
            return labelled_columns::losses(logits, axis, &rule);
        }
        let lines = Lines::new(logits, axis);
        let rows: Vec<usize> = (0..labels.targets.len()).collect();
        let results = map_all(&rows, logits.layout.count(), |&row| {
            scratch::with(rule.classes, |line: &mut [A]| rule.loss(row, lines.read(row, line)))
        });
        let (loss, lse) = results.into_iter().unzip();
        CrossEntropy { loss: A::storage(loss), lse: A::storage(lse) }
    })
}

/// Gradient of [`cross_entropy`] with respect to the logits: softmax minus target, times `scale` of the row.
///
/// `lse` is what [`cross_entropy`] returned, `scale` `[N]` the gradient of each line's loss. Rounded to `out`, and in a copy to
/// `also`, once each.
pub fn cross_entropy_grad(
    logits: &View,
    axis: usize,
    labels: Labels,
    lse: &View,
    scale: &View,
    (out, also): (DType, Option<DType>),
) -> (Storage, Option<Storage>) {
    let cut = Cut::new(&logits.layout.shape, axis);
    let mut copy = also.map(|also| Storage::unwritten(also, logits.layout.count()));
    let narrow = copy.as_mut().map(Output::new);
    let dx = in_real!(logits.logical, A => {
        let rule = Rule::<A>::new(cut.len, labels);
        let each = |of| parameters::<A>(Some(of), labels.targets.len(), 0.0);
        let (lse, scale) = (each(lse), each(scale));
        if cut.is_side_by_side() {
            let dx = labelled_columns::gradients(logits, axis, &rule, [&lse, &scale], out, narrow);
            return (dx, copy);
        }
        map_lines::<A>(logits, rule.classes, out, &|first, x, to| {
            for (i, (x, to)) in x.chunks(rule.classes).zip(to.chunks_mut(rule.classes)).enumerate() {
                rule.gradient(first + i, x, to, lse[first + i], scale[first + i]);
            }
            if let Some(narrow) = narrow {
                // SAFETY: each row has its own elements.
                unsafe { narrow.store(first * rule.classes, 1, to) };
            }
        })
    });
    (dx, copy)
}

/// What the labels make of the logits.
pub(super) struct Rule<'a, A> {
    pub labels: Labels<'a>,
    pub classes: usize,
    pub weight: Vec<A>,
    pub total: A,
    /// Weight of the loss of each class in a smoothed target.
    pub even: A,
}

impl<'a, A: Real> Rule<'a, A> {
    fn new(classes: usize, labels: Labels<'a>) -> Self {
        let weight = parameters(labels.weight, classes, 1.0);
        let total = dispatch(Total(&weight));
        Self { labels, classes, weight, total, even: A::of(labels.smoothing / classes as f64) }
    }

    fn loss(&self, row: usize, line: &[A]) -> (A, A) {
        match self.target(row) {
            Some(target) => dispatch(Loss { rule: self, line, target }),
            None => (A::ZERO, A::ZERO),
        }
    }

    fn gradient(&self, row: usize, x: &[A], to: &mut [A], lse: A, scale: A) {
        match self.target(row) {
            Some(target) => dispatch(Gradient { rule: self, x, to, target, lse, scale }),
            None => to.fill(A::ZERO),
        }
    }

    /// The class of a line, if it counts.
    #[inline(always)]
    pub fn target(&self, line: usize) -> Option<usize> {
        let target = self.labels.targets[line];
        (target != self.labels.ignore_index).then_some(target as usize)
    }

    /// Weight of the label's own loss.
    #[inline(always)]
    pub fn sharp(&self, target: usize) -> A {
        A::of(1.0 - self.labels.smoothing) * self.weight[target]
    }
}

/// Sum of the weights.
struct Total<'a, A>(&'a [A]);

impl<A: Real> Kernel for Total<'_, A> {
    type Output = A;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        sum_of::<S, A>(self.0, Itself)
    }
}

/// Loss and log-sum-exp of one row.
struct Loss<'a, A> {
    rule: &'a Rule<'a, A>,
    line: &'a [A],
    target: usize,
}

impl<A: Real> Kernel for Loss<'_, A> {
    type Output = (A, A);
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> (A, A) {
        let Self { rule, line, target } = self;
        let smooth = rule.labels.smoothing != 0.0;
        // Relative to the largest, so that logits far from zero keep their digits. One that is infinite makes all NaN, as it makes
        // the softmax.
        let max = largest::<S, A, _>(line);
        let shift = if max == A::LEAST { A::ZERO } else { max };
        let logit = line[target] - shift;
        let lse = sum_of_exp::<S, A>(line, shift).ln::<S>();
        // An infinite logit must not meet a weight of 0 that smoothing does not ask for.
        let weighted = if smooth { weighted::<S, A>(line, shift, &rule.weight) } else { A::ZERO };
        let spread = if smooth { rule.even * (rule.total * lse - weighted) } else { A::ZERO };
        (rule.sharp(target) * (lse - logit) + spread, shift + lse)
    }
}

/// `Σ weight (x - shift)`
#[inline(always)]
fn weighted<S: Simd, A: Real>(line: &[A], shift: A, weight: &[A]) -> A {
    let (mut tree, mut shifted) = (Tree::new(A::ZERO), [A::ZERO; BLOCK]);
    for (x, weight) in line.chunks(BLOCK).zip(weight.chunks(BLOCK)) {
        let shifted = &mut shifted[..x.len()];
        shifted.iter_mut().zip(x).for_each(|(to, &x)| *to = x - shift);
        tree.push(dot_of::<S, A>(shifted, Itself, weight), Num::add);
    }
    tree.finish(Num::add)
}

/// Gradient of one row.
struct Gradient<'a, A> {
    rule: &'a Rule<'a, A>,
    x: &'a [A],
    to: &'a mut [A],
    target: usize,
    lse: A,
    scale: A,
}

impl<A: Real> Kernel for Gradient<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rule, x, to, target, lse, scale } = self;
        let sharp = rule.sharp(target);
        // The sum is 1 but for the rounding of `lse`, which is large where the logits are.
        let all = (sharp + rule.even * rule.total) * scale / exp_to::<S, A, _>(x, lse, to, &[]);
        if rule.even == A::ZERO {
            to.iter_mut().for_each(|e| *e = *e * all);
        } else {
            let even = rule.even * scale;
            to.iter_mut().zip(&rule.weight).for_each(|(e, &w)| *e = *e * all - even * w);
        }
        to[target] = to[target] - sharp * scale;
    }
}
