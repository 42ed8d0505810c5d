//! Losses between probabilities, or their logits, and targets from 0 to 1.

use super::pair::fused;
use super::{LossReduction, check_target, elementwise, reduced};
use crate::autograd::Saved;
use crate::ops::kernel::{binary, scaled, unary};
use crate::precision::{Element, Float, FullRange, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, PairLoss, Reduce, Unary};

full_range! {
    BceWithLogitsPrecision, "`bce_with_logits` must run in `F32`";
}

full_range! {
    "inside `#[autocast(..)]` it is banned: use `bce_with_logits`, which takes the values before the sigmoid; \
     or write `.to::<F32>()?` before the sigmoid, or bound a parameter `P` by `FullRange`":
    BinaryCrossEntropyPrecision, "`binary_cross_entropy` must run in `F32`, and on logits: use `bce_with_logits`";
}

fn affine(x: &RawTensor, mul: f64, add: f64) -> Result<RawTensor> {
    unary(Unary::Affine { mul, add }, x, x.logical)
}

fn product(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    binary("bce_with_logits", Binary::Mul, a, b, a.logical)
}

/// `(1 - t) x - l ln(sigmoid(x))` with `l = 1 + (w - 1) t`, which no logit can make overflow.
#[track_caller]
fn with_logits(
    x: &RawTensor,
    target: &RawTensor,
    pos_weight: Option<&RawTensor>,
    reduction: LossReduction,
) -> Result<RawTensor> {
    const OP: &str = "bce_with_logits";
    check_target(OP, x, target)?;
    refuse_nan(OP, target)?;
    if pos_weight.is_none()
        && let Some(result) = fused(OP, PairLoss::Logits, x, target, reduction)?
    {
        return Ok(result);
    }
    let weight = match pos_weight {
        Some(w) => affine(&product(&affine(w, 1.0, -1.0)?, target)?, 1.0, 1.0)?.broadcast_to(OP, x.shape())?,
        None => RawTensor::full(x.device(), 1.0, *x.shape(), x.logical)?,
    };
    let linear = product(&affine(target, -1.0, 1.0)?, x)?;
    let curved = product(&weight, &unary(Unary::LogSigmoid, x, x.logical)?)?;
    let losses = binary(OP, Binary::Sub, &linear, &curved, x.logical)?;
    let pos_weight = pos_weight.map(Saved::new).transpose()?;
    let (x_saved, t) = (Saved::new(x)?, Saved::new(target)?);
    elementwise(OP, &[x, target], losses, reduction, move |i, grad| {
        let slope = if i == 0 {
            // `(1 - t) sigmoid(x) - w t sigmoid(-x)`: nothing cancels where an answer was easy.
            let sigmoid = |x: &RawTensor| unary(Unary::Sigmoid, x, x.logical);
            let positive = pos_weight.as_ref().map(|w| product(w, &t)).transpose()?;
            let hit = product(positive.as_ref().unwrap_or(&t), &sigmoid(&scaled(&x_saved, -1.0)?)?)?;
            let miss = product(&affine(&t, -1.0, 1.0)?, &sigmoid(&x_saved)?)?;
            binary(OP, Binary::Sub, &miss, &hit, grad.logical)?
        } else {
            let log = unary(Unary::LogSigmoid, &x_saved, x_saved.logical)?;
            let curved = match &pos_weight {
                Some(w) => product(&log, &affine(w, -1.0, 1.0)?)?,
                None => scaled(&log, 0.0)?,
            };
            binary(OP, Binary::Sub, &curved, &x_saved, grad.logical)?
        };
        product(&slope, grad)
    })
}

/// `-(t ln(p) + (1 - t) ln(1 - p))` with logarithms no less than -100, as in PyTorch.
#[track_caller]
fn on_probabilities(p: &RawTensor, target: &RawTensor, reduction: LossReduction) -> Result<RawTensor> {
    const OP: &str = "binary_cross_entropy";
    check_target(OP, p, target)?;
    refuse_outside(OP, "input", p)?;
    refuse_outside(OP, "target", target)?;
    if let Some(result) = fused(OP, PairLoss::Probabilities, p, target, reduction)? {
        return Ok(result);
    }
    let log = |op: Unary, x: &RawTensor| {
        let log = unary(op, x, x.logical)?;
        unary(Unary::Clamp { min: -100.0, max: f64::INFINITY }, &log, x.logical)
    };
    // 1 would swallow a small probability in a difference; its logarithm is that probability.
    let (success, failure) = (log(Unary::Log, p)?, log(Unary::Log1p, &scaled(p, -1.0)?)?);
    let sum = binary(
        OP,
        Binary::Add,
        &product(target, &success)?,
        &product(&affine(target, -1.0, 1.0)?, &failure)?,
        p.logical,
    )?;
    let (p_saved, t) = (Saved::new(p)?, Saved::new(target)?);
    let (success, failure) = (Saved::new(&success)?, Saved::new(&failure)?);
    elementwise(OP, &[p, target], scaled(&sum, -1.0)?, reduction, move |i, grad| {
        let slope = if i == 0 {
            let spread = product(&p_saved, &affine(&p_saved, -1.0, 1.0)?)?;
            let spread = unary(Unary::Clamp { min: 1e-12, max: f64::INFINITY }, &spread, spread.logical)?;
            let difference = binary(OP, Binary::Sub, &p_saved, &t, grad.logical)?;
            binary(OP, Binary::Div, &difference, &spread, grad.logical)?
        } else {
            binary(OP, Binary::Sub, &failure, &success, grad.logical)?
        };
        product(&slope, grad)
    })
}

/// The losses, each times its weight if there are weights, reduced.
#[track_caller]
fn weighted<P: FullRange>(
    op: &'static str,
    weight: Option<&Tensor<P>>,
    reduction: LossReduction,
    losses: impl FnOnce(LossReduction) -> Result<Tensor<P>>,
) -> Result<Tensor<P>> {
    let Some(weight) = weight else { return losses(reduction) };
    let each = losses(LossReduction::None)?;
    each.device().check_same(weight.device(), op)?;
    reduced(each.mul(Tensor::from_raw(weight.raw.broadcast_to(op, each.raw.shape())?))?, reduction)
}

/// One element on the host.
fn extreme(op: Reduce, x: &RawTensor) -> Result<f64> {
    let axes: Vec<usize> = (0..x.shape().len()).collect();
    let buffer = x.backend().reduce(op, x.operand()?, &axes, DType::F64)?;
    match x.backend().download(&buffer)? {
        amp_cpu::Storage::F64(v) => Ok(v[0]),
        _ => Ok(f64::NAN),
    }
}

fn refuse_nan(op: &'static str, target: &RawTensor) -> Result<()> {
    let found = extreme(Reduce::Max, target)?;
    if found.is_nan() {
        return Err(Error::argument(op, "target", "a number for every element", found));
    }
    Ok(())
}

fn refuse_outside(op: &'static str, what: &'static str, p: &RawTensor) -> Result<()> {
    for found in [extreme(Reduce::Min, p)?, extreme(Reduce::Max, p)?] {
        if p.layout.count() > 0 && !(0.0..=1.0).contains(&found) {
            return Err(Error::argument(op, what, "probabilities from 0 to 1", found));
        }
    }
    Ok(())
}

impl<P: Float> Tensor<P> {
    /// Mean cross-entropy between `sigmoid(self)` and targets from 0 to 1
    /// (`torch.nn.functional.binary_cross_entropy_with_logits`).
    ///
    /// # Errors
    /// [`Error::Argument`] for a target that is NaN.
    #[doc(alias = "binary_cross_entropy_with_logits")]
    #[track_caller]
    pub fn bce_with_logits<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: BceWithLogitsPrecision + SamePrecision<Q>,
    {
        self.bce_with_logits_with(target, None, None, LossReduction::Mean)
    }

    /// [`bce_with_logits`](Self::bce_with_logits) with a weight of each element's loss, a weight of the positive class, and
    /// another reduction; weights broadcast to the input and have no gradient, and a mean is that of the weighted losses.
    #[track_caller]
    pub fn bce_with_logits_with<Q: Element>(
        &self,
        target: &Tensor<Q>,
        weight: Option<&Self>,
        pos_weight: Option<&Self>,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: BceWithLogitsPrecision + SamePrecision<Q>,
    {
        let pos_weight = pos_weight.map(|w| &w.raw);
        weighted("bce_with_logits", weight, reduction, |reduction| {
            Ok(Self::from_raw(with_logits(&self.raw, &target.raw, pos_weight, reduction)?))
        })
    }

    /// Mean cross-entropy between probabilities and targets from 0 to 1 (`torch.nn.functional.binary_cross_entropy`).
    ///
    /// Prefer [`bce_with_logits`](Self::bce_with_logits): near 0 and 1 the gradient of this one, `1 / p (1 - p)`, does not
    /// fit F16, so it is banned in autocast regions.
    ///
    /// # Errors
    /// [`Error::Argument`] for an input or a target outside 0 to 1, also one that is NaN.
    #[track_caller]
    pub fn binary_cross_entropy<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: BinaryCrossEntropyPrecision + SamePrecision<Q>,
    {
        self.binary_cross_entropy_with(target, None, LossReduction::Mean)
    }

    /// [`binary_cross_entropy`](Self::binary_cross_entropy) with a weight of each element's loss, which broadcasts to the input
    /// and has no gradient, and another reduction; a mean is that of the weighted losses.
    #[track_caller]
    pub fn binary_cross_entropy_with<Q: Element>(
        &self,
        target: &Tensor<Q>,
        weight: Option<&Self>,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: BinaryCrossEntropyPrecision + SamePrecision<Q>,
    {
        weighted("binary_cross_entropy", weight, reduction, |reduction| {
            Ok(Self::from_raw(on_probabilities(&self.raw, &target.raw, reduction)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, LossReduction, Tensor, gradcheck};

    fn tensor(data: &[f64]) -> Tensor<F64> {
        Tensor::from_slice(data, [2, data.len() / 2], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = tensor(&[0.3, -0.7, 1.9, 0.01, -2.2, 0.8]);
        let t = tensor(&[0.5, 0.7, 0.1, 0.4, 0.9, 0.2]);
        let w = Tensor::from_vec(vec![2.0, 0.5, 3.0], [3], &Device::cpu()).unwrap();
        let p = tensor(&[0.3, 0.7, 0.9, 0.01, 0.22, 0.8]);
        for reduction in [LossReduction::Mean, LossReduction::None] {
            for (name, worst) in [
                (
                    "bce",
                    gradcheck(|x| x[0].bce_with_logits_with(&x[1], None, None, reduction), &[x.clone(), t.clone()]),
                ),
                (
                    "pos",
                    gradcheck(|x| x[0].bce_with_logits_with(&x[1], None, Some(&w), reduction), &[x.clone(), t.clone()]),
                ),
                (
                    "prob",
                    gradcheck(|x| x[0].binary_cross_entropy_with(&x[1], None, reduction), &[p.clone(), t.clone()]),
                ),
            ] {
                let worst = worst.unwrap();
                assert!(worst.agrees(), "{name} {reduction:?}: {worst:?}");
            }
        }
    }

    #[test]
    fn extreme_logits_stay_finite() {
        let x = Tensor::<F32>::from_vec(vec![1e4, -1e4], [2], &Device::cpu()).unwrap();
        let t = Tensor::<F32>::from_vec(vec![0.0, 1.0], [2], &Device::cpu()).unwrap();
        assert_eq!(x.bce_with_logits(&t).unwrap().item().unwrap(), 1e4);
        let p = Tensor::<F32>::from_vec(vec![1.0, 0.0], [2], &Device::cpu()).unwrap();
        assert_eq!(p.binary_cross_entropy(&t).unwrap().item().unwrap(), 100.0);
    }

    #[test]
    fn small_probabilities_of_what_did_not_happen_count() {
        let p = Tensor::<F32>::from_vec(vec![1e-9, 1e-20], [2], &Device::cpu()).unwrap();
        let never = p.zeros_like().unwrap();
        for reduction in [LossReduction::None, LossReduction::Sum] {
            let losses = p.binary_cross_entropy_with(&never, None, reduction).unwrap().to_vec().unwrap();
            assert_eq!(losses[0], 1e-9, "{reduction:?}");
        }
    }

    #[test]
    fn bad_values_are_errors() {
        let x = tensor(&[0.5, 1.5]);
        let error = x.binary_cross_entropy(&x).unwrap_err();
        assert_eq!(error.to_string(), "binary_cross_entropy: input must be probabilities from 0 to 1, found 1.5");
        let error = tensor(&[0.5, 1.0]).binary_cross_entropy(&tensor(&[0.5, 3.0])).unwrap_err();
        assert_eq!(error.to_string(), "binary_cross_entropy: target must be probabilities from 0 to 1, found 3");
        assert!(tensor(&[0.5, 1.0]).binary_cross_entropy(&tensor(&[0.5, f64::NAN])).is_err());
        assert!(x.bce_with_logits(&tensor(&[0.5, f64::NAN])).is_err());
        assert!(tensor(&[]).bce_with_logits(&tensor(&[])).unwrap().item().unwrap().is_nan());
    }

    #[test]
    fn easy_negatives_have_a_gradient() {
        let x = Tensor::<F32>::from_vec(vec![-17.0, -30.0], [2], &Device::cpu()).unwrap().tracked();
        let none = x.zeros_like().unwrap();
        let three = Tensor::<F32>::full([2], 3.0, &Device::cpu()).unwrap();
        for (weight, reduction) in [(None, LossReduction::Sum), (Some(&three), LossReduction::Sum)] {
            let grads = x.bce_with_logits_with(&none, None, weight, reduction).unwrap().backward().unwrap();
            for (found, x) in grads.get(&x).unwrap().unwrap().to_vec().unwrap().into_iter().zip([-17.0_f64, -30.0]) {
                let expected = 1.0 / (1.0 + (-x).exp());
                // A sigmoid of 3 ulp, and three roundings.
                assert!((f64::from(found) - expected).abs() <= 6e-7 * expected, "{found} is not {expected}");
            }
        }
    }
}
