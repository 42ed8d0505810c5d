//! A GPT: token and position embeddings, causal transformer blocks, a linear head.

use super::transformer::Block;
use amp::nn::{Embedding, LayerNorm, Linear};
use amp::prelude::*;

/// Takes token ids `[N, T]`, gives scores of the next token `[N, T, vocabulary]`.
#[derive(Module)]
pub struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

/// Sizes of a [`Gpt`].
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of different tokens.
    pub vocabulary: usize,
    /// Longest sequence.
    pub context: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Attention heads; a divisor of the width.
    pub heads: usize,
}

impl Gpt {
    /// A model with fresh weights.
    pub fn new(sizes: Sizes, device: &Device) -> Result<Self> {
        let Sizes { vocabulary, context, width, layers, heads } = sizes;
        Ok(Self {
            tokens: Embedding::new(vocabulary, width, device)?,
            positions: Embedding::new(context, width, device)?,
            blocks: (0..layers).map(|_| Block::new(width, heads, true, device)).collect::<Result<_>>()?,
            norm: LayerNorm::new([width], device)?,
            head: Linear::new(width, vocabulary, device)?.without_bias(),
        })
    }

    /// Scores of the next token at every position.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, ids: &Tensor<I64>) -> Result<Tensor<F32>> {
        let positions = Tensor::<I64>::arange(0, ids.dims()[1], ids.device())?;
        let mut h = (self.tokens.forward(ids)? + self.positions.forward(&positions)?)?;
        for block in &self.blocks {
            h = block.forward::<P>(&h)?;
        }
        self.head.forward(&self.norm.forward(&h)?)
    }
}
