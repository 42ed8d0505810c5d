//! Options, scores and labels of the losses of classes.

use super::LossReduction;
use crate::ops::kernel::{binary, compare, reduce, select, zeros};
use crate::precision::{Element, Float, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Compare, Dims, Layout, Reduce};

/// The label that is ignored unless another one is.
const IGNORED: i64 = -100;

/// Options of [`Tensor::cross_entropy_with`], [`Tensor::nll_loss_with`] and [`Tensor::soft_cross_entropy_with`]; the defaults are
/// PyTorch's.
#[derive(Clone, Debug)]
pub struct CrossEntropy<P: Element> {
    weight: Option<Tensor<P>>,
    ignore_index: i64,
    pub(super) label_smoothing: f64,
    pub(super) reduction: LossReduction,
}

impl<P: Element> Default for CrossEntropy<P> {
    fn default() -> Self {
        Self { weight: None, ignore_index: IGNORED, label_smoothing: 0.0, reduction: LossReduction::Mean }
    }
}

impl<P: Element> CrossEntropy<P> {
    /// All classes alike, label -100 ignored, no smoothing, mean.
    pub fn new() -> Self {
        Self::default()
    }

    /// Weighs each class by an element of `weight` `[C]`; the mean divides by the sum of the weights of the labels.
    pub fn weight(self, weight: Tensor<P>) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// Lines with this label do not count.
    pub fn ignore_index(self, label: i64) -> Self {
        Self { ignore_index: label, ..self }
    }

    /// Spreads this share of the target, from 0 to 1, evenly over all classes.
    pub fn label_smoothing(self, share: f64) -> Self {
        Self { label_smoothing: share, ..self }
    }

    /// How the losses of single labels are reduced.
    pub fn reduction(self, reduction: LossReduction) -> Self {
        Self { reduction, ..self }
    }

    /// The class weights, out of the graph, once they are seen to fit the scores.
    pub(super) fn weights(&self, op: &'static str, scores: &Tensor<P>, classes: usize) -> Result<Option<RawTensor>> {
        let Some(weight) = &self.weight else { return Ok(None) };
        scores.device().check_same(weight.device(), op)?;
        if weight.dims() != [classes] {
            let (expected, found) = (format!("[{classes}], one for each class"), *weight.raw.shape());
            return Err(Error::Shape { op, what: "the class weights", expected, found: found.into() });
        }
        Ok(Some(weight.raw.detached()))
    }

    pub(super) fn check_smoothing(&self, op: &'static str) -> Result<()> {
        let found = self.label_smoothing;
        if (0.0..=1.0).contains(&found) {
            return Ok(());
        }
        Err(Error::argument(op, "label_smoothing", "from 0 to 1", found))
    }

    /// An error where a label is to be ignored by a loss that knows none.
    pub(super) fn ignores_nothing(&self, op: &'static str) -> Result<()> {
        if self.ignore_index == IGNORED {
            return Ok(());
        }
        Err(Error::argument(op, "ignore_index", "unset: probabilities have no label", self.ignore_index))
    }
}

/// Lines of scores along `axis` with their labels, checked.
pub(super) struct Lines {
    pub(super) scores: RawTensor,
    pub(super) axis: usize,
    /// The label of each line `[N]`, in row-major order of the other axes.
    pub(super) labels: RawTensor,
    pub(super) weight: Option<RawTensor>,
    pub(super) ignored: i64,
    pub(super) reduced: Reduced,
}

/// How the losses of lines are reduced.
#[derive(Clone, Copy)]
pub(super) struct Reduced {
    reduction: LossReduction,
    /// Shape of the labels as they were given.
    shape: Dims,
}

impl Lines {
    pub(super) fn new<P: Float>(
        op: &'static str,
        scores: &Tensor<P>,
        labels: &Tensor<I64>,
        options: &CrossEntropy<P>,
    ) -> Result<Self> {
        scores.device().check_same(labels.device(), op)?;
        let (axis, classes) = classes(op, scores, labels)?;
        let weight = options.weights(op, scores, classes)?;
        let flat_labels = labels.reshape([labels.count()])?.raw;
        flat_labels.backend().check_indices(op, flat_labels.operand()?, classes, Some(options.ignore_index))?;
        Ok(Self {
            scores: scores.raw.clone(),
            axis,
            labels: flat_labels,
            weight,
            ignored: options.ignore_index,
            reduced: Reduced { reduction: options.reduction, shape: *labels.raw.shape() },
        })
    }

    /// What the labels mean for their lines.
    pub(super) fn counted(&self, op: &'static str) -> Result<Counted> {
        let (valid, counts) = valid_labels(op, &self.labels, self.ignored)?;
        let weigh = |w: &RawTensor| {
            let buffer = w.backend().index_select(w.operand()?, 0, valid.operand()?)?;
            Ok(RawTensor::new(w.device(), buffer, *valid.shape()))
        };
        let weights = self.weight.as_ref().filter(|w| w.layout.count() > 0).map(weigh).transpose()?;
        Ok(Counted { valid, counts, weights })
    }

    /// The sum of the weights of the lines that count.
    pub(super) fn total(&self, op: &'static str, counted: &Counted) -> Result<RawTensor> {
        let (Counted { counts, weights, .. }, dtype) = (counted, self.scores.logical);
        let weights = match weights {
            Some(weights) => &select(op, counts, weights, &zeros(weights, dtype)?, dtype)?,
            None => counts,
        };
        Ok(whole(reduce(Reduce::Sum, weights, &[0], dtype)?))
    }
}

impl Reduced {
    /// Whether the losses are divided by the [`total`](Lines::total).
    pub(super) fn is_mean(self) -> bool {
        self.reduction == LossReduction::Mean
    }

    /// The losses of the lines as the caller asked for them.
    pub(super) fn apply(self, op: &'static str, losses: RawTensor, divisor: Option<&RawTensor>) -> Result<RawTensor> {
        let losses = losses.with_layout(Layout::contiguous(self.shape));
        match (self.reduction, divisor) {
            (LossReduction::None, _) => Ok(losses),
            (_, Some(divisor)) => binary(op, Binary::Div, &LossReduction::Sum.apply(losses)?, divisor, divisor.logical),
            (reduction, None) => reduction.apply(losses),
        }
    }

    /// Gradient of each line's loss `[N]`.
    pub(super) fn spread(
        self,
        op: &'static str,
        divisor: Option<&RawTensor>,
        grad: &RawTensor,
        lines: &Dims,
    ) -> Result<RawTensor> {
        match (self.reduction, divisor) {
            (LossReduction::None, _) => {
                let grad = grad.contiguous()?;
                Ok(grad.with_layout(Layout { offset: grad.layout.offset, ..Layout::contiguous(*lines) }))
            }
            (_, Some(divisor)) => binary(op, Binary::Div, grad, divisor, divisor.logical)?.broadcast_to(op, lines),
            (reduction, None) => reduction.share(grad, &self.shape)?.broadcast_to(op, lines),
        }
    }
}

/// What the labels `[N]` mean for their lines.
pub(super) struct Counted {
    /// The labels that count, and any others.
    pub(super) valid: RawTensor,
    /// Which of them count.
    pub(super) counts: RawTensor,
    /// The weight of each, unless all have 1.
    pub(super) weights: Option<RawTensor>,
}

/// A tensor of one element without its dimensions.
fn whole(x: RawTensor) -> RawTensor {
    x.with_layout(Layout::contiguous(Dims::default()))
}

/// As [`axis_of_classes`], of scores whose labels have their shape without the classes.
fn classes<P: Float>(op: &'static str, scores: &Tensor<P>, labels: &Tensor<I64>) -> Result<(usize, usize)> {
    let found = *scores.raw.shape();
    let (axis, classes) = axis_of_classes(op, &found)?;
    if *found.removed(axis) != *labels.dims() {
        if *found.removed(found.len() - 1) == *labels.dims() {
            let classes = found[found.len() - 1];
            return Err(Error::LastClasses { op, input: found.into(), target: labels.raw.shape().into(), classes });
        }
        let (expected, found) =
            (format!("{:?}, that of the input {found:?} without classes", found.removed(axis)), *labels.raw.shape());
        return Err(Error::Shape { op, what: "the target", expected, found: found.into() });
    }
    Ok((axis, classes))
}

/// The axis of the classes of scores `[C]`, `[N, C]` or `[N, C, ..]`, and their number.
pub(super) fn axis_of_classes(op: &'static str, scores: &Dims) -> Result<(usize, usize)> {
    let axis = usize::from(scores.len() > 1);
    match scores.get(axis) {
        None => Err(Error::Rank { op, what: "the input", expected: "at least 1 dimension", found: scores.into() }),
        Some(0) => Err(Error::Empty { op, shape: scores.into() }),
        Some(&classes) => Ok((axis, classes)),
    }
}

/// The labels with every `ignored` one replaced by 0, which is a valid index, and which labels count.
fn valid_labels(op: &'static str, labels: &RawTensor, ignored: i64) -> Result<(RawTensor, RawTensor)> {
    let ignored = RawTensor::new(
        labels.device(),
        labels.backend().upload(amp_cpu::Storage::I64(vec![ignored].into()))?,
        Dims::default(),
    );
    let counts = compare(op, Compare::Ne, labels, &ignored)?;
    let valid = select(op, &counts, labels, &zeros(labels, labels.logical)?, labels.logical)?;
    Ok((valid, counts))
}

#[cfg(test)]
pub(super) mod tests {
    use crate::testing::indices as labels;
    use crate::{CrossEntropy, Device, F32, F64, LossReduction, Tensor, gradcheck};

    pub fn logits(shape: &[usize]) -> Tensor<F64> {
        let mut i = 0.0;
        let next = |_: &[usize]| {
            i += 1.0;
            (i * 1.7_f64).sin() * 2.0 + 0.3
        };
        Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let weight = Tensor::<F64>::from_vec(vec![0.5, 2.0, 1.5], [3], &Device::cpu()).unwrap();
        let cases = [
            (logits(&[4, 3]), labels(&[0, 2, 1, 2], &[4])),
            (logits(&[2, 3, 2]), labels(&[0, 2, -100, 2], &[2, 2])),
            (logits(&[3]), labels(&[1], &[])),
        ];
        for (x, t) in cases {
            let x = std::slice::from_ref(&x);
            for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::None] {
                let plain = CrossEntropy::new().reduction(reduction);
                let full = plain.clone().weight(weight.clone()).label_smoothing(0.2);
                let weighted = plain.clone().weight(weight.clone());
                for (name, worst) in [
                    ("cross_entropy", gradcheck(|x| x[0].cross_entropy_with(&t, &plain), x)),
                    ("weighted", gradcheck(|x| x[0].cross_entropy_with(&t, &full), x)),
                    ("nll_loss", gradcheck(|x| x[0].nll_loss_with(&t, &weighted), x)),
                ] {
                    let worst = worst.unwrap();
                    assert!(worst.agrees(), "{name} {reduction:?}: {worst:?}");
                }
            }
        }
    }

    #[test]
    fn cross_entropy_is_nll_of_log_softmax() {
        let (x, t) = (logits(&[4, 3]), labels(&[0, 1, 1, 2], &[4]));
        let weight = Tensor::<F64>::from_vec(vec![0.5, 2.0, 1.5], [3], &Device::cpu()).unwrap();
        let options = CrossEntropy::new().weight(weight).ignore_index(1);
        let fused = x.cross_entropy_with(&t, &options).unwrap().item().unwrap();
        let composed = x.log_softmax(1).unwrap().nll_loss_with(&t, &options).unwrap().item().unwrap();
        assert!((fused - composed).abs() <= 1e-12, "{fused} is not {composed}");
    }

    #[test]
    fn bad_labels_are_errors() {
        let x = logits(&[2, 3]);
        let error = x.cross_entropy(&labels(&[0, 3], &[2])).unwrap_err();
        assert_eq!(error.to_string(), "cross_entropy: index 3 is out of range for size 3");
        assert!(x.nll_loss(&labels(&[-1, 0], &[2])).is_err());
        let error = x.cross_entropy(&labels(&[0, 1, 2], &[3])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cross_entropy: the target must have shape [2], that of the input [2, 3] without classes, found [3]"
        );
        let (scores, labels_of_tokens) = (logits(&[2, 3, 5]), labels(&[0; 6], &[2, 3]));
        let error = scores.cross_entropy(&labels_of_tokens).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cross_entropy: the target [2, 3] is the input [2, 3, 5] without its last dimension, but the classes are dimension 1; \
             use `scores.reshape((.., 5))?` and `labels.reshape(..)?`"
        );
        assert!(scores.reshape((.., 5)).unwrap().nll_loss(&labels_of_tokens.reshape(..).unwrap()).is_ok());
        let smooth = CrossEntropy::new().label_smoothing(f64::NAN);
        assert!(x.cross_entropy_with(&labels(&[0, 1], &[2]), &smooth).is_err());
        let all_ignored = x.cross_entropy(&labels(&[-100, -100], &[2])).unwrap().item().unwrap();
        assert!(all_ignored.is_nan());
    }

    #[test]
    fn where_no_label_counts_there_is_no_gradient() {
        let x = logits(&[2, 3]).to::<F32>().unwrap().detach().tracked();
        let none = labels(&[-100, -100], &[2]);
        for loss in [x.nll_loss(&none).unwrap(), x.cross_entropy(&none).unwrap()] {
            assert!(loss.item().unwrap().is_nan());
            let grads = loss.backward().unwrap();
            assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.0; 6]);
        }
    }
}
