//! ResNet-18 for 32 × 32 images: a 3 × 3 stem without pooling, 11.17 million parameters.

use amp::nn::{BatchNorm2d, Conv2d, Linear};
use amp::prelude::*;

/// Takes images `[N, 3, 32, 32]`, gives class scores `[N, classes]`.
#[derive(Module)]
pub struct ResNet18 {
    stem: Conv2d,
    norm: BatchNorm2d,
    blocks: Vec<BasicBlock>,
    head: Linear,
}

#[derive(Module)]
struct BasicBlock {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    down: Option<Down>,
}

/// The short cut of a block that changes the shape.
#[derive(Module)]
struct Down {
    conv: Conv2d,
    norm: BatchNorm2d,
}

impl ResNet18 {
    /// A network with fresh weights; `width` is the stem's channels, 64 in the original.
    pub fn new(width: usize, classes: usize, device: &Device) -> Result<Self> {
        let mut blocks = Vec::new();
        let mut inputs = width;
        for (outputs, stride) in [(width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)] {
            blocks.push(BasicBlock::new(inputs, outputs, stride, device)?);
            blocks.push(BasicBlock::new(outputs, outputs, 1, device)?);
            inputs = outputs;
        }
        Ok(Self {
            stem: conv3x3(3, width, 1, device)?,
            norm: BatchNorm2d::new(width, device)?,
            blocks,
            head: Linear::new(inputs, classes, device)?,
        })
    }

    /// Class scores in F32.
    #[autocast(P)]
    pub fn forward<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = self.norm.forward_relu(&self.stem.forward(images)?)?;
        for block in &self.blocks {
            h = block.forward::<P>(&h)?;
        }
        self.head.forward(&h.mean([2, 3], false)?)
    }
}

impl BasicBlock {
    fn new(inputs: usize, outputs: usize, stride: usize, device: &Device) -> Result<Self> {
        let reshapes = stride != 1 || inputs != outputs;
        Ok(Self {
            conv1: conv3x3(inputs, outputs, stride, device)?,
            norm1: BatchNorm2d::new(outputs, device)?,
            conv2: conv3x3(outputs, outputs, 1, device)?,
            norm2: BatchNorm2d::new(outputs, device)?,
            down: if reshapes { Some(Down::new(inputs, outputs, stride, device)?) } else { None },
        })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm1.forward_relu(&self.conv1.forward(x)?)?;
        let skip = match &self.down {
            Some(down) => down.forward::<P>(x)?,
            None => x.clone(),
        };
        self.norm2.forward_add_relu(&self.conv2.forward(&h)?, &skip)
    }
}

impl Down {
    fn new(inputs: usize, outputs: usize, stride: usize, device: &Device) -> Result<Self> {
        let conv = Conv2d::new(inputs, outputs, 1, device)?.without_bias().stride(stride);
        Ok(Self { conv, norm: BatchNorm2d::new(outputs, device)? })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.norm.forward(&self.conv.forward(x)?)
    }
}

fn conv3x3(inputs: usize, outputs: usize, stride: usize, device: &Device) -> Result<Conv2d> {
    Ok(Conv2d::new(inputs, outputs, 3, device)?.without_bias().stride(stride).padding(1))
}
