//~ error: no precision policy for `frobnicate`, so autocast cannot choose its precision
use amp::autocast;
use amp_test_host::{HostError, Tensor};

#[autocast(f16, host = amp_test_host)]
pub fn f(x: &Tensor, w: &Tensor) -> Result<Tensor, HostError> {
    let h = x.matmul(w)?;
    h.frobnicate()
    //~ ^ here
}

fn main() {}
