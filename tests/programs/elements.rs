//! Elements of tuples and lists, and what pointers hold: what goes where F32 is declared is widened.

use super::{T, random};
use amp::nn::{LayerNorm, Linear};
use amp::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

struct Cache {
    shared: Arc<Tensor<F32>>,
    hs: [Tensor<F32>; 2],
}

type Pair = (Tensor<F32>, Tensor<F32>);

#[autocast(f16)]
fn alias(x: &Tensor<F32>) -> Result<Pair> {
    let h = x.matmul(x)?;
    Ok((h.clone(), h))
}

#[autocast(f16)]
fn best(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut best: Option<(f32, Tensor<F32>)> = None;
    for i in 0..3 {
        let h = x.matmul(x)?;
        best = Some((i as f32, h));
    }
    Ok(best.unwrap().1)
}

#[autocast(f16)]
fn began(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut best: Option<(f32, Tensor<F32>)> = Some((0.5, x.matmul(x)?));
    for i in 0..3 {
        let h = x.matmul(x)?;
        if best.is_none() {
            best = Some((i as f32, h));
        }
    }
    Ok(best.unwrap().1)
}

#[autocast(f16)]
fn pair(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let p: (f32, Tensor<F32>) = (0.5, x.matmul(x)?);
    p.1 * p.0
}

#[autocast(f16)]
fn stays_half(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let p: (f32, Tensor<F16>) = (0.5, x.matmul(x)?);
    (&p.1 * p.0)?.matmul(&p.1)
}

#[autocast(f16)]
fn nested(x: &Tensor<F32>) -> Result<((Tensor<F32>, usize), f32)> {
    let mut p = ((x.clone(), 1), 2.0);
    for i in 0..3 {
        p = ((p.0.0.matmul(x)?, i), 1.0);
    }
    Ok(p)
}

#[autocast(f16)]
fn lstm(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
    let mut state = (x.clone(), x.clone());
    for _ in 0..3 {
        let (h, c) = &state;
        let c = (c.matmul(w)? + h)?;
        let h = c.tanh()?;
        state = (h, c);
    }
    Ok(state)
}

#[autocast(f16)]
fn call(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Tensor<F32>, usize)> {
    fn step(x: &Tensor<F32>, n: usize) -> Result<(Tensor<F32>, usize)> {
        Ok((x.relu()?, n + 1))
    }
    let mut state = (x.clone(), 0);
    while state.1 < 3 {
        state = step(&state.0.matmul(w)?, state.1)?;
    }
    Ok(state)
}

#[autocast(f16)]
fn narrow(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut st = (x.matmul(x)?, 0);
    while st.1 < 3 {
        st = (st.0.matmul(x)?, st.1 + 1);
    }
    Ok(st.0)
}

#[autocast(f16)]
fn log(
    x: &Tensor<F32>,
    log: &mut Vec<(&'static str, Tensor<F32>)>,
    m: &mut HashMap<String, Tensor<F32>>,
) -> Result<()> {
    let h = x.matmul(x)?;
    log.push(("h", x.matmul(x)?));
    log.push(("k", h.clone()));
    m.insert("b".into(), h);
    Ok(())
}

#[autocast(f16)]
fn extended(x: &Tensor<F32>, out: &mut Vec<Tensor<F32>>, d: &mut VecDeque<Tensor<F32>>) -> Result<()> {
    let h = x.matmul(x)?;
    out.extend([h.clone(), h.tanh()?]);
    out.extend(vec![h.clone()]);
    out.extend(vec![x.clone()]);
    d.extend(Some(x.clone()));
    out.extend_from_slice(&[h.clone(), x.clone()]);
    let ys: Vec<Tensor<F32>> = vec![x.clone()];
    out.extend(ys.iter().map(|y| y.relu().unwrap()));
    out.extend(ys.iter().cloned());
    out.extend(ys);
    Ok(())
}

#[autocast(f16)]
fn mapped(x: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
    let hs = [x.matmul(x)?, x.exp()?.matmul(x)?];
    out.extend(hs.iter().map(|h| h.clone()));
    Ok(())
}

#[autocast(f16)]
fn pointers(x: &Tensor<F32>) -> Result<(Arc<Tensor<F32>>, Rc<Tensor<F32>>, Box<Tensor<F32>>)> {
    Ok((Arc::new(x.matmul(x)?), Rc::new(x.matmul(x)?), Box::new(x.matmul(x)?)))
}

#[autocast(f16)]
fn one_pointer(fc: &Linear, ln: &LayerNorm, x: &T) -> Result<Rc<T>> {
    let h = Rc::new(fc.forward(x)?);
    let copy = Rc::clone(&h);
    Ok(if h.rank() > 2 { Rc::new(ln.forward(&h)?) } else { copy })
}

#[autocast(f16)]
fn stored(x: &Tensor<F32>, c: &mut Cache, i: usize) -> Result<()> {
    c.shared = Arc::new(x.clone());
    c.hs[(i + 1) % 2] = c.hs[i % 2].matmul(x)?;
    Ok(())
}

#[test]
fn pointers_of_several_modules_join_at_f32() -> Result<()> {
    let (fc, ln) = (Linear::new(4, 4, &Device::cpu())?, LayerNorm::new(4, &Device::cpu())?);
    let (flat, deep) = (random([2, 4])?, random([1, 2, 4])?);
    let half = |x: &T| fc.forward(&x.to::<F16>()?);
    assert_eq!(one_pointer(&fc, &ln, &flat)?.to_vec()?, half(&flat)?.to::<F32>()?.to_vec()?);
    assert_eq!(one_pointer(&fc, &ln, &deep)?.to_vec()?, ln.forward(&half(&deep)?)?.to_vec()?);
    Ok(())
}

#[test]
fn elements_are_widened_one_by_one() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let h = narrow.matmul(&narrow)?.to::<F32>()?.to_vec()?;
    let (mut list, mut queue, mut logged, mut map) = (Vec::new(), VecDeque::new(), Vec::new(), HashMap::new());
    extended(&x, &mut list, &mut queue)?;
    log(&x, &mut logged, &mut map)?;
    let mut cache = Cache { shared: Arc::new(x.clone()), hs: [x.clone(), x.clone()] };
    stored(&x, &mut cache, 0)?;
    for y in [&best(&x)?, &list[0], &logged[0].1, &map["b"], &alias(&x)?.0, &pointers(&x)?.0, &cache.hs[1]] {
        assert_eq!(y.to_vec()?, h);
    }
    Ok(())
}

fn doubled(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x + x
}

/// Elements of which only their types tell the precision: F16, F32, F32, F16.
#[autocast(f16)]
fn meeting(fc: &Linear, norm: &LayerNorm, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let h = x.matmul(x)?;
    let array = [fc.forward(x)?, norm.forward(x)?, doubled(x)?, h.relu()?];
    let _: &[Tensor<F32>; 4] = &array;
    let narrow = vec![fc.forward(x)?, x.matmul(x)?];
    let _: &Vec<Tensor<F16>> = &narrow;
    let either = if x.dims()[0] > 2 { vec![h.clone(), norm.forward(x)?] } else { vec![h.clone()] };
    let options = [None, Some(h.tanh()?), Some(norm.forward(x)?)];
    let named = HashMap::from([("fc", fc.forward(x)?), ("norm", norm.forward(x)?)]);
    let (made, normal) = (fc.forward(x)?, norm.forward(x)?);
    let lent = [&made, &normal, &x.matmul(x)?];
    let lent: Tensor<F32> = Tensor::cat(&lent, 0)?;
    let [.., Some(last)] = options else { unreachable!("three were given") };
    let mut all: Vec<Tensor<F32>> = array.into_iter().chain(either).collect();
    all.extend([last, named["fc"].clone(), named["norm"].clone(), lent]);
    all.extend(narrow.iter().map(|x| x.to::<F32>()).collect::<Result<Vec<_>>>()?);
    Ok(all)
}

#[test]
fn elements_meet_where_their_types_say() -> Result<()> {
    let (fc, norm, x) = (Linear::new(4, 4, &Device::cpu())?, LayerNorm::new([4], &Device::cpu())?, random([4, 4])?);
    let half = x.to::<F16>()?;
    let (y, z, h) = (fc.forward(&half)?.to::<F32>()?, norm.forward(&x)?, half.matmul(&half)?);
    let wide = h.to::<F32>()?;
    let lent = Tensor::cat(&[&y, &z, &wide], 0)?;
    let array = [y.clone(), z.clone(), doubled(&x)?, wide.relu()?];
    let rest = [wide.clone(), z.clone(), z.clone(), y.clone(), z, lent, y, wide];
    let found = meeting(&fc, &norm, &x)?;
    assert_eq!(found.len(), array.len() + rest.len());
    for (i, (one, other)) in found.iter().zip(array.iter().chain(&rest)).enumerate() {
        assert_eq!(one.to_vec()?, other.to_vec()?, "{i}");
    }
    Ok(())
}
