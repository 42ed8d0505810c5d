//! Prints the precision plans of a whole model: which operation runs in which precision, what is cast, what it costs.
//!
//! `cargo run --example plan`

use amp::prelude::*;

/// One block of a transformer, on weights that are plain tensors so that every product shows.
pub struct Block {
    norm: Tensor<F32>,
    qkv: [Tensor<F32>; 3],
    out: Tensor<F32>,
    up: Tensor<F32>,
    down: Tensor<F32>,
}

impl Block {
    fn new(width: usize, device: &Device) -> Result<Self> {
        let weight = |n, m| Tensor::<F32>::normal([n, m], 0.0, 0.02, device);
        Ok(Self {
            norm: Tensor::ones([width], device)?,
            qkv: [weight(width, width)?, weight(width, width)?, weight(width, width)?],
            out: weight(width, width)?,
            up: weight(width, 4 * width)?,
            down: weight(4 * width, width)?,
        })
    }

    /// Attention of one head over the rows of `x`.
    #[autocast(f16)]
    pub fn attention(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.rms_norm([x.dims()[1]], Some(&self.norm), 1e-5)?;
        let [wq, wk, wv] = &self.qkv;
        let (q, k, v) = (h.matmul(wq)?, h.matmul(wk)?, h.matmul(wv)?);
        let scores = (q.matmul(&k.t()?)? * 0.125)?;
        let mixed = scores.softmax(-1)?.matmul(&v)?;
        mixed.matmul(&self.out)? + x
    }

    /// The feed-forward half.
    #[autocast(f16)]
    pub fn feed_forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.rms_norm([x.dims()[1]], Some(&self.norm), 1e-5)?;
        let h = h.matmul(&self.up)?.gelu()?;
        h.matmul(&self.down)? + x
    }
}

/// The loss stays in F32.
#[autocast(f16)]
pub fn loss(x: &Tensor<F32>, head: &Tensor<F32>, labels: &Tensor<I64>) -> Result<Tensor<F32>> {
    x.matmul(head)?.cross_entropy(labels)
}

fn main() -> Result<()> {
    let device = Device::cpu();
    let block = Block::new(16, &device)?;
    let x = Tensor::<F32>::randn([8, 16], &device)?;
    let y = block.feed_forward(&block.attention(&x)?)?;
    let labels = Tensor::<I64>::from_vec((0..8).collect(), [8], &device)?;
    let head = Tensor::<F32>::randn([16, 10], &device)?;
    println!("loss {:.4}\n", loss(&y, &head, &labels)?.item()?);

    for plan in amp::plan::all() {
        println!("{plan}");
    }
    let total: u32 = amp::plan::all().iter().map(|plan| plan.costed_casts()).sum();
    println!("{total} casts cost something");
    Ok(())
}
