//~ error: this `F32` value would be narrowed to `BF16` on return
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(key: &Linear, x: &Tensor<F32>, past: Option<&Tensor<BF16>>) -> Result<(Tensor<F32>, Tensor<BF16>)> {
    let mut k = key.forward(x)?;
    if let Some(past) = past {
        k = Tensor::cat(&[past, &k], 1)?;
    }
    Ok((k.sum_all()?, k))
    //~ ^ here
}

fn main() {}
