//! Patches of images as layers.

use super::{Module, Visitor};
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{ConvOptions, IntoExtent, Result};

/// The patches of images `[N, C, H, W]` as columns `[N, C kh kw, L]` (`torch.nn.Unfold`).
#[derive(Clone, Copy, Debug)]
pub struct Unfold {
    kernel: [usize; 2],
    options: ConvOptions<2>,
}

impl Unfold {
    /// Patches of the size `kernel`; `options` say stride, padding and dilation.
    pub fn new(kernel: impl IntoExtent<2>, options: ConvOptions<2>) -> Self {
        Self { kernel: kernel.into_extent(), options }
    }

    /// Columns, in the precision of `x`.
    ///
    /// # Errors
    /// As [`Tensor::unfold`].
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.unfold(self.kernel, self.options)
    }
}

impl Module for Unfold {
    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}

/// The images `[N, C, H, W]` that sums of patches `[N, C kh kw, L]` make (`torch.nn.Fold`).
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    size: [usize; 2],
    patches: Unfold,
}

impl Fold {
    /// Images of the size `[H, W]` from patches of the size `kernel`; `options` say stride, padding and dilation.
    pub fn new(size: impl IntoExtent<2>, kernel: impl IntoExtent<2>, options: ConvOptions<2>) -> Self {
        Self { size: size.into_extent(), patches: Unfold::new(kernel, options) }
    }

    /// Images, in the precision of `x`; sums are in F32.
    ///
    /// # Errors
    /// As [`Tensor::fold`].
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.fold(self.size, self.patches.kernel, self.patches.options)
    }
}

impl Module for Fold {
    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}
