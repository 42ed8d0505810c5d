//~ error: becomes exactly 1 in `bf16`
use amp::prelude::*;

#[autocast(P)]
fn f<P: AutocastPrecision>(state: &Tensor<P>) -> Result<Tensor<P>> {
    state.mul(0.999)
    //~ ^ here
}

fn main() {
    let _ = f::<F16> as fn(&_) -> _;
    let _ = f::<BF16> as fn(&_) -> _;
}
