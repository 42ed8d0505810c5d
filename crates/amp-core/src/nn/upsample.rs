//! Resizing as a module.

use super::{Module, Visitor};
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{IntoExtent, Result};

/// Enlarges images by whole factors; the result is F32 (`torch.nn.Upsample`).
#[doc(alias = "UpsamplingNearest2d")]
#[derive(Clone, Copy, Debug)]
pub struct Upsample {
    factor: [usize; 2],
    how: How,
}

/// How many pixels are mixed, and whether corners are aligned.
#[derive(Clone, Copy, Debug)]
enum How {
    Nearest,
    Bilinear(bool),
    Bicubic(bool),
}

impl Upsample {
    /// Each pixel a copy of the nearest one; one factor, or those of height and width.
    pub fn new(factor: impl IntoExtent<2>) -> Self {
        Self { factor: factor.into_extent(), how: How::Nearest }
    }

    /// Each pixel a mix of four (`mode="bilinear"`); `align_corners` lets the centres of the corner pixels coincide.
    pub fn bilinear(mut self, align_corners: bool) -> Self {
        self.how = How::Bilinear(align_corners);
        self
    }

    /// Each pixel a mix of sixteen (`mode="bicubic"`); `align_corners` lets the centres of the corner pixels coincide.
    pub fn bicubic(mut self, align_corners: bool) -> Self {
        self.how = How::Bicubic(align_corners);
        self
    }

    /// `[N, C, H, W]` to `[N, C, factor * H, factor * W]`, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        let image = x.dims().iter().skip(2).zip(self.factor);
        let size: Vec<usize> = image.map(|(size, factor)| size.saturating_mul(factor)).collect();
        // Images of another rank are refused by the operation.
        let size = size.try_into().unwrap_or(self.factor);
        let x = x.to::<F32>()?;
        match self.how {
            How::Nearest => x.upsample_nearest(size),
            How::Bilinear(align_corners) => x.upsample_bilinear(size, align_corners),
            How::Bicubic(align_corners) => x.upsample_bicubic2d(size, align_corners),
        }
    }
}

impl Module for Upsample {
    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}
