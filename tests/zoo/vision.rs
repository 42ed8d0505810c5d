//! Convolutional networks and transformers on images.

use crate::{agree, falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;

#[derive(Module)]
struct DoubleConv {
    c1: Conv2d,
    b1: BatchNorm2d,
    c2: Conv2d,
    b2: BatchNorm2d,
}
impl DoubleConv {
    fn new(i: usize, o: usize, d: &Device) -> Result<Self> {
        Ok(Self {
            c1: Conv2d::new(i, o, 3, d)?.padding(1).without_bias(),
            b1: BatchNorm2d::new(o, d)?,
            c2: Conv2d::new(o, o, 3, d)?.padding(1).without_bias(),
            b2: BatchNorm2d::new(o, d)?,
        })
    }
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let x = self.b1.forward(&self.c1.forward(x)?)?.relu()?;
        self.b2.forward(&self.c2.forward(&x)?)?.relu()?.to::<P>()
    }
}
#[derive(Module)]
struct UNet {
    inc: DoubleConv,
    down: Vec<DoubleConv>,
    up: Vec<ConvTranspose2d>,
    dec: Vec<DoubleConv>,
    out: Conv2d,
}
impl UNet {
    fn new(d: &Device) -> Result<Self> {
        let w = [4, 8, 16];
        Ok(Self {
            inc: DoubleConv::new(1, w[0], d)?,
            down: (0..2).map(|i| DoubleConv::new(w[i], w[i + 1], d)).collect::<Result<_>>()?,
            up: (0..2)
                .rev()
                .map(|i| Ok(ConvTranspose2d::new(w[i + 1], w[i], 2, d)?.stride(2)))
                .collect::<Result<_>>()?,
            dec: (0..2).rev().map(|i| DoubleConv::new(2 * w[i], w[i], d)).collect::<Result<_>>()?,
            out: Conv2d::new(w[0], 1, 1, d)?,
        })
    }
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut skips = vec![];
        let mut h = self.inc.forward::<P>(&x.to::<P>()?)?;
        for down in &self.down {
            skips.push(h.clone());
            h = down.forward(&h.max_pool2d(2)?)?;
        }
        for (up, dec) in self.up.iter().zip(&self.dec) {
            let skip = skips.pop().expect("as many as levels");
            h = dec.forward(&Tensor::cat(&[&up.forward(&h)?, &skip], 1)?)?;
        }
        self.out.forward(&h)?.to::<F32>()
    }
}
fn unet<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let net = UNet::new(&d)?;
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let x = Tensor::<F32>::from_fn([2, 1, 16, 16], |i| ((i[0] * 7 + i[2] * 3 + i[3] * 5) % 11) as f32 / 11.0, &d)?;
    let y = x.gt(0.5)?.to::<F32>()?;
    train(&mut opt, scaled, 10, |_| {
        let logits = net.forward::<P>(&x)?;
        let bce = logits.bce_with_logits(&y)?;
        let p = logits.sigmoid()?;
        let inter = (&p * &y)?.sum([1, 2, 3], false)?;
        let sums = (p.sum([1, 2, 3], false)? + y.sum([1, 2, 3], false)?)?;
        let dice = (1.0 - ((inter * 2.0)? + 1.0)?.div(&(sums + 1.0)?)?.mean_all()?)?;
        bce + dice
    })
}
#[test]
fn unet_learns() -> Result<()> {
    let a = unet::<F32>(false)?;
    falls("unet f32", &a);
    agree("unet bf16", &a, &unet::<BF16>(false)?, 0.05);
    agree("unet f16", &a, &unet::<F16>(true)?, 0.02);
    Ok(())
}

#[derive(Module)]
struct DenseLayer {
    norm: BatchNorm2d,
    conv: Conv2d,
    drop: Dropout,
}
#[derive(Module)]
struct Bottleneck {
    reduce: Conv2d,
    grouped: Conv2d,
    expand: Conv2d,
    norms: [BatchNorm2d; 3],
    down: Option<(Conv2d, BatchNorm2d)>,
}
#[derive(Module)]
struct InvertedResidual {
    expand: Conv2d,
    depthwise: Conv2d,
    project: Conv2d,
    norm: BatchNorm2d,
    se: Option<Se>,
    #[module(skip)]
    residual: bool,
}
#[derive(Module)]
struct Se {
    fc1: Conv2d,
    fc2: Conv2d,
}
impl Se {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F16>) -> Result<Tensor<F16>> {
        let s = x.adaptive_avg_pool2d(1)?;
        let s = self.fc2.forward(&self.fc1.forward(&s)?.relu()?)?.hardsigmoid()?;
        x * &s
    }
}
#[derive(Module)]
struct Zoo {
    stem: Conv2d,
    dense: Vec<DenseLayer>,
    transition: Conv2d,
    block: Bottleneck,
    mobile: InvertedResidual,
    head: Linear,
}
impl Zoo {
    fn new(d: &Device) -> Result<Self> {
        Ok(Self {
            stem: Conv2d::new(3, 8, 3, d)?.stride(2).padding(1),
            dense: (0..3)
                .map(|i| {
                    Ok(DenseLayer {
                        norm: BatchNorm2d::new(8 + 4 * i, d)?,
                        conv: Conv2d::new(8 + 4 * i, 4, 3, d)?.padding(1).without_bias(),
                        drop: Dropout::new(0.0),
                    })
                })
                .collect::<Result<Vec<_>>>()?,
            transition: Conv2d::new(20, 16, 1, d)?,
            block: Bottleneck {
                reduce: Conv2d::new(16, 8, 1, d)?,
                grouped: Conv2d::grouped(8, 8, 3, 4, d)?.padding(1).stride(2),
                expand: Conv2d::new(8, 32, 1, d)?,
                norms: [BatchNorm2d::new(8, d)?, BatchNorm2d::new(8, d)?, BatchNorm2d::new(32, d)?],
                down: Some((Conv2d::new(16, 32, 1, d)?.stride(2), BatchNorm2d::new(32, d)?)),
            },
            mobile: InvertedResidual {
                expand: Conv2d::new(32, 64, 1, d)?,
                depthwise: Conv2d::grouped(64, 64, 3, 64, d)?.padding(1),
                project: Conv2d::new(64, 32, 1, d)?,
                norm: BatchNorm2d::new(32, d)?,
                se: Some(Se { fc1: Conv2d::new(64, 16, 1, d)?, fc2: Conv2d::new(16, 64, 1, d)? }),
                residual: true,
            },
            head: Linear::new(32, 10, d)?,
        })
    }
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut features = vec![self.stem.forward(x)?];
        for layer in &self.dense {
            let all = Tensor::cat(&features.iter().collect::<Vec<_>>(), 1)?;
            let y = layer.conv.forward(&layer.norm.forward(&all)?.relu()?)?;
            features.push(layer.drop.forward(&y)?);
        }
        let h = self.transition.forward(&Tensor::cat(&features.iter().collect::<Vec<_>>(), 1)?)?;
        let b = &self.block;
        let y = b.norms[0].forward(&b.reduce.forward(&h)?)?.relu()?;
        let y = b.norms[1].forward(&b.grouped.forward(&y)?)?.relu()?;
        let y = b.norms[2].forward(&b.expand.forward(&y)?)?;
        let skip = match &b.down {
            Some((conv, norm)) => norm.forward(&conv.forward(&h)?)?,
            None => h.to::<F32>()?,
        };
        let h = (y + skip)?.relu()?;
        let m = &self.mobile;
        let mut y: Tensor<F16> = m.expand.forward(&h)?.relu6()?;
        y = m.depthwise.forward(&y)?.hardswish()?;
        if let Some(se) = &m.se {
            y = se.forward(&y)?;
        }
        let y = m.norm.forward(&m.project.forward(&y)?)?;
        let h = if m.residual { (y + &h)? } else { y };
        let h = h.mean([2, 3], false)?;
        self.head.forward(&h)
    }
}
#[test]
fn zoo_learns() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let net = Zoo::new(&d)?;
    let mut opt = Sgd::new(net.parameters(), 0.05).momentum(0.9).nesterov(true).weight_decay(1e-4);
    let x = Tensor::<F32>::randn([4, 3, 16, 16], &d)?;
    let y = Tensor::<I64>::from_vec(vec![1, 3, 5, 7], [4], &d)?;
    let losses = train(&mut opt, true, 8, |_| net.forward(&x)?.cross_entropy(&y))?;
    falls("zoo", &losses);
    net.eval();
    let a = no_grad(|| net.forward(&x))?;
    let b = no_grad(|| net.forward(&x))?;
    assert_eq!(a.to_vec()?, b.to_vec()?);
    Ok(())
}

#[derive(Module)]
struct Block<const W: usize> {
    n1: LayerNorm,
    att: MultiHeadAttention,
    n2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}
#[derive(Module)]
struct Vit<const W: usize, const DEPTH: usize> {
    patch: Conv2d,
    cls: Parameter,
    pos: Parameter,
    blocks: [Block<W>; DEPTH],
    norm: LayerNorm,
    head: Linear,
}
impl<const W: usize, const DEPTH: usize> Vit<W, DEPTH> {
    fn new(d: &Device) -> Result<Self> {
        let block = |_| {
            Ok::<_, Error>(Block {
                n1: LayerNorm::new([W], d)?,
                att: MultiHeadAttention::new(W, 4, d)?,
                n2: LayerNorm::new(W, d)?,
                fc1: Linear::new(W, 2 * W, d)?,
                fc2: Linear::new(2 * W, W, d)?,
            })
        };
        let blocks: Vec<_> = (0..DEPTH).map(block).collect::<Result<_>>()?;
        Ok(Self {
            patch: Conv2d::new(3, W, 4, d)?.stride(4),
            cls: init::zeros([1, 1, W], d)?,
            pos: init::normal([1, 17, W], 0.0, 0.02, d)?,
            blocks: blocks.try_into().ok().expect("as many blocks"),
            norm: LayerNorm::new([W], d)?,
            head: Linear::new(W, 5, d)?,
        })
    }
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = x.dims()[0];
        let x = self.patch.forward(x)?.flatten(2, -1)?.transpose(1, 2)?;
        let cls = self.cls.tensor().expand([n, 1, W])?;
        let x = Tensor::cat(&[&cls, &x], 1)?;
        let mut x = (x + &self.pos.tensor())?;
        for b in &self.blocks {
            let h = b.n1.forward(&x)?;
            x = (x + b.att.forward(&h, &h, &h, None)?)?;
            let h = b.n2.forward(&x)?;
            x = (&x + &b.fc2.forward(&b.fc1.forward(&h)?.gelu()?)?)?;
        }
        self.head.forward(&self.norm.forward(&x)?.select(1, 0)?)
    }
}
fn vit<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let net = Vit::<16, 2>::new(&d)?;
    let mut opt = AdamW::new(net.parameters(), 3e-3);
    let x = Tensor::<F32>::randn([3, 3, 16, 16], &d)?;
    let y = Tensor::<I64>::from_vec(vec![0, 3, 2], [3], &d)?;
    train(&mut opt, scaled, 8, |_| {
        net.forward::<P>(&x)?.cross_entropy_with(&y, &CrossEntropy::new().label_smoothing(0.1))
    })
}
use amp::CrossEntropy;
#[test]
fn vit_learns() -> Result<()> {
    let a = vit::<F32>(false)?;
    falls("vit", &a);
    agree("vit bf16", &a, &vit::<BF16>(false)?, 0.05);
    agree("vit f16", &a, &vit::<F16>(true)?, 0.01);
    Ok(())
}

#[derive(Module)]
struct MixerBlock {
    n1: LayerNorm,
    tokens: Sequential<(Linear, Gelu, Linear)>,
    n2: LayerNorm,
    channels: Sequential<(Linear, Gelu, Dropout, Linear)>,
}
#[derive(Module)]
struct Mixer(Conv2d, Vec<MixerBlock>, Linear);
impl Mixer {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut x = self.0.forward(x)?.flatten(2, 3)?.transpose(1, 2)?;
        for b in &self.1 {
            let y = b.n1.forward(&x)?.transpose(1, 2)?;
            x = (x + b.tokens.forward(&y)?.transpose(1, 2)?)?;
            x = (&x + b.channels.forward(&b.n2.forward(&x)?)?)?;
        }
        self.2.forward(&x.mean(1, false)?)
    }
}
#[test]
fn mixer_learns() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let block = || -> Result<MixerBlock> {
        Ok(MixerBlock {
            n1: LayerNorm::new([8], &d)?,
            tokens: Sequential((Linear::new(16, 12, &d)?, Gelu, Linear::new(12, 16, &d)?)),
            n2: LayerNorm::new([8], &d)?,
            channels: Sequential((Linear::new(8, 32, &d)?, Gelu, Dropout::new(0.1), Linear::new(32, 8, &d)?)),
        })
    };
    let net = Mixer(Conv2d::new(3, 8, 4, &d)?.stride(4), vec![block()?, block()?], Linear::new(8, 3, &d)?);
    let mut opt = AdamW::new(net.parameters(), 1e-2).betas((0.9, 0.95));
    let x = Tensor::<F32>::randn([3, 3, 16, 16], &d)?;
    let y = Tensor::<I64>::arange(0, 3, &d)?;
    let losses: Vec<f32> = (0..12)
        .map(|_| {
            let loss = net.forward(&x)?.cross_entropy(&y)?;
            let mut grads = loss.backward()?;
            grads.clip_norm(1.0)?;
            opt.step(&grads)?;
            loss.item()
        })
        .collect::<Result<_>>()?;
    falls("mixer", &losses);
    Ok(())
}

#[derive(Module)]
struct SubPixel {
    a: Conv2d,
    b: Conv2d,
}
impl SubPixel {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let y = self.a.forward(x)?.leaky_relu(0.2)?;
        let y = self.b.forward(&y)?.pixel_shuffle(2)?;
        y + x.upsample_bilinear([8, 8], false)?
    }
}
#[test]
fn super_resolution() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(5);
    let net = SubPixel { a: Conv2d::new(1, 8, 3, &d)?.padding(1), b: Conv2d::new(8, 4, 3, &d)?.padding(1) };
    let mut opt = RmsProp::new(net.parameters(), 1e-3);
    let hi = Tensor::<F32>::rand([2, 1, 8, 8], &d)?;
    let lo = hi.avg_pool2d(2)?;
    let losses = train(&mut opt, false, 8, |_| net.forward(&lo)?.l1_loss(&hi))?;
    falls("sr", &losses);
    Ok(())
}
