//~ error: `load_state` does not belong inside an autocast region
use amp::prelude::*;

#[derive(Module)]
pub struct Model {
    w: Parameter,
}

impl Model {
    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>, file: &amp::io::TensorFile) -> Result<Tensor<F32>> {
        let h = x.matmul(&self.w)?;
        self.load_state(file)?;
        //~ ^ here
        h.matmul(&self.w)
    }
}

fn main() {}
