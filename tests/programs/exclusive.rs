//! Variables that are exclusive references, as arguments: a call borrows what they refer to, and they stay.

use super::{T, random};
use amp::functional as F;
use amp::nn::*;
use amp::prelude::*;
use std::collections::HashMap;

struct State {
    h: T,
    n: usize,
    o: Option<T>,
}

struct Block {
    fc: Linear,
    ln: LayerNorm,
}
impl Block {
    #[autocast(f16)]
    fn forward(&self, x: &T) -> Result<T> {
        self.ln.forward(&self.fc.forward(x)?)
    }
    fn run(&self, x: &T) -> Result<T> {
        self.fc.forward(x)
    }
}
fn own(x: &T) -> Result<T> {
    x.relu()
}
fn bump(x: &mut T) -> Result<()> {
    *x = x.relu()?;
    Ok(())
}

#[autocast(f16)]
fn ops(w: &T, state: &mut [T]) -> Result<()> {
    for v in state.iter_mut() {
        *v = w.matmul(v)?;
    }
    Ok(())
}

#[autocast(f16)]
fn twice(w: &T, state: &mut [T]) -> Result<()> {
    for v in state.iter_mut() {
        let a = w.matmul(v)?;
        let b = w.matmul(v)?;
        *v = (a * b)?;
        *v = w.mul(v)?;
        *v = w.add(v)?;
        *v = v.matmul(v)?;
        *v = v.add(v)?;
        *v = w.addmm(v, v)?;
        *v = w.addmm(v, &v.t()?)?;
        *v = w.lerp(v, v.mean_all()?.item()? as f64)?;
        *v = w.gt(v)?.where_(v, v)?;
    }
    Ok(())
}

#[autocast(f16)]
fn closure(w: &T, state: &mut [T]) -> Result<()> {
    state.iter_mut().try_for_each(|v| {
        *v = w.matmul(v)?;
        Ok(())
    })
}

#[autocast(f16)]
fn closure2(w: &T, state: &mut [T]) -> Result<()> {
    let f = |v: &mut T| -> Result<()> {
        *v = w.matmul(v)?;
        let y = w.matmul(v)?;
        *v = w.matmul(&y)?;
        Ok(())
    };
    for s in state {
        f(s)?;
    }
    Ok(())
}

#[autocast(f16)]
fn indexed(w: &T, xs: &mut [T]) -> Result<()> {
    let v = &mut xs[0];
    *v = w.matmul(v)?;
    *v = w.matmul(v)?;
    Ok(())
}

#[autocast(f16)]
fn opt(w: &T, mut o: Option<T>) -> Result<Option<T>> {
    if let Some(v) = &mut o {
        *v = w.matmul(v)?;
    }
    if let Some(v) = o.as_mut() {
        *v = F::linear(v, w, None)?;
    }
    Ok(o)
}

#[autocast(f16)]
fn st(w: &T, st: &mut State) -> Result<()> {
    let State { h, n, o } = st;
    *h = w.matmul(h)?;
    *n += 1;
    if let Some(o) = o {
        *o = w.matmul(o)?;
        *h = h.matmul(o)?;
        *o = o.matmul(h)?;
    }
    Ok(())
}

#[autocast(f16)]
fn last(w: &T, xs: &mut [T]) -> Result<()> {
    let l = xs.last_mut().unwrap();
    *l = w.matmul(l)?;
    if let Some(l) = xs.last_mut() {
        *l = w.matmul(l)?;
        *l = w.exp()?.matmul(l)?;
    }
    Ok(())
}

#[autocast(f16)]
fn modules(l: &Linear, n: &LayerNorm, b: &Block, r: &Relu, xs: &mut [T]) -> Result<()> {
    for v in xs.iter_mut() {
        *v = l.forward(v)?;
        *v = n.forward(v)?;
        *v = b.forward(v)?;
        *v = r.forward(v)?;
        let (p, q) = (l.forward(v)?, l.forward(v)?);
        *v = (p + q)?;
    }
    Ok(())
}

#[autocast(f16)]
fn own_fns(b: &Block, xs: &mut [T]) -> Result<()> {
    for v in xs.iter_mut() {
        *v = own(v)?;
        *v = b.run(v)?;
        bump(v)?;
        *v = F::relu(v)?;
        *v = F::softmax(v, -1)?;
        *v = Tensor::matmul(v, v)?;
        *v = Tensor::relu(v)?;
        *v = F::gelu(v)?;
    }
    Ok(())
}

#[autocast(f16)]
fn unknown(b: &[Block], m: &mut HashMap<usize, T>, w: &HashMap<usize, T>) -> Result<()> {
    for (i, v) in m.iter_mut() {
        *v = b[*i].fc.forward(v)?;
        *v = w[i].matmul(v)?;
        *v = w[i].matmul(v)?;
        *v = w[i].add(v)?;
        let w = &w[i];
        *v = w.matmul(v)?;
        *v = w.addmm(v, v)?;
        *v = w.relu()?.matmul(v)?;
    }
    Ok(())
}

#[autocast(f16)]
fn entry(m: &mut HashMap<usize, T>, x: &T) -> Result<()> {
    let e = m.entry(1).or_insert_with(|| x.clone());
    *e = x.matmul(e)?;
    *e = x.matmul(e)?;
    *e = (x + &*e)?;
    Ok(())
}

#[autocast(f16)]
fn zipped(xs: &mut [T], ws: &[T]) -> Result<()> {
    for (v, w) in xs.iter_mut().zip(ws) {
        *v = w.matmul(v)?;
        *v = w.lerp(v, 0.5)?;
    }
    Ok(())
}

#[autocast(f16)]
fn swap(x: T, y: T, n: usize) -> Result<T> {
    let (mut x, mut y) = (x, y);
    let (a, b) = (&mut x, &mut y);
    for _ in 0..n {
        *a = a.matmul(b)?;
        *b = b.matmul(a)?;
        std::mem::swap(a, b);
    }
    Ok(x)
}

#[autocast(f16)]
fn nontensor(x: &T, v: &mut Vec<f32>, s: &mut String) -> Result<T> {
    let (p, q) = (&mut *v, s);
    for c in q.chars() {
        p.push(c as u32 as f32);
    }
    q.push('a');
    let t: T = Tensor::from_slice(p, [p.len()], &Device::cpu())?;
    let u: T = Tensor::from_slice(p, [p.len()], &Device::cpu())?;
    x.matmul(&(t + u)?)
}

#[autocast(f16)]
fn captured(w: &T, x: T) -> Result<T> {
    let mut x = x;
    let h = &mut x;
    let mut f = || -> Result<()> {
        *h = w.matmul(h)?;
        *h = h.matmul(w)?;
        Ok(())
    };
    f()?;
    f()?;
    Ok(x)
}

#[autocast(f16)]
fn fields(w: &T, st: &mut State) -> Result<()> {
    struct B<'a> {
        h: &'a mut T,
    }
    let b = B { h: &mut st.h };
    *b.h = w.matmul(b.h)?;
    *b.h = b.h.matmul(b.h)?;
    *b.h = w.addmm(b.h, b.h)?;
    Ok(())
}

#[autocast(bf16)]
fn by_value(w: &T, x: T, y: T, z: Vec<T>) -> Result<T> {
    let h = (w * x)?;
    let h = (h + y)?;
    let mut z = z.into_iter();
    let a = z.next().unwrap();
    h * a
}

#[test]
fn exclusive_references_are_arguments_like_shared_ones() -> Result<()> {
    let (w, x) = (random([4, 4])?, random([4, 4])?);
    let by_hand = w.to::<F16>()?.matmul(&x.to::<F16>()?)?;
    let (mut a, mut b) = ([x.clone()], [x.clone()]);
    ops(&w, &mut a)?;
    closure(&w, &mut b)?;
    assert_eq!(a[0].to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    assert_eq!(b[0].to_vec()?, a[0].to_vec()?);
    Ok(())
}

#[test]
fn a_call_names_an_exclusive_reference_twice() -> Result<()> {
    let (w, x) = (random([4, 4])?, random([4, 4])?);
    let mut state = State { h: x.clone(), n: 0, o: None };
    fields(&w, &mut state)?;
    let narrow = |x: &T| x.to::<F16>();
    let first = narrow(&w)?.matmul(&narrow(&x)?)?;
    let second = first.matmul(&first)?;
    let third = narrow(&w)?.addmm(&second, &second)?;
    assert_eq!(state.h.to_vec()?, third.to::<F32>()?.to_vec()?);
    Ok(())
}

#[autocast(f16)]
fn swapped(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (mut a, mut b) = (fc.forward(x)?, fc.forward(x)?.relu()?);
    for _ in 0..3 {
        let sum = (&a + &b)?;
        std::mem::swap(&mut a, &mut b);
        b = sum;
    }
    Ok(b)
}

/// Variables that change places have one type.
#[test]
fn what_changes_places_is_assigned() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let h = fc.forward(&x.to::<F16>()?)?;
    let (mut a, mut b) = (h.to::<F32>()?, h.relu()?.to::<F32>()?);
    for _ in 0..3 {
        (a, b) = (b.clone(), (a + b)?);
    }
    assert_eq!(swapped(&fc, &x)?.to_vec()?, b.to_vec()?);
    Ok(())
}
