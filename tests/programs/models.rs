//! Models of many kinds, written as their users write them: they are here to compile, without the attribute too.

use super::T;
use amp::nn::*;
use amp::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
type Caches = Vec<Option<(T, T)>>;

/// Errors of one's own.
#[derive(Debug)]
enum AppError {
    Amp(amp::Error),
    Shape(String),
    Empty,
}
impl From<amp::Error> for AppError {
    fn from(e: amp::Error) -> Self {
        AppError::Amp(e)
    }
}
type AppResult<V> = std::result::Result<V, AppError>;

trait Layer {
    fn apply(&self, x: &T) -> Result<T>;
    fn name(&self) -> String {
        "layer".to_string()
    }
}
impl Layer for Linear {
    fn apply(&self, x: &T) -> Result<T> {
        self.forward(x)
    }
}
struct Residual {
    inner: Vec<Box<dyn Layer>>,
    scale: f64,
}
impl Layer for Residual {
    #[autocast(f16)]
    fn apply(&self, x: &T) -> Result<T> {
        let y = self.inner.iter().try_fold(x.clone(), |h, layer| layer.apply(&h))?;
        x + (y * self.scale)?
    }
}
struct Attn {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    heads: usize,
}
impl Attn {
    #[autocast(bf16)]
    fn forward(&self, x: &T, cache: &mut Option<(T, T)>, mask: Option<&T>) -> AppResult<T> {
        let &[b, t, c] = x.dims() else { return Err(AppError::Shape(format!("{:?}", x.dims()))) };
        let d = c / self.heads;
        let split = |y: T| -> Result<T> { y.reshape([b, t, self.heads, d])?.transpose(1, 2) };
        let q = split(self.q.forward(x)?.to::<F32>()?)?;
        let (mut k, mut v) = (split(self.k.forward(x)?.to()?)?, split(self.v.forward(x)?.to()?)?);
        if let Some((pk, pv)) = cache.take() {
            k = Tensor::cat(&[&pk, &k], 2)?;
            v = Tensor::cat(&[&pv, &v], 2)?;
        }
        let mut scores = (q.matmul(&k.transpose(-2, -1)?)? / (d as f64).sqrt())?;
        if let Some(mask) = mask {
            scores = (scores + mask)?;
        }
        let y = scores.softmax(-1)?.matmul(&v)?;
        *cache = Some((k, v));
        let y = y.transpose(1, 2)?.reshape([b, t, c])?;
        Ok(self.o.forward(&y)?)
    }
    #[autocast(f16)]
    fn all(&self, xs: &[T], caches: &mut Caches) -> AppResult<Vec<T>> {
        let mut out = Vec::with_capacity(xs.len());
        for (x, cache) in xs.iter().zip(caches.iter_mut()) {
            let y = self.forward(x, cache, None)?;
            out.push((y + x)?);
        }
        out.first().ok_or(AppError::Empty)?;
        Ok(out)
    }
}
struct Lstm {
    ih: Linear,
    hh: Linear,
    hidden: usize,
}
impl Lstm {
    #[autocast(f16)]
    fn step(&self, x: &T, (h, c): (T, T)) -> Result<(T, T)> {
        let gates = (self.ih.forward(x)? + self.hh.forward(&h)?)?;
        let parts = gates.chunk(4, -1)?;
        let [i, f, g, o] = &parts[..] else { unreachable!() };
        let c = ((f.sigmoid()? * &c)? + (i.sigmoid()? * g.tanh()?)?)?;
        let h = (o.sigmoid()? * c.tanh()?)?;
        Ok((h, c))
    }
    #[autocast(f16)]
    fn run(&self, xs: &[T]) -> Result<(Vec<T>, (T, T))> {
        let zero = Tensor::zeros([xs[0].dims()[0], self.hidden], &Device::cpu())?;
        let mut state = (zero.clone(), zero);
        let mut outs = vec![];
        for x in xs {
            state = self.step(x, state)?;
            outs.push(state.0.clone());
        }
        Ok((outs, state))
    }
    #[autocast(bf16)]
    fn scanned(&self, xs: &[T]) -> Result<T> {
        let zero = Tensor::zeros([xs[0].dims()[0], self.hidden], &Device::cpu())?;
        let hs: Vec<T> = xs
            .iter()
            .scan((zero.clone(), zero), |state, x| match self.step(x, state.clone()) {
                Ok(next) => {
                    *state = next;
                    Some(Ok(state.0.clone()))
                }
                Err(e) => Some(Err(e)),
            })
            .collect::<Result<_>>()?;
        let refs: Vec<&T> = hs.iter().collect();
        Tensor::stack(&refs, 1)?.mean([1], false)
    }
}
struct Gan {
    g: Vec<Linear>,
    d: Vec<Linear>,
}
impl Gan {
    #[autocast(f16)]
    fn generate(&self, z: &T) -> Result<T> {
        let mut h = z.clone();
        for (i, l) in self.g.iter().enumerate() {
            h = l.forward(&h)?;
            if i + 1 < self.g.len() {
                h = h.leaky_relu(0.2)?;
            }
        }
        h.tanh()
    }
    #[autocast(f16)]
    fn losses(&self, real: &T, z: &T) -> Result<(T, T)> {
        let judge = |x: &T| -> Result<T> {
            self.d.iter().try_fold(x.clone(), |h, l| {
                let y: T = l.forward(&h)?.relu()?.to()?;
                Ok(y)
            })
        };
        let fake = self.generate(z)?;
        let real_score = judge(real)?;
        let fake_score = judge(&fake.detach())?;
        let d_loss = (real_score.neg()?.exp()?.log1p()?.mean_all()? + fake_score.exp()?.log1p()?.mean_all()?)?;
        let g_loss = judge(&fake)?.neg()?.exp()?.log1p()?.mean_all()?;
        Ok((d_loss, g_loss))
    }
}
#[autocast(bf16)]
fn info_nce(a: &T, b: &T, temperature: f64) -> Result<T> {
    let norm = |x: &T| -> Result<T> { x / &x.sqr()?.sum([-1], true)?.sqrt()?.clamp(1e-6, 1e6)? };
    let (a, b) = (norm(a)?, norm(b)?);
    let logits = (a.matmul(&b.t()?)? / temperature)?;
    let n = logits.dims()[0];
    let labels = Tensor::<I64>::from_vec((0..n as i64).collect(), [n], &Device::cpu())?;
    let ab = logits.cross_entropy(&labels)?;
    let ba = logits.t()?.cross_entropy(&labels)?;
    (ab + ba)? * 0.5
}
struct Block<P: AutocastPrecision> {
    up: Linear,
    down: Linear,
    _p: std::marker::PhantomData<P>,
}
impl<P: AutocastPrecision> Block<P> {
    #[autocast(P)]
    fn forward(&self, x: &T) -> Result<T> {
        let h = self.up.forward(x)?.gelu()?;
        let y = self.down.forward(&h)?;
        x + &y
    }
    #[autocast(P)]
    fn stack(blocks: &[Self], x: T) -> Result<T> {
        blocks.iter().fold(Ok(x), |x, block| block.forward(&x?))
    }
}
#[derive(Default)]
struct Builder {
    layers: Vec<Arc<Linear>>,
    dropout: Option<f64>,
    residual: bool,
}
impl Builder {
    fn layer(mut self, l: Linear) -> Self {
        self.layers.push(Arc::new(l));
        self
    }
    fn dropout(mut self, p: f64) -> Self {
        self.dropout = Some(p);
        self
    }
    fn residual(mut self, on: bool) -> Self {
        self.residual = on;
        self
    }
    #[autocast(f16)]
    fn forward(&self, x: &T, train: bool) -> Result<T> {
        let mut h = x.shallow();
        for l in &self.layers {
            let y = l.forward(&h)?.silu()?;
            let y = match self.dropout {
                Some(p) if train => y.dropout(p, train)?,
                _ => y,
            };
            h = if self.residual { (h + y)? } else { y.to()? };
        }
        Ok(h)
    }
}
trait Shallow {
    fn shallow(&self) -> Self;
}
impl Shallow for T {
    fn shallow(&self) -> Self {
        self.clone()
    }
}
struct Policy {
    body: Linear,
    pi: Linear,
    value: Option<Linear>,
}
impl Policy {
    #[autocast(f16)]
    fn act(&self, obs: &T, memory: &mut VecDeque<T>) -> Result<(T, Option<T>)> {
        let h = self.body.forward(obs)?.tanh()?;
        let logp = self.pi.forward(&h)?.log_softmax(-1)?;
        let value = self.value.as_ref().map(|v| v.forward(&h)).transpose()?.map(|v| v.squeeze(-1)).transpose()?;
        if memory.len() > 3 {
            memory.pop_front();
        }
        memory.push_back(h.detach());
        Ok((logp, value))
    }
    #[autocast(f16)]
    fn loss(&self, obs: &T, actions: &Tensor<I64>, adv: &T, old: &T) -> Result<T> {
        let (logp, value) = self.act(obs, &mut VecDeque::new())?;
        let chosen = logp.gather(-1, &actions.unsqueeze(-1)?)?.squeeze(-1)?;
        let ratio = (chosen - old)?.exp()?;
        let clipped = ratio.clamp(0.8, 1.2)?;
        let pg = (&ratio * adv)?.minimum(&(clipped * adv)?)?.mean_all()?.neg()?;
        let entropy = (logp.exp()? * &logp)?.sum([-1], false)?.mean_all()?;
        Ok(match value {
            Some(v) => {
                let vl = (v - adv)?.sqr()?.mean_all()?;
                ((pg + (vl * 0.5)?)? + (entropy * 0.01)?)?
            }
            None => pg,
        })
    }
}
#[autocast(f16)]
fn diffuse(
    model: impl Fn(&T, usize) -> Result<T>,
    x0: &T,
    noise: &T,
    alphas: &[f32],
    steps: usize,
) -> Result<(T, BTreeMap<usize, T>)> {
    let mut x = noise.clone();
    let mut trace = BTreeMap::new();
    for t in (0..steps).rev() {
        let a = f64::from(alphas[t]);
        let eps = model(&x, t)?;
        let x0_hat = ((&x - (&eps * (1.0 - a).sqrt())?)? / a.sqrt())?;
        x = if t == 0 {
            x0_hat
        } else {
            let prev = f64::from(alphas[t - 1]);
            ((x0_hat * prev.sqrt())? + (eps * (1.0 - prev).sqrt())?)?
        };
        if t % 2 == 0 {
            trace.insert(t, x.clone());
        }
    }
    let loss = (&x - x0)?.sqr()?.mean_all()?;
    Ok((loss, trace))
}
#[autocast(bf16)]
fn windows(xs: &[T], w: &T) -> Result<Vec<T>> {
    let pairs: Vec<_> = xs
        .windows(2)
        .map(|p| match p {
            [a, b] => (a - b)?.matmul(w),
            _ => unreachable!(),
        })
        .collect::<Result<_>>()?;
    let best =
        pairs.iter().enumerate().filter(|(i, _)| i % 2 == 0).map(|(_, p)| p.sum_all()).collect::<Result<Vec<_>>>()?;
    best.into_iter().zip(pairs).map(|(s, p)| p * s).collect()
}
#[autocast(f16)]
async fn serve(x: T, model: Arc<Attn>, queue: &mut Vec<T>) -> AppResult<T> {
    let y = {
        let model = Arc::clone(&model);
        async move { model.forward(&x, &mut None, None) }.await?
    };
    while let Some(next) = queue.pop() {
        if next.rank() != 3 {
            continue;
        }
        let z = model.forward(&next, &mut None, Some(&y))?;
        if z.dims() == y.dims() {
            return Ok((z + &y)?);
        }
    }
    y.relu().map_err(AppError::from)
}
struct UNet {
    down: Vec<Conv2d>,
    mid: Conv2d,
    up: Vec<Conv2d>,
    norm: GroupNorm,
}
impl UNet {
    #[autocast(f16)]
    fn forward(&self, x: &T) -> Result<T> {
        let mut skips = Vec::new();
        let mut h = x.clone();
        for d in &self.down {
            h = d.forward(&h)?.silu()?;
            skips.push(h.clone());
            h = h.avg_pool2d(2)?;
        }
        h = self.norm.forward(&self.mid.forward(&h)?)?;
        for u in &self.up {
            let skip = skips.pop().expect("as many");
            h = h.upsample_nearest(2)?;
            h = u.forward(&Tensor::cat(&[&h, &skip], 1)?)?.silu()?;
        }
        Ok(h)
    }
}
#[autocast(f16)]
fn topk_moe(x: &T, gate: &Linear, experts: &HashMap<usize, (Linear, Linear)>) -> Result<T> {
    let probs = gate.forward(x)?.softmax(-1)?;
    let mut total: Option<T> = None;
    let mut ids: Vec<_> = experts.keys().copied().collect();
    ids.sort_unstable();
    for id in ids {
        let (up, down) = &experts[&id];
        let y = down.forward(&up.forward(x)?.gelu()?)?;
        let p = probs.narrow(-1, id, 1)?;
        let y = (y * p)?;
        total = Some(match total.take() {
            Some(t) => (t + y)?,
            None => y,
        });
    }
    total.map_or_else(|| x.relu(), Ok)
}
