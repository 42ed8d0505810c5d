//~ error: a `[isize; 2]` is not a shape
// What rustc proposes for `[-1, 4]` is told what stands for the size that is left.
use amp::prelude::*;

fn flat(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.reshape([-1isize, 4])
    //~    ^ here
}

fn main() {
    flat(&Tensor::ones([2, 4], &Device::cpu()).unwrap()).unwrap();
}
