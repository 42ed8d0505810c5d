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

/// A type of one's own that is called as the library's wrapper of numbers is.
#[derive(Clone, Copy)]
struct Value(f64);

impl std::ops::Add for Value {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// Types of one's own that are called as the library's are, with functions of such names.
mod own {
    pub struct Sgd;

    impl Sgd {
        pub fn step(&self) -> f64 {
            2.0
        }
    }

    pub struct Cache<V>(V);

    impl<V> Cache<V> {
        pub fn update(value: V) -> V {
            Self(value).0
        }
    }
}

#[autocast(f16)]
fn by_names(x: &T, w: &T) -> Result<T> {
    use own::{Cache, Sgd};
    let (step, update) = (Sgd::step, Cache::update);
    let Value(sum) = Value(1e-9) + Value(0.5);
    let h = Clone::clone(&x.matmul(w)?);
    let h = Tensor::tracked(&h).to_device(x.device())?.matmul(&Clone::clone(w))?;
    let wide = Result::unwrap(h.to::<F32>()).exp()?;
    (wide.matmul(w)? * (update(step(&Sgd)) + sum))?.exp()
}

#[test]
fn one_s_own_may_be_called_as_what_is_rejected() -> Result<()> {
    let (x, w) = (super::random([4, 4])?, super::random([4, 4])?);
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let wide = x16.matmul(&w16)?.matmul(&w16)?.to::<F32>()?.exp()?;
    let by_hand = (wide.to::<F16>()?.matmul(&w16)? * 2.5)?.to::<F32>()?.exp()?;
    assert_eq!(by_names(&x, &w)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}
