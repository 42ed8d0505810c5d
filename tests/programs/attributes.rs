//! Attributes in a body: those that it begins with are the function's, and those of a statement stay with it.

#![deny(deprecated, unused_variables)]

use super::{T, random};
use amp::prelude::*;

#[deprecated]
fn old(x: &T) -> Result<T> {
    x.relu()
}

#[autocast(f16)]
fn inside(x: &T, w: &T) -> Result<T> {
    #![allow(unused_variables)]
    //! Both of these are attributes of the function.
    let h = x.matmul(w)?;
    let narrow: &Tensor<F16> = &h;
    h.relu()
}

#[autocast(f16, enabled = on)]
fn inside_both(x: &T, w: &T, on: bool) -> Result<T> {
    #![allow(deprecated)]
    old(&x.matmul(w)?)
}

fn inside_region(x: &T, w: &T) -> Result<T> {
    let y = amp_region!(
        f16,
        {
            #![allow(unused_variables)]
            let n = 3;
            x.matmul(w)?.relu()?
        }
    );
    y.to::<F32>()
}

#[autocast(f16)]
fn on_branches(x: &T, w: &T, on: bool) -> Result<T> {
    let h = x.matmul(w)?;
    #[allow(deprecated)]
    if on { h.relu() } else { old(w) }
}

#[autocast(f16)]
fn on_arms(x: &T, w: &T, on: bool) -> Result<T> {
    let h = x.matmul(w)?;
    #[allow(clippy::match_bool, deprecated)]
    match on {
        true => h.relu(),
        false => old(w),
    }
}

#[autocast(f16)]
fn on_statements(x: &T, w: &T) -> Result<Vec<T>> {
    let mut all: Vec<T> = Vec::new();
    #[allow(deprecated)]
    all.push(old(&x.matmul(w)?)?);
    #[allow(deprecated)]
    for _ in 0..2 {
        all.push(old(&x.matmul(w)?)?);
    }
    let h = x.matmul(w)?;
    let early = h.dims().len() == 2;
    if early {
        all.push(h.relu()?);
        #[expect(deprecated)]
        return old(w).map(|_| all);
    } else {
        all.push(w.exp()?);
    }
    Ok(all)
}

#[test]
fn attributes_in_a_body_hold_for_what_they_stand_on() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let by_hand = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.relu()?.to::<F32>()?.to_vec()?;
    let all = [
        inside(&x, &w)?,
        inside_both(&x, &w, true)?,
        inside_region(&x, &w)?,
        on_branches(&x, &w, true)?,
        on_arms(&x, &w, true)?,
    ];
    for y in all.into_iter().chain(on_statements(&x, &w)?) {
        assert_eq!(y.to_vec()?, by_hand);
    }
    Ok(())
}
