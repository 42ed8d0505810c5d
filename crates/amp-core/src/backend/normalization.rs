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
