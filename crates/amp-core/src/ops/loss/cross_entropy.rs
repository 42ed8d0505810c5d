//! Cross-entropy between scores and labels.

use super::classes::{CrossEntropy, Lines};
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::backend::Labels;
use crate::order::{order_of, tensor, walk};
use crate::precision::{Float, I64, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;

full_range! {
    CrossEntropyPrecision, "`cross_entropy` must run in `F32`";
}

#[track_caller]
fn cross_entropy(lines: &Lines, smoothing: f64) -> Result<RawTensor> {
    const OP: &str = "cross_entropy";
    let (scores, labels, axis) = (&lines.scores, &lines.labels, lines.axis);
    let order = order_of([scores]);
    let along = order.axis(axis, scores.shape().len());
    let targets = kernel_labels(lines.labels(), smoothing)?;
    let (loss, lse) = walk(order, [scores], |backend, [scores]| backend.cross_entropy(scores, along, targets))?;
    let tensor_of = |buffer| RawTensor::new(scores.device(), buffer, *labels.shape());
    let (loss, lse) = (tensor_of(loss), tensor_of(lse));
    let divisor = lines.reduced.is_mean().then(|| lines.total(OP, &lines.counted(OP)?)).transpose()?;
    record(OP, &[scores], lines.reduced.apply(OP, loss, divisor.as_ref())?, |_| {
        let (scores, labels, lse) = (Saved::new(scores)?, labels.clone(), Saved::new(&lse)?);
        let (weight, ignored, reduced) = (lines.weight.clone(), lines.ignored, lines.reduced);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let scale = reduced.spread(OP, divisor.as_ref(), pass.grad(), labels.shape())?;
            let labels = kernel_labels((&labels, weight.as_ref(), ignored), smoothing)?;
            let (lse, scale) = (lse.operand()?, scale.operand()?);
            let out = (pass.dtype(0), pass.narrows(0));
            let order = order_of([&*scores]);
            let along = order.axis(axis, scores.shape().len());
            let (buffer, copy) = walk(order, [&*scores], |backend, [scores]| {
                backend.cross_entropy_grad(scores, along, labels, lse, scale, out)
            })?;
            pass.give(0, tensor(order, scores.device(), buffer, *scores.shape()).with_narrowed(copy))
        }))
    })
}

impl Lines {
    fn labels(&self) -> (&RawTensor, Option<&RawTensor>, i64) {
        (&self.labels, self.weight.as_ref(), self.ignored)
    }
}

fn kernel_labels<'a>(
    (targets, weight, ignore_index): (&'a RawTensor, Option<&'a RawTensor>, i64),
    smoothing: f64,
) -> Result<Labels<'a>> {
    let weight = weight.map(RawTensor::operand).transpose()?;
    Ok(Labels { targets: targets.operand()?, weight, ignore_index, smoothing })
}

impl<P: Float> Tensor<P> {
    /// Mean cross-entropy between logits `[N, C]` (or `[C]`, or `[N, C, ..]`) and labels `[N]` (or none, or `[N, ..]`)
    /// (`torch.nn.functional.cross_entropy`).
    ///
    /// # Precision
    /// Softmax and loss are one pass over the logits in F32 (F64 for F64); so is the gradient.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) for a label outside `0..C` other than -100, which is ignored.
    #[track_caller]
    pub fn cross_entropy(&self, labels: &Tensor<I64>) -> Result<Self>
    where
        P: CrossEntropyPrecision,
    {
        self.cross_entropy_with(labels, &CrossEntropy::default())
    }

    /// [`cross_entropy`](Self::cross_entropy) with class weights, label smoothing, another ignored label or reduction.
    #[track_caller]
    pub fn cross_entropy_with(&self, labels: &Tensor<I64>, options: &CrossEntropy<P>) -> Result<Self>
    where
        P: CrossEntropyPrecision,
    {
        options.check_smoothing("cross_entropy")?;
        let lines = Lines::new("cross_entropy", self, labels, options)?;
        Ok(Self::from_raw(cross_entropy(&lines, options.label_smoothing)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::tests::logits;
    use crate::testing::indices as labels;
    use crate::{CrossEntropy, Device, F16, F32, F64, LossReduction, Tensor};

    #[test]
    fn scores_lie_as_they_like() {
        let t = labels(&[0, 2, -100, 1, 1, 0, 2, 2], &[2, 4]);
        let together = logits(&[2, 4, 3]).transpose(1, 2).unwrap();
        let apart = together.contiguous().unwrap();
        let every_second = logits(&[2, 3, 8]).slice(2, 2..6).unwrap();
        for (x, same) in [(&together, &apart), (&every_second, &every_second.contiguous().unwrap())] {
            let found = [x, same].map(|x| {
                let x = x.detach().tracked();
                let loss = x.cross_entropy(&t).unwrap();
                let grad = loss.backward().unwrap().get(&x).unwrap().unwrap();
                (loss.item().unwrap(), grad.to_vec().unwrap())
            });
            let [(loss, grad), (expected, slopes)] = &found;
            assert!((loss - expected).abs() <= 1e-14, "{loss} is not {expected}");
            let close = grad.iter().zip(slopes).all(|(a, b)| (a - b).abs() <= 1e-14);
            assert!(close && grad.len() == 24, "{grad:?} is not {slopes:?}");
        }
    }

    /// Positions of a sample belong to it, as with `soft_cross_entropy`.
    #[test]
    fn a_mean_over_the_batch_divides_by_the_samples() {
        let (x, t) = (logits(&[2, 3, 4]), labels(&[0, 2, -100, 1, 1, 0, 2, 2], &[2, 4]));
        let of = |reduction| {
            let x = x.detach().tracked();
            let loss = x.cross_entropy_with(&t, &CrossEntropy::default().reduction(reduction)).unwrap();
            let likely = x.log_softmax(1).unwrap();
            let nll = likely.nll_loss_with(&t, &CrossEntropy::default().reduction(reduction)).unwrap();
            let grad = |loss: &Tensor<F64>| loss.backward().unwrap().get(&x).unwrap().unwrap().to_vec().unwrap();
            [&loss, &nll].map(|loss| [vec![loss.item().unwrap()], grad(loss)].concat())
        };
        for (sum, mean) in of(LossReduction::Sum).iter().zip(of(LossReduction::BatchMean)) {
            assert!(sum.iter().zip(&mean).all(|(sum, mean)| (sum / 2.0 - mean).abs() <= 1e-15), "{sum:?}: {mean:?}");
        }
    }

    #[test]
    fn half_logits_give_a_finite_f32_loss() {
        let x =
            Tensor::<F16>::full([2, 3], half::f16::from_f32(60_000.0), &Device::cpu()).unwrap().to::<F32>().unwrap();
        let loss = x.cross_entropy(&labels(&[0, 2], &[2])).unwrap().item().unwrap();
        assert!((loss - 3.0_f32.ln()).abs() <= 0.004, "{loss}");
    }
}
