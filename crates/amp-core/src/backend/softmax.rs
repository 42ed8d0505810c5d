//! Softmax and the losses fused with it.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::DType;

/// Softmax along an axis and cross-entropy; arithmetic is in F32 (F64 for F64), results are rounded once, to `out`.
pub trait Softmax {
    /// Softmax of `x`, or its logarithm.
    fn softmax(&self, x: Operand<'_>, axis: usize, log: bool, out: DType) -> Result<Buffer>;

    /// Gradient of softmax with respect to its input, from its output `y`.
    fn softmax_grad(&self, y: Operand<'_>, grad: Operand<'_>, axis: usize, log: bool, out: DType) -> Result<Buffer>;

    /// The same from its input, with what [`softmax`](Self::softmax) gives in F32 (F64) computed again on the way; `None`
    /// where that is two kernels.
    fn softmax_grad_of_input(
        &self,
        x: Operand<'_>,
        grad: Operand<'_>,
        axis: usize,
        log: bool,
        out: DType,
    ) -> Result<Option<Buffer>> {
        let _ = (x, grad, axis, log, out);
        Ok(None)
    }

    /// `ln(Σ exp(x))` along `axis`, without that axis.
    fn logsumexp(&self, x: Operand<'_>, axis: usize, out: DType) -> Result<Buffer>;

    /// Loss and log-sum-exp of every line of logits, whose classes lie along `axis`, both F32 (F64 for F64); ignored lines have
    /// loss 0. Lines are numbered in row-major order of the other axes.
    fn cross_entropy(&self, logits: Operand<'_>, axis: usize, labels: Labels<'_>) -> Result<(Buffer, Buffer)>;

    /// Gradient of [`cross_entropy`](Self::cross_entropy), each line times its `scale`, rounded to `out`; with its copy in `also`
    /// where the device writes both at once.
    fn cross_entropy_grad(
        &self,
        logits: Operand<'_>,
        axis: usize,
        labels: Labels<'_>,
        lse: Operand<'_>,
        scale: Operand<'_>,
        out: (DType, Option<DType>),
    ) -> Result<(Buffer, Option<Buffer>)>;
}

/// How cross-entropy weighs classes and lines.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Class of each line, I64 `[N]`; checked by the caller.
    pub targets: Operand<'a>,
    /// Weight of each class `[C]`.
    pub weight: Option<Operand<'a>>,
    /// The target whose lines count nothing.
    pub ignore_index: i64,
    /// Share of the target that is spread evenly over all classes.
    pub smoothing: f64,
}
