//! Closures whose results come back from whoever calls them: a timer, `no_grad`, a scope of threads.

use super::*;

fn timed<R>(f: impl FnOnce() -> R) -> R {
    f()
}

fn retried<V>(mut f: impl FnMut(usize) -> Result<V>) -> Result<V> {
    f(0).or_else(|_| f(1))
}

struct Timer;

impl Timer {
    fn time<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

#[autocast(f16)]
fn by_a_function(x: &T, w: &T) -> Result<T> {
    timed(|| x.matmul(w))
}

#[autocast(f16)]
fn by_a_function_behind_a_variable(x: &T, w: &T) -> Result<T> {
    let y = retried(|_| {
        let y = x.matmul(w)?;
        Ok(y)
    })?;
    Ok(y)
}

#[autocast(f16)]
fn by_the_library(x: &T, w: &T) -> Result<T> {
    no_grad(|| x.matmul(w))
}

#[autocast(f16)]
fn by_a_method(timer: &Timer, x: &T, w: &T) -> Result<T> {
    timer.time(|| x.matmul(w))
}

#[autocast(f16)]
fn by_threads(x: &T, w: &T) -> Result<T> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| x.matmul(w));
        let here = w.matmul(x)?;
        other.join().expect("no panic")? + here
    })
}

#[autocast(f16)]
fn in_a_list(x: &T, w: &T) -> Result<Vec<T>> {
    no_grad(|| {
        let mut products = vec![];
        products.push(x.matmul(w)?);
        Ok(products)
    })
}

#[autocast(f16)]
fn in_a_tuple(x: &T, w: &T) -> Result<(T, T)> {
    timed(|| {
        let y = x.matmul(w)?;
        Ok((y.clone(), y.softmax(-1)?))
    })
}

#[test]
fn what_closures_give_is_widened_where_callers_give_it_back() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = half_product(&x, &w)?;
    let (first, second) = in_a_tuple(&x, &w)?;
    assert_eq!(bits(&second), bits(&product.softmax(-1)?));
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let sum = (x16.matmul(&w16)? + w16.matmul(&x16)?)?;
    assert_eq!(bits(&by_threads(&x, &w)?), bits(&sum.to()?));
    let all = [
        by_a_function(&x, &w)?,
        by_a_function_behind_a_variable(&x, &w)?,
        by_the_library(&x, &w)?,
        by_a_method(&Timer, &x, &w)?,
        in_a_list(&x, &w)?.remove(0),
        first,
    ];
    for given in &all {
        assert_eq!(bits(given), bits(&product));
    }
    Ok(())
}

/// What they give in F32 is taken as it is, whose error only its place says.
#[autocast(f16)]
fn full(ln: &LayerNorm, x: &T) -> Result<T> {
    timed(|| {
        let y = ln.forward(x)?;
        Ok(y)
    })
}

/// What is made of a closure's results may be no tensor, or what its place says.
#[autocast(f16)]
fn something_else(x: &T, w: &T) -> Result<(f32, Vec<T>)> {
    fn mean(f: impl Fn() -> Result<T>) -> Result<f32> {
        f()?.mean_all()?.item()
    }
    fn built<C: FromIterator<T>>(f: impl Fn() -> Result<T>) -> Result<C> {
        (0..2).map(|_| f()).collect()
    }
    Ok((mean(|| x.matmul(w))?, built(|| x.matmul(w))?))
}

#[test]
fn what_callers_make_of_it_stays_as_it_is() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let ln = LayerNorm::new(4, &Device::cpu())?;
    assert_eq!(bits(&full(&ln, &x)?), bits(&ln.forward(&x)?));
    let (mean, products) = something_else(&x, &w)?;
    let product = half_product(&x, &w)?;
    assert_eq!(mean, product.mean_all()?.item()?);
    assert!(products.len() == 2 && products.iter().all(|given| bits(given) == bits(&product)));
    Ok(())
}
