//! Losses between scores of classes and labels.

use super::LossReduction;
use crate::autograd::{Pass, Saved, record};
use crate::backend::Labels;
use crate::ops::index::valid_labels;
use crate::ops::kernel::{binary, reduce, scaled, select, zeros};
use crate::precision::{Element, Float, I64, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Dims, Layout, Reduce};

full_range! {
    CrossEntropyPrecision, "`cross_entropy` must run in `F32`";
    NllPrecision, "`nll_loss` must run in `F32`";
}

/// Options of [`Tensor::cross_entropy_with`] and [`Tensor::nll_loss_with`]; the defaults are PyTorch's.
#[derive(Clone, Debug)]
pub struct CrossEntropy<P: Element> {
    weight: Option<Tensor<P>>,
    ignore_index: i64,
    label_smoothing: f64,
    reduction: LossReduction,
}

impl<P: Element> Default for CrossEntropy<P> {
    fn default() -> Self {
        Self { weight: None, ignore_index: -100, label_smoothing: 0.0, reduction: LossReduction::Mean }
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

    /// Rows with this label count nothing.
    pub fn ignore_index(self, label: i64) -> Self {
        Self { ignore_index: label, ..self }
    }

    /// Spreads this share of the target, from 0 to 1, evenly over all classes.
    pub fn label_smoothing(self, share: f64) -> Self {
        Self { label_smoothing: share, ..self }
    }

    /// What becomes of the losses of the rows.
    pub fn reduction(self, reduction: LossReduction) -> Self {
        Self { reduction, ..self }
    }
}

/// Rows `[N, C]` of scores with their labels, checked.
struct Rows {
    scores: RawTensor,
    labels: RawTensor,
    weight: Option<RawTensor>,
    ignored: i64,
    reduction: LossReduction,
    /// Shape of the labels as they were given.
    shape: Dims,
}

impl Rows {
    fn new<P: Float>(
        op: &'static str,
        scores: &Tensor<P>,
        labels: &Tensor<I64>,
        options: &CrossEntropy<P>,
    ) -> Result<Self> {
        scores.device().check_same(labels.device(), op)?;
        let (flat, classes) = flatten(op, scores, labels)?;
        if let Some(weight) = &options.weight {
            scores.device().check_same(weight.device(), op)?;
            if weight.dims() != [classes] {
                let (expected, found) = (format!("[{classes}], one for each class"), *weight.raw.shape());
                return Err(Error::Shape { op, what: "the class weights", expected, found: found.into() });
            }
        }
        let flat_labels = labels.reshape([labels.count()])?.raw;
        flat_labels.backend().check_indices(op, flat_labels.operand()?, classes, Some(options.ignore_index))?;
        Ok(Self {
            scores: flat.raw,
            labels: flat_labels,
            weight: options.weight.as_ref().map(|w| w.raw.detached()),
            ignored: options.ignore_index,
            reduction: options.reduction,
            shape: *labels.raw.shape(),
        })
    }

    /// Weight of each row's label `[N]`, 0 for ignored rows.
    fn weights(&self, op: &'static str) -> Result<RawTensor> {
        let (valid, counts) = valid_labels(op, &self.labels, self.ignored)?;
        let dtype = self.scores.logical;
        let weights = match &self.weight {
            Some(w) if w.layout.count() > 0 => {
                let buffer = w.backend().index_select(w.operand()?, 0, valid.operand()?)?;
                RawTensor::new(w.device(), buffer, *valid.shape())
            }
            _ => RawTensor::full(valid.device(), 1.0, *valid.shape(), dtype)?,
        };
        select(op, &counts, &weights, &zeros(&weights, dtype)?, dtype)
    }

    /// What the losses of the rows are divided by: the sum of their weights for a mean.
    fn divisor(&self, op: &'static str) -> Result<Option<RawTensor>> {
        Ok(match self.reduction {
            LossReduction::Mean => Some(whole(reduce(Reduce::Sum, &self.weights(op)?, &[0], self.scores.logical)?)),
            _ => None,
        })
    }

    /// The losses of the rows as the caller asked for them.
    fn apply(&self, op: &'static str, losses: RawTensor, divisor: Option<&RawTensor>) -> Result<RawTensor> {
        match (self.reduction, divisor) {
            (LossReduction::None, _) => Ok(losses.with_layout(Layout::contiguous(self.shape))),
            (_, Some(divisor)) => binary(op, Binary::Div, &LossReduction::Sum.apply(losses)?, divisor, divisor.logical),
            (reduction, None) => reduction.apply(losses),
        }
    }

    /// Gradient of each row's loss `[N]`.
    fn spread(
        op: &'static str,
        reduction: LossReduction,
        divisor: Option<&RawTensor>,
        grad: &RawTensor,
        rows: &Dims,
    ) -> Result<RawTensor> {
        match (reduction, divisor) {
            (LossReduction::None, _) => {
                let grad = grad.contiguous()?;
                Ok(grad.with_layout(Layout { offset: grad.layout.offset, ..Layout::contiguous(*rows) }))
            }
            (_, Some(divisor)) => binary(op, Binary::Div, grad, divisor, divisor.logical)?.broadcast_to(op, rows),
            (reduction, None) => reduction.spread(grad, rows),
        }
    }
}

/// A tensor of one element without its dimensions.
fn whole(x: RawTensor) -> RawTensor {
    x.with_layout(Layout::contiguous(Dims::default()))
}

/// Scores `[C]`, `[N, C]` or `[N, C, ..]` as rows `[N.., C]`, with the number of classes.
fn flatten<P: Float>(op: &'static str, scores: &Tensor<P>, labels: &Tensor<I64>) -> Result<(Tensor<P>, usize)> {
    let found = *scores.raw.shape();
    let axis = usize::from(scores.rank() > 1);
    let Some(&classes) = found.get(axis) else {
        return Err(Error::Rank { op, what: "the input", expected: "at least 1 dimension", found: found.into() });
    };
    if *found.removed(axis) != *labels.dims() {
        let (expected, found) =
            (format!("{:?}, that of the input {found:?} without classes", found.removed(axis)), *labels.raw.shape());
        return Err(Error::Shape { op, what: "the target", expected, found: found.into() });
    }
    if classes == 0 {
        return Err(Error::Empty { op, shape: found.into() });
    }
    if scores.rank() == 2 {
        // Rows already: with a node for each view between, 16-bit scores would have their gradient in F32 first.
        return Ok((scores.clone(), classes));
    }
    let mut order: Vec<isize> = (0..scores.rank() as isize).filter(|&a| a != axis as isize).collect();
    order.push(axis as isize);
    Ok((scores.permute(order)?.reshape([labels.count(), classes])?, classes))
}

#[track_caller]
fn cross_entropy(rows: &Rows, smoothing: f64) -> Result<RawTensor> {
    const OP: &str = "cross_entropy";
    let (scores, labels) = (&rows.scores, &rows.labels);
    let (loss, lse) = scores.backend().cross_entropy(scores.operand()?, kernel_labels(rows.labels(), smoothing)?)?;
    let tensor = |buffer| RawTensor::new(scores.device(), buffer, *labels.shape());
    let (loss, lse, divisor) = (tensor(loss), tensor(lse), rows.divisor(OP)?);
    record(OP, &[scores], rows.apply(OP, loss, divisor.as_ref())?, |_| {
        let (scores, labels, lse) = (Saved::new(scores)?, labels.clone(), Saved::new(&lse)?);
        let (weight, ignored, reduction) = (rows.weight.clone(), rows.ignored, rows.reduction);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let scale = Rows::spread(OP, reduction, divisor.as_ref(), pass.grad(), labels.shape())?;
            let labels = kernel_labels((&labels, weight.as_ref(), ignored), smoothing)?;
            let (x, lse, scale) = (scores.operand()?, lse.operand()?, scale.operand()?);
            let out = (pass.dtype(0), pass.narrows(0));
            let (buffer, copy) = scores.backend().cross_entropy_grad(x, labels, lse, scale, out)?;
            pass.give(0, RawTensor::new(scores.device(), buffer, *scores.shape()).with_narrowed(copy))
        }))
    })
}

impl Rows {
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

/// `-weight[label] * scores[label]` of each row.
#[track_caller]
fn nll(rows: &Rows) -> Result<RawTensor> {
    const OP: &str = "nll_loss";
    let scores = &rows.scores;
    let (valid, counts) = valid_labels(OP, &rows.labels, rows.ignored)?;
    let column = Dims::new(&[valid.layout.count(), 1]).expect("two dimensions");
    let index = valid.with_layout(Layout::contiguous(column));
    let picked = scores.backend().gather(scores.operand()?, 1, index.operand()?)?;
    let picked = RawTensor::new(scores.device(), picked, *valid.shape());
    let factors = scaled(&rows.weights(OP)?, -1.0)?;
    let losses = binary(OP, Binary::Mul, &picked, &factors, scores.logical)?;
    // An ignored row may hold anything, also what times 0 is NaN.
    let losses = select(OP, &counts, &losses, &zeros(&losses, losses.logical)?, losses.logical)?;
    let divisor = rows.divisor(OP)?;
    record(OP, &[scores], rows.apply(OP, losses, divisor.as_ref())?, |_| {
        let (shape, dtype, reduction) = (*scores.shape(), scores.logical, rows.reduction);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let scale = Rows::spread(OP, reduction, divisor.as_ref(), pass.grad(), factors.shape())?;
            // Where no label counts, the scale is not finite.
            let values = binary(OP, Binary::Mul, &factors, &scale, dtype)?;
            let values = select(OP, &counts, &values, &zeros(&values, dtype)?, dtype)?;
            let values = values.with_layout(Layout::contiguous(*index.shape()));
            let zero = RawTensor::full(index.device(), 0.0, shape, pass.dtype(0))?;
            let (zero, at, values) = (zero.operand()?, index.operand()?, values.operand()?);
            let buffer = index.backend().scatter_add(zero, 1, at, values, pass.dtype(0))?;
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
        if !(0.0..=1.0).contains(&options.label_smoothing) {
            let found = options.label_smoothing;
            return Err(Error::argument("cross_entropy", "label_smoothing", "from 0 to 1", found));
        }
        let rows = Rows::new("cross_entropy", self, labels, options)?;
        Ok(Self::from_raw(cross_entropy(&rows, options.label_smoothing)?))
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
        Ok(Self::from_raw(nll(&Rows::new("nll_loss", self, labels, options)?)?))
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
                    assert!(worst.error <= 1e-6, "{name} {reduction:?}: {worst:?}");
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
