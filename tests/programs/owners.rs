//! Types of one's own that hold layers, caches, functions and what may be missing, and trait objects of such.

use super::{T, random};
use amp::nn::*;
use amp::prelude::*;
use std::collections::HashMap;
use std::rc::Rc;

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

struct W2(Linear, Linear);

#[autocast(f16)]
fn tuple_struct(m: &W2, x: &T) -> Result<Tensor<F32>> {
    m.1.forward(&m.0.forward(x)?.relu()?)
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
fn cache_of_keys_grows() -> Result<()> {
    let mut cache = Cache { k: Vec::new(), map: HashMap::new() };
    for step in 1..4 {
        let y = kv(&random([1, 4])?, random([1, 4])?, random([1, 4])?, &mut cache, None)?;
        assert_eq!((y.dims(), cache.k.len()), (&[1, 4][..], step));
    }
    Ok(())
}
