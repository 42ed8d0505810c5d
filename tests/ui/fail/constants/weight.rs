//~ error: a weight of `1e-4` changes nothing in `bf16`
use amp::prelude::*;

#[autocast(bf16)]
pub fn average(avg: &Tensor<BF16>, w: &Tensor<BF16>) -> Result<Tensor<BF16>> {
    avg.lerp(w, 1e-4)
    //~ ^ here
}

fn main() {}
