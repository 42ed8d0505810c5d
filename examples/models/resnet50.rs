//! ResNet-50 for 224 × 224 images, 25.6 million parameters.

use amp::nn::{BatchNorm2d, Conv2d, Linear};
use amp::prelude::*;
use amp::{PoolOptions, Result};

/// Takes images `[N, 3, H, W]`, gives class scores `[N, classes]`.
#[derive(Module)]
pub struct ResNet50 {
    stem: Unit,
    blocks: Vec<Bottleneck>,
    head: Linear,
}

/// A convolution and its norm.
#[derive(Module)]
struct Unit {
    conv: Conv2d,
    norm: BatchNorm2d,
}

#[derive(Module)]
struct Bottleneck {
    reduce: Unit,
    middle: Unit,
    expand: Unit,
    down: Option<Unit>,
}

impl ResNet50 {
    /// A network with fresh weights; `width` is the stem's channels, 64 in the original.
    pub fn new(width: usize, classes: usize, device: &Device) -> Result<Self> {
        let mut blocks = Vec::new();
        let mut inputs = width;
        for (stage, (count, stride)) in [(3, 1), (4, 2), (6, 2), (3, 2)].into_iter().enumerate() {
            for i in 0..count {
                let middle = width << stage;
                blocks.push(Bottleneck::new(inputs, middle, if i == 0 { stride } else { 1 }, device)?);
                inputs = 4 * middle;
            }
        }
        let stem = Unit::new(3, width, 7, 2, device)?;
        Ok(Self { stem, blocks, head: Linear::new(inputs, classes, device)? })
    }

    /// Class scores in F32.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let window = PoolOptions::new(3).stride(2).padding(1);
        let mut h = self.stem.norm.forward_relu(&self.stem.conv.forward(x)?)?.max_pool2d(window)?;
        for block in &self.blocks {
            h = block.forward::<P>(&h)?;
        }
        self.head.forward(&h.mean([2, 3], false)?)
    }
}

impl Unit {
    fn new(inputs: usize, outputs: usize, kernel: usize, stride: usize, device: &Device) -> Result<Self> {
        let conv = Conv2d::new(inputs, outputs, kernel, device)?.without_bias().stride(stride).padding(kernel / 2);
        Ok(Self { conv, norm: BatchNorm2d::new(outputs, device)? })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.norm.forward(&self.conv.forward(x)?)
    }
}

impl Bottleneck {
    fn new(inputs: usize, middle: usize, stride: usize, device: &Device) -> Result<Self> {
        let reshapes = stride != 1 || inputs != 4 * middle;
        Ok(Self {
            reduce: Unit::new(inputs, middle, 1, 1, device)?,
            middle: Unit::new(middle, middle, 3, stride, device)?,
            expand: Unit::new(middle, 4 * middle, 1, 1, device)?,
            down: if reshapes { Some(Unit::new(inputs, 4 * middle, 1, stride, device)?) } else { None },
        })
    }

    /// All in one region, so that what only convolutions read is written in their precision.
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.reduce.norm.forward_relu(&self.reduce.conv.forward(x)?)?;
        let h = self.middle.norm.forward_relu(&self.middle.conv.forward(&h)?)?;
        let skip = match &self.down {
            Some(down) => down.forward::<P>(x)?,
            None => x.clone(),
        };
        self.expand.norm.forward_add_relu(&self.expand.conv.forward(&h)?, &skip)
    }
}
