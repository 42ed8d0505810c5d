//! What the compiler's lints have to say of a region is of what the user wrote.

#![deny(unused_parens, unused_imports, unreachable_code)]

use super::{T, random};
use amp::amp_region; // not by the prelude: the import would be said to be unused
use amp::nn::*;
use amp::prelude::{Result, autocast};

/// Without these parentheses, which are of no use, nothing else is to go.
#[autocast(f16)]
fn enclosed(fc: &Linear, x: &T, b: &T) -> Result<T> {
    let y = (fc.forward(x)? + b);
    let y = (y? * 2.0)?;
    let z = (&y + (x.matmul(&y)? + 1.0)?);
    return (z?.matmul(b));
}

#[autocast(f16)]
fn partly(fc: &Linear, x: &T, b: &T) -> Result<T> {
    let y = amp_region!(f32, fc.forward(x)?.exp()?);
    if y.dims().len() == 2 { fc.forward(&x.add(b)?) } else { Ok(y) }
}

/// Beside what is widened by its type, too, nothing stands behind what does not come back.
#[autocast(f16)]
fn along(ws: &[T], x: &T) -> Result<Option<T>> {
    let h = x.matmul(x)?;
    match ws {
        [_] => Ok(Some(h)),
        [_, rest @ ..] => along(rest, &h),
        [] => unreachable!("there is one"),
    }
}

#[test]
fn lints_know_a_region_by_what_was_written() -> Result<()> {
    let fc = Linear::new(4, 4, &amp::Device::cpu())?;
    let (x, b) = (random([4, 4])?, random([4, 4])?);
    assert!(along(std::slice::from_ref(&x), &x)?.is_some());
    assert_eq!((enclosed(&fc, &x, &b)?.dims(), partly(&fc, &x, &b)?.dims()), (&[4, 4][..], &[4, 4][..]));
    Ok(())
}
