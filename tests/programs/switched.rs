//! Regions that a condition switches on at run time: what is of the region's precision in one of its two bodies and F32 in
//! the other joins at F32.

use super::{T, random};
use amp::nn::*;
use amp::prelude::*;

fn lower(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { x.matmul(x)? });
    Ok(y)
}

fn module(l: &Linear, x: &T, on: bool) -> Result<T> {
    let y = amp_region!(bf16, enabled = on, {
        let h = l.forward(x)?;
        l.forward(&h)?
    });
    Ok(y)
}

fn fallible(x: &T, on: bool) -> Result<T> {
    amp_region!(f16, enabled = on, x.matmul(x))
}

fn wrapped(x: &T, on: bool) -> Result<T> {
    amp_region!(f16, enabled = on, {
        let h = x.matmul(x)?;
        Ok(h)
    })
}

fn tuple(x: &T, on: bool) -> Result<(T, usize, T)> {
    let (a, n, b) = amp_region!(f16, enabled = on, {
        let h = x.matmul(x)?;
        (h.clone(), 1, h.exp()?)
    });
    Ok((a, n, b))
}

fn pair(x: &T, on: bool) -> Result<(T, T)> {
    let p = amp_region!(f16, enabled = on, {
        let h = x.matmul(x)?;
        (h.relu()?, h)
    });
    Ok(p)
}

fn number(x: &T, on: bool) -> Result<f32> {
    Ok(amp_region!(f16, enabled = on, { x.matmul(x)?.mean_all()?.item()? }))
}

fn unit(x: &mut T, on: bool) -> Result<()> {
    amp_region!(f16, enabled = on, {
        *x = x.matmul(x)?;
    });
    Ok(())
}

fn list(x: &T, on: bool) -> Result<Vec<T>> {
    let v = amp_region!(f16, enabled = on, { vec![x.matmul(x)?, x.matmul(x)?] });
    Ok(v)
}

fn same(x: &T, on: bool) -> Result<T> {
    Ok(amp_region!(f16, enabled = on, { x.matmul(x)?.softmax(-1)? }))
}

fn left(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, {
        if x.dims().len() > 3 {
            return x.relu();
        }
        x.matmul(x)?
    });
    y.relu()
}

#[autocast(bf16)]
fn nested(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { x.matmul(x)? });
    y.exp()
}

fn generic<P: AutocastPrecision>(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(P, enabled = on, { x.matmul(x)? });
    Ok(y)
}

fn own(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, own2(&x.matmul(x)?)?);
    Ok(y)
}

fn branch(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { if on { x.matmul(x)? } else { x.exp()? } });
    Ok(y)
}

fn option(x: &T, on: bool) -> Result<Option<T>> {
    let y = amp_region!(f16, enabled = on, { Some(x.matmul(x)?) });
    Ok(y)
}

fn stmt(x: &T, on: bool) -> Result<()> {
    amp_region!(f16, enabled = on, { x.matmul(x)? });
    Ok(())
}

fn collected(x: &T, on: bool) -> Result<Vec<T>> {
    amp_region!(f16, enabled = on, { (0..2).map(|_| x.matmul(x)?.exp()).collect() })
}
fn own2(x: &T) -> Result<T> {
    x.relu()
}

#[test]
fn region_that_is_switched_at_run_time_gives_f32() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let by_hand = [x.matmul(&x)?, narrow.matmul(&narrow)?.to::<F32>()?];
    for (on, expected) in [false, true].into_iter().zip(by_hand) {
        let expected = expected.to_vec()?;
        let (h, n, _) = tuple(&x, on)?;
        assert_eq!((h.to_vec()?, n), (expected.clone(), 1));
        for y in [lower(&x, on)?, fallible(&x, on)?, wrapped(&x, on)?, generic::<F16>(&x, on)?, list(&x, on)?.remove(0)]
        {
            assert_eq!(y.to_vec()?, expected);
        }
    }
    Ok(())
}
