//~ error: this cast to `F32` would be undone by `matmul`
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, fc: &Linear) -> Result<Tensor<F32>> {
    let (a, b) = amp_region!(f32, { (fc.forward(x)?, x.exp()?) });
    let c = a.relu()?;
    c.matmul(&b.to::<BF16>()?)
    //~ ^ here
}

fn main() {}
