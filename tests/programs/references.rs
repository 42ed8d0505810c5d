//! Branches that are references, and what an option holds or is given instead: where they differ, they join at F32.

use super::random;
use amp::nn::*;
use amp::prelude::*;

fn own(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

#[autocast(f16)]
fn arm(x: &Tensor<F32>, o: Option<&Tensor<F32>>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let h = match o {
        Some(o) => o,
        None => &h,
    };
    h.relu()
}

#[autocast(f16)]
fn branch(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let y = if c { &h } else { x };
    y.matmul(x)
}

#[autocast(f16)]
fn argument(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    own(if c { &h } else { x })?.matmul(if c { x } else { &h })
}

#[autocast(f16)]
fn receiver(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    if c { &h } else { x }.exp()
}

#[autocast(f16)]
fn module(x: &Tensor<F32>, n: Option<&LayerNorm>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let h = if let Some(n) = n { &n.forward(&h)? } else { &h };
    h.matmul(x)
}

#[autocast(f16)]
fn three(x: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let e = h.exp()?;
    let y = if n == 0 {
        &h
    } else if n == 1 {
        &e
    } else {
        x
    };
    own(y)
}

#[autocast(f16)]
fn alike(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let (a, b) = (x.matmul(x)?, x.matmul(x)?);
    let y = if c { &a } else { &b };
    let z = match c {
        true => y,
        false => &b,
    };
    (y + z)?.matmul(z)
}

#[autocast(f16)]
fn looped(x: &Tensor<F32>, ls: &[Linear]) -> Result<Tensor<F32>> {
    let mut sum = x.clone();
    for l in ls {
        let h = l.forward(&sum)?;
        let k = if ls.len() > 2 { &h } else { x };
        sum = (sum + k)?;
    }
    Ok(sum)
}

#[autocast(f16)]
fn modules(l: &Linear, m: &Linear, x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let (a, b) = (l.forward(x)?, m.forward(x)?);
    let mut cur = &a;
    for i in 0..3 {
        cur = if c && i == 0 { &a } else { &b };
    }
    cur.matmul(cur)
}

#[autocast(f16)]
fn closure(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let f = |n: usize| own(if n == 0 { &h } else { x });
    f(0)? + f(usize::from(c))?
}

#[autocast(f16)]
fn early(x: &Tensor<F32>, o: Option<&Tensor<F32>>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let y = match o {
        Some(o) => o,
        None if h.dims()[0] > 4 => return Ok(h),
        None => &h,
    };
    own(y)
}

#[autocast(f16)]
fn condition(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let mut h = x.matmul(x)?;
    while (if c { &h } else { x }).sum_all()?.item()? > 3.0 {
        h = (h * 0.5)?;
    }
    Ok(h)
}

#[autocast(f16)]
fn blocks(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let y = if c { &h } else { x };
    y.relu()
}

#[autocast(f16)]
fn non_tensors(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let (a, b) = (1.0, 2.0);
    let s = if c { &a } else { &b };
    let v = [x.matmul(x)?];
    let w = [x.matmul(x)?];
    let l = if c { &v } else { &w };
    let r: &[_] = if c { &v[..] } else { &w };
    let n: &str = if c { "a" } else { &c.to_string() };
    let _ = n;
    (&l[0] + &r[0])? * *s
}

#[autocast(bf16)]
fn stream(x: &Tensor<F32>, o: Option<&Linear>) -> Result<Tensor<F32>> {
    let y = match o {
        Some(l) => &l.forward(x)?,
        None => x,
    };
    let z = match o {
        Some(l) => &l.forward(y)?.relu()?,
        _ => y,
    };
    own(z)
}

#[autocast(bf16)]
fn slices(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let v = [x.matmul(x)?, x.matmul(x)?];
    let u = [x.clone()];
    let y = if c { &v[1] } else { &u[0] };
    own(y)
}

#[autocast(f16)]
fn reference(x: &Tensor<F32>, o: Option<&Tensor<F32>>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let h = o.unwrap_or(&h);
    h.relu()
}

#[autocast(f16)]
fn owned(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let o = if c { Some(x.matmul(x)?) } else { None };
    o.unwrap_or(x.clone()).relu()
}

#[autocast(f16)]
fn narrow(x: &Tensor<F32>, o: Option<Tensor<F32>>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let h = o.unwrap_or(h);
    own(&h)
}

#[autocast(f16)]
fn alike_in_options(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let g = x.matmul(x)?;
    let o = if c { Some(&h) } else { None };
    let y = o.unwrap_or(&g);
    y.matmul(x)
}

#[autocast(f16)]
fn list(x: &Tensor<F32>, xs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let y = xs.first().unwrap_or(&h);
    let z = xs.last().unwrap_or(y);
    own(z)
}

#[autocast(f16)]
fn number(x: &Tensor<F32>, o: Option<f32>, s: Option<&str>) -> Result<Tensor<F32>> {
    let k = o.unwrap_or(2.0);
    let s = s.unwrap_or("x");
    x.matmul(x)? * (k + s.len() as f32)
}

#[autocast(f16)]
fn param(x: &Tensor<F32>, o: Option<Tensor<F32>>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    own(&o.unwrap_or(h.exp()?))?.matmul(&h)
}

#[autocast(f16)]
fn index(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let v = [x.matmul(x)?];
    let u = [x.clone()];
    let y = if c { &v[0] } else { &u[0] };
    own(y)
}

#[test]
fn references_that_differ_join_at_f32() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let h = narrow.matmul(&narrow)?.to::<F32>()?;
    for (y, expected) in [
        (arm(&x, None)?, h.relu()?),
        (arm(&x, Some(&x))?, x.relu()?),
        (three(&x, 0)?, h.relu()?),
        (three(&x, 1)?, h.exp()?.relu()?),
        (three(&x, 2)?, x.relu()?),
        (reference(&x, None)?, h.relu()?),
        (reference(&x, Some(&x))?, x.relu()?),
        (owned(&x, true)?, h.relu()?),
        (owned(&x, false)?, x.relu()?),
    ] {
        assert_eq!(y.to_vec()?, expected.to_vec()?);
    }
    Ok(())
}

#[test]
fn references_that_do_not_differ_stay_narrow() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let h = narrow.matmul(&narrow)?;
    let by_hand = (&h + &h)?.matmul(&h)?;
    assert_eq!(alike(&x, true)?.to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    Ok(())
}

/// The sums of all, and their number.
fn totals(all: &[&Tensor<F32>]) -> Result<Vec<f32>> {
    all.iter().map(|x| x.sum_all()?.item()).chain([Ok(all.len() as f32)]).collect()
}

#[autocast(f16)]
fn lists_of_references(x: &Tensor<F32>) -> Result<Vec<Vec<f32>>> {
    let hs = [x.matmul(x)?, (x.matmul(x)? * 2.0)?];
    let (g, e) = (x.matmul(x)?, x.exp()?);
    let collected: Vec<&Tensor<F32>> = hs.iter().collect();
    let backwards: std::vec::Vec<&Tensor<F32>> = hs.iter().rev().chain([&g]).collect();
    let known: Vec<&Tensor<F32>> = [&e, x].into_iter().collect();
    let written: Vec<&Tensor<F32>> = vec![&g, &hs[0]];
    let mixed: Vec<&Tensor<F32>> = vec![&g, &e, x];
    let array: [&Tensor<F32>; 2] = [&hs[1], &g];
    let narrow: Vec<&Tensor<_>> = hs.iter().collect();
    let last = *narrow.last().expect("two of them");
    Ok(vec![
        totals(&collected)?,
        totals(&backwards)?,
        totals(&known)?,
        totals(&written)?,
        totals(&mixed)?,
        totals(&array)?,
        totals(&[last])?,
        Tensor::cat(&collected, 0)?.exp()?.sum_all()?.to_vec()?,
    ])
}

#[test]
fn lists_that_are_declared_to_refer_to_f32_do() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let (h, h2) = (narrow.matmul(&narrow)?, (narrow.matmul(&narrow)? * 2.0)?);
    let (h, h2, e) = (h.to::<F32>()?, h2.to::<F32>()?, x.exp()?);
    let expected = vec![
        totals(&[&h, &h2])?,
        totals(&[&h2, &h, &h])?,
        totals(&[&e, &x])?,
        totals(&[&h, &h])?,
        totals(&[&h, &e, &x])?,
        totals(&[&h2, &h])?,
        totals(&[&h2])?,
        Tensor::cat(&[&h, &h2], 0)?.exp()?.sum_all()?.to_vec()?,
    ];
    assert_eq!(lists_of_references(&x)?, expected);
    Ok(())
}
