//! Fields that are reached through a type which runs code when it is dereferenced: nothing runs before it would as written.

use super::{T, bits, half_product, random};
use amp::prelude::*;
use std::cell::{Cell, LazyCell};
use std::ops::Deref;
use std::slice;

struct Weights {
    w: Tensor<F32>,
}

/// Makes its weights when they are first used.
struct Net<F: FnOnce() -> Weights> {
    lazy: LazyCell<Weights, F>,
}

impl<F: FnOnce() -> Weights> Net<F> {
    #[autocast(f16)]
    fn forward(&self, xs: &[T]) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for x in xs {
            all.push(x.matmul(&self.lazy.w)?);
        }
        Ok(all)
    }

    #[autocast(f16)]
    fn gated(&self, xs: &[T], on: bool) -> Result<Vec<T>> {
        xs.iter().map(|x| if on { x.matmul(&self.lazy.w) } else { x.relu() }).collect()
    }
}

#[test]
fn what_is_lazy_is_made_for_its_first_use() -> Result<()> {
    let (x, w, made) = (random([4, 4])?, random([4, 4])?, Cell::new(0));
    let make = || {
        made.set(made.get() + 1);
        Weights { w: w.clone() }
    };
    let net = Net { lazy: LazyCell::new(make) };
    assert!(net.forward(&[])?.is_empty());
    assert_eq!(bits(&net.gated(slice::from_ref(&x), false)?[0]), bits(&x.relu()?));
    assert_eq!(made.get(), 0, "made for nothing");
    let product = bits(&half_product(&x, &w)?);
    assert_eq!(
        net.forward(&[x.clone(), x.clone()])?.iter().map(bits).collect::<Vec<_>>(),
        [&product; 2].map(Clone::clone)
    );
    assert_eq!(bits(&net.gated(slice::from_ref(&x), true)?[0]), product);
    assert_eq!(made.get(), 1);
    Ok(())
}

/// Is not to be used before it is ready.
struct Guarded {
    ready: Cell<bool>,
    weights: Weights,
}

impl Deref for Guarded {
    type Target = Weights;
    fn deref(&self) -> &Weights {
        assert!(self.ready.get(), "not loaded yet");
        &self.weights
    }
}

#[autocast(f16)]
fn loaded(guarded: &Guarded, xs: &[T]) -> Result<T> {
    let mut last = xs[0].clone();
    for x in xs {
        guarded.ready.set(true);
        last = x.matmul(&guarded.w)?;
    }
    Ok(last)
}

/// What the cast borrowed may be moved behind its last use.
#[autocast(f16)]
fn handed_back(weights: Weights, xs: &[T]) -> Result<(Vec<T>, Weights)> {
    let mut all: Vec<T> = Vec::new();
    for x in xs {
        all.push(x.matmul(&weights.w)?);
    }
    Ok((all, weights))
}

#[test]
fn what_is_guarded_is_dereferenced_where_it_is_used() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = half_product(&x, &w)?;
    let guarded = Guarded { ready: Cell::new(false), weights: Weights { w: w.clone() } };
    assert_eq!(bits(&loaded(&guarded, slice::from_ref(&x))?), bits(&product));
    let (all, back) = handed_back(guarded.weights, slice::from_ref(&x))?;
    assert_eq!([bits(&all[0]), bits(&back.w)], [bits(&product), bits(&w)]);
    Ok(())
}
