//~ error: a weight of `RATE` changes nothing in `bf16`
use amp::prelude::*;

const RATE: f64 = 0.001;

#[autocast(bf16)]
pub fn average(avg: &Tensor<BF16>, w: &Tensor<BF16>) -> Result<Tensor<BF16>> {
    avg.lerp(w, RATE)
    //~ ^ here
}

fn main() {}
