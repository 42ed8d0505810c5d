//! Closures and async blocks that share tensors with what is around them.

use super::{T, random};
use amp::prelude::*;
use std::task::{Context, Poll, Waker};

/// A reference that a closure owns is narrowed outside of it too.
#[autocast(f16)]
fn shared(x: &T, w: &T) -> Result<T> {
    let by_x = move |t: &Tensor<F32>| x.matmul(t);
    let a = x.matmul(w)?;
    let b = by_x(w)?;
    let c = w.matmul(x)?;
    (&a + &b)? + &c
}

#[autocast(f16)]
async fn awaited(x: &T, w: &T) -> Result<T> {
    let a = x.matmul(w)?;
    let later = async move { x.matmul(w) };
    let b = w.matmul(x)?;
    (a + later.await?)? + &b
}

/// Given away after it was used for the last time, in a closure that is called once and after a loop.
#[autocast(f16)]
fn given_away(x: &T, owned: T, other: T) -> Result<(T, Vec<T>)> {
    let mut kept = Vec::new();
    let once = |t: &Tensor<F32>| {
        let y = t.matmul(&owned)?.matmul(&owned)?;
        drop(owned);
        Ok::<_, Error>(y)
    };
    let mut h = once(x)?;
    for _ in 0..2 {
        h = other.matmul(&h)?;
    }
    kept.push(other);
    Ok((h, kept))
}

fn now<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

#[test]
fn what_owns_a_reference_narrows_for_itself() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let a = x16.matmul(&w16)?;
    let by_hand = ((&a + &a)? + w16.matmul(&x16)?)?.to::<F32>()?.to_vec()?;
    assert_eq!(shared(&x, &w)?.to_vec()?, by_hand);
    assert_eq!(now(awaited(&x, &w))?.to_vec()?, by_hand);
    Ok(())
}

#[test]
fn a_tensor_is_given_away_after_its_last_use() -> Result<()> {
    let (x, owned, other) = (random([4, 4])?, random([4, 4])?, random([4, 4])?);
    let [x16, owned16, other16] = [x.to::<F16>()?, owned.to::<F16>()?, other.to::<F16>()?];
    let y = other16.matmul(&other16.matmul(&x16.matmul(&owned16)?.matmul(&owned16)?)?)?;
    let (region, kept) = given_away(&x, owned, other)?;
    assert_eq!(region.to_vec()?, y.to::<F32>()?.to_vec()?);
    assert_eq!(kept.len(), 1);
    Ok(())
}
