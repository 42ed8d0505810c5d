//~ error: `Self::EPS` becomes 0 in `f16`
use amp::prelude::*;

pub struct Net;

impl Net {
    const EPS: Option<f64> = Some(1e-9);

    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.matmul(x)?;
        if let Some(eps) = Self::EPS { h.add(eps) } else { Ok(h) }
        //~ ^ here
    }
}

fn main() {}
