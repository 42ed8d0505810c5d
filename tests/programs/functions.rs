//! Generic and asynchronous functions, futures, closures, chains and arrays, and types that somebody's trait has.

use super::{T, bits, random};
use amp::nn::*;
use amp::prelude::*;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

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

#[autocast(f16)]
fn future<'a>(x: &'a T, w: &'a T, early: bool) -> impl Future<Output = Result<(T, usize)>> + 'a {
    async move {
        let h = x.matmul(w)?;
        if early {
            return Ok((h, 1));
        }
        Ok((h.relu()?, 2))
    }
}

struct Net {
    w: T,
}

trait Layer {
    type Output;
    type Out;
    fn run(&self, x: &T) -> Self::Output;
    fn pair(&self, x: &T) -> Result<(<Self as Layer>::Out, usize)>;
    fn later<'a>(&'a self, x: &'a T, on: bool) -> Pin<Box<dyn Future<Output = Result<T>> + 'a>>;
}

impl Layer for Net {
    type Output = Result<T>;
    type Out = T;

    #[autocast(f16)]
    fn run(&self, x: &T) -> <Self as Layer>::Output {
        x.matmul(&self.w)
    }

    #[autocast(f16)]
    fn pair(&self, x: &T) -> Result<(<Self as Layer>::Out, usize)> {
        Ok((x.matmul(&self.w)?, 1))
    }

    #[autocast(f16)]
    fn later<'a>(&'a self, x: &'a T, on: bool) -> Pin<Box<dyn Future<Output = Result<T>> + 'a>> {
        match on {
            true => Box::pin(async move { x.matmul(&self.w) }),
            false => Box::pin(async move { x.exp() }),
        }
    }
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

#[test]
fn what_futures_and_traits_declare_is_widened() -> Result<()> {
    let (x, net) = (random([4, 4])?, Net { w: random([4, 4])? });
    let product = bits(&x.to::<F16>()?.matmul(&net.w.to::<F16>()?)?.to()?);
    assert_eq!(bits(&now(future(&x, &net.w, true))?.0), product);
    assert_eq!(bits(&now(net.later(&x, true))?), product);
    assert_eq!(bits(&net.run(&x)?), product);
    assert_eq!(bits(&net.pair(&x)?.0), product);
    Ok(())
}
