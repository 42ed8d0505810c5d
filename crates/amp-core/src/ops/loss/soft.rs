//! Cross-entropy between scores of classes and probabilities of them.

use super::classes::{CrossEntropy, axis_of_classes};
use super::{check_target, reduced};
use crate::Result;
use crate::ops::arithmetic::mul;
use crate::ops::kernel::folded;
use crate::ops::pointwise;
use crate::ops::reduce::fold;
use crate::ops::softmax::softmax;
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Layout, Reduce, Unary};

full_range! {
    SoftCrossEntropyPrecision, "`soft_cross_entropy` must run in `F32`";
}

const OP: &str = "soft_cross_entropy";

/// `-Σ weight * target * log_softmax(scores)` along `axis`, which stays with size 1.
#[track_caller]
fn losses(scores: &RawTensor, axis: usize, target: &RawTensor, weight: Option<&RawTensor>) -> Result<RawTensor> {
    let logs = softmax(OP, true, scores, axis as isize, None)?;
    let mut shares = mul(&logs, target)?;
    if let Some(weight) = weight {
        let others: Vec<usize> = (0..scores.shape().len()).filter(|&a| a != axis).collect();
        let weight = weight.contiguous()?;
        let along = Layout { offset: weight.layout.offset, ..Layout::contiguous(folded(scores.shape(), &others)) };
        shares = mul(&shares, &weight.with_layout(along))?;
    }
    fold(OP, Reduce::Sum, &pointwise::unary(OP, Unary::Affine { mul: -1.0, add: -0.0 }, &shares)?, &[axis], 1.0)
}

impl<P: Float> Tensor<P> {
    /// Mean cross-entropy between logits `[N, C]` (or `[C]`, or `[N, C, ..]`) and probabilities of the classes of the same shape,
    /// as mixup and distillation have them (`torch.nn.functional.cross_entropy` with probabilities as the target).
    ///
    /// # Precision
    /// The logarithm of softmax, products and sums are F32 (F64 for F64). As in PyTorch, a logit of -inf gives NaN, even where its
    /// probability is 0.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) unless logits and probabilities have one shape.
    #[track_caller]
    pub fn soft_cross_entropy<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: SoftCrossEntropyPrecision + SamePrecision<Q>,
    {
        self.soft_cross_entropy_with(target, &CrossEntropy::default())
    }

    /// [`soft_cross_entropy`](Self::soft_cross_entropy) with class weights, label smoothing or another reduction; there is no label
    /// to ignore. As in PyTorch, the mean divides by the number of lines, whatever the weights are.
    #[track_caller]
    pub fn soft_cross_entropy_with<Q: Element>(&self, target: &Tensor<Q>, options: &CrossEntropy<P>) -> Result<Self>
    where
        P: SoftCrossEntropyPrecision + SamePrecision<Q>,
    {
        options.check_smoothing(OP)?;
        options.ignores_nothing(OP)?;
        check_target(OP, &self.raw, &target.raw)?;
        let (axis, classes) = axis_of_classes(OP, self.raw.shape())?;
        let weight = options.weights(OP, self, classes)?;
        let target = smoothed(&target.raw, options.label_smoothing, classes)?;
        let losses = losses(&self.raw, axis, &target, weight.as_ref())?;
        reduced(Self::from_raw(losses).squeeze(axis as isize)?, options.reduction)
    }
}

/// The target with a `share` of it spread evenly over all classes.
#[track_caller]
fn smoothed(target: &RawTensor, share: f64, classes: usize) -> Result<RawTensor> {
    if share == 0.0 {
        return Ok(target.clone());
    }
    pointwise::unary(OP, Unary::Affine { mul: 1.0 - share, add: share / classes as f64 }, target)
}

#[cfg(test)]
mod tests {
    use crate::{CrossEntropy, Device, F64, I64, LossReduction, Tensor, gradcheck};

    fn waves(shape: &[usize], seed: f64) -> Tensor<F64> {
        let mut i = seed;
        let next = |_: &[usize]| {
            i += 1.0;
            (i * 1.7_f64).sin() * 2.0 + 0.3
        };
        Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
    }

    fn options() -> [CrossEntropy<F64>; 2] {
        let weight = Tensor::from_vec(vec![9.0, 0.5, 2.0, 1.5], [4], &Device::cpu()).unwrap().slice(0, 1..).unwrap();
        [CrossEntropy::new(), CrossEntropy::new().weight(weight).label_smoothing(0.2)]
    }

    #[test]
    fn gradients_agree_with_differences() {
        for (shape, axis) in [(&[4, 3][..], 1), (&[2, 3, 2], 1), (&[3], 0)] {
            let inputs = [waves(shape, 0.0), waves(shape, 5.0).softmax(axis).unwrap()];
            for options in options() {
                for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::None] {
                    let options = options.clone().reduction(reduction);
                    let worst = gradcheck(|x| x[0].soft_cross_entropy_with(&x[1], &options), &inputs).unwrap();
                    assert!(worst.agrees(), "{shape:?} {reduction:?}: {worst:?}");
                }
            }
        }
    }

    #[test]
    fn certain_targets_are_labels() {
        let x = waves(&[4, 3], 0.0);
        let labels = Tensor::<I64>::from_vec(vec![0, 2, 1, 2], [4], &Device::cpu()).unwrap();
        let certain = labels.one_hot(3).unwrap().to::<F64>().unwrap();
        for options in options() {
            let options = options.reduction(LossReduction::Sum);
            let soft = x.soft_cross_entropy_with(&certain, &options).unwrap().item().unwrap();
            let hard = x.cross_entropy_with(&labels, &options).unwrap().item().unwrap();
            assert!((soft - hard).abs() <= 1e-13, "{soft} is not {hard}");
        }
    }

    #[test]
    fn the_mean_divides_by_lines_whatever_their_weights() {
        let (x, t) = (waves(&[4, 3], 0.0), waves(&[4, 3], 5.0).softmax(1).unwrap());
        let [_, weighted] = options();
        let mean = x.soft_cross_entropy_with(&t, &weighted).unwrap().item().unwrap();
        let sum = x.soft_cross_entropy_with(&t, &weighted.reduction(LossReduction::Sum)).unwrap().item().unwrap();
        assert!((mean - sum / 4.0).abs() <= 1e-14, "{mean} is not a quarter of {sum}");
    }

    #[test]
    fn bad_arguments_are_errors() {
        let x = waves(&[2, 3], 0.0);
        let error = x.soft_cross_entropy(&waves(&[2, 1], 0.0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "soft_cross_entropy: the target must have shape [2, 3], that of the input, found [2, 1]"
        );
        let smooth = CrossEntropy::new().label_smoothing(1.5);
        assert!(x.soft_cross_entropy_with(&x, &smooth).is_err());
        let weight = CrossEntropy::new().weight(waves(&[2], 0.0));
        assert!(x.soft_cross_entropy_with(&x, &weight).is_err());
        let ignored = CrossEntropy::new().ignore_index(1);
        let error = x.soft_cross_entropy_with(&x, &ignored).unwrap_err();
        assert!(error.to_string().contains("ignore_index"), "{error}");
    }
}
