//! Losses of single elements and their targets, in one pass over both.

use super::Domain;
use super::stream::{Body, stream};
use super::unary::{huber, huber_derivative, sign};
use crate::buffer::Buffer;
use crate::line::Span;
use crate::math::Float;
use crate::num::{Num, Real, in_real};
use crate::parallel::Cost;
use crate::reduce::block::{BLOCK, Itself, Tree, sum_of};
use crate::reduce::converted;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::split::map_all;
use crate::{DType, PairLoss, Storage, View, scratch};

/// Elements that are summed by one task, a number of blocks.
const PIECE: usize = 16 * BLOCK;

/// The loss of each element.
///
/// Computes in F32, or F64 when an operand or `out` is F64, and rounds once.
pub fn losses(loss: PairLoss, x: &View, t: &View, out: DType) -> Storage {
    match Domain::of(&[x.logical, t.logical, out]) {
        Domain::F64 => stream::<f64, 2>([x, t], out, cost(loss), Each(loss)),
        _ => stream::<f32, 2>([x, t], out, cost(loss), Each(loss)),
    }
}

/// The sum of the losses of all elements, or their mean, one element.
///
/// Summed in F32 (F64 when an operand is F64) in a balanced tree of blocks, whatever the number of threads. No loss is written: with
/// differences, losses and their sum in passes of their own, the mean square of 4 M F32 took two threads of a Zen 5 1.54 ms, with both
/// gradients 3.8, and takes 0.31 and 2.0; cross-entropy of logits 8.1 and 14.7, 3.2 and 4.4.
pub fn loss_total(loss: PairLoss, x: &View, t: &View, mean: bool, out: DType) -> Storage {
    let dtype = if [x.logical, t.logical].contains(&DType::F64) { DType::F64 } else { DType::F32 };
    in_real!(dtype, A => {
        let count = A::of(x.layout.count() as f64);
        let total = total::<A>(loss, x, t);
        converted(vec![if mean { total / count } else { total }], out)
    })
}

fn total<A: Real>(loss: PairLoss, x: &View, t: &View) -> A {
    let (count, [x, t]) = (x.layout.count(), [x, t].map(Span::row_major));
    let starts: Vec<usize> = (0..count).step_by(PIECE).collect();
    let sums = map_all(&starts, count, |&at| {
        let n = PIECE.min(count - at);
        scratch::with(2 * n, |room: &mut [A]| {
            let (of_x, of_t) = room.split_at_mut(n);
            dispatch(Total { loss, x: x.read(at, n, of_x), t: t.read(at, n, of_t) })
        })
    });
    let mut tree = Tree::new(A::ZERO);
    sums.into_iter().for_each(|sum| tree.push(sum, Num::add));
    tree.finish(Num::add)
}

/// `grad` times the derivative of the loss with respect to `x`, or to the target.
pub fn loss_grad(loss: PairLoss, x: &View, t: &View, grad: &View, of_target: bool, out: DType) -> Storage {
    match Domain::of(&[x.logical, t.logical, grad.logical, out]) {
        Domain::F64 => stream::<f64, 3>([x, t, grad], out, cost(loss), Gradient { loss, of_target }),
        _ => stream::<f32, 3>([x, t, grad], out, cost(loss), Gradient { loss, of_target }),
    }
}

fn cost(loss: PairLoss) -> Cost {
    if matches!(loss, PairLoss::Logits | PairLoss::Probabilities) { Cost::Heavy } else { Cost::Light }
}

#[derive(Clone, Copy)]
struct Each(PairLoss);

#[derive(Clone, Copy)]
struct Gradient {
    loss: PairLoss,
    of_target: bool,
}

impl<T: Float> Body<T, 2> for Each {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [x, t]: [&[T]; 2], y: &mut [T]) {
        let one = T::of(1.0);
        match self.0 {
            PairLoss::Squared => each!(y, (x, t) => (x - t) * (x - t)),
            PairLoss::Absolute => each!(y, (x, t) => (x - t).abs()),
            PairLoss::Huber { delta, factor } => {
                let (delta, factor) = (T::of(delta), T::of(factor));
                each!(y, (x, t) => huber(x - t, delta, factor));
            }
            // `t` times the negative logarithm of `sigmoid(x)`, and the rest times that of `sigmoid(-x)`: no logit overflows.
            PairLoss::Logits => each!(y, (x, t) => (one - t) * x + (-x).softplus::<S>()),
            PairLoss::Probabilities => each!(y, (x, t) => {
                T::of(0.0) - (t * log::<S, T>(x) + (one - t) * log_of_rest::<S, T>(x))
            }),
        }
    }
}

impl<T: Float> Body<T, 3> for Gradient {
    #[inline(always)]
    fn run<S: Simd>(self, _: usize, [x, t, g]: [&[T]; 3], y: &mut [T]) {
        let (one, two) = (T::of(1.0), T::of(2.0));
        let side = if self.of_target { -one } else { one };
        match self.loss {
            PairLoss::Squared => each!(y, (x, t, g) => g * (two * (x - t)) * side),
            PairLoss::Absolute => each!(y, (x, t, g) => g * sign(x - t) * side),
            PairLoss::Huber { delta, factor } => {
                let (delta, factor) = (T::of(delta), T::of(factor));
                each!(y, (x, t, g) => huber_derivative(x - t, delta, factor) * g * side);
            }
            PairLoss::Logits if self.of_target => each!(y, (x, g) => -x * g),
            // Nothing cancels where an answer was easy; of two sigmoids the one above a half is what the other leaves.
            PairLoss::Logits => each!(y, (x, t, g) => {
                let least = (-x.abs()).sigmoid::<S>();
                let most = one - least;
                let (positive, negative) = if x < T::of(0.0) { (least, most) } else { (most, least) };
                ((one - t) * positive - t * negative) * g
            }),
            PairLoss::Probabilities if self.of_target => {
                each!(y, (x, g) => (log_of_rest::<S, T>(x) - log::<S, T>(x)) * g);
            }
            PairLoss::Probabilities => each!(y, (x, t, g) => {
                let spread = x * (one - x);
                let least = T::of(1e-12);
                (x - t) / (if spread < least { least } else { spread }) * g
            }),
        }
    }
}

/// The logarithm of a probability, no less than -100, as in PyTorch.
#[inline(always)]
fn log<S: Simd, T: Float>(p: T) -> T {
    bounded(p.ln::<S>())
}

/// That of what is left to 1, which keeps a probability that 1 would swallow in a difference.
#[inline(always)]
fn log_of_rest<S: Simd, T: Float>(p: T) -> T {
    bounded((T::of(0.0) - p).ln_1p::<S>())
}

#[inline(always)]
fn bounded<T: Float>(log: T) -> T {
    let least = T::of(-100.0);
    if log < least { least } else { log }
}

/// The sum of the losses of some elements.
struct Total<'a, A> {
    loss: PairLoss,
    x: &'a [A],
    t: &'a [A],
}

impl<A: Real> Kernel for Total<'_, A> {
    type Output = A;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        let Self { loss, x, t } = self;
        let (mut room, mut tree) = (Buffer::<A, BLOCK>::new(), Tree::new(A::ZERO));
        for (at, (x, t)) in x.chunks(BLOCK).zip(t.chunks(BLOCK)).enumerate() {
            let losses = room.first(x.len());
            Each(loss).run::<S>(at * BLOCK, [x, t], losses);
            tree.push(sum_of::<S, A>(losses, Itself), Num::add);
        }
        tree.finish(Num::add)
    }
}
