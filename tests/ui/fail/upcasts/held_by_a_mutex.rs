//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let held = std::sync::Arc::new(std::sync::Mutex::new(x.matmul(w)?.to::<F32>()?));
    let lent = held.lock().unwrap();
    lent.matmul(w)
    //~ ^ here
}

fn main() {}
