//! What wraps a tensor and says of which type it is, and closures that are declared to be function pointers.

use super::{T, bits, half_product, random};
use amp::prelude::*;
use std::result::Result as Either;

#[autocast(f16)]
fn of_a_block(x: &T, w: &T) -> Result<T> {
    let run = || {
        let h = x.matmul(w)?;
        Ok::<Tensor<F32>, Error>(h)
    };
    run()?.exp()
}

#[allow(clippy::unnecessary_literal_unwrap)] // the wrapper is the test
#[autocast(f16)]
fn optional(x: &T, w: &T) -> Result<T> {
    let held = Some::<Tensor<F32>>(x.matmul(w)?);
    let held: Tensor<F32> = held.expect("some");
    held.exp()
}

#[autocast(f16)]
fn boxed(x: &T, w: &T) -> Result<T> {
    let held = Box::<Tensor<F32>>::new(x.matmul(w)?);
    let held: Tensor<F32> = *held;
    held.exp()
}

#[test]
fn the_type_of_a_wrapper_says_what_it_holds() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let exp = bits(&half_product(&x, &w)?.exp()?);
    assert_eq!([of_a_block, optional, boxed].map(|f| bits(&f(&x, &w).expect("runs"))), [&exp; 3].map(Clone::clone));
    Ok(())
}

#[allow(clippy::result_large_err)] // it is the form that is tested
#[autocast(f16)]
fn checked(x: &T, w: &T, good: bool) -> Either<Tensor<F32>, Tensor<F32>> {
    let h = x.matmul(w).expect("products");
    if good {
        return Ok(h);
    }
    Err(h)
}

/// With names of variants of `std`.
enum Outcome {
    Ok(Tensor<F32>),
    Err(Tensor<F32>),
    Some(Tensor<F32>),
}

#[autocast(f16)]
fn outcome(x: &T, w: &T, n: usize) -> Result<Outcome> {
    let h = x.matmul(w)?;
    Ok(match n {
        0 => Outcome::Ok(h),
        1 => Outcome::Err(h),
        _ => Outcome::Some(h),
    })
}

#[test]
fn errors_and_variants_of_ones_own_hold_f32() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = bits(&half_product(&x, &w)?);
    for good in [false, true] {
        let (Ok(h) | Err(h)) = checked(&x, &w, good);
        assert_eq!(bits(&h), product);
    }
    for n in 0..3 {
        let (Outcome::Ok(h) | Outcome::Err(h) | Outcome::Some(h)) = outcome(&x, &w, n)?;
        assert_eq!(bits(&h), product);
    }
    Ok(())
}

type Combine = fn(&T, &T) -> Result<T>;

#[autocast(f16)]
fn declared(x: &T, w: &T) -> Result<T> {
    let combine: fn(&T, &T) -> Result<T> = |x, w| x.matmul(w);
    combine(x, w)?.exp()
}

#[autocast(f16)]
fn returned() -> fn(&T, &T) -> Result<Tensor<F32>> {
    |x, w| x.matmul(w)
}

#[test]
fn a_closure_is_the_function_pointer_that_it_is_declared_to_be() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = half_product(&x, &w)?;
    let combine: Combine = returned();
    assert_eq!(bits(&combine(&x, &w)?), bits(&product));
    assert_eq!(bits(&declared(&x, &w)?), bits(&product.exp()?));
    Ok(())
}

/// What has been folded so far is what the closure declares.
#[autocast(f16)]
fn folded(xs: &[T], w: &T) -> Result<Option<T>> {
    let last = xs.iter().fold(None, |last: Option<Result<T>>, x| match last {
        None => Some(x.matmul(w)),
        Some(Ok(h)) => Some(h.matmul(x)),
        failed => failed,
    });
    last.transpose()
}

/// One of two, or none.
#[autocast(f16)]
fn one(x: &T, w: &T) -> Result<Option<T>> {
    let product = Some(x.matmul(w)?);
    Ok(product.xor(None))
}

#[autocast(f16)]
fn iterated(x: &T, w: &T) -> Result<impl IntoIterator<Item = Tensor<F32>>> {
    Ok(vec![x.matmul(w)?])
}

/// The list leaves as one of F32.
#[autocast(f16)]
fn extended(x: &T, w: &T) -> Result<Vec<Tensor<F32>>> {
    let mut all = Vec::new();
    all.extend([x.matmul(w)?]);
    Ok(all)
}

#[test]
fn options_and_lists_hold_what_is_declared() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = half_product(&x, &w)?;
    assert_eq!(folded(&[x.clone(), x.clone()], &w)?.as_ref().map(bits), Some(bits(&half_product(&product, &x)?)));
    assert_eq!(one(&x, &w)?.as_ref().map(bits), Some(bits(&product)));
    assert_eq!(bits(&extended(&x, &w)?[0]), bits(&product));
    assert_eq!(iterated(&x, &w)?.into_iter().map(|h| bits(&h)).collect::<Vec<_>>(), [bits(&product)]);
    Ok(())
}
