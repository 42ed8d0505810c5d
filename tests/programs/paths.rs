//! Operations that are called by a path that names their tensor's precision, or by raw names, and methods of `std` that are.

use super::*;

#[autocast(f16)]
fn by_paths(x: &T, w: &T) -> Result<T> {
    let h = <Tensor<F32>>::matmul(x, w)?;
    let h = Tensor::<F32>::matmul(&h, w)?;
    let h = Tensor::<F32>::abs(&h)?;
    let h = <amp::Tensor<F32>>::add(&h, x)?;
    Tensor::<F32>::log_softmax(&Tensor::<F32>::relu(&h)?, -1)
}

#[autocast(f16)]
fn by_raw_names(x: &T, r#type: &T) -> Result<T> {
    let h = x.r#matmul(r#type)?;
    let r#gen = |h: &T| h.r#matmul(r#type)?.abs();
    r#gen(&h.to()?)?.r#add(x)?.relu()?.r#log_softmax(-1)
}

#[autocast(f16)]
fn by_methods(x: &T, w: &T) -> Result<T> {
    x.matmul(w)?.matmul(w)?.abs()?.add(x)?.relu()?.log_softmax(-1)
}

#[test]
fn the_precision_in_a_path_is_that_of_the_region() -> Result<()> {
    let (x, w) = (super::random([4, 4])?, super::random([4, 4])?);
    let by_methods = by_methods(&x, &w)?.to_vec()?;
    assert_eq!(by_paths(&x, &w)?.to_vec()?, by_methods);
    assert_eq!(by_raw_names(&x, &w)?.to_vec()?, by_methods);
    Ok(())
}

#[autocast(f16)]
fn pushed(x: &T, w: &T) -> Result<Vec<T>> {
    let mut all = Vec::new();
    Vec::push(&mut all, x.matmul(w)?);
    Extend::extend(&mut all, Some(x.exp()?));
    Ok(all)
}

#[autocast(f16)]
fn mapped(x: &T, w: &T) -> Result<Vec<T>> {
    let first: Option<T> = Option::map(Some(x.matmul(w)?), |h| h).filter(|h| h.rank() == 2);
    let exp: Vec<T> = Result::unwrap(Iterator::map([x].iter(), |x| x.exp()).collect());
    Ok(first.into_iter().chain(exp).collect())
}

#[autocast(f16)]
fn collected(xs: &[T], w: &T) -> Result<Vec<T>> {
    Iterator::collect(Iterator::map(xs.iter(), |x| x.matmul(w)))
}

#[test]
fn methods_of_std_may_be_called_by_a_path() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let (product, exp) = (bits(&half_product(&x, &w)?), bits(&x.exp()?));
    for made in [pushed, mapped] {
        assert_eq!(made(&x, &w)?.iter().map(bits).collect::<Vec<_>>(), [&product, &exp].map(Clone::clone));
    }
    assert_eq!(bits(&collected(&[x], &w)?[0]), product);
    Ok(())
}
