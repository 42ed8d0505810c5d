//! Linear layers with ReLU between them.

use amp::nn::Linear;
use amp::prelude::*;

/// Takes `[N, first size]`, gives `[N, last size]`.
#[derive(Module)]
pub struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// One layer between each two neighbours of `sizes`.
    pub fn new(sizes: &[usize], device: &Device) -> Result<Self> {
        let layers = sizes.windows(2).map(|size| Linear::new(size[0], size[1], device)).collect::<Result<_>>()?;
        Ok(Self { layers })
    }

    /// The last layer's output in F32.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            h = layer.forward(&h)?;
            if i + 1 < self.layers.len() {
                h = h.relu()?;
            }
        }
        Ok(h)
    }
}
