//! Code that the compiler leaves out: what stands in it is neither said nor done.

use super::{T, random};
use amp::nn::*;
use amp::prelude::*;

/// Of each pair one is there: the condition says which.
#[autocast(f16)]
fn alternatives(fc: &Linear, x: &T) -> Result<(T, T)> {
    #[cfg(true)]
    let y = fc.forward(x)?;
    #[cfg(false)]
    let y = x.softmax(-1)?;
    #[cfg(false)]
    let z = fc.forward(x)?;
    #[cfg(true)]
    let z = x.softmax(-1)?;
    #[cfg(false)]
    let y = y.add(1e-12)?;
    #[cfg(false)]
    return Ok((y.softmax(-1)?, z));
    let mut h = fc.forward(&z)?;
    #[cfg(true)]
    {
        h = h.softmax(-1)?;
    }
    #[cfg(false)]
    assert!(h.dims().is_empty());
    match x.dims().len() {
        #[cfg(false)]
        2 => Ok((y.add(1e-12)?, h)),
        #[cfg(true)]
        2 => Ok((y.relu()?, h)),
        _ => Ok((h, y)),
    }
}

/// Either is what the function ends with.
#[autocast(f16)]
fn first_end(fc: &Linear, x: &T) -> Result<T> {
    #[cfg(true)]
    {
        fc.forward(x)
    }
    #[cfg(false)]
    {
        x.softmax(-1)
    }
}

#[autocast(f16)]
fn second_end(fc: &Linear, x: &T) -> Result<T> {
    #[cfg(false)]
    {
        x.softmax(-1)
    }
    #[cfg(true)]
    {
        fc.forward(x)
    }
}

#[autocast(f16)]
fn elements(fc: &Linear, x: &T) -> Result<T> {
    let pair = (
        #[cfg(false)]
        x.softmax(-1)?,
        fc.forward(x)?,
        #[cfg(true)]
        x.softmax(-1)?,
    );
    &pair.0 + &pair.1
}

/// Variables of a pattern that may not be there are declared where the pattern stands.
#[autocast(f16)]
fn pattern(fc: &Linear, x: &T) -> Result<T> {
    #[cfg(true)]
    let (mut h, scale) = (fc.forward(x)?, 2.0);
    #[cfg(false)]
    let (mut h, scale) = (x.softmax(-1)?, 3.0);
    if scale > 1.0 {
        h = h.softmax(-1)?;
    }
    h.mul(scale)
}

#[test]
fn code_that_is_left_out_changes_nothing() -> Result<()> {
    let fc = Linear::new(4, 4, &Device::cpu())?;
    let x = random([4, 4])?;
    let forward = |x: &T| fc.forward(&x.to::<F16>()?);
    let (y, h) = alternatives(&fc, &x)?;
    assert_eq!(y.to_vec()?, forward(&x)?.relu()?.to::<F32>()?.to_vec()?);
    assert_eq!(h.to_vec()?, forward(&x.softmax(-1)?)?.to::<F32>()?.softmax(-1)?.to_vec()?);
    let alone = forward(&x)?.to::<F32>()?;
    assert_eq!(first_end(&fc, &x)?.to_vec()?, alone.to_vec()?);
    assert_eq!(second_end(&fc, &x)?.to_vec()?, alone.to_vec()?);
    assert_eq!(pattern(&fc, &x)?.to_vec()?, alone.softmax(-1)?.mul(2.0)?.to_vec()?);
    assert_eq!(elements(&fc, &x)?.to_vec()?, (alone + x.softmax(-1)?)?.to_vec()?);
    Ok(())
}
