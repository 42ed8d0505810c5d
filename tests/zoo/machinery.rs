//! How programs are put together: trait objects, generics, policies, checkpoints, odd shapes.

use crate::{falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;
use amp::train::TrainState;

#[derive(Clone, Copy, Debug, Default)]
enum Activation {
    #[default]
    Relu,
    Gelu,
    Swish,
    Elu(f64),
}
trait Layer: Module + Send + Sync {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>>;
}
#[derive(Module)]
struct Dense {
    fc: Linear,
    norm: Option<LayerNorm>,
    #[module(skip)]
    act: Activation,
}
impl Layer for Dense {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = self.fc.forward(x)?;
        if let Some(norm) = &self.norm {
            h = norm.forward(&h)?;
        }
        let y = match self.act {
            Activation::Relu => h.relu()?,
            Activation::Gelu => h.gelu()?,
            Activation::Swish => h.silu()?,
            Activation::Elu(a) => h.elu(a)?,
        };
        Ok(y)
    }
}
#[derive(Module)]
struct Residual {
    inner: Box<dyn Layer>,
    gain: Parameter,
}
impl Layer for Residual {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let y = self.inner.forward(x)?;
        x + &(y * &self.gain)?
    }
}
struct Builder {
    width: usize,
    depth: usize,
    act: Activation,
    norm: bool,
}
impl Builder {
    fn new() -> Self {
        Self { width: 8, depth: 3, act: Activation::default(), norm: false }
    }
    fn act(mut self, act: Activation) -> Self {
        self.act = act;
        self
    }
    fn norm(mut self, norm: bool) -> Self {
        self.norm = norm;
        self
    }
    fn build(self, d: &Device) -> Result<Net> {
        let mut layers: Vec<Box<dyn Layer>> = vec![];
        for i in 0..self.depth {
            let dense = Dense {
                fc: Linear::new(self.width, self.width, d)?,
                norm: self.norm.then(|| LayerNorm::new([self.width], d)).transpose()?,
                act: self.act,
            };
            layers.push(if i % 2 == 1 {
                Box::new(Residual { inner: Box::new(dense), gain: init::ones([1], d)? })
            } else {
                Box::new(dense)
            });
        }
        Ok(Net { layers })
    }
}
#[derive(Module)]
struct Net {
    layers: Vec<Box<dyn Layer>>,
}
impl Net {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.layers.iter().try_fold(x.clone(), |x, l| l.forward(&x))
    }
}
#[test]
fn trait_objects() -> Result<()> {
    let d = Device::best();
    for act in [Activation::Relu, Activation::Gelu, Activation::Swish, Activation::Elu(0.5)] {
        let _turn = crate::seed(1);
        let net = Builder::new().act(act).norm(true).build(&d)?;
        let names: Vec<String> = net.named_parameters().into_iter().map(|(n, _)| n).collect();
        assert!(names.contains(&"layers.1.inner.fc.weight".to_owned()), "{names:?}");
        let mut opt = Adam::new(net.parameters(), 1e-2);
        let x = Tensor::<F32>::randn([8, 8], &d)?;
        let losses = train(&mut opt, false, 8, |_| net.forward(&x)?.mse_loss(&x))?;
        falls(&format!("{act:?}"), &losses);
    }
    Ok(())
}

#[derive(Module)]
struct Typed<P: AutocastPrecision> {
    fc: Linear,
    #[module(skip)]
    marker: std::marker::PhantomData<P>,
}
impl<P: AutocastPrecision> Typed<P> {
    fn new(d: &Device) -> Result<Self> {
        Ok(Self { fc: Linear::new(4, 4, d)?, marker: std::marker::PhantomData })
    }
    #[autocast(P)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<P>> {
        self.fc.forward(x)
    }
}
#[test]
fn generic_module() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let x = Tensor::<F32>::randn([3, 4], &d)?;
    let y: Tensor<F16> = Typed::<F16>::new(&d)?.forward(&x)?;
    let z: Tensor<BF16> = Typed::<BF16>::new(&d)?.forward(&x)?;
    let w: Tensor<F32> = Typed::<F32>::new(&d)?.forward(&x)?;
    assert_eq!((y.dims(), z.dims()), (w.dims(), w.dims()));
    Ok(())
}

mod policies {
    use amp::prelude::*;
    amp_policy! {
        /// Everything delicate in F32.
        pub strict {
            full: [gelu, silu, tanh],
        }
    }
}
mod user {
    use super::policies::strict;
    use amp::prelude::*;
    #[autocast(f16, policy = strict)]
    pub fn run(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.matmul(w)?;
        let t: Tensor<F32> = h.tanh()?;
        t + h.gelu()?
    }
}
#[test]
fn shared_policy() -> Result<()> {
    let d = Device::best();
    let x = Tensor::<F32>::ones([2, 2], &d)?;
    assert_eq!(user::run(&x, &x)?.dims(), [2, 2]);
    Ok(())
}

#[derive(Module)]
struct Small {
    fc: Linear,
    bn: BatchNorm2d,
}
impl Small {
    #[autocast(P)]
    fn at<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let y = self.fc.forward(x)?;
        let y = self.bn.forward(&y.unsqueeze(-1)?.unsqueeze(-1)?)?.squeeze(-1)?.squeeze(-1)?;
        Ok(y)
    }
    fn forward(&self, x: &Tensor<F32>, enabled: bool) -> Result<Tensor<F32>> {
        if enabled { self.at::<F16>(x) } else { self.at::<F32>(x) }
    }
}
#[test]
fn enabled_flags() -> Result<()> {
    let d = Device::best();
    for enabled in [false, true] {
        let _turn = crate::seed(3);
        let net = Small { fc: Linear::new(4, 4, &d)?, bn: BatchNorm2d::new(4, &d)? };
        let mut opt = Sgd::new(net.parameters(), 0.1);
        let mut scaler = GradScaler::builder().enabled(enabled).build(&d)?;
        let x = Tensor::<F32>::randn([8, 4], &d)?;
        let y = Tensor::<F32>::randn([8, 4], &d)?;
        for _ in 0..3 {
            let loss = net.forward(&x, enabled)?.mse_loss(&y)?;
            let grads = scaler.scale(&loss)?.backward()?;
            scaler.step(&mut opt, grads)?;
            scaler.update()?;
        }
        assert_ne!(net.bn.running_mean().tensor().to_vec()?, vec![0.0; 4]);
    }
    Ok(())
}

#[test]
fn resume_in_the_middle() -> Result<()> {
    let d = Device::best();
    let path = std::env::temp_dir().join(format!("adv-{}.safetensors", std::process::id()));
    let make = || -> Result<_> {
        let net = Builder::new().build(&d)?;
        let mut opt = AdamW::new(net.parameters(), 1e-2);
        let warm = LinearWarmup::new(&mut opt, 3).then(3, CosineLr::new(10).least(0.1), &mut opt);
        let ema = Ema::new(net.parameters(), 0.9)?;
        let scaler = GradScaler::builder().growth_interval(2).init_scale(8.0).build(&d)?;
        Ok((net, opt, warm, ema, scaler))
    };
    let run = |net: &Net,
               opt: &mut AdamW,
               sched: &mut dyn Schedule,
               ema: &mut Ema,
               scaler: &mut GradScaler,
               from: usize,
               to: usize|
     -> Result<Vec<f32>> {
        let mut out = vec![];
        for i in from..to {
            let mut total = Gradients::accumulator();
            for j in 0..2 {
                let x = Tensor::<F32>::from_fn([4, 8], |k| ((k[0] * 3 + k[1] + i + j) % 7) as f32 / 7.0, &d)?;
                let loss = (net.forward(&x)?.mse_loss(&x)? / 2.0)?;
                total.add(scaler.scale(&loss)?.backward()?)?;
                out.push(loss.item()?);
            }
            let mut grads = scaler.unscale(total)?;
            grads.clip_norm(0.5)?;
            let step = scaler.step(opt, grads)?;
            sched.step(opt, &step)?;
            ema.update(&step)?;
            scaler.update()?;
            out.push(opt.learning_rate() as f32);
        }
        Ok(out)
    };
    let _turn = crate::seed(4);
    let (net, mut opt, mut sched, mut ema, mut scaler) = make()?;
    run(&net, &mut opt, &mut sched, &mut ema, &mut scaler, 0, 4)?;
    let mut epoch = 4u64;
    TrainState::new(&net, &mut opt, &mut scaler).schedule(&mut sched).ema(&mut ema).counter(&mut epoch).save(&path)?;
    let straight = run(&net, &mut opt, &mut sched, &mut ema, &mut scaler, 4, 8)?;
    let (net, mut opt, mut sched, mut ema, mut scaler) = make()?;
    let mut epoch = 0;
    TrainState::new(&net, &mut opt, &mut scaler).schedule(&mut sched).ema(&mut ema).counter(&mut epoch).load(&path)?;
    assert_eq!(epoch, 4);
    let resumed = run(&net, &mut opt, &mut sched, &mut ema, &mut scaler, epoch as usize, 8)?;
    std::fs::remove_file(&path).ok();
    assert_eq!(straight, resumed);
    Ok(())
}

#[test]
fn checkpointing() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(5);
    let net = std::sync::Arc::new(Builder::new().act(Activation::Gelu).build(&d)?);
    let shared = net.clone();
    let x = Tensor::<F32>::randn([4, 8], &d)?;
    let plain = net.forward(&x)?.sqr()?.mean_all()?;
    let again = amp::checkpoint(move |x| shared.forward(x), &x)?.sqr()?.mean_all()?;
    assert_eq!(plain.item()?, again.item()?);
    let (a, b) = (plain.backward()?, again.backward()?);
    for p in net.parameters() {
        assert_eq!(a.get(&p)?.unwrap().to_vec()?, b.get(&p)?.unwrap().to_vec()?);
    }
    Ok(())
}

#[autocast(P)]
fn odd<P: AutocastPrecision>(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?.relu()?;
    let h = h.layer_norm(h.dims()[1], None, None, 1e-5)?;
    h.softmax(-1)?.log_softmax(0)?.sum(1, true)
}
#[test]
fn odd_shapes() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(6);
    for (n, k, m) in [(0, 3, 5), (1, 1, 1), (7, 13, 11), (3, 0, 2), (17, 31, 1)] {
        let x = Tensor::<F32>::randn([k, n], &d)?.t()?;
        let w = Tensor::<F32>::randn([1, m], &d)?.expand([k, m])?;
        for y in [odd::<F32>(&x, &w)?, odd::<BF16>(&x, &w)?, odd::<F16>(&x, &w)?] {
            assert_eq!(y.dims(), [n, 1]);
        }
        let tracked = x.tracked();
        let mut scaler = GradScaler::new(&d)?;
        let loss = odd::<F16>(&tracked, &w)?.sum_all()?;
        let grads = scaler.scale(&loss)?.backward()?;
        let grads = scaler.unscale(grads)?;
        assert_eq!(grads.get(&tracked)?.unwrap().dims(), [n, k]);
    }
    Ok(())
}

#[test]
fn data_sets() -> Result<()> {
    let d = Device::best();
    let bytes: Vec<u8> = (0..=255).collect();
    let images = Tensor::<U8>::from_vec(bytes, [4, 1, 8, 8], &d)?;
    let x = (images.to::<F32>()? / 255.0)?;
    let mean = x.mean([0, 2, 3], true)?;
    let std = x.std([0, 2, 3], true)?;
    let x = ((x - mean)? / (std + 1e-5)?)?;
    let x16 = x.to::<F16>()?;
    let net = Conv2d::new(1, 2, 3, &d)?;
    assert_eq!(net.forward(&x16)?.dims(), [4, 2, 6, 6]);
    let perm = Tensor::<I64>::randperm(4, &d)?;
    assert_eq!(x16.index_select(0, &perm)?.dims(), [4, 1, 8, 8]);
    Ok(())
}
