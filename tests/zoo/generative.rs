//! Autoencoders, adversarial networks, diffusion.

use crate::{agree, falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;

#[derive(Module)]
struct Vae {
    enc: Linear,
    mu: Linear,
    logvar: Linear,
    dec: Sequential<(Linear, Relu, Linear)>,
}
impl Vae {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>, Tensor<F32>)> {
        let h = self.enc.forward(x)?.relu()?;
        let mu = self.mu.forward(&h)?;
        let logvar = self.logvar.forward(&h)?;
        let std = (&logvar * 0.5)?.exp()?;
        let eps = Tensor::randn_like(&std)?;
        let z = (&mu + &(eps * &std)?)?;
        let recon = self.dec.forward(&z)?;
        Ok((recon, mu, logvar))
    }
}
fn vae<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let net = Vae {
        enc: Linear::new(12, 16, &d)?,
        mu: Linear::new(16, 4, &d)?,
        logvar: Linear::new(16, 4, &d)?,
        dec: Sequential((Linear::new(4, 16, &d)?, Relu, Linear::new(16, 12, &d)?)),
    };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let x = Tensor::<F32>::rand([8, 12], &d)?;
    train(&mut opt, scaled, 10, |_| {
        let (recon, mu, logvar) = net.forward::<P>(&x)?;
        let rec = recon.bce_with_logits_with(&x, None, None, amp::LossReduction::Sum)?;
        let kl = (((1.0 + &logvar)? - mu.sqr()?)? - logvar.exp()?)?.sum_all()?;
        let loss = (rec + (kl * -0.5)?)?;
        loss / 8.0
    })
}
#[test]
fn vae_learns() -> Result<()> {
    let a = vae::<F32>(false)?;
    falls("vae", &a);
    agree("vae bf16", &a, &vae::<BF16>(false)?, 0.05);
    agree("vae f16", &a, &vae::<F16>(true)?, 0.01);
    Ok(())
}

#[derive(Module)]
struct Generator {
    fc: Linear,
    up: ConvTranspose2d,
    norm: BatchNorm2d,
    out: ConvTranspose2d,
}
impl Generator {
    #[autocast(f16)]
    fn forward(&self, z: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.fc.forward(z)?.relu()?.reshape([z.dims()[0], 8, 4, 4])?;
        let h = self.norm.forward(&self.up.forward(&h)?)?.relu()?;
        self.out.forward(&h)?.tanh()
    }
}
#[derive(Module)]
struct Critic {
    a: Conv2d,
    b: Conv2d,
    fc: Linear,
}
impl Critic {
    fn new(d: &Device) -> Result<Self> {
        Ok(Self {
            a: Conv2d::new(1, 4, 4, d)?.stride(2).padding(1),
            b: Conv2d::new(4, 8, 4, d)?.stride(2).padding(1),
            fc: Linear::new(8 * 4 * 4, 1, d)?,
        })
    }
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.a.forward(x)?.leaky_relu(0.2)?;
        let h = self.b.forward(&h)?.leaky_relu(0.2)?;
        self.fc.forward(&h.flatten(1, -1)?)?.squeeze(1)
    }
}
fn generator(d: &Device) -> Result<Generator> {
    Ok(Generator {
        fc: Linear::new(6, 128, d)?,
        up: ConvTranspose2d::new(8, 4, 4, d)?.stride(2).padding(1),
        norm: BatchNorm2d::new(4, d)?,
        out: ConvTranspose2d::new(4, 1, 4, d)?.stride(2).padding(1),
    })
}
#[test]
fn gan_trains() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let (g, c) = (generator(&d)?, Critic::new(&d)?);
    let mut og = Adam::new(g.parameters(), 2e-4).betas((0.5, 0.999));
    let mut oc = Adam::new(c.parameters(), 2e-4).betas((0.5, 0.999));
    let mut scaler = GradScaler::builder().init_scale(1024.0).build(&d)?;
    let real = Tensor::<F32>::rand([4, 1, 16, 16], &d)?;
    let (ones, zeros) = (Tensor::<F32>::ones([4], &d)?, Tensor::<F32>::zeros(4, &d)?);
    for _ in 0..3 {
        let z = Tensor::<F32>::randn([4, 6], &d)?;
        let fake = g.forward(&z)?;
        // critic
        let loss_c =
            (c.forward(&real)?.bce_with_logits(&ones)? + c.forward(&fake.detach())?.bce_with_logits(&zeros)?)?;
        let grads = scaler.scale(&loss_c)?.backward()?;
        scaler.step(&mut oc, grads)?;
        // generator
        let loss_g = c.forward(&fake)?.bce_with_logits(&ones)?;
        let grads = scaler.scale(&loss_g)?.backward_for(og.parameters())?;
        let step = scaler.step(&mut og, grads)?;
        scaler.update()?;
        assert!(step.was_taken()?);
        assert!(loss_c.item()?.is_finite() && loss_g.item()?.is_finite());
    }
    Ok(())
}

#[test]
fn wgan_gp() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let (g, c) = (generator(&d)?, Critic::new(&d)?);
    let before = c.parameters()[0].tensor().to_vec()?;
    let mut oc = RmsProp::new(c.parameters(), 5e-5);
    let mut scaler = GradScaler::builder().init_scale(64.0).build(&d)?;
    let real = Tensor::<F32>::rand([4, 1, 16, 16], &d)?;
    for _ in 0..2 {
        let z = Tensor::<F32>::randn([4, 6], &d)?;
        let fake = no_grad(|| g.forward(&z))?;
        let eps = Tensor::<F32>::rand([4, 1, 1, 1], &d)?;
        let mixed = real.lerp(&fake, &eps)?;
        let norms = amp::train::gradient_norm(|x| c.forward(x), &mixed, 0.1)?;
        assert!(norms.to_vec()?.iter().all(|norm| *norm > 0.0 && norm.is_finite()), "{norms:?}");
        let penalty = (norms - 1.0)?.sqr()?.mean_all()?;
        let w = (c.forward(&fake)?.mean_all()? - c.forward(&real)?.mean_all()?)?;
        let loss = (w + (penalty * 10.0)?)?;
        let grads = scaler.scale(&loss)?.backward()?;
        let step = scaler.step(&mut oc, grads)?;
        scaler.update()?;
        assert!(step.was_taken()? && loss.item()?.is_finite());
        for p in c.parameters() {
            p.set(&p.tensor().detach().clamp(-0.5, 0.5)?)?;
        }
    }
    let after = c.parameters()[0].tensor().to_vec()?;
    assert!(after != before && after.iter().all(|weight| weight.abs() <= 0.5));
    Ok(())
}

#[derive(Module)]
struct TimeMlp {
    a: Linear,
    b: Linear,
}
#[derive(Module)]
struct Denoiser {
    time: TimeMlp,
    inp: Conv2d,
    proj: Linear,
    norm: GroupNorm,
    mid: Conv2d,
    att_norm: GroupNorm,
    qkv: Conv2d,
    out: Conv2d,
}
fn timestep_embedding(t: &Tensor<I64>, dim: usize) -> Result<Tensor<F32>> {
    let half = dim / 2;
    let freq = Tensor::<F32>::from_fn([half], |i| (-(10000f32.ln()) * i[0] as f32 / half as f32).exp(), t.device())?;
    let args = (t.to::<F32>()?.unsqueeze(-1)? * freq.unsqueeze(0)?)?;
    Tensor::cat(&[&args.cos()?, &args.sin()?], -1)
}
impl Denoiser {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>, t: &Tensor<I64>) -> Result<Tensor<F32>> {
        let emb = timestep_embedding(t, 8)?;
        let emb = self.time.b.forward(&self.time.a.forward(&emb)?.silu()?)?;
        let h = self.inp.forward(x)?;
        let shift = self.proj.forward(&emb.silu()?)?.unsqueeze(-1)?.unsqueeze(-1)?;
        let h = (h + shift)?;
        let h = self.mid.forward(&self.norm.forward(&h)?.silu()?)?;
        let [n, c, hh, ww] = *h.dims() else { unreachable!() };
        let qkv = self.qkv.forward(&self.att_norm.forward(&h)?)?.reshape([n, 3, c, hh * ww])?;
        let q = qkv.select(1, 0)?.transpose(1, 2)?;
        let k = qkv.select(1, 1)?;
        let v = qkv.select(1, 2)?.transpose(1, 2)?;
        let att = (q.matmul(&k)? / (c as f64).sqrt())?.softmax(-1)?;
        let a = att.matmul(&v)?.transpose(1, 2)?.reshape([n, c, hh, ww])?;
        self.out.forward(&(h + a)?)
    }
}
fn ddpm<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let net = Denoiser {
        time: TimeMlp { a: Linear::new(8, 16, &d)?, b: Linear::new(16, 16, &d)? },
        inp: Conv2d::new(1, 8, 3, &d)?.padding(1),
        proj: Linear::new(16, 8, &d)?,
        norm: GroupNorm::new(2, 8, &d)?,
        mid: Conv2d::new(8, 8, 3, &d)?.padding(1),
        att_norm: GroupNorm::new(4, 8, &d)?,
        qkv: Conv2d::new(8, 24, 1, &d)?,
        out: Conv2d::new(8, 1, 3, &d)?.padding(1),
    };
    let betas = Tensor::<F32>::linspace(1e-4, 0.02, 100, &d)?;
    let alpha_bar = (1.0 - &betas)?.cumprod(0)?;
    let mut opt = AdamW::new(net.parameters(), 2e-3);
    let mut ema = Ema::new(net.parameters(), 0.99)?;
    let x0 = Tensor::<F32>::rand([4, 1, 8, 8], &d)?;
    let mut scaler = GradScaler::builder().enabled(scaled).build(&d)?;
    let t = Tensor::<I64>::randint(0, 100, [4], &d)?;
    let noise = Tensor::<F32>::randn([4, 1, 8, 8], &d)?;
    let mut losses = vec![];
    for _ in 0..8 {
        let a = alpha_bar.gather(0, &t)?.reshape([4, 1, 1, 1])?;
        let xt = ((a.sqrt()? * &x0)? + ((1.0 - &a)?.sqrt()? * &noise)?)?;
        let loss = net.forward::<P>(&xt, &t)?.mse_loss(&noise)?;
        let grads = scaler.scale(&loss)?.backward()?;
        let mut grads = scaler.unscale(grads)?;
        grads.clip_norm(1.0)?;
        let step = scaler.step(&mut opt, grads)?;
        ema.update(&step)?;
        scaler.update()?;
        losses.push(loss.item()?);
    }
    ema.swap()?;
    no_grad(|| net.forward::<P>(&noise, &t))?;
    ema.swap()?;
    Ok(losses)
}
#[test]
fn ddpm_learns() -> Result<()> {
    let a = ddpm::<F32>(false)?;
    falls("ddpm", &a);
    agree("ddpm bf16", &a, &ddpm::<BF16>(false)?, 0.05);
    agree("ddpm f16", &a, &ddpm::<F16>(true)?, 0.01);
    Ok(())
}
