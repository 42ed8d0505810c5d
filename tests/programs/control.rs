//! Loops with states, labels, early returns, shadowing, recursion, and errors of one's own.

use super::{T, random};
use amp::prelude::*;

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
