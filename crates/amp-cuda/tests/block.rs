//! A transformer block's training step through the stand-ins of the driver and of cuBLASLt: which kernels it launches.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::nn::{LayerNorm, Linear, Module};
use amp_core::optim::AdamW;
use amp_core::{AttentionOptions, Device, F32, GradScaler, Result, Tensor};
use amp_macros::autocast;

/// What the macros take for the library.
mod amp {
    pub mod __private {
        pub use amp_core::private::*;
    }
}

const TOKENS: usize = 6;
const HEADS: usize = 2;
const WIDTH: usize = 16;

struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    mix: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            norm1: LayerNorm::new([WIDTH], device)?,
            qkv: Linear::new(WIDTH, 3 * WIDTH, device)?,
            mix: Linear::new(WIDTH, WIDTH, device)?,
            norm2: LayerNorm::new([WIDTH], device)?,
            up: Linear::new(WIDTH, 4 * WIDTH, device)?,
            down: Linear::new(4 * WIDTH, WIDTH, device)?,
        })
    }

    /// `[N, T, C]`; the residual stream in F32.
    #[autocast(bf16, crate = crate::amp)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (n, each) = (x.dims()[0], WIDTH / HEADS);
        let h = self.norm1.forward(x)?;
        let qkv = self.qkv.forward(&h)?.reshape([n, TOKENS, 3, HEADS, each])?.permute([2, 0, 3, 1, 4])?;
        let q = qkv.select(0, 0)?;
        let k = qkv.select(0, 1)?;
        let v = qkv.select(0, 2)?;
        let mixed = q.scaled_dot_product_attention(&k, &v, None, AttentionOptions::default().causal(true))?;
        let mixed = mixed.transpose(1, 2)?.reshape([n, TOKENS, WIDTH])?;
        let x = (x + &self.mix.forward(&mixed)?)?;
        let h = self.norm2.forward(&x)?;
        let h = self.down.forward(&self.up.forward(&h)?.gelu()?)?;
        &x + &h
    }

    fn parameters(&self) -> Vec<amp_core::Parameter> {
        let layers = [&self.qkv, &self.mix, &self.up, &self.down];
        let norms = [&self.norm1, &self.norm2].into_iter().flat_map(Module::parameters);
        norms.chain(layers.into_iter().flat_map(Module::parameters)).collect()
    }
}

#[test]
fn a_step_casts_nothing_by_itself_and_multiplies_with_cublaslt() -> Result<()> {
    let (standin, _alone) = standin::open_with_products();
    let device = Device::cuda(0)?;
    let (blocks, last) = ([Block::new(&device)?, Block::new(&device)?], LayerNorm::new([WIDTH], &device)?);
    let parameters = blocks.iter().flat_map(Block::parameters).chain(last.parameters());
    let mut optimizer = AdamW::new(parameters, 0.01);
    let mut scaler = GradScaler::new(&device)?;
    let x = Tensor::<F32>::randn([2, TOKENS, WIDTH], &device)?;
    let mut step = || -> Result<()> {
        let y = last.forward(&blocks[1].forward(&blocks[0].forward(&x)?)?)?;
        let grads = scaler.scale(&(&y * &y)?.mean_all()?)?.backward()?;
        scaler.step(&mut optimizer, grads)?;
        scaler.update()
    };
    step()?;
    step()?;
    let before = standin.all_calls();
    step()?;
    let after = standin.all_calls();
    let made = |name: &str| {
        let count = |calls: &std::collections::BTreeMap<String, u64>| calls.get(name).copied().unwrap_or(0);
        count(&after) - count(&before)
    };
    // Four layers forward, and two products backward for each: all of them cuBLASLt's, biases within.
    assert_eq!((made("cublasLtMatmul"), made("matmul_f32")), (2 * 12, 0));
    // The norms' weights and biases alone: a layer's bias gets its gradient from the product that gives the weight's.
    assert_eq!(made("reduce_columns_f32"), 5 * 2, "sums over rows");
    // Gradients of queries, keys and values are written beside each other. Nothing is cast: norms and sums of gradients write
    // what the products read, and the weights' copies come from the optimizer.
    assert_eq!((made("copy_f32"), made("copy_into_f32")), (0, 0), "copies");
    let attention = ["", "_grad_q", "_grad_k"].map(|pass| made(&format!("flash_attention{pass}_64_bf16")));
    assert_eq!(attention, [2; 3], "attention on tensor cores");
    assert_eq!((made("update"), made("square_sums")), (1, 1), "all parameters in one launch");
    assert_eq!(made("cuStreamSynchronize") + made("cuMemcpyDtoHAsync_v2"), 0, "nothing waits");
    Ok(())
}
