//! The network: two convolutions, two linear layers.

use crate::support::digits::{CLASSES, SIDE};
use amp::nn::{BatchNorm2d, Conv2d, Linear};
use amp::prelude::*;

/// Takes images `[N, 1, 8, 8]`, gives class scores `[N, 10]`.
#[derive(Module)]
pub struct Net {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    fc1: Linear,
    fc2: Linear,
}

impl Net {
    /// A network with fresh weights from the global generator.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            conv1: Conv2d::new(1, 32, 3, device)?.padding(1),
            norm1: BatchNorm2d::new(32, device)?,
            conv2: Conv2d::new(32, 64, 3, device)?.padding(1),
            norm2: BatchNorm2d::new(64, device)?,
            fc1: Linear::new(64 * (SIDE / 2) * (SIDE / 2), 64, device)?,
            fc2: Linear::new(64, CLASSES, device)?,
        })
    }

    /// One source for all three precisions: convolutions and products run in `P`, statistics and the loss in F32.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm1.forward(&self.conv1.forward(images)?)?.relu()?;
        let h = self.norm2.forward(&self.conv2.forward(&h)?)?.relu()?;
        let h = h.max_pool2d(2)?.flatten(1, -1)?;
        let h = self.fc1.forward(&h)?.relu()?;
        self.fc2.forward(&h)
    }
}
