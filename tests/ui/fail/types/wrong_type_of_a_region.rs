//~ error: `?` operator has incompatible types
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = x.matmul(x)?;
    let z: f32 = amp_region!(f32, y.relu())?;
    //~ ^ here
    println!("{z}");
    y.exp()
}

fn main() {}
