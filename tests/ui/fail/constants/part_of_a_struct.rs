//~ error: `config::Norm::DEFAULT.eps` becomes 0 in `f16`
use amp::prelude::*;

mod config {
    pub struct Norm {
        pub eps: f64,
        pub names: Vec<String>,
    }

    impl Norm {
        pub const DEFAULT: Self = Self { eps: 1e-8, names: Vec::new() };
    }
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let config::Norm { eps, .. } = config::Norm::DEFAULT;
    //~ ^ here
    x.matmul(x)? + eps
}

fn main() {}
