//~ error: becomes 0 in `f16`
use amp::{nn::Linear, prelude::*};

struct Net<M> {
    fc: M,
}

impl<M: AsRef<Linear>> Net<M> {
    const EPS: f64 = 1e-8;

    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.fc.as_ref().forward(x)?;
        (h + Self::EPS)?.log()
        //~ ^ here
    }
}

fn main() {
    let _ = Net::<Box<Linear>>::forward as fn(&_, &_) -> _;
}
