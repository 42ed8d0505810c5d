//! Forward functions as people write them: each compiles as it stands, and those that are called run.

#![allow(dead_code, clippy::needless_late_init, clippy::type_complexity)] // many are here to compile; their forms are the test

mod accumulators;
mod behind;
mod budget;
mod called;
mod chained;
mod changed;
mod closures;
mod collected;
mod compared;
mod conditional;
mod destructured;
mod elements;
mod exclusive;
mod filled;
mod given;
mod joined;
mod late;
mod lints;
mod lists;
mod made;
mod models;
mod numbered;
mod numbers;
mod objects;
mod operators;
mod options;
mod own;
mod pairs;
mod parameters;
mod pasted;
mod paths;
mod places;
mod read;
mod references;
mod signatures;
mod states;
mod sticky;
mod switched;
mod tupled;
mod typed;
mod values;
mod written;

use amp::nn::*;
use amp::prelude::*;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Mutex;

type T = Tensor<F32>;

struct Expert {
    up: Linear,
    down: Linear,
}
struct Moe {
    gate: Linear,
    experts: Vec<Expert>,
    k: usize,
}
impl Moe {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let logits = self.gate.forward(x)?;
        let probs: Tensor<F32> = logits.softmax(-1)?;
        let (weights, index) = probs.topk(self.k, -1, true)?;
        let weights = (&weights / &weights.sum(-1, false)?.unsqueeze(-1)?)?;
        let mut out: Option<Tensor<F32>> = None;
        for (i, expert) in self.experts.iter().enumerate() {
            let mask = index.to::<F32>()?.ne(i as f64)?;
            let w = weights.masked_fill(&mask, 0.0)?.sum(-1, false)?.unsqueeze(-1)?;
            let h = expert.down.forward(&expert.up.forward(x)?.gelu()?)?;
            let y = (h * &w)?;
            out = Some(match out {
                Some(acc) => (acc + &y)?,
                None => y,
            });
        }
        Ok(out.expect("at least one expert"))
    }
}

struct ResBlock {
    n1: GroupNorm,
    c1: Conv2d,
    time: Linear,
    n2: GroupNorm,
    c2: Conv2d,
    skip: Option<Conv2d>,
    drop: Dropout,
}
impl ResBlock {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>, t: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.c1.forward(&self.n1.forward(x)?.silu()?)?;
        let t = self.time.forward(&t.silu()?)?.unsqueeze(-1)?.unsqueeze(-1)?;
        let h = (h + &t)?;
        let h = self.c2.forward(&self.drop.forward(&self.n2.forward(&h)?.silu()?)?)?;
        let skip = match &self.skip {
            Some(c) => c.forward(x)?,
            None => x.clone(),
        };
        h + &skip
    }
}

#[derive(Clone)]
enum Act {
    Relu,
    Gelu,
    Softmax(isize),
    Scale(f64),
    Custom(Rc<dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>>>),
}

#[autocast(f16)]
fn acts(x: &T, w: &T, list: &[Act]) -> Result<T> {
    let mut h = x.matmul(w)?;
    for a in list {
        h = match a {
            Act::Relu => h.relu()?,
            Act::Gelu => h.gelu()?,
            Act::Softmax(d) if *d == -1 => h.softmax(*d)?,
            Act::Softmax(_) => continue,
            Act::Scale(s) => (h * *s)?,
            Act::Custom(f) => f(&h)?,
        };
    }
    Ok(h)
}

struct Cache {
    k: Vec<T>,
    map: HashMap<String, T>,
}

#[autocast(f16)]
fn kv(q: &T, k: T, v: T, cache: &mut Cache, mask: Option<&Tensor<Bool>>) -> Result<T> {
    cache.k.push(k);
    cache.map.insert(format!("v{}", cache.k.len()), v);
    let keys = Tensor::cat(&cache.k.iter().collect::<Vec<_>>(), 0)?;
    let mut vs = vec![];
    for i in 1..=cache.k.len() {
        vs.push(&cache.map[&format!("v{i}")]);
    }
    let values = Tensor::cat(&vs, 0)?;
    let scale = 1.0 / (q.dims()[1] as f64).sqrt();
    let mut s = (q.matmul(&keys.t()?)? * scale)?;
    if let Some(mask) = mask {
        s = s.masked_fill(mask, Fill::NegInf)?;
    }
    let p = s.softmax(-1)?;
    assert!(p.dims()[0] == q.dims()[0], "rows {:?}", p.dims());
    debug_assert_eq!(p.dims().len(), 2);
    p.matmul(&values)?.to::<F32>()
}

#[autocast(f16)]
fn rnn(xs: &[T], wx: &T, wh: &T, h0: Option<T>) -> Result<(Vec<T>, Option<T>)> {
    let mut state = h0;
    let mut outs = Vec::with_capacity(xs.len());
    for x in xs {
        let mut z = x.matmul(wx)?;
        if let Some(h) = &state {
            z = (z + &h.matmul(wh)?)?;
        }
        let h = z.tanh()?;
        outs.push(h.to::<F32>()?);
        state = Some(h.to::<F32>()?);
    }
    Ok((outs, state))
}

#[autocast(f16)]
fn rnn2(xs: &[T], wx: &T, wh: &T) -> Result<Option<T>> {
    let mut state: Option<Tensor<F32>> = None;
    for x in xs {
        let z = x.matmul(wx)?;
        let z = match state.take() {
            Some(h) => (z + &h.matmul(wh)?)?,
            None => z,
        };
        state = Some(z.tanh()?);
    }
    Ok(state)
}

#[autocast(f16)]
fn rnn3(xs: &[T], wx: &T, wh: &T) -> Result<Tensor<F32>> {
    let mut state = None;
    for x in xs {
        let z = x.matmul(wx)?;
        let z = if let Some(h) = &state {
            let h: &Tensor<F16> = h;
            (z + &h.matmul(wh)?)?
        } else {
            z
        };
        state.replace(z.tanh()?);
    }
    let Some(h) = state else { return Ok(wx.clone()) };
    Ok(h)
}

#[autocast(P)]
fn generic<P: AutocastPrecision, F>(x: &T, w: &T, f: F) -> Result<(T, usize)>
where
    F: Fn(&Tensor<P>) -> Result<Tensor<P>>,
{
    let y = x.matmul(w)?;
    let y = f(&y)?;
    Ok((y.layer_norm([w.dims()[1]], None, None, 1e-5)?, 3))
}

#[autocast(f16)]
fn closures(x: &T, ws: &[T]) -> Result<T> {
    let lin = |a: &Tensor<F32>, i: usize| a.matmul(&ws[i]);
    let h = lin(x, 0)?;
    let scale = move |s: f64| h.mul(s);
    let y = scale(2.0)?;
    let all: Vec<_> = ws.iter().map(|w| y.matmul(w)).collect::<Result<_>>()?;
    let total = all.iter().skip(1).try_fold(all[0].clone(), |acc, t| acc + t)?;
    Ok(total)
}

#[autocast(f16)]
fn chain_args(x: &T, w: &T, b: &T) -> Result<T> {
    x.matmul(&w.t()?.contiguous()?)?.add(&b.exp()?.log()?)?.mul(&x.sigmoid()?.matmul(w)?)?.sum([1], false)?.unsqueeze(1)
}

#[autocast(f16)]
fn early(x: &T, ws: &[T]) -> Result<T> {
    for (i, w) in ws.iter().enumerate() {
        let y = x.matmul(w)?;
        if i == 1 {
            return Ok(y);
        }
        if i > 3 {
            return y.softmax(-1);
        }
    }
    let x = x.relu()?;
    let x = x.matmul(&ws[0])?;
    let x = &x;
    let x = &&x;
    x.exp()
}

struct Layer {
    w: T,
    b: Option<T>,
    mask: Option<Tensor<Bool>>,
}
#[autocast(f16)]
fn fields(l: &Layer, x: &&T) -> Result<T> {
    let mut y = x.matmul(&l.w)?;
    if let Some(b) = &l.b {
        y = (y + b)?;
    }
    if let Some(mask) = &l.mask {
        y = y.masked_fill(mask, f64::NEG_INFINITY)?;
    }
    if let Some(b) = l.b.as_ref() {
        y = y.add(b)?;
    }
    Ok(y)
}

trait Block {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>>;
}
struct Ff {
    up: T,
    down: T,
}
impl Block for Ff {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.layer_norm([x.dims()[1]], None, None, 1e-5)?;
        let h = h.matmul(&self.up)?.gelu()?;
        x + &h.matmul(&self.down)?
    }
}
struct Stack {
    blocks: Vec<Box<dyn Block>>,
    shared: std::sync::Arc<Ff>,
    h: Option<T>,
    table: HashMap<&'static str, Box<T>>,
}
impl Stack {
    #[autocast(bf16)]
    fn run(
        &mut self,
        x: &Tensor<F32>,
    ) -> std::result::Result<(Tensor<F32>, Option<Tensor<F32>>), Box<dyn std::error::Error>> {
        let mut h = x.clone();
        for (i, b) in self.blocks.iter().enumerate() {
            h = b.forward(&h)?;
            if i % 2 == 1 {
                h = (&h + &self.shared.forward(&h)?)?;
            }
        }
        let proj = h.matmul(&self.table["proj"])?;
        self.h = Some(proj.tanh()?);
        let prev = self.h.clone();
        let n: usize = "3".parse()?;
        if n > 4 {
            return Err("bad".into());
        }
        Ok((proj, prev))
    }
    #[autocast(f16)]
    fn state(&mut self, x: &Tensor<F32>) -> Result<()> {
        let w = self.table.get("proj").expect("there").as_ref();
        let y = x.matmul(w)?;
        match &mut self.h {
            Some(h) => *h = (&*h + &y)?,
            None => self.h = Some(y.exp()?),
        }
        Ok(())
    }
}
#[autocast(f16)]
fn labelled(x: &T, w: &T, n: usize) -> Result<Tensor<F32>> {
    let y = 'search: {
        for i in 0..n {
            let c = x.matmul(w)?;
            if c.dims()[0] == i {
                break 'search c;
            }
        }
        x.softmax(-1)?
    };
    let z = loop {
        let c = y.matmul(w)?;
        if n > 1 {
            break c;
        }
        if n > 0 {
            break c.exp()?;
        }
    };
    z * 2.0
}
#[autocast(f16)]
async fn later(x: &T, w: &T) -> Result<Tensor<F32>> {
    let y = async { x.matmul(w) }.await?;
    let f = async move |t: &Tensor<F16>| t.relu();
    let y = f(&y).await?;
    y.matmul(w)
}
#[autocast(f16)]
fn recurse(x: &Tensor<F32>, w: &Tensor<F32>, n: u32) -> Result<Tensor<F32>> {
    if n == 0 {
        return Ok(x.clone());
    }
    let y = recurse(&x.matmul(w)?.to::<F32>()?, w, n - 1)?;
    fn inner(t: &Tensor<F32>) -> Result<Tensor<F32>> {
        amp_region!(bf16, {
            let z = t.matmul(t)?;
            z.relu()?.exp()
        })
    }
    let z = inner(&y)?;
    Tensor::matmul(&z, w)
}
#[autocast(f16)]
fn impls(xs: impl Iterator<Item = Tensor<F32>>, w: &impl AsRef<Tensor<F32>>) -> Result<Vec<Tensor<F32>>> {
    let w = w.as_ref();
    let mut out = Vec::new();
    for x in xs {
        out.push(x.matmul(w)?.exp()?);
    }
    xs_done(&out);
    let nested: Vec<Vec<Tensor<F32>>> = vec![out.clone(), out];
    Ok(nested.into_iter().flatten().collect())
}
fn xs_done(_: &[Tensor<F32>]) {}
#[autocast(f16)]
fn no_result(x: &T, w: &T) -> Tensor<F32> {
    let y = x.matmul(w).unwrap();
    let (a, b) = (y.relu().expect("relu"), y.exp().unwrap());
    if a.dims() == b.dims() { (a + b).unwrap() } else { unreachable!("dims {:?}", a.dims()) }
}
#[derive(Debug)]
enum MyErr {
    Amp(amp::Error),
    Other(String),
}
impl From<amp::Error> for MyErr {
    fn from(e: amp::Error) -> Self {
        Self::Amp(e)
    }
}
#[autocast(f16)]
fn foreign(x: &T, w: Option<&Tensor<F32>>) -> std::result::Result<Tensor<F32>, MyErr> {
    let Some(w) = w else { return Err(MyErr::Other(format!("no weight for {:?}", x.dims()))) };
    let y = x.matmul(w).map_err(MyErr::Amp)?;
    let s: f64 = [1.0, 2.0].iter().sum::<f64>() + f64::exp(1.0) + 2f64.powi(3).sqrt();
    let m = [3usize, 4].iter().max().copied().unwrap_or(1).pow(2);
    let y = (y * (s / m as f64))?;
    Ok(y.softmax(-1)?.matmul(w)?)
}
#[autocast(f16)]
fn heads(q: &T, k: &T, v: &T, n: usize) -> Result<Tensor<F32>> {
    let d = q.dims()[1] / n;
    let split = |t: &Tensor<F32>| -> Result<Tensor<F32>> { t.reshape([t.dims()[0], n, d])?.transpose(0, 1) };
    let (q, k, v) = (split(q)?, split(k)?, split(v)?);
    let att = (q.matmul(&k.transpose(1, 2)?)? * (1.0 / (d as f64).sqrt()))?.softmax(-1)?;
    att.matmul(&v)?.transpose(0, 1)?.contiguous()?.reshape([q.dims()[1], n * d])
}
#[autocast(f16)]
fn arrays(x: &T, ws: [&T; 3]) -> Result<[Tensor<F32>; 2]> {
    let [a, b, _] = ws;
    let ys = [x.matmul(a)?.exp()?, x.matmul(b)?.exp()?];
    let [y0, y1] = ys;
    Ok([y0, y1])
}
#[autocast(f16)]
fn shadow(x: &T, w: &T) -> Result<Tensor<F32>> {
    let x = x.matmul(w)?;
    let w = &x;
    let y = {
        let x = x.exp()?;
        x.relu()?
    };
    let x = y.matmul(w)?;
    let mut acc;
    if x.dims()[0] > 1 {
        acc = x.relu()?;
    } else {
        acc = x.exp()?;
    }
    acc = acc.matmul(w)?;
    let r = &acc;
    let rr = &r;
    rr.sum_all()
}
struct Cfg {
    scale: Option<f64>,
    act: fn(&Tensor<F32>) -> Result<Tensor<F32>>,
}
#[autocast(f16)]
fn cfg(x: &T, w: &T, c: &Cfg) -> Result<Tensor<F32>> {
    let mut y = x.matmul(w)?;
    if let Some(s) = c.scale
        && s > 1.0
    {
        y = (y / s)?;
    }
    let y = (c.act)(&y)?;
    let parts = y.chunk(2, 1)?;
    let gated = match parts.as_slice() {
        [a, b] => (a * &b.sigmoid()?)?,
        [a] => a.clone(),
        _ => return Ok(x.clone()),
    };
    Ok(gated)
}
#[autocast(P)]
fn gen2<P: AutocastPrecision, M: Module>(
    m: &M,
    x: &Tensor<F32>,
    w: &Tensor<P>,
) -> Result<Vec<(Tensor<F32>, Tensor<P>)>> {
    let _ = m;
    let y = x.matmul(w)?;
    let z = y.softmax(0)?;
    let mut v = vec![(z.clone(), y.relu()?)];
    v.push((y.exp()?, x.matmul(w)?));
    Ok(v)
}
struct W2(Linear, Linear);
#[autocast(f16)]
fn tuple_struct(m: &W2, x: &T) -> Result<Tensor<F32>> {
    m.1.forward(&m.0.forward(x)?.relu()?)
}

fn random<const N: usize>(shape: [usize; N]) -> Result<T> {
    Tensor::normal(shape, 0.0, 0.5, &Device::cpu())
}

fn bits(x: &T) -> Vec<f32> {
    x.to_vec().expect("on the CPU")
}

#[test]
fn experts_are_weighted() -> Result<()> {
    let cpu = Device::cpu();
    let expert = || Ok(Expert { up: Linear::new(4, 8, &cpu)?, down: Linear::new(8, 4, &cpu)? });
    let moe = Moe { gate: Linear::new(4, 3, &cpu)?, experts: vec![expert()?, expert()?, expert()?], k: 2 };
    let y = moe.forward(&random([5, 4])?)?;
    assert_eq!(y.dims(), [5, 4]);
    assert!(y.to_vec()?.iter().all(|value| value.is_finite()));
    Ok(())
}

#[test]
fn alias_of_a_tensor_is_widened_where_it_is_returned() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let by_hand = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let region = early(&x, &[w.clone(), w.clone()])?;
    assert_eq!(region.to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    let (outs, state) = rnn(std::slice::from_ref(&x), &w, &w, None)?;
    let state = state.expect("one step");
    assert_eq!(outs[0].to_vec()?, state.to_vec()?);
    assert_eq!(state.to_vec()?, by_hand.tanh()?.to::<F32>()?.to_vec()?);
    Ok(())
}

#[test]
fn state_from_an_option_that_was_empty_is_widened() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let first = x16.matmul(&w16)?.tanh()?;
    let second = (x16.matmul(&w16)? + &first.matmul(&w16)?)?.tanh()?;
    assert_eq!(rnn3(&[x.clone(), x], &w, &w)?.to_vec()?, second.to::<F32>()?.to_vec()?);
    Ok(())
}

#[test]
fn cache_of_keys_grows() -> Result<()> {
    let mut cache = Cache { k: Vec::new(), map: HashMap::new() };
    for step in 1..4 {
        let y = kv(&random([1, 4])?, random([1, 4])?, random([1, 4])?, &mut cache, None)?;
        assert_eq!((y.dims(), cache.k.len()), (&[1, 4][..], step));
    }
    Ok(())
}
