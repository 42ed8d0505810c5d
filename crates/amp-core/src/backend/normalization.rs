//! Layer, RMS, group, instance and batch normalisation.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{DType, NormKind};

/// Normalisations; statistics are F32 (F64 for F64), results are rounded once, to `out`.
pub trait Normalization {
    /// Normalises over the elements that `kind` groups together, then scales and shifts.
    fn normalize(
        &self,
        x: Operand<'_>,
        kind: NormKind,
        weight: Option<Operand<'_>>,
        bias: Option<Operand<'_>>,
        eps: f64,
        out: DType,
    ) -> Result<Normalized>;

    /// Normalises each channel of `[N, C, ...]` by given statistics.
    fn normalize_with(
        &self,
        x: Operand<'_>,
        statistics: Statistics<'_>,
        weight: Option<Operand<'_>>,
        bias: Option<Operand<'_>>,
        eps: f64,
        out: DType,
    ) -> Result<Buffer>;

    /// Gradients of [`normalize`](Self::normalize) from its input and statistics; those of the parameters are F32 (F64).
    /// The input's is rounded to the first precision in `out`; a device may write it rounded to the second, of 16 bits, at
    /// once.
    fn normalize_grad(
        &self,
        grad: Operand<'_>,
        x: Operand<'_>,
        saved: (Operand<'_>, Operand<'_>),
        weight: Option<Operand<'_>>,
        kind: NormKind,
        out: (DType, Option<DType>),
    ) -> Result<NormGrads>;

    /// As [`normalize_grad`](Self::normalize_grad) by rows or groups, with the input's gradient added to the second of `grad`
    /// before it is rounded; that has its shape and the precision of the arithmetic. `None` where the device has no kernel for
    /// that: the caller adds them.
    fn normalize_grad_onto(
        &self,
        grad: (Operand<'_>, Operand<'_>),
        x: Operand<'_>,
        saved: (Operand<'_>, Operand<'_>),
        weight: Option<Operand<'_>>,
        kind: NormKind,
        out: (DType, Option<DType>),
    ) -> Result<Option<NormGrads>> {
        let _ = (grad, x, saved, weight, kind, out);
        Ok(None)
    }

    /// `max(y + residual, 0)` where [`normalize`](Self::normalize) of batches, or [`normalize_with`](Self::normalize_with) by
    /// the `given` statistics, gives `y`, rounded once; with `signs` a bit for each element too, as
    /// [`dead`](super::Elementwise::dead) makes them of what was not rounded. `None` where the device has no kernel for that:
    /// then the operations follow one another.
    fn batch_norm_relu(
        &self,
        x: Operand<'_>,
        given: Option<Statistics<'_>>,
        affine: (Option<Operand<'_>>, Option<Operand<'_>>),
        eps: f64,
        after: (Option<Operand<'_>>, bool),
        out: DType,
    ) -> Result<Option<Rectified>> {
        let _ = (x, given, affine, eps, after, out);
        Ok(None)
    }

    /// Gradients of [`batch_norm_relu`](Self::batch_norm_relu) by the batch's statistics with respect to the input, rounded to
    /// `out`, and to the parameters, from the result's gradient and bits. Only called on devices that have `batch_norm_relu`.
    fn batch_norm_relu_grad(
        &self,
        grad: (Operand<'_>, &Buffer),
        x: Operand<'_>,
        saved: (Operand<'_>, Operand<'_>),
        weight: Option<Operand<'_>>,
        out: DType,
    ) -> Result<NormGrads> {
        let _ = (grad, x, saved, weight, out);
        unreachable!("a device that fuses relu into batch norm has its gradient too")
    }
}

/// Mean and variance of each channel `[C]`.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    /// Means.
    pub mean: Operand<'a>,
    /// Variances.
    pub var: Operand<'a>,
}

/// A normalised tensor and the statistics it was normalised by, one for each group of elements.
#[derive(Debug)]
pub struct Normalized {
    /// The result.
    pub y: Buffer,
    /// Means.
    pub mean: Buffer,
    /// Variances without correction.
    pub var: Buffer,
    /// `1 / sqrt(var + eps)`
    pub rstd: Buffer,
}

/// The result of a normalisation followed by relu.
#[derive(Debug)]
pub struct Rectified {
    /// The result in place of the normalised tensor, and the statistics.
    pub normalized: Normalized,
    /// Where the result is 0, if that was asked.
    pub dead: Option<Buffer>,
}

/// Gradients of a normalisation.
#[derive(Debug)]
pub struct NormGrads {
    /// With respect to the input.
    pub x: Buffer,
    /// `x` rounded to the precision that was asked for too, if it was written.
    pub narrowed: Option<Buffer>,
    /// With respect to the weight, one for each parameter.
    pub weight: Buffer,
    /// With respect to the bias, one for each parameter.
    pub bias: Buffer,
}
