//! Variables that change by what keeps their type stay of it; what is negated is widened as what is computed otherwise.

use std::collections::HashMap;

use super::T;
use amp::nn::{LayerNorm, Linear};
use amp::prelude::*;
use amp::{Bool, DType};

fn dtype<P: Float>(_: &Tensor<P>) -> DType {
    P::DTYPE
}

struct Net {
    fc: Linear,
    norm: LayerNorm,
    layers: Vec<Linear>,
}

impl Net {
    #[autocast(f16)]
    fn activated(&self, x: &T, mask: &Tensor<Bool>, twice: bool) -> Result<DType> {
        let mut h = self.fc.forward(x)?;
        h = h.relu()?;
        if twice {
            h = (h * 2.0)?;
        }
        h = (-&h)?;
        h = (1.0 + &h)?.reshape([2, 4])?.masked_fill(mask, 0.0)?;
        h = h.clone().dropout(0.1, true)?;
        Ok(dtype(&h))
    }

    #[autocast(f16)]
    fn normed(&self, x: &T) -> Result<DType> {
        let mut h = self.fc.forward(x)?;
        h = h.relu()?;
        h = h.softmax(-1)?;
        Ok(dtype(&h))
    }

    #[autocast(f16)]
    fn deep(&self, x: &T) -> Result<DType> {
        let mut h = self.norm.forward(x)?;
        for layer in &self.layers {
            h = layer.forward(&h)?;
            h = h.relu()?;
        }
        Ok(dtype(&h))
    }

    #[autocast(f16)]
    fn in_loops(&self, x: &T) -> Result<[DType; 2]> {
        let mut h = self.fc.forward(x)?;
        for _ in 0..2 {
            h = h.relu()?;
        }
        let mut wide = self.fc.forward(x)?;
        wide = wide.abs()?;
        wide = wide.to::<F32>()?;
        Ok([dtype(&h), dtype(&wide)])
    }

    #[autocast(f16)]
    fn given(&self, x: &T) -> Result<Tensor<F32>> {
        let mut h = self.fc.forward(x)?;
        h = h.relu()?;
        Ok(h)
    }
}

#[test]
fn what_keeps_the_type_of_a_variable_does_not_widen_it() -> Result<()> {
    let device = Device::cpu();
    let (fc, norm) = (Linear::new(4, 4, &device)?, LayerNorm::new(4, &device)?);
    let net = Net { fc, norm, layers: vec![Linear::new(4, 4, &device)?] };
    let x = T::ones([2, 4], &device)?;
    assert_eq!(net.activated(&x, &x.gt(0.0)?, true)?, DType::F16);
    assert_eq!([net.normed(&x)?, net.deep(&x)?], [DType::F32; 2]);
    assert_eq!(net.in_loops(&x)?, [DType::F16, DType::F32]);
    assert_eq!(dtype(&net.given(&x)?), DType::F32);
    Ok(())
}

#[autocast(f16)]
fn of_a_map(x: &T) -> Result<Tensor<F32>> {
    let products = HashMap::from([(1, x.matmul(x)?)]);
    let negated = (-&products[&1])?;
    Ok(negated)
}

#[autocast(f16)]
fn of_a_list(x: &T) -> Result<Tensor<F32>> {
    let product = x.matmul(x)?;
    let mut all = Vec::new();
    all.push(&product);
    let negated = (-all[0])?;
    Ok(negated)
}

#[autocast(f16)]
fn of_numbers(x: &T, n: i64, all: &[f64]) -> Result<(Tensor<F32>, i64)> {
    let last = -all[0];
    Ok((x.matmul(x)?.mul(-n as f64 * last)?, -n))
}

#[test]
fn what_is_negated_is_widened_where_it_is_returned() -> Result<()> {
    let x = T::ones([2, 2], &Device::cpu())?;
    assert_eq!((of_a_map(&x)?.to_vec()?, of_a_list(&x)?.to_vec()?), (vec![-2.0; 4], vec![-2.0; 4]));
    let (y, n) = of_numbers(&x, 3, &[2.0])?;
    assert_eq!((y.to_vec()?, n), (vec![12.0; 4], -3));
    Ok(())
}

#[autocast(f16)]
fn before_a_product(fc: &Linear, norm: &LayerNorm, x: &T) -> Result<[DType; 4]> {
    let mut h = fc.forward(x)?;
    h = h.relu()?;
    let y = fc.forward(&h)?;
    let mut k = norm.forward(x)?;
    k = k.abs()?.dropout(0.5, false)?;
    let z = k.matmul(x)?;
    Ok([dtype(&h), dtype(&y), dtype(&k), dtype(&z)])
}

#[autocast(f16)]
fn instead(x: &Tensor<F32>, other: Option<Tensor<F16>>) -> Result<[DType; 3]> {
    let first = Some(x.matmul(x)?).unwrap_or(x.matmul(x)?);
    let second = Some(x.matmul(x)?).or(Some(x.matmul(x)?)).unwrap();
    let wide = Some(x.matmul(x)?).unwrap_or(x.exp()?);
    drop(other.unwrap_or(x.matmul(x)?));
    Ok([dtype(&first), dtype(&second), dtype(&wide)])
}

#[test]
fn variables_and_options_of_half_precision_stay_so() -> Result<()> {
    let device = Device::cpu();
    let (fc, x) = (Linear::new(4, 4, &device)?, T::ones([4, 4], &device)?);
    let [h, y, k, z] = before_a_product(&fc, &LayerNorm::new(4, &device)?, &x)?;
    assert_eq!(([h, y, z], k), ([DType::F16; 3], DType::F32));
    assert_eq!(instead(&x, None)?, [DType::F16, DType::F16, DType::F32]);
    Ok(())
}
