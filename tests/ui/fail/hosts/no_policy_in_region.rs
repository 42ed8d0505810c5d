//~ error: no precision policy for `frobnicate`, so autocast cannot choose its precision
use amp::amp_region;
use amp_test_host::{HostError, Tensor};

pub fn f(x: &Tensor, w: &Tensor) -> Result<Tensor, HostError> {
    let h = amp_region!(bf16, host = amp_test_host, { x.matmul(w)? });
    amp_region!(bf16, host = amp_test_host, { h.frobnicate() })
    //~ ^ here
}

fn main() {}
