//! Generic and asynchronous functions, closures, chains and arrays.

use super::T;
use amp::nn::*;
use amp::prelude::*;

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
async fn later(x: &T, w: &T) -> Result<Tensor<F32>> {
    let y = async { x.matmul(w) }.await?;
    let f = async move |t: &Tensor<F16>| t.relu();
    let y = f(&y).await?;
    y.matmul(w)
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
