//! Modules in places whose type cannot be asked for from everywhere.

use amp::nn::*;
use amp::prelude::*;
use std::rc::Rc;

type T = Tensor<F32>;

enum Layer {
    Norm { norm: LayerNorm, gain: f64 },
    Linear(Linear),
    Both(LayerNorm, Linear),
}

#[autocast(bf16)]
fn variants(layers: &[Layer], x: &T) -> Result<T> {
    let mut h = x.clone();
    for layer in layers {
        h = match layer {
            Layer::Norm { norm, gain } => (norm.forward(&h)? * *gain)?,
            Layer::Linear(fc) => fc.forward(&h)?.to::<F32>()?,
            Layer::Both(norm, fc) => {
                let n = norm.forward(&h)?;
                fc.forward(&n)?.to::<F32>()?
            }
        };
    }
    Ok(h)
}

#[autocast(f16)]
fn moved(norm: LayerNorm, layers: Vec<Linear>, x: &T) -> Result<T> {
    let mut n = norm.forward(x)?;
    for fc in layers {
        n = norm.forward(&fc.forward(&n)?)?;
    }
    Ok(n)
}

#[autocast(f16)]
fn captured(norm: &LayerNorm, mut layers: Vec<Linear>, x: &T) -> Result<T> {
    let count = layers.len();
    let mut take = || {
        let n = norm.forward(x)?;
        let fc = layers.remove(0);
        fc.forward(&n)
    };
    let h = take()?;
    let h = if count > 1 { (h + take()?)? } else { h };
    layers.clear();
    let owned = move |x: &T| norm.forward(x);
    let n = owned(x)?;
    let fc = &layers.first();
    match fc {
        Some(fc) => fc.forward(&n),
        None => Ok(h),
    }
}

#[autocast(bf16)]
fn inferred_late(norm: &LayerNorm, fc: &Linear, x: &T) -> Result<T> {
    let mut list = Vec::new();
    let mut best = None;
    let n = norm.forward(x)?;
    list.push(fc);
    if let Some(first) = best.take() {
        let first: &Linear = first;
        return first.forward(&n);
    }
    best.replace(fc);
    list[0].forward(&n)
}

#[autocast(bf16)]
fn constants(norms: &[LayerNorm], lins: &[Linear], x: &T) -> Result<T> {
    let n = norms[FIRST].forward(x)?;
    {
        const LAST: usize = 0;
        let fc = &lins[LAST];
        fc.forward(&n)
    }
}
const FIRST: usize = 0;

struct Cell {
    norm: LayerNorm,
    fc: Linear,
    layers: Vec<Linear>,
    state: Option<T>,
    calls: usize,
}

fn touch(_fc: &mut Linear) {}

impl Cell {
    #[autocast(f16)]
    fn step(&mut self, x: &T) -> Result<T> {
        let state = &mut self.state;
        let n = self.norm.forward(x)?;
        self.calls += 1;
        let h = self.fc.forward(&n)?.to::<F32>()?;
        *state = Some(h.clone());
        for layer in &mut self.layers {
            touch(layer);
            let n = self.norm.forward(&h)?;
            layer.forward(&n)?;
        }
        let n = self.norm.forward(&h)?;
        self.layers[0].forward(&n)
    }

    #[autocast(f16)]
    fn borrowed(&mut self, x: &T) -> Result<T> {
        let Self { norm, layers, .. } = self;
        let first = &mut layers[0];
        let n = norm.forward(x)?;
        touch(first);
        first.forward(&n)
    }

    fn layer(&self, i: usize) -> &Linear {
        &self.layers[i]
    }

    #[autocast(bf16)]
    fn by_method(&self, x: &T) -> Result<T> {
        let n = self.norm.forward(x)?;
        self.layer(0).forward(&n)
    }
}

#[autocast(f16)]
fn shadowed(fc: &LayerNorm, lins: &[Linear], x: &T) -> Result<T> {
    let n = fc.forward(x)?;
    let fc = lins.iter().next_back().unwrap();
    fc.forward(&n)
}

#[autocast(f16)]
fn dynamic(norm: &LayerNorm, layers: &[Box<dyn Fn(&T) -> Result<T>>], shared: Rc<Linear>, x: &T) -> Result<T> {
    let n = norm.forward(x)?;
    let mut out = shared.forward(&n)?.to::<F32>()?;
    for layer in layers.iter() {
        let n = norm.forward(&out)?;
        out = layer(&n)?;
    }
    Ok(out)
}

struct Tree(Vec<Linear>);

impl Tree {
    /// No iterator's.
    fn map(&self, f: impl Fn(&Linear) -> Result<Tensor<F16>>) -> Result<Tensor<F16>> {
        f(&self.0[0])
    }

    fn par_iter(&self) -> &Self {
        self
    }
}

#[autocast(f16)]
fn own_iterators(norm: &LayerNorm, tree: &Tree, x: &T) -> Result<T> {
    let n = norm.forward(x)?;
    let m = norm.forward(x)?;
    tree.map(|fc| fc.forward(&n))? + tree.par_iter().map(|fc| fc.forward(&m))?
}

struct Maybe {
    norm: Option<LayerNorm>,
    fc: Option<Linear>,
    nested: (Option<Linear>, usize),
}

impl Maybe {
    #[autocast(bf16)]
    fn by_reference(&self, x: &T) -> Result<T> {
        let n = match self.norm {
            Some(ref norm) => norm.forward(x)?,
            None => x.clone(),
        };
        let y = match self.fc {
            Some(ref fc) => fc.forward(&n)?,
            None => return Ok(n),
        };
        let n = if let Some(ref norm) = self.norm { norm.forward(&y)? } else { y };
        let (Some(fc), _) = &self.nested else { return Ok(n) };
        fc.forward(&n)
    }
}

fn cell() -> Cell {
    let device = &Device::cpu();
    let fc = || Linear::new(8, 8, device).unwrap();
    Cell { norm: LayerNorm::new([8], device).unwrap(), fc: fc(), layers: vec![fc(), fc()], state: None, calls: 0 }
}

#[test]
fn wherever_modules_are_they_run() {
    let device = &Device::cpu();
    let x = T::ones([2, 8], device).unwrap();
    let (norm, fc) = (|| LayerNorm::new([8], device).unwrap(), || Linear::new(8, 8, device).unwrap());
    let layers = [Layer::Norm { norm: norm(), gain: 2.0 }, Layer::Linear(fc()), Layer::Both(norm(), fc())];
    let mut cell = cell();
    for y in [
        variants(&layers, &x),
        moved(norm(), vec![fc(), fc()], &x),
        captured(&norm(), vec![fc(), fc()], &x),
        inferred_late(&norm(), &fc(), &x),
        constants(&[norm()], &[fc()], &x),
        cell.step(&x),
        cell.borrowed(&x),
        cell.by_method(&x),
        shadowed(&norm(), &[fc()], &x),
        own_iterators(&norm(), &Tree(vec![fc()]), &x),
        Maybe { norm: Some(norm()), fc: Some(fc()), nested: (Some(fc()), 1) }.by_reference(&x),
        dynamic(&norm(), &[Box::new(|x: &T| x.relu())], Rc::new(fc()), &x),
    ] {
        assert_eq!(y.unwrap().dims(), [2, 8]);
    }
    assert!(cell.state.is_some() && cell.calls == 1);
}

struct Pair {
    h: Tensor<F32>,
    k: Tensor<F32>,
}

/// What is moved out of a field goes back into it.
#[autocast(f16)]
fn carried(mut pair: Pair, x: &Tensor<F32>, scale: f64) -> Result<Pair> {
    for _ in 0..2 {
        pair.h = (pair.h - x.matmul(&pair.k)?)?;
    }
    pair.k = (pair.k * scale)?;
    let h = pair.h;
    pair.h = h.matmul(x)?;
    Ok(pair)
}

impl Pair {
    #[autocast(f16)]
    fn own(mut self, x: &Tensor<F32>) -> Result<Self> {
        self.h = (self.h + x.matmul(&self.k)?)?;
        Ok(self)
    }
}

/// Those of a tuple struct that was made here, an element of a list.
#[autocast(f16)]
fn made_here(x: &Tensor<F32>, scale: f64) -> Result<(Tensor<F32>, Vec<Tensor<F32>>)> {
    struct Both(Tensor<F32>, Vec<Tensor<F32>>);
    let mut both = Both(x.matmul(x)?, vec![x.matmul(x)?]);
    both.0 = (both.0 * scale)?;
    both.1[0] = (&both.1[0] * scale)?;
    Ok((both.0, both.1))
}

#[test]
fn what_is_moved_out_of_a_field_goes_back() -> Result<()> {
    let x = super::random([4, 4])?;
    let product = |a: &T, b: &T| -> Result<T> { a.to::<F16>()?.matmul(&b.to::<F16>()?)?.to::<F32>() };
    let pair = || Pair { h: x.clone(), k: x.clone() };
    let once = product(&x, &x)?;
    let ours = carried(pair(), &x, 3.0)?;
    assert_eq!(ours.h.to_vec()?, product(&((&x - &once)? - &once)?, &x)?.to_vec()?);
    assert_eq!(ours.k.to_vec()?, (&x * 3.0)?.to_vec()?);
    assert_eq!(pair().own(&x)?.h.to_vec()?, (&x + &once)?.to_vec()?);
    let (first, list) = made_here(&x, 3.0)?;
    assert_eq!(first.to_vec()?, (&once * 3.0)?.to_vec()?);
    assert_eq!(list[0].to_vec()?, first.to_vec()?);
    Ok(())
}

type Two = (Tensor<F32>, Tensor<F32>);

struct Pairs {
    state: Option<Two>,
    list: Vec<Two>,
    boxed: Box<Two>,
}

fn made_of(state: Option<Two>, list: Vec<Two>, boxed: Box<Two>) -> Pairs {
    Pairs { state, list, boxed }
}

#[autocast(f16)]
fn pairs(fc: &Linear, x: &Tensor<F32>, deep: bool) -> Result<[Pairs; 3]> {
    let written = Pairs {
        state: Some((fc.forward(x)?, x.softmax(-1)?)),
        list: vec![(fc.forward(x)?, x.softmax(-1)?)],
        boxed: Box::new((fc.forward(x)?, x.softmax(-1)?)),
    };
    let given = made_of(
        Some((fc.forward(x)?, x.softmax(-1)?)),
        vec![(x.clone(), fc.forward(x)?), (fc.forward(x)?, x.softmax(-1)?)],
        Box::new((fc.forward(x)?, x.softmax(-1)?)),
    );
    let mut assigned = made_of(None, Vec::new(), Box::new((x.clone(), x.clone())));
    assigned.state = if deep { Some((fc.forward(x)?, x.softmax(-1)?)) } else { None };
    assigned.list = vec![(fc.forward(x)?, x.softmax(-1)?)];
    assigned.boxed = Box::new((fc.forward(x)?, x.softmax(-1)?));
    Ok([written, given, assigned])
}

/// The type has a name of its own, and the pair one before.
#[autocast(f16)]
fn named(fc: &Linear, x: &Tensor<F32>, deep: bool) -> Result<Option<Two>> {
    let pair = if deep { Some((fc.forward(x)?, x.softmax(-1)?)) } else { None };
    Ok(pair)
}

#[test]
fn pairs_in_something_are_widened_for_the_places_they_go_to() -> Result<()> {
    let fc = Linear::new(4, 4, &Device::cpu())?;
    let x = super::random([4, 4])?;
    let alone = fc.forward(&x.to::<F16>()?)?.to::<F32>()?.to_vec()?;
    for pairs in pairs(&fc, &x, true)? {
        let state = pairs.state.expect("a state");
        let last = pairs.list.last().expect("a pair");
        let named = named(&fc, &x, true)?.expect("a pair");
        for (h, p) in [&state, last, &*pairs.boxed, &named] {
            assert_eq!((h.to_vec()?, p.to_vec()?), (alone.clone(), x.softmax(-1)?.to_vec()?));
        }
    }
    Ok(())
}
