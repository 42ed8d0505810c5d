//! Losses. All run in full precision and give F32 (F64 for F64).

pub(super) mod binary;
mod classes;
pub(super) mod cross_entropy;
mod ctc;
pub(super) mod distance;
pub(super) mod divergence;
mod likelihood;
mod margin;
pub(super) mod nll;
mod pair;
pub(super) mod ranking;
pub(super) mod soft;

pub use classes::CrossEntropy;
pub use ranking::{Margin, TripletMargin};

use super::kernel::scaled;
use crate::autograd::{Backward, Pass, record};
use crate::precision::FullRange;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Dims, Reduce};

/// How the losses of single elements or rows are reduced.
#[doc(alias = "Reduction")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossReduction {
    /// Their mean (for weighted classes, divided by the sum of the weights).
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum divided by the size of the first dimension.
    BatchMean,
    /// They stay as they are.
    None,
}

impl LossReduction {
    /// What the sum of losses of shape `shape` is multiplied by.
    fn factor(self, shape: &Dims) -> f64 {
        match self {
            Self::Mean => 1.0 / shape.count() as f64,
            Self::BatchMean => 1.0 / shape.first().copied().unwrap_or(1) as f64,
            Self::Sum | Self::None => 1.0,
        }
    }

    fn apply(self, losses: RawTensor) -> Result<RawTensor> {
        if self == Self::None {
            return Ok(losses);
        }
        let axes: Vec<usize> = (0..losses.shape().len()).collect();
        let op = if self == Self::Mean { Reduce::Mean } else { Reduce::Sum };
        let buffer = losses.backend().reduce(op, losses.operand()?, &axes, losses.logical)?;
        self.finished(RawTensor::new(losses.device(), buffer, Dims::default()), losses.shape())
    }

    /// The reduction of losses of shape `shape`: `total` is their mean where that was asked for, otherwise their sum.
    fn finished(self, total: RawTensor, shape: &Dims) -> Result<RawTensor> {
        if self == Self::BatchMean { scaled(&total, self.factor(shape)) } else { Ok(total) }
    }

    /// Gradient of each single loss, from the gradient of what [`apply`](Self::apply) made of them.
    fn spread(self, grad: &RawTensor, shape: &Dims) -> Result<RawTensor> {
        self.share(grad, shape)?.broadcast_to("loss", shape)
    }

    /// The gradient of every loss of a shape, or that of each one's own where they stay as they are.
    fn share(self, grad: &RawTensor, shape: &Dims) -> Result<RawTensor> {
        let factor = self.factor(shape);
        if factor == 1.0 { Ok(grad.detached()) } else { scaled(grad, factor) }
    }
}

/// The losses of single elements or rows as the caller asked for them.
#[track_caller]
fn reduced<P: FullRange>(losses: Tensor<P>, reduction: LossReduction) -> Result<Tensor<P>> {
    match reduction {
        LossReduction::Mean => losses.mean_all(),
        LossReduction::Sum => losses.sum_all(),
        LossReduction::BatchMean => losses.sum_all()?.div(losses.dims().first().copied().unwrap_or(1) as f64),
        LossReduction::None => Ok(losses),
    }
}

/// An error unless both have the same shape: a target that broadcasts is usually a mistake.
fn check_target(op: &'static str, input: &RawTensor, target: &RawTensor) -> Result<()> {
    check_like(op, input, "the target", target)
}

/// As [`check_target`], of another tensor that stands beside the input.
fn check_like(op: &'static str, input: &RawTensor, what: &'static str, other: &RawTensor) -> Result<()> {
    input.device().check_same(other.device(), op)?;
    if input.shape() != other.shape() {
        let (expected, found) = (format!("{:?}, that of the input", input.shape()), *other.shape());
        return Err(Error::Shape { op, what, expected, found: found.into() });
    }
    Ok(())
}

/// Records a loss of single elements: `slope(i, grad)` is the gradient with respect to input `i` from those of the
/// elements' losses.
#[track_caller]
fn elementwise(
    op: &'static str,
    inputs: &[&RawTensor],
    losses: RawTensor,
    reduction: LossReduction,
    slope: impl Fn(usize, &RawTensor) -> Result<RawTensor> + Send + Sync + 'static,
) -> Result<RawTensor> {
    let count = inputs.len();
    record(op, inputs, reduction.apply(losses)?, move |_| Ok(slopes(*inputs[0].shape(), count, reduction, slope)))
}

/// What the gradient of losses of one `shape`, as they were reduced, gives each of the inputs.
fn slopes(
    shape: Dims,
    inputs: usize,
    reduction: LossReduction,
    slope: impl Fn(usize, &RawTensor) -> Result<RawTensor> + Send + Sync + 'static,
) -> Backward {
    Box::new(move |pass: &mut Pass<'_>| {
        let each = reduction.spread(pass.grad(), &shape)?;
        for i in 0..inputs {
            if pass.wants(i) {
                pass.give(i, slope(i, &each)?)?;
            }
        }
        Ok(())
    })
}
