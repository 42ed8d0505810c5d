//! Gradient penalties by a first-order route.

use crate::autograd::{Edge, IdSet, Walk, first_f16, next_id, take_pending};
use crate::locks::lock;
use crate::param::PendingUpdate;
use crate::precision::F32;
use crate::random::{RandomState, noted, repeated};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::tensor::backward::backward;
use crate::{Error, Result};
use amp_cpu::DType;
use std::sync::Arc;

/// The norm of the gradient of `f` with respect to each sample of `x`, as a tensor `[N]` that can itself be
/// differentiated with respect to parameters: the term of WGAN-GP and its relatives.
///
/// `f` gives a score for each sample, `[N]` or `[N, 1]`, independently of the other samples. A backward pass through a
/// backward pass is not needed: in direction `u = g / |g|` of the gradient, `|g|` is the slope of `f`, and
/// `(f(x + h u) - f(x - h u)) / 2h` is an ordinary expression of two more forward passes. `h` is `step` times the
/// root mean square of `x` (or `step` itself for zeros). The result differs from the exact norm by terms of order `h²` and
/// by rounding of order `eps / h`, so that `step` grows with `eps`: 1e-2 suits scores that are computed in F32, 0.1 those
/// of F16 regions and 0.2 those of BF16 ones; with 1e-2 these would be off by tenths.
///
/// All three passes draw the same random numbers, so that the norm is that of one dropout mask, and running statistics see
/// the first pass only.
///
/// Where a gradient is zero or not finite, its norm is reported as 0 or NaN and nothing flows back from a zero.
///
/// It counts as a loss like any other: add it to the rest, scale the sum, go back once. Scores may come out of an F16
/// region; the direction is taken with a loss scale of its own.
///
/// ```
/// # use amp_core::{nn::{Linear, Module}, optim::Adam, train::gradient_norm, Device, F16, F32, GradScaler, Tensor};
/// # let device = Device::cpu();
/// # let critic = Linear::new(4, 1, &device)?;
/// # let (mut optimizer, mut scaler) = (Adam::new(critic.parameters(), 1e-4), GradScaler::new(&device)?);
/// # let (real, fake) = (Tensor::<F32>::randn([8, 4], &device)?, Tensor::<F32>::randn([8, 4], &device)?);
/// let score = |x: &Tensor<F32>| critic.forward(&x.to::<F16>()?)?.to::<F32>();
/// // WGAN-GP: the slope between real and made samples should be 1.
/// let share = Tensor::<F32>::rand([8, 1], &device)?;
/// let between = (&fake + (share * (&real - &fake)?)?)?.detach();
/// let penalty = (gradient_norm(score, &between, 0.1)? - 1.0)?.sqr()?.mean_all()?;
/// let loss = ((score(&fake)?.mean_all()? - score(&real)?.mean_all()?)? + (penalty * 10.0)?)?;
/// let grads = scaler.scale(&loss)?.backward()?;
/// scaler.step(&mut optimizer, grads)?;
/// scaler.update()?;
/// # Ok::<_, amp_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] when `f` does not give one score a sample; [`Error::Argument`] when `step` is not positive.
pub fn gradient_norm(
    f: impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>,
    x: &Tensor<F32>,
    step: f32,
) -> Result<Tensor<F32>> {
    const OP: &str = "gradient_norm";
    if !(step > 0.0 && step.is_finite()) {
        return Err(Error::argument(OP, "step", "positive", step));
    }
    let n = *x.dims().first().ok_or_else(|| Error::Rank {
        op: OP,
        what: "x",
        expected: "at least 1 dimension",
        found: x.raw.shape().into(),
    })?;
    let First { direction, draws, pending } = First::pass(&f, x, n)?;
    let size = x.detach().sqr()?.mean_all()?.sqrt()?.item()?;
    let h = if size == 0.0 { step } else { step * size };
    let offset = (direction * h)?;
    let again = |x: &Tensor<F32>| repeated(draws.clone(), || scores(&f, x, n));
    let slope = (again(&x.detach().add(&offset)?)? - again(&x.detach().sub(&offset)?)?)?;
    let norm = (slope / (2.0 * h))?;
    hand_over(pending, &norm.raw)?;
    Ok(norm)
}

/// What the first of three forward passes tells the others; its graph is gone.
struct First {
    direction: Tensor<F32>,
    /// Where its random numbers started.
    draws: Arc<[RandomState]>,
    /// Changes of running statistics.
    pending: Vec<PendingUpdate>,
}

impl First {
    fn pass(f: &impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>, x: &Tensor<F32>, n: usize) -> Result<Self> {
        let (since, probe) = (next_id(), x.tracked());
        let (sum, draws) = noted(|| scores(f, &probe, n)?.sum_all());
        let sum = sum?;
        let pending = take_pending(&sum.raw, since);
        Ok(Self { direction: direction(&sum, &probe, n)?, draws, pending })
    }
}

/// Lets changes of state wait for the step that trains what made `y`; without a graph they are made at once.
fn hand_over(pending: Vec<PendingUpdate>, y: &RawTensor) -> Result<()> {
    match &y.edge {
        Some(Edge::Node(node)) => lock(&node.held).pending.extend(pending),
        _ => pending.into_iter().try_for_each(|update| update.land(None))?,
    }
    Ok(())
}

fn scores(f: &impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>, x: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let y = f(x)?;
    if y.count() != n {
        let expected = format!("[{n}], one score a sample");
        return Err(Error::Shape {
            op: "gradient_norm",
            what: "the result of f",
            expected,
            found: y.raw.shape().into(),
        });
    }
    y.reshape([n])
}

/// Loss scales that a direction is looked for with, one after the other, while a sample's gradient is not finite: a constant
/// factor does not change a direction; a large one keeps small gradients in F16 from vanishing, large ones need a small one.
const SCALES: [f64; 4] = [1024.0, 1.0, 1.0 / 1024.0, 1.0 / 1_048_576.0];

/// The gradient of each sample's score, `sum` of which was made from `x`, divided by its norm; zeros where it is zero.
fn direction(sum: &Tensor<F32>, x: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let id = crate::autograd::Differentiable::grad_id(x).expect("just tracked");
    let scales = if first_f16(&sum.raw).is_some() { &SCALES[..] } else { &[1.0] };
    let mut found: Option<Tensor<F32>> = None;
    for (i, &scale) in scales.iter().enumerate() {
        let seed = |shape| RawTensor::full(x.device(), scale, shape, DType::F32);
        let retain = i + 1 < scales.len();
        let targets = IdSet::from_iter([id]);
        let walk = Walk { targets: Some(&targets), retain, peaks: false };
        let mut collected = backward(&sum.raw, seed, walk)?;
        let Some(grad) = collected.grads.remove(&id) else { return x.detach().zeros_like() };
        let unit = unit(&Tensor::from_raw(grad.cast_view(DType::F32)?), n)?;
        let unit = found.map_or(Ok(unit.clone()), |found| found.isnan()?.where_(&unit, &found))?;
        if !unit.isnan()?.any([], false)?.item()? {
            return Ok(unit);
        }
        found = Some(unit);
    }
    Ok(found.expect("there is a scale to begin with"))
}

/// Each sample's gradient at length 1, all NaN where it is not finite.
fn unit(grad: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let squares = grad.sqr()?.reshape([n, grad.count() / n.max(1)])?.sum([1], false)?;
    let mut shape = vec![1; grad.rank()];
    shape[0] = n;
    let norm = squares.sqrt()?.reshape(shape)?;
    // The least normal number stands in for a norm of 0, so that 0 / 0 gives 0; infinity times 0 is NaN.
    let unit = grad.div(&norm.clamp_min(f32::MIN_POSITIVE)?)?;
    unit + (norm * 0.0)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{BatchNorm1d, Dropout, Linear, Module, Tanh};
    use crate::optim::{Optimizer, Sgd};
    use crate::precision::{BF16, F16, Float};
    use crate::{Device, GradScaler, manual_seed, random_state};

    /// `Σ w x²` over the last axis: the gradient is `2 w x`, its norm `2 |w x|`.
    #[test]
    fn a_quadratic_score_has_a_known_norm_and_a_known_penalty() -> Result<()> {
        let d = Device::cpu();
        let w = crate::Parameter::new(&Tensor::from_vec(vec![1.0, -2.0], [2], &d)?)?;
        let x = Tensor::<F32>::from_vec(vec![3.0, 2.0, 0.5, 0.0, 0.0, 0.0], [3, 2], &d)?;
        let norm = gradient_norm(|x| (x.sqr()? * w.tensor())?.sum([1], false), &x, 1e-2)?;
        let found = norm.to_vec()?;
        let expected = [100f32.sqrt(), 1.0, 0.0];
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() <= 1e-3 * e.max(1.0), "{found:?}");
        }
        // d|g|/dw_i = 4 w_i x_i² / |g|, summed over the samples.
        let grads = norm.sum_all()?.backward()?;
        let slope = grads.get(&w)?.expect("w takes part").to_vec()?;
        let expected = [4.0 * 9.0 / 10.0 + 4.0 * 0.25, 4.0 * -2.0 * 4.0 / 10.0];
        for (f, e) in slope.iter().zip(expected) {
            assert!((f - e).abs() <= 1e-2 * f32::abs(e), "{slope:?} is not {expected:?}");
        }
        assert!(gradient_norm(|x| x.sum([1], false), &x, 0.0).is_err());
        assert!(gradient_norm(|x| x.sum_all(), &x, 0.1).is_err());
        Ok(())
    }

    /// `2 √k` for `k` of the features kept, each of which the loss pulls on in the same way.
    #[test]
    fn the_norm_is_that_of_one_dropout_mask() -> Result<()> {
        let d = Device::cpu();
        manual_seed(3);
        let w = crate::Parameter::new(&Tensor::ones([32], &d)?)?;
        let (drop, drawn) = (Dropout::new(0.5), random_state().offset);
        let score = |x: &Tensor<F32>| (drop.forward(x)? * w.tensor())?.sum([1], false);
        let norm = gradient_norm(score, &Tensor::<F32>::full([1, 32], 10.0, &d)?, 1e-2)?;
        let (length, drawn) = (norm.to_vec()?[0], random_state().offset - drawn);
        assert!(drawn > 0 && drawn <= 32, "{drawn} elements drawn for one mask");
        let slopes = norm.sum_all()?.backward()?.get(&w)?.expect("w takes part").to_vec()?;
        let kept = slopes.iter().filter(|slope| slope.abs() > 1e-3).count();
        assert!((1..32).contains(&kept) && (length - 2.0 * (kept as f32).sqrt()).abs() <= 1e-2, "{length} {slopes:?}");
        Ok(())
    }

    #[test]
    fn running_statistics_see_one_pass() -> Result<()> {
        let d = Device::cpu();
        let (norm, top) = (BatchNorm1d::new(2, &d)?, Linear::new(2, 1, &d)?);
        let mut opt = Sgd::new(norm.parameters().into_iter().chain(top.parameters()), 0.1);
        let x = Tensor::<F32>::from_vec(vec![1.0, 2.0, 3.0, 6.0], [2, 2], &d)?;
        let score = |x: &Tensor<F32>| top.forward(&norm.forward(x)?.tanh()?);
        let loss = gradient_norm(score, &x, 1e-2)?.sum_all()?;
        assert_eq!(norm.running_mean().tensor().to_vec()?, [0.0, 0.0]);
        opt.step(&loss.backward()?)?;
        let mean = norm.running_mean().tensor().to_vec()?;
        assert!((mean[0] - 0.2).abs() <= 1e-6 && (mean[1] - 0.4).abs() <= 1e-6, "{mean:?}");
        norm.commit()?;
        assert_eq!(norm.running_mean().tensor().to_vec()?, mean);
        Ok(())
    }

    #[test]
    fn gradients_that_f16_holds_only_without_a_scale_have_a_norm() -> Result<()> {
        let d = Device::cpu();
        let [a, b] =
            [[0.01, 0.0], [100.0, 0.0]].map(|w| crate::Parameter::new(&Tensor::from_vec(w.to_vec(), [2, 1], &d)?));
        let (a, b) = (a?, b?);
        let x = Tensor::<F32>::from_vec(vec![3.0, -2.0], [2, 1], &d)?;
        let score = |x: &Tensor<F32>| {
            let hidden = x.to::<F16>()?.matmul(&a.to::<F16>()?.t()?)?;
            hidden.matmul(&b.to::<F16>()?)?.to::<F32>()
        };
        for norm in gradient_norm(score, &x, 1e-2)?.to_vec()? {
            assert!((norm - 1.0).abs() <= 0.1, "{norm}");
        }
        let infinite = |x: &Tensor<F32>| (x * f32::INFINITY)?.to::<F16>()?.to::<F32>();
        assert!(gradient_norm(infinite, &x, 1e-2)?.to_vec()?.into_iter().all(f32::is_nan));
        Ok(())
    }

    /// Scenario 25: a penalty in mixed precision under a scaler trains as in full precision.
    fn score<P: Float>(net: &(Linear, Linear), x: &Tensor<F32>) -> Result<Tensor<F32>> {
        net.1.forward(&Tanh.forward(&net.0.forward(&x.to::<P>()?)?)?)?.to()
    }

    #[test]
    fn the_step_grows_with_the_rounding_of_scores() -> Result<()> {
        let d = Device::cpu();
        manual_seed(7);
        let net = (Linear::new(8, 32, &d)?, Linear::new(32, 1, &d)?);
        let x = Tensor::<F32>::randn([16, 8], &d)?.tracked();
        let slopes = score::<F32>(&net, &x)?.sum_all()?.backward()?.get(&x)?.expect("x takes part");
        let exact = slopes.norm(2.0, 1, false)?;
        let mean = exact.mean_all()?.item()?;
        let worst = |norms: Tensor<F32>| Ok::<_, Error>((norms - &exact)?.abs()?.max_all()?.item()? / mean);
        for (name, worst, bound) in [
            ("F32", worst(gradient_norm(|x| score::<F32>(&net, x), &x, 1e-2)?)?, 1e-3),
            ("F16", worst(gradient_norm(|x| score::<F16>(&net, x), &x, 0.1)?)?, 0.05),
            ("BF16", worst(gradient_norm(|x| score::<BF16>(&net, x), &x, 0.2)?)?, 0.15),
        ] {
            assert!(worst <= bound, "{name}: {worst}");
        }
        Ok(())
    }

    #[test]
    fn s25_gradient_penalty() -> Result<()> {
        let train = |half: bool| -> Result<(Vec<f32>, f32)> {
            let d = Device::cpu();
            manual_seed(25);
            let net = (Linear::new(8, 8, &d)?, Linear::new(8, 1, &d)?);
            let mut opt = Sgd::new(net.parameters(), 0.1);
            let mut scaler = GradScaler::builder().init_scale(128.0).growth_interval(1).enabled(half).build(&d)?;
            let x = Tensor::<F32>::randn([8, 8], &d)?;
            let score = |x: &Tensor<F32>| -> Result<Tensor<F32>> {
                if half {
                    return net.1.forward(&Tanh.forward(&net.0.forward(&x.to::<F16>()?)?)?)?.to();
                }
                net.1.forward(&Tanh.forward(&net.0.forward(x)?)?)
            };
            for i in 0..4 {
                let penalty = (gradient_norm(score, &x, 0.1)? - 1.0)?.sqr()?.mean_all()?;
                let mut loss = (score(&x)?.mean_all()? + penalty)?;
                if i == 2 && half {
                    loss = (loss * f32::INFINITY)?;
                }
                let grads = scaler.scale(&loss)?.backward()?;
                if i != 2 || half {
                    scaler.step(&mut opt, grads)?;
                    scaler.update()?;
                }
            }
            let values = net.parameters().iter().map(|p| p.to_vec()).collect::<Result<Vec<_>>>()?;
            Ok((values.concat(), scaler.scale_value()?))
        };
        let ((full, _), (mixed, scale)) = (train(false)?, train(true)?);
        assert_eq!(scale, 512.0);
        for (a, b) in full.iter().zip(&mixed) {
            let diff = (a - b).abs();
            assert!(diff <= 1e-2, "{a} and {b}");
        }
        Ok(())
    }
}
