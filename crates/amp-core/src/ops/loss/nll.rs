//! Losses of log-probabilities of labels.

use super::classes::{Counted, CrossEntropy, Lines};
use crate::autograd::{Pass, record};
use crate::ops::kernel::{binary, folded, scaled, select, zeros};
use crate::precision::{Float, I64, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Layout};

full_range! {
    NllPrecision, "`nll_loss` must run in `F32`";
}

/// `-weight[label] * scores[label]` of each line.
#[track_caller]
fn nll(lines: &Lines) -> Result<RawTensor> {
    const OP: &str = "nll_loss";
    let (scores, axis) = (&lines.scores, lines.axis);
    let counted = lines.counted(OP)?;
    let divisor = lines.reduced.is_mean().then(|| lines.total(OP, &counted)).transpose()?;
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
    record(OP, &[scores], lines.reduced.apply(OP, losses, divisor.as_ref())?, |_| {
        let (shape, dtype, reduced) = (*scores.shape(), scores.logical, lines.reduced);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            // Where no label counts, the scale is not finite.
            let values = weighted(&reduced.spread(OP, divisor.as_ref(), pass.grad(), counts.shape())?)?;
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
