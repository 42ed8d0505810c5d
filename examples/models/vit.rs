//! A vision transformer for 32 × 32 images: patches of 4 × 4, mean pooling instead of a class token.

use super::transformer::Block;
use amp::nn::{Conv2d, LayerNorm, Linear};
use amp::prelude::*;

const PATCH: usize = 4;

/// Takes images `[N, C, side, side]`, gives class scores `[N, classes]`.
#[derive(Module)]
pub struct Vit {
    patch: Conv2d,
    positions: Parameter,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

/// Sizes of a [`Vit`].
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an image; a multiple of 4.
    pub side: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Attention heads; a divisor of the width.
    pub heads: usize,
    /// Number of classes.
    pub classes: usize,
}

impl Vit {
    /// A model with fresh weights.
    pub fn new(sizes: Sizes, device: &Device) -> Result<Self> {
        let Sizes { channels, side, width, layers, heads, classes } = sizes;
        let tokens = (side / PATCH) * (side / PATCH);
        Ok(Self {
            patch: Conv2d::new(channels, width, PATCH, device)?.stride(PATCH),
            positions: Parameter::new(&Tensor::normal([1, tokens, width], 0.0, 0.02, device)?)?,
            blocks: (0..layers).map(|_| Block::new(width, heads, false, device)).collect::<Result<_>>()?,
            norm: LayerNorm::new([width], device)?,
            head: Linear::new(width, classes, device)?,
        })
    }

    /// Class scores in F32.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        let patches = self.patch.forward(images)?.flatten(2, 3)?.transpose(1, 2)?;
        let mut h = (patches + self.positions.tensor())?;
        for block in &self.blocks {
            h = block.forward::<P>(&h)?;
        }
        self.head.forward(&self.norm.forward(&h)?.mean([1], false)?)
    }
}
