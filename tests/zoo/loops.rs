//! Training loops that leave the usual path: several phases, own optimizers and schedules, threads, soft targets.

use crate::{falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Module)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
}
impl Mlp {
    fn new(i: usize, h: usize, o: usize, d: &Device) -> Result<Self> {
        Ok(Self { fc1: Linear::new(i, h, d)?, fc2: Linear::new(h, o, d)? })
    }
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.fc2.forward(&self.fc1.forward(x)?.gelu()?)
    }
}

fn data(d: &Device) -> Result<(Tensor<F32>, Tensor<I64>)> {
    Ok((Tensor::<F32>::randn([12, 6], d)?, Tensor::<I64>::from_fn(12, |i| (i[0] % 3) as i64, d)?))
}

/// An optimizer of one's own.
struct Lion {
    parameters: Vec<Parameter>,
    momenta: Vec<Tensor<F32>>,
    base: f64,
    lr: f64,
}
impl Lion {
    fn new(parameters: Vec<Parameter>, lr: f64) -> Result<Self> {
        let momenta = parameters.iter().map(|p| p.tensor().detach().zeros_like()).collect::<Result<_>>()?;
        Ok(Self { parameters, momenta, base: lr, lr })
    }
}
impl Optimizer for Lion {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    fn apply(&mut self, grads: &Gradients) -> Result<()> {
        for (p, m) in self.parameters.iter().zip(&mut self.momenta) {
            let Some(g) = grads.get(p)? else { continue };
            let update = m.lerp(&g, 0.1)?.sign()?;
            p.set(&(p.tensor().detach() - (update * self.lr)?)?)?;
            *m = m.lerp(&g, 0.01)?;
        }
        Ok(())
    }
    fn schedule(&mut self, factor: f64) {
        self.lr = self.base * factor;
    }
    fn learning_rate(&self) -> f64 {
        self.lr
    }
}

/// The schedule of "Attention is all you need".
struct Noam {
    warm: f64,
    steps: u64,
}
impl Schedule for Noam {
    fn factor(&self, steps: u64) -> f64 {
        let s = (steps + 1) as f64;
        (s.powf(-0.5)).min(s * self.warm.powf(-1.5))
    }
    fn steps(&self) -> u64 {
        self.steps
    }
    fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }
}

#[test]
fn own_optimizer_and_schedule() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let net = Mlp::new(6, 16, 3, &d)?;
    let (x, y) = data(&d)?;
    let mut opt = Lion::new(net.parameters(), 1e-2)?;
    let mut noam = Noam { warm: 4.0, steps: 0 };
    opt.schedule(noam.factor(0));
    let mut scaler = GradScaler::builder().init_scale(2f32.powi(10)).build(&d)?;
    let mut losses = vec![];
    for i in 0..10 {
        let mut loss = net.forward(&x)?.cross_entropy(&y)?;
        losses.push(loss.item()?);
        if i == 5 {
            loss = (loss * f64::INFINITY)?;
        }
        let before = (net.fc1.weight().to_vec()?, opt.learning_rate());
        let grads = scaler.scale(&loss)?.backward()?;
        let step = scaler.step(&mut opt, grads)?;
        noam.step(&mut opt, &step)?;
        scaler.update()?;
        assert_eq!(step.was_taken()?, i != 5);
        if i == 5 {
            assert_eq!((net.fc1.weight().to_vec()?, opt.learning_rate()), before);
        }
    }
    falls("lion", &losses);
    assert_eq!((noam.steps(), scaler.scale_value()?), (9, 512.0));
    Ok(())
}

/// Sharpness-aware: gradients at a perturbed point, applied at the original one.
#[test]
fn two_phases() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let net = Mlp::new(6, 16, 3, &d)?;
    let (x, y) = data(&d)?;
    let mut opt = Sgd::new(net.parameters(), 0.2).momentum(0.9);
    let mut scaler = GradScaler::builder().init_scale(512.0).build(&d)?;
    let mut losses = vec![];
    for _ in 0..8 {
        let loss = net.forward(&x)?.cross_entropy(&y)?;
        losses.push(loss.item()?);
        let first = scaler.scale(&loss)?.backward()?;
        let first = scaler.unscale(first)?;
        let norm = first.norm()?.item()?;
        let mut kept = vec![];
        for p in net.parameters() {
            let w = p.tensor().detach();
            if let Some(g) = first.get(&p)? {
                p.set(&(&w + (g * (0.05 / (norm + 1e-12)))?)?)?;
            }
            kept.push(w);
        }
        let second = scaler.scale(&net.forward(&x)?.cross_entropy(&y)?)?.backward()?;
        for (p, w) in net.parameters().iter().zip(&kept) {
            p.set(w)?;
        }
        scaler.step(&mut opt, second)?;
        scaler.update()?;
    }
    falls("sam", &losses);
    Ok(())
}

/// Workers share one model; their gradients are added up.
#[test]
fn threads_share_a_model() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let net = Arc::new(Mlp::new(6, 16, 3, &d)?);
    let (x, y) = data(&d)?;
    let mut opt = AdamW::new(net.parameters(), 1e-2);
    let mut scaler = GradScaler::builder().init_scale(256.0).build(&d)?;
    let mut losses = vec![];
    for _ in 0..6 {
        let parts = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..3)
                .map(|i| {
                    let (net, scaler, x, y) = (net.clone(), &scaler, &x, &y);
                    scope.spawn(move || -> Result<_> {
                        let (x, y) = (x.narrow(0, 4 * i, 4)?, y.narrow(0, 4 * i, 4)?);
                        let loss = (net.forward(&x)?.cross_entropy(&y)? / 3.0)?;
                        Ok((scaler.scale(&loss)?.backward()?, loss.item()?))
                    })
                })
                .collect();
            handles.into_iter().map(|h| h.join().expect("no panic")).collect::<Result<Vec<_>>>()
        })?;
        let mut total = Gradients::accumulator();
        let mut sum = 0.0;
        for (grads, loss) in parts {
            total.add(grads)?;
            sum += loss;
        }
        scaler.step(&mut opt, total)?;
        scaler.update()?;
        losses.push(sum);
    }
    falls("threads", &losses);
    Ok(())
}

/// Mixed images and soft targets; accuracy and a table of confusions afterwards.
#[test]
fn mixup() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let net = Mlp::new(6, 32, 3, &d)?;
    let (x, y) = data(&d)?;
    let hot = y.one_hot(3)?.to::<F32>()?;
    let mut opt = AdamW::new(net.parameters(), 2e-2);
    let losses = train(&mut opt, true, 30, |i| {
        let order = Tensor::randperm(12, &d)?;
        let share = if i < 10 { 0.8 } else { 1.0 };
        let mixed = ((&x * share)? + (x.index_select(0, &order)? * (1.0 - share))?)?;
        let soft = ((&hot * share)? + (hot.index_select(0, &order)? * (1.0 - share))?)?;
        (net.forward(&mixed)?.log_softmax(-1)? * &soft)?.sum(-1, false)?.mean_all()?.neg()
    })?;
    falls("mixup", &losses);
    net.eval();
    let guess = no_grad(|| net.forward(&x)?.argmax(-1, false))?;
    let accuracy = guess.eq(&y)?.to::<F32>()?.mean_all()?.item()?;
    let table = y.one_hot(3)?.to::<F32>()?.t()?.matmul(&guess.one_hot(3)?.to::<F32>()?)?;
    let right: f32 = (0..3).map(|i| table.select(0, i)?.select(0, i)?.item()).sum::<Result<f32>>()?;
    assert_eq!(right, (accuracy * 12.0).round());
    Ok(())
}

/// A mean teacher: an average of the student that moves only with steps that were taken.
#[test]
fn mean_teacher() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(5);
    let student = Mlp::new(6, 16, 3, &d)?;
    let (x, y) = data(&d)?;
    let mut opt = Adam::new(student.parameters(), 1e-2);
    let mut ema = Ema::new(student.parameters(), 0.9)?;
    let mut scaler = GradScaler::builder().init_scale(128.0).hysteresis(2).build(&d)?;
    let mut losses = vec![];
    for _ in 0..8 {
        ema.swap()?;
        let goal = no_grad(|| student.forward(&x)?.softmax(-1))?;
        ema.swap()?;
        let logits = student.forward(&x)?;
        let consistency = logits.softmax(-1)?.mse_loss(&goal)?;
        let loss = (logits.cross_entropy(&y)? + consistency)?;
        let grads = scaler.scale(&loss)?.backward()?;
        let step = scaler.step(&mut opt, grads)?;
        ema.update(&step)?;
        scaler.update()?;
        losses.push(loss.item()?);
    }
    falls("mean teacher", &losses);
    Ok(())
}

/// A choice of norms and activations in one model, by enums and maps.
#[derive(Module)]
enum Norm {
    Layer(LayerNorm),
    Rms { inner: RmsNorm },
    None,
}
impl Norm {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        match self {
            Self::Layer(n) => n.forward(x),
            Self::Rms { inner } => inner.forward(x),
            Self::None => Ok(x.clone()),
        }
    }
}
#[derive(Module)]
struct Wrapped<M> {
    norm: Norm,
    inner: M,
    name: String,
    depth: usize,
    scale: Option<f64>,
}
trait Forward {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>>;
}
impl Forward for Mlp {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        Self::forward(self, x)
    }
}
impl<M: Forward> Wrapped<M> {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = self.norm.forward(x)?;
        for _ in 0..self.depth {
            h = (&h + &self.inner.forward(&h)?)?;
        }
        if let Some(scale) = self.scale {
            h = (h * scale)?;
        }
        Ok(h)
    }
}
#[derive(Module)]
struct Tasks {
    body: Wrapped<Mlp>,
    heads: BTreeMap<String, Linear>,
}
#[test]
fn enums_generics_and_maps() -> Result<()> {
    let d = Device::best();
    for norm in [Norm::Layer(LayerNorm::new(6, &d)?), Norm::Rms { inner: RmsNorm::new(6, &d)? }, Norm::None] {
        let _turn = crate::seed(6);
        let body = Wrapped { norm, inner: Mlp::new(6, 8, 6, &d)?, name: "body".into(), depth: 2, scale: Some(0.5) };
        let heads = [("a", 2), ("b", 3)].into_iter().map(|(n, o)| Ok((n.to_owned(), Linear::new(6, o, &d)?)));
        let net = Tasks { body, heads: heads.collect::<Result<_>>()? };
        let names: Vec<_> = net.named_parameters().into_iter().map(|(n, _)| n).collect();
        assert!(
            names.contains(&"heads.b.weight".to_owned()) && names.contains(&"body.inner.fc1.bias".to_owned()),
            "{names:?}"
        );
        let (x, y) = data(&d)?;
        let mut opt = Adam::new(net.parameters(), 1e-2);
        let losses = train(&mut opt, true, 8, |_| {
            let h = net.body.forward(&x)?;
            let (a, b) = amp_region!(f16, (net.heads["a"].forward(&h)?, net.heads["b"].forward(&h)?));
            let a = a.to::<F32>()?.cross_entropy(&y.clamp_max(1.0)?)?;
            a + b.to::<F32>()?.cross_entropy(&y)?
        })?;
        falls("tasks", &losses);
    }
    Ok(())
}

/// Inference: half weights of a saved model, no graph, odd batch sizes.
#[test]
fn served() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(7);
    let net = Mlp::new(6, 16, 3, &d)?;
    let path = std::env::temp_dir().join(format!("zoo-served-{}.safetensors", std::process::id()));
    net.save(&path)?;
    let other = Mlp::new(6, 16, 3, &d)?;
    other.load(&path)?;
    std::fs::remove_file(&path).ok();
    other.eval();
    for n in [0, 1, 7] {
        let x = Tensor::<F32>::randn([n, 6], &d)?;
        let a = no_grad(|| net.forward(&x))?;
        let b = no_grad(|| other.forward(&x))?;
        assert!(!b.requires_grad());
        assert_eq!(a.to_vec()?, b.to_vec()?);
    }
    Ok(())
}
