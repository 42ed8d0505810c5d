//! What begins as `None`, in a field, a tuple or a variable, and is filled later: it is cast as anything else.

use super::T;
use amp::DType;
use amp::nn::Linear;
use amp::prelude::*;

fn dtype<P: Float>(_: &Tensor<P>) -> DType {
    P::DTYPE
}

struct Cache {
    key: Option<T>,
    both: [Option<T>; 2],
    counted: (Option<T>, usize),
    inner: Inner,
}

struct Inner {
    value: Option<T>,
}

fn fill(cache: &mut Cache, x: &T) {
    cache.key = Some(x.clone());
}

#[autocast(f16)]
fn of_fields(fc: &Linear, x: &T) -> Result<Vec<DType>> {
    let mut cache = Cache { key: None, both: [None, None], counted: (None, 0), inner: Inner { value: None } };
    cache.both[1] = Some(x.exp()?);
    cache.counted.0 = Some(x.exp()?);
    cache.inner.value = Some(x.exp()?);
    fill(&mut cache, x);
    let key = fc.forward(cache.key.as_ref().unwrap())?;
    let second = fc.forward(cache.both[1].as_ref().unwrap())?;
    let counted = fc.forward(cache.counted.0.as_ref().unwrap())?;
    let value = fc.forward(cache.inner.value.as_ref().unwrap_or(x))?;
    let scores = x.matmul(cache.key.as_ref().unwrap())?;
    let sum = (scores.clone() + cache.inner.value.as_ref().unwrap())?;
    let taken = fc.forward(&cache.key.take().unwrap())?;
    Ok(vec![dtype(&key), dtype(&second), dtype(&counted), dtype(&value), dtype(&scores), dtype(&taken), dtype(&sum)])
}

#[autocast(f16)]
fn of_declared_tuples(fc: &Linear, x: &T) -> Result<DType> {
    let mut state: (Option<Tensor<F32>>, usize) = (None, 0);
    state.0 = Some(x.clone());
    Ok(dtype(&fc.forward(state.0.as_ref().unwrap())?))
}

struct Layer {
    weight: T,
    bias: Option<T>,
}

#[autocast(f16)]
fn of_own_layers(x: &T, w: &T) -> Result<DType> {
    let layer = Layer { weight: w.clone(), bias: None };
    Ok(dtype(&x.linear(&layer.weight, layer.bias.as_ref())?))
}

#[test]
fn fields_that_begin_as_none_are_cast_as_others() -> Result<()> {
    let device = Device::cpu();
    let (fc, x) = (Linear::new(3, 3, &device)?, T::ones([3, 3], &device)?);
    let found = of_fields(&fc, &x)?;
    assert_eq!(found, [[DType::F16; 6].as_slice(), &[DType::F32]].concat());
    assert_eq!([of_declared_tuples(&fc, &x)?, of_own_layers(&x, &x)?], [DType::F16; 2]);
    Ok(())
}

#[autocast(bf16)]
fn optional(x: &T, w: &T, b: &T, biased: bool) -> Result<Tensor<BF16>> {
    let mut bias = None;
    if biased {
        bias = Some(b.relu()?);
    }
    x.linear(w, bias.as_ref())
}

#[autocast(bf16)]
fn chosen(x: &T, w: &T, b: &T, fast: bool) -> Result<Tensor<BF16>> {
    let bias;
    if fast {
        bias = b.relu()?;
    } else {
        bias = b.abs()?;
    }
    x.linear(w, Some(&bias))
}

#[autocast(bf16)]
fn by_condition(x: &T, w: &T, b: &T, biased: bool) -> Result<Tensor<BF16>> {
    let mut bias = None;
    if biased {
        bias = Some(b.clone());
    }
    if let Some(bias) = &bias {
        return x.linear(w, Some(bias));
    }
    x.linear(w, None)
}

#[test]
fn optional_biases_may_be_made_before_their_product() -> Result<()> {
    let device = Device::cpu();
    let (x, b) = (T::ones([2, 2], &device)?, T::full([2], -3.0, &device)?);
    for (biased, expected) in [(false, [2.0, 5.0, 2.0]), (true, [2.0, 2.0, -1.0])] {
        let found = [optional(&x, &x, &b, biased)?, chosen(&x, &x, &b, biased)?, by_condition(&x, &x, &b, biased)?];
        for (y, expected) in found.iter().zip(expected) {
            assert!(y.to_vec()?.iter().all(|v| v.to_f32() == expected), "{biased}: {:?}", y.to_vec()?);
        }
    }
    Ok(())
}
