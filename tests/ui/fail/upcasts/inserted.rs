//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut map = std::collections::HashMap::new();
    map.insert("x", x.to::<F32>()?);
    map["x"].matmul(w)
    //~ ^ here
}

fn main() {}
