//! Pre-norm transformer block: attention and a GELU MLP of width `4 d`, both with a residual.

use amp::AttentionOptions;
use amp::nn::{LayerNorm, Linear};
use amp::prelude::*;

/// Takes and gives `[N, T, d]`.
#[derive(Module)]
pub struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    projection: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
    heads: usize,
    causal: bool,
}

impl Block {
    /// A block with fresh weights; `causal` keeps a position from attending to later ones.
    pub fn new(width: usize, heads: usize, causal: bool, device: &Device) -> Result<Self> {
        Ok(Self {
            norm1: LayerNorm::new([width], device)?,
            qkv: Linear::new(width, 3 * width, device)?,
            projection: Linear::new(width, width, device)?,
            norm2: LayerNorm::new([width], device)?,
            up: Linear::new(width, 4 * width, device)?,
            down: Linear::new(4 * width, width, device)?,
            heads,
            causal,
        })
    }

    /// The residual stream stays in F32, products and attention run in `P`.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (n, t, d) = (x.dims()[0], x.dims()[1], x.dims()[2]);
        let qkv = self.qkv.forward(&self.norm1.forward(x)?)?;
        let qkv = qkv.reshape([n, t, 3, self.heads, d / self.heads])?.permute([2, 0, 3, 1, 4])?;
        let (q, k, v) = (qkv.select(0, 0)?, qkv.select(0, 1)?, qkv.select(0, 2)?);
        let y = q.scaled_dot_product_attention(&k, &v, None, AttentionOptions::default().causal(self.causal))?;
        let y = y.transpose(1, 2)?.reshape([n, t, d])?;
        let x = (x + self.projection.forward(&y)?)?;
        let h = self.up.forward(&self.norm2.forward(&x)?)?.gelu()?;
        x + self.down.forward(&h)?
    }
}
