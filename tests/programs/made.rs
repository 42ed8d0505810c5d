//! Tensors that are made without a type are F32, as PyTorch's are, wherever operations, layers and other tensors meet them.

use super::random;
use amp::nn::*;
use amp::prelude::*;

type T = Tensor<F32>;

/// From numbers of the host, as a constant of a model.
#[autocast(bf16)]
fn of_numbers(x: &T, numbers: Vec<f32>) -> Result<(T, T, T)> {
    let (n, device) = (x.dims()[1], x.device());
    let weight = Tensor::from_vec(numbers.clone(), [n, 1], device)?;
    let h = x.matmul(&weight)?;
    let beside: T = (&h + &Tensor::from_slice(&numbers, [1, n], device)?)?;
    let literal: T = (h * Tensor::from_slice(&[0.1, 0.3], [2], device)?.unsqueeze(-1)?)?;
    Ok((beside, literal, x.matmul(&Tensor::from_vec(numbers, [n, 1], device)?)?))
}

fn of_numbers_by_hand(x: &T, numbers: Vec<f32>) -> Result<(T, T, T)> {
    let n = x.dims()[1];
    let weight = T::from_vec(numbers, [n, 1], x.device())?;
    let h = x.to::<BF16>()?.matmul(&weight.to::<BF16>()?)?.to::<F32>()?;
    let literal = (&h * &T::from_slice(&[0.1, 0.3], [2, 1], x.device())?)?;
    Ok(((&h + &weight.t()?)?, literal, h))
}

#[test]
fn numbers_of_the_host_are_f32() -> Result<()> {
    let x = random([2, 3])?;
    let numbers = vec![0.1, -0.7, 1.3];
    let (ours, theirs) = (of_numbers(&x, numbers.clone())?, of_numbers_by_hand(&x, numbers)?);
    assert_eq!(ours.0.to_vec()?, theirs.0.to_vec()?);
    assert_eq!(ours.1.to_vec()?, theirs.1.to_vec()?);
    assert_eq!(ours.2.to_vec()?, theirs.2.to_vec()?);
    Ok(())
}

/// Sums, lists, choices and closures of them.
#[autocast(f16)]
fn in_many_ways(x: &T, fc: &Linear, first: bool) -> Result<Vec<T>> {
    let device = x.device();
    let wide = Tensor::full([1, 4], 0.1, device)?;
    let mask = Tensor::ones([4, 4], device)?.tril(0)?;
    let chosen = if first { Tensor::full([4, 4], 0.2, device)? } else { Tensor::ones([4, 4], device)? };
    let list = [Tensor::full([4, 4], 0.3, device)?, Tensor::full([4, 4], 0.7, device)?];
    let h = x.matmul(x)?;
    let sum: T = (&h + (&wide * 0.1)?)?;
    let joined: T = Tensor::cat(&[&h, &Tensor::full([1, 4], 0.1, device)?], 0)?;
    let most: T = h.maximum(&Tensor::full([1], 0.1, device)?)?;
    let masked: T = (&h * &mask)?;
    let mut deep = x.clone();
    for weight in &list {
        deep = deep.matmul(weight)?;
    }
    let noise = Tensor::full([2, 4], 0.1, device)?;
    let mut power = Tensor::full([4, 4], 0.5, device)?;
    for _ in 0..2 {
        power = x.matmul(&power)?;
    }
    let alone = Tensor::full([4, 4], 0.1, device)?;
    Ok(vec![
        sum,
        joined,
        most,
        masked,
        deep,
        x.matmul(&chosen)?,
        fc.forward(&noise)?,
        fc.forward(&wide)?,
        power,
        alone.matmul(x)?,
        alone.exp()?,
    ])
}

fn in_many_ways_by_hand(x: &T, fc: &Linear, first: bool) -> Result<Vec<T>> {
    let device = x.device();
    let full = |shape: [usize; 2], value: f32| T::full(shape, value, device);
    let product = |a: &T, b: &T| -> Result<T> { a.to::<F16>()?.matmul(&b.to::<F16>()?)?.to::<F32>() };
    let layer = |x: &T| -> Result<T> { amp_region!(f16, { fc.forward(x)? }).to::<F32>() };
    let h = product(x, x)?;
    let (half, noise) = (full([4, 4], 0.5)?, full([2, 4], 0.1)?);
    let alone = full([4, 4], 0.1)?;
    Ok(vec![
        (&h + (full([1, 4], 0.1)? * 0.1)?)?,
        T::cat(&[&h, &full([1, 4], 0.1)?], 0)?,
        h.maximum(&full([1, 1], 0.1)?)?,
        (&h * full([4, 4], 1.0)?.tril(0)?)?,
        product(&product(x, &full([4, 4], 0.3)?)?, &full([4, 4], 0.7)?)?,
        product(x, &full([4, 4], if first { 0.2 } else { 1.0 })?)?,
        layer(&noise)?,
        layer(&full([1, 4], 0.1)?)?,
        product(x, &product(x, &half)?)?,
        product(&alone, x)?,
        alone.exp()?,
    ])
}

#[test]
fn they_are_f32_in_sums_lists_choices_and_layers() -> Result<()> {
    let x = random([4, 4])?;
    let fc = Linear::new(4, 2, &Device::cpu())?;
    for first in [false, true] {
        let (ours, theirs) = (in_many_ways(&x, &fc, first)?, in_many_ways_by_hand(&x, &fc, first)?);
        assert_eq!(ours.len(), theirs.len());
        for (i, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours.to_vec()?, theirs.to_vec()?, "value {i}");
        }
    }
    Ok(())
}

/// What is asked for another type has it: labels, indices, masks, a declared precision, tokens of an embedding.
#[autocast(bf16)]
fn of_other_types(x: &T, tokens: &Embedding) -> Result<(T, T, T, Tensor<BF16>)> {
    let device = x.device();
    let h = x.matmul(x)?;
    let labels = Tensor::zeros([4], device)?;
    let chosen = h.index_select(0, &Tensor::from_vec(vec![2, 0], [2], device)?)?;
    let start = Tensor::zeros([1, 2], device)?;
    let narrow: Tensor<BF16> = Tensor::ones([4, 4], device)?;
    Ok((h.cross_entropy(&labels)?, chosen, tokens.forward(&start)?, (&h + narrow)?))
}

#[test]
fn what_is_asked_for_another_type_has_it() -> Result<()> {
    let x = random([4, 4])?;
    let tokens = Embedding::new(3, 5, &Device::cpu())?;
    let (loss, chosen, start, sum) = of_other_types(&x, &tokens)?;
    let h = x.to::<BF16>()?.matmul(&x.to::<BF16>()?)?;
    assert_eq!(loss.item()?, h.to::<F32>()?.cross_entropy(&Tensor::zeros([4], x.device())?)?.item()?);
    assert_eq!(chosen.dims(), [2, 4]);
    assert_eq!(start.dims(), [1, 2, 5]);
    assert_eq!(sum.to_vec()?, (&h + 1.0)?.to_vec()?);
    Ok(())
}

/// Sums that begin with zeros, of what only the types of layers tell.
#[autocast(bf16)]
fn summed(fc: &Linear, xs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let mut sum = Tensor::zeros([2, 4], xs[0].device())?;
    for x in xs {
        sum = (sum + fc.forward(x)?)?;
    }
    Ok(sum)
}

/// States that begin with zeros.
#[autocast(bf16)]
fn carried(fc: &Linear, gate: &Linear, xs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let (mut h, mut c) = (Tensor::zeros([2, 4], xs[0].device())?, Tensor::zeros([2, 4], xs[0].device())?);
    for x in xs {
        let f = (fc.forward(x)? + gate.forward(&h)?)?;
        c = ((f.sigmoid()? * &c)? + f.tanh()?)?;
        h = (f.sigmoid()? * c.tanh()?)?;
    }
    Ok(h)
}

#[test]
fn sums_and_states_that_begin_with_zeros_are_f32() -> Result<()> {
    let device = Device::cpu();
    let (fc, gate) = (Linear::new(4, 4, &device)?, Linear::new(4, 4, &device)?);
    let xs = [random([2, 4])?, random([2, 4])?, random([2, 4])?];
    let zeros = T::zeros([2, 4], &device)?;
    let layer = |fc: &Linear, x: &T| fc.forward(&x.to::<BF16>()?);
    let (mut sum, mut h, mut c) = (zeros.clone(), zeros.clone(), zeros);
    for x in &xs {
        sum = (sum + layer(&fc, x)?.to::<F32>()?)?;
        let f = (layer(&fc, x)? + layer(&gate, &h)?)?;
        c = ((f.sigmoid()?.to::<F32>()? * &c)? + f.tanh()?.to::<F32>()?)?;
        h = (f.sigmoid()?.to::<F32>()? * c.tanh()?)?;
    }
    assert_eq!(summed(&fc, &xs)?.to_vec()?, sum.to_vec()?);
    assert_eq!(carried(&fc, &gate, &xs)?.to_vec()?, h.to_vec()?);
    Ok(())
}
