//! Losses between scores of classes and labels.

use super::LossReduction;
use crate::autograd::{Pass, Saved, record};
use crate::backend::Labels;
use crate::ops::index::valid_labels;
use crate::ops::kernel::{binary, folded, reduce, scaled, select, zeros};
use crate::order::{order_of, tensor, walk};
use crate::precision::{Element, Float, I64, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Dims, Layout, Reduce};

full_range! {
    CrossEntropyPrecision, "`cross_entropy` must run in `F32`";
    NllPrecision, "`nll_loss` must run in `F32`";
}

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
struct Lines {
    scores: RawTensor,
    axis: usize,
    /// The label of each line `[N]`, in row-major order of the other axes.
    labels: RawTensor,
    weight: Option<RawTensor>,
    ignored: i64,
    reduction: LossReduction,
    /// Shape of the labels as they were given.
    shape: Dims,
}

impl Lines {
    fn new<P: Float>(
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
            reduction: options.reduction,
            shape: *labels.raw.shape(),
        })
    }

    /// What the labels mean for their lines.
    fn counted(&self, op: &'static str) -> Result<Counted> {
        let (valid, counts) = valid_labels(op, &self.labels, self.ignored)?;
        let weigh = |w: &RawTensor| {
            let buffer = w.backend().index_select(w.operand()?, 0, valid.operand()?)?;
            Ok(RawTensor::new(w.device(), buffer, *valid.shape()))
        };
        let weights = self.weight.as_ref().filter(|w| w.layout.count() > 0).map(weigh).transpose()?;
        Ok(Counted { valid, counts, weights })
    }

    /// Whether the losses are divided by the [`total`](Self::total).
    fn is_mean(&self) -> bool {
        self.reduction == LossReduction::Mean
    }

    /// The sum of the weights of the lines that count.
    fn total(&self, op: &'static str, counted: &Counted) -> Result<RawTensor> {
        let (Counted { counts, weights, .. }, dtype) = (counted, self.scores.logical);
        let weights = match weights {
            Some(weights) => &select(op, counts, weights, &zeros(weights, dtype)?, dtype)?,
            None => counts,
        };
        Ok(whole(reduce(Reduce::Sum, weights, &[0], dtype)?))
    }

    /// The losses of the lines as the caller asked for them.
    fn apply(&self, op: &'static str, losses: RawTensor, divisor: Option<&RawTensor>) -> Result<RawTensor> {
        match (self.reduction, divisor) {
            (LossReduction::None, _) => Ok(losses.with_layout(Layout::contiguous(self.shape))),
            (_, Some(divisor)) => binary(op, Binary::Div, &LossReduction::Sum.apply(losses)?, divisor, divisor.logical),
            (reduction, None) => reduction.apply(losses),
        }
    }

    /// Gradient of each line's loss `[N]`.
    fn spread(
        op: &'static str,
        reduction: LossReduction,
        divisor: Option<&RawTensor>,
        grad: &RawTensor,
        lines: &Dims,
    ) -> Result<RawTensor> {
        match (reduction, divisor) {
            (LossReduction::None, _) => {
                let grad = grad.contiguous()?;
                Ok(grad.with_layout(Layout { offset: grad.layout.offset, ..Layout::contiguous(*lines) }))
            }
            (_, Some(divisor)) => binary(op, Binary::Div, grad, divisor, divisor.logical)?.broadcast_to(op, lines),
            (reduction, None) => reduction.spread(grad, lines),
        }
    }
}

/// What the labels `[N]` mean for their lines.
struct Counted {
    /// The labels that count, and any others.
    valid: RawTensor,
    /// Which of them count.
    counts: RawTensor,
    /// The weight of each, unless all have 1.
    weights: Option<RawTensor>,
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
    let divisor = lines.is_mean().then(|| lines.total(OP, &lines.counted(OP)?)).transpose()?;
    record(OP, &[scores], lines.apply(OP, loss, divisor.as_ref())?, |_| {
        let (scores, labels, lse) = (Saved::new(scores)?, labels.clone(), Saved::new(&lse)?);
        let (weight, ignored, reduction) = (lines.weight.clone(), lines.ignored, lines.reduction);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let scale = Lines::spread(OP, reduction, divisor.as_ref(), pass.grad(), labels.shape())?;
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

/// `-weight[label] * scores[label]` of each line.
#[track_caller]
fn nll(lines: &Lines) -> Result<RawTensor> {
    const OP: &str = "nll_loss";
    let (scores, axis) = (&lines.scores, lines.axis);
    let counted = lines.counted(OP)?;
    let divisor = lines.is_mean().then(|| lines.total(OP, &counted)).transpose()?;
    let Counted { valid, counts, weights } = counted;
    let one = folded(scores.shape(), &[axis]);
    let index = valid.with_layout(Layout::contiguous(one));
    let picked = scores.backend().gather(scores.operand()?, axis, index.operand()?)?;
    let picked = RawTensor::new(scores.device(), picked, *valid.shape());
    let weighted = move |x: &RawTensor| match &weights {
        Some(weights) => binary(OP, Binary::Mul, &scaled(x, -1.0)?, weights, x.logical),
        None => scaled(x, -1.0),
    };
    let losses = weighted(&picked)?;
    // An ignored line may hold anything: infinity times a weight of 0 would be NaN.
    let losses = select(OP, &counts, &losses, &zeros(&losses, losses.logical)?, losses.logical)?;
    record(OP, &[scores], lines.apply(OP, losses, divisor.as_ref())?, |_| {
        let (shape, dtype, reduction) = (*scores.shape(), scores.logical, lines.reduction);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            // Where no label counts, the scale is not finite.
            let values = weighted(&Lines::spread(OP, reduction, divisor.as_ref(), pass.grad(), counts.shape())?)?;
            let values = select(OP, &counts, &values, &zeros(&values, dtype)?, dtype)?;
            let values = values.with_layout(Layout::contiguous(*index.shape()));
            let zero = RawTensor::full(index.device(), 0.0, shape, pass.dtype(0))?;
            let (zero, at, values) = (zero.operand()?, index.operand()?, values.operand()?);
            let buffer = index.backend().scatter_add(zero, axis, at, values, pass.dtype(0))?;
            pass.give(0, RawTensor::new(index.device(), buffer, shape))
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// Mean cross-entropy between logits `[N, C]` (or `[C]`, or `[N, C, ..]`) and labels `[N]` (or none, or `[N, ..]`)
    /// (`torch.nn.functional.cross_entropy`).
    ///
    /// # Precision
    /// Softmax and loss are one pass over the logits in F32 (F64 for F64); so is the gradient.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a label outside `0..C` other than -100, which is ignored.
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

    /// Mean of `-self[label]` over rows of log-probabilities `[N, C]` (or `[C]`, or `[N, C, ..]`)
    /// (`torch.nn.functional.nll_loss`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a label outside `0..C` other than -100, which is ignored.
    #[track_caller]
    pub fn nll_loss(&self, labels: &Tensor<I64>) -> Result<Self>
    where
        P: NllPrecision,
    {
        self.nll_loss_with(labels, &CrossEntropy::default())
    }

    /// [`nll_loss`](Self::nll_loss) with class weights, another ignored label or reduction; smoothing does not apply.
    #[track_caller]
    pub fn nll_loss_with(&self, labels: &Tensor<I64>, options: &CrossEntropy<P>) -> Result<Self>
    where
        P: NllPrecision,
    {
        if options.label_smoothing != 0.0 {
            let found = options.label_smoothing;
            return Err(Error::argument("nll_loss", "label_smoothing", "0; use `cross_entropy_with`", found));
        }
        Ok(Self::from_raw(nll(&Lines::new("nll_loss", self, labels, options)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::CrossEntropy;
    use crate::{Device, F16, F32, F64, I64, LossReduction, Tensor, gradcheck};

    fn logits(shape: &[usize]) -> Tensor<F64> {
        let mut i = 0.0;
        let next = |_: &[usize]| {
            i += 1.0;
            (i * 1.7_f64).sin() * 2.0 + 0.3
        };
        Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
    }

    fn labels(data: &[i64], shape: &[usize]) -> Tensor<I64> {
        Tensor::from_slice(data, shape, &Device::cpu()).unwrap()
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

    #[test]
    fn half_logits_give_a_finite_f32_loss() {
        let x =
            Tensor::<F16>::full([2, 3], half::f16::from_f32(60_000.0), &Device::cpu()).unwrap().to::<F32>().unwrap();
        let loss = x.cross_entropy(&labels(&[0, 2], &[2])).unwrap().item().unwrap();
        assert!((loss - 3.0_f32.ln()).abs() <= 0.004, "{loss}");
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
