//! Lines, fields, boxes, codes: convolutions in one dimension, radiance fields, detection, quantised codes.

use crate::{agree, falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;

// WaveNet: causal dilated convolutions with gates
#[derive(Module)]
struct WaveBlock {
    conv: Conv1d,
    skip: Conv1d,
    residual: Conv1d,
    dilation: usize,
}
#[derive(Module)]
struct WaveNet {
    inp: Conv1d,
    blocks: Vec<WaveBlock>,
    norm: BatchNorm1d,
    out: Conv1d,
}
impl WaveNet {
    fn new(d: &Device) -> Result<Self> {
        let block = |i: u32| -> Result<WaveBlock> {
            let dilation = 2usize.pow(i);
            Ok(WaveBlock {
                conv: Conv1d::new(8, 16, 2, d)?.dilation(dilation),
                skip: Conv1d::new(8, 8, 1, d)?,
                residual: Conv1d::new(8, 8, 1, d)?,
                dilation,
            })
        };
        Ok(Self {
            inp: Conv1d::new(1, 8, 1, d)?,
            blocks: (0..3).map(block).collect::<Result<_>>()?,
            norm: BatchNorm1d::new(8, d)?,
            out: Conv1d::new(8, 1, 1, d)?,
        })
    }
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = self.inp.forward(x)?;
        let mut skips = Vec::with_capacity(self.blocks.len());
        for b in &self.blocks {
            let padded = h.pad([b.dilation, 0], 0.0)?;
            let y = b.conv.forward(&padded)?;
            let (f, g) = match y.chunk(2, 1)?.as_slice() {
                [f, g] => (f.tanh()?, g.sigmoid()?),
                _ => unreachable!("two halves"),
            };
            let y = (f * g)?;
            skips.push(b.skip.forward(&y)?);
            h = (h + b.residual.forward(&y)?)?;
        }
        let total = skips.into_iter().reduce(|a, b| (a + b).expect("one shape")).expect("a block");
        self.out.forward(&self.norm.forward(&total)?.relu()?)
    }
}
fn wavenet<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let net = WaveNet::new(&d)?;
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let wave = Tensor::<F32>::from_fn([2, 1, 17], |i| ((i[2] as f32 + i[0] as f32) * 0.7).sin(), &d)?;
    let (x, y) = (wave.slice(2, ..16)?, wave.slice(2, 1..)?);
    train(&mut opt, scaled, 8, |_| net.forward::<P>(&x)?.mse_loss(&y))
}
#[test]
fn wavenet_learns() -> Result<()> {
    let a = wavenet::<F32>(false)?;
    falls("wavenet", &a);
    agree("wavenet bf16", &a, &wavenet::<BF16>(false)?, 0.1);
    agree("wavenet f16", &a, &wavenet::<F16>(true)?, 0.02);
    Ok(())
}

// NeRF: encodings and volume rendering stay in F32, the network runs in the region's precision
#[derive(Module)]
struct Field {
    layers: Vec<Linear>,
    sigma: Linear,
    rgb: Linear,
}
impl Field {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
        let freqs: Vec<f32> = (0..3).map(|i| 2f32.powi(i)).collect();
        let mut parts = vec![x.clone()];
        for f in freqs {
            parts.push((x * f)?.sin()?);
            parts.push((x * f)?.cos()?);
        }
        let mut h = Tensor::cat(&parts.iter().collect::<Vec<_>>(), -1)?;
        for (i, layer) in self.layers.iter().enumerate() {
            h = layer.forward(&h)?;
            if i + 1 < self.layers.len() {
                h = h.relu()?;
            }
        }
        let sigma = self.sigma.forward(&h)?.softplus()?.squeeze(-1)?;
        let rgb = self.rgb.forward(&h)?.sigmoid()?;
        Ok((sigma, rgb))
    }
}
fn render(sigma: &Tensor<F32>, rgb: &Tensor<F32>, delta: f64) -> Result<Tensor<F32>> {
    let alpha = (1.0 - (sigma * -delta)?.exp()?)?;
    let free = ((1.0 - &alpha)? + 1e-10)?;
    let t = free.cumprod(-1)?;
    let t = Tensor::cat(&[&t.narrow(1, 0, 1)?.ones_like()?, &t.narrow(1, 0, t.dims()[1] - 1)?], 1)?;
    let w = (alpha * t)?;
    (w.unsqueeze(-1)? * rgb)?.sum(1, false)
}
#[test]
fn radiance_field() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let net = Field {
        layers: vec![Linear::new(21, 16, &d)?, Linear::new(16, 16, &d)?],
        sigma: Linear::new(16, 1, &d)?,
        rgb: Linear::new(16, 3, &d)?,
    };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let points = Tensor::<F32>::rand([5, 6, 3], &d)?;
    let colours = Tensor::<F32>::rand([5, 3], &d)?;
    let losses = train(&mut opt, true, 10, |_| {
        let (sigma, rgb) = net.forward(&points)?;
        render(&sigma, &rgb, 0.3)?.mse_loss(&colours)
    })?;
    falls("nerf", &losses);
    Ok(())
}

// detection: boxes by giou, objectness by focal loss, hard negatives by topk
fn area(b: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (w, h) = ((b.select(1, 2)? - b.select(1, 0)?)?, (b.select(1, 3)? - b.select(1, 1)?)?);
    w.clamp_min(0.0)? * h.clamp_min(0.0)?
}
fn giou(a: &Tensor<F32>, b: &Tensor<F32>) -> Result<Tensor<F32>> {
    let corner = |t: &Tensor<F32>, i| t.narrow(1, i, 2);
    let inner = Tensor::cat(&[&corner(a, 0)?.maximum(&corner(b, 0)?)?, &corner(a, 2)?.minimum(&corner(b, 2)?)?], 1)?;
    let hull = Tensor::cat(&[&corner(a, 0)?.minimum(&corner(b, 0)?)?, &corner(a, 2)?.maximum(&corner(b, 2)?)?], 1)?;
    let inter = area(&inner)?;
    let union = ((area(a)? + area(b)?)? - &inter)?;
    let hull = area(&hull)?;
    (inter / (&union + 1e-7)?)? - ((&hull - &union)? / (&hull + 1e-7)?)?
}
#[derive(Module)]
struct Detector {
    backbone: Sequential<(Conv2d, BatchNorm2d, Mish, MaxPool2d, Conv2d, Relu6)>,
    head: Conv2d,
}
#[test]
fn detector() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let net = Detector {
        backbone: Sequential((
            Conv2d::new(3, 8, 3, &d)?.padding(1),
            BatchNorm2d::new(8, &d)?,
            Mish,
            MaxPool2d::new(2),
            Conv2d::new(8, 8, 3, &d)?.padding(1),
            Relu6,
        )),
        head: Conv2d::new(8, 5, 1, &d)?,
    };
    let mut opt = Sgd::new(net.parameters(), 0.05).momentum(0.9);
    let x = Tensor::<F32>::rand([2, 3, 8, 8], &d)?;
    let obj = Tensor::<F32>::from_fn(32, |i| f32::from(u8::from(i[0] % 7 == 0)), &d)?;
    let boxes = Tensor::<F32>::from_fn([32, 4], |i| if i[1] < 2 { 0.1 } else { 0.7 }, &d)?;
    let losses = train(&mut opt, true, 10, |_| {
        let y = amp_region!(f16, net.head.forward(&net.backbone.forward(&x)?)?);
        let y: Tensor<F32> = y.to::<F32>()?.permute([0, 2, 3, 1])?.reshape([32, 5])?;
        let centre = y.narrow(1, 0, 2)?.sigmoid()?;
        let size = y.narrow(1, 2, 2)?.clamp(-4.0, 4.0)?.exp()?;
        let found = Tensor::cat(&[&(&centre - &(&size / 2.0)?)?, &(&centre + &(&size / 2.0)?)?], 1)?;
        let iou = giou(&found, &boxes)?;
        let positive = obj.gt(0.5)?;
        let count = obj.sum_all()?.clamp_min(1.0)?;
        let box_loss = ((1.0 - iou)?.masked_fill(&obj.lt(0.5)?, 0.0)?.sum_all()? / &count)?;
        let each = y.select(1, 4)?.bce_with_logits_with(&obj, None, None, amp::LossReduction::None)?;
        let negatives = each.masked_fill(&positive, 0.0)?;
        let (hard, _) = negatives.topk(9, 0, true)?;
        let obj_loss = ((each.masked_fill(&obj.lt(0.5)?, 0.0)?.sum_all()? + hard.sum_all()?)? / &count)?;
        box_loss + obj_loss
    })?;
    falls("detector", &losses);
    Ok(())
}

// VQ-VAE: nearest codes, straight through
#[derive(Module)]
struct Vq {
    enc: Linear,
    codes: Embedding,
    dec: Linear,
}
impl Vq {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
        let z: Tensor<F32> = self.enc.forward(x)?.to::<F32>()?;
        let w = self.codes.weight().tensor();
        // |z|² - 2 z·w + |w|², where the product must not be rounded to BF16
        let cross = amp_region!(f32, z.matmul(&w.t()?)?);
        let dist = ((z.sqr()?.sum(-1, true)? - (cross * 2.0)?)? + w.sqr()?.sum(-1, false)?)?;
        let index = dist.argmin(-1, false)?;
        let q = self.codes.forward(&index)?;
        let loss = (q.mse_loss(&z.detach())? + (z.mse_loss(&q.detach())? * 0.25)?)?;
        let straight = (&z + (&q - &z)?.detach())?;
        Ok((self.dec.forward(&straight)?, loss))
    }
}
#[test]
fn quantised_codes() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let net = Vq { enc: Linear::new(6, 4, &d)?, codes: Embedding::new(8, 4, &d)?, dec: Linear::new(4, 6, &d)? };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let x = Tensor::<F32>::randn([16, 6], &d)?;
    let losses = train(&mut opt, false, 10, |_| {
        let (y, vq) = net.forward(&x)?;
        y.mse_loss(&x)? + vq
    })?;
    falls("vq", &losses);
    Ok(())
}

// point clouds: shared layers, a symmetric maximum, a learned transform
#[derive(Module)]
struct PointNet {
    transform: Linear,
    mlp: [Conv1d; 2],
    norms: [BatchNorm1d; 2],
    head: Sequential<(Linear, Elu, Dropout, Linear)>,
}
impl PointNet {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = x.dims()[0];
        let t = self.transform.forward(&x.mean(1, false)?)?.reshape([n, 3, 3])?;
        let eye = Tensor::<F32>::from_fn([3, 3], |i| if i[0] == i[1] { 1.0 } else { 0.0 }, x.device())?;
        let x = x.matmul(&(t + eye)?)?;
        let mut h = x.transpose(1, 2)?;
        for (conv, norm) in self.mlp.iter().zip(&self.norms) {
            h = norm.forward(&conv.forward(&h)?)?.relu()?;
        }
        self.head.forward(&h.max(2, false)?)
    }
}
fn points<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(5);
    let net = PointNet {
        transform: Linear::new(3, 9, &d)?,
        mlp: [Conv1d::new(3, 8, 1, &d)?, Conv1d::new(8, 16, 1, &d)?],
        norms: [BatchNorm1d::new(8, &d)?, BatchNorm1d::new(16, &d)?],
        head: Sequential((Linear::new(16, 8, &d)?, Elu::new(1.0), Dropout::new(0.0), Linear::new(8, 3, &d)?)),
    };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let x = Tensor::<F32>::randn([6, 11, 3], &d)?;
    let y = Tensor::<I64>::from_vec(vec![0, 1, 2, 2, 1, 0], 6, &d)?;
    train(&mut opt, scaled, 8, |_| net.forward::<P>(&x)?.cross_entropy(&y))
}
#[test]
fn point_clouds() -> Result<()> {
    let a = points::<F32>(false)?;
    falls("points", &a);
    agree("points bf16", &a, &points::<BF16>(false)?, 0.1);
    agree("points f16", &a, &points::<F16>(true)?, 0.02);
    Ok(())
}
