//~ error: `softmax` needs the range of `F32`
use amp::prelude::*;

amp_policy! {
    soft { lower: [softmax] }
    //~ ^ here
}

#[autocast(f16, policy = soft)]
fn attention(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    x.matmul(w)?.softmax(-1)
}

fn head(x: &Tensor<F32>, _w: &Tensor<F32>) -> Result<Tensor<F16>> {
    let _h = x.detach();
    amp_region!(f16, policy = soft, x.matmul(_w))
}

fn main() {
    let _ = (attention, head);
}
