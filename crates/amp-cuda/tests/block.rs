//! A transformer block's training step through the stand-ins of the driver and of cuBLASLt: which kernels it launches.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::nn::{LayerNorm, Linear, Module};
use amp_core::optim::AdamW;
use amp_core::{AttentionOptions, BF16, Device, F32, GradScaler, Result, Tensor};

const TOKENS: usize = 6;
const HEADS: usize = 2;
const WIDTH: usize = 16;

struct Block {
    norms: [LayerNorm; 2],
    attention: [Linear; 2],
    mlp: [Linear; 2],
}

impl Block {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            norms: [LayerNorm::new([WIDTH], device)?, LayerNorm::new([WIDTH], device)?],
            attention: [Linear::new(WIDTH, 3 * WIDTH, device)?, Linear::new(WIDTH, WIDTH, device)?],
            mlp: [Linear::new(WIDTH, 4 * WIDTH, device)?, Linear::new(4 * WIDTH, WIDTH, device)?],
        })
    }

    /// `[N, T, C]` in F32; the products in BF16.
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (n, each) = (x.dims()[0], WIDTH / HEADS);
        let h = self.norms[0].forward(x)?.to::<BF16>()?;
        let qkv = self.attention[0].forward(&h)?.reshape([n, TOKENS, 3, HEADS, each])?.permute([2, 0, 3, 1, 4])?;
        let [q, k, v] = [0, 1, 2].map(|i| qkv.select(0, i));
        let mixed = q?.scaled_dot_product_attention(&k?, &v?, None, AttentionOptions::default().causal(true))?;
        let mixed = mixed.transpose(1, 2)?.reshape([n, TOKENS, WIDTH])?;
        let x = (x + &self.attention[1].forward(&mixed)?.to::<F32>()?)?;
        let h = self.norms[1].forward(&x)?.to::<BF16>()?;
        let h = self.mlp[1].forward(&self.mlp[0].forward(&h)?.gelu()?)?;
        &x + &h.to::<F32>()?
    }

    fn parameters(&self) -> Vec<amp_core::Parameter> {
        let norms = self.norms.iter().flat_map(Module::parameters);
        norms.chain(self.attention.iter().chain(&self.mlp).flat_map(Module::parameters)).collect()
    }
}

#[test]
fn a_step_rounds_activations_only_and_multiplies_with_cublaslt() -> Result<()> {
    let (standin, _alone) = standin::open_with_products();
    let device = Device::cuda(0)?;
    let block = Block::new(&device)?;
    let mut optimizer = AdamW::new(block.parameters(), 0.01);
    let mut scaler = GradScaler::new(&device)?;
    let x = Tensor::<F32>::randn([2, TOKENS, WIDTH], &device)?;
    let mut step = || -> Result<()> {
        let y = block.forward(&x)?;
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
    assert_eq!((made("cublasLtMatmul"), made("matmul_f32")), (12, 0));
    // Both norms' results and both residual branches' gradients are rounded for the products; heads are put in order once
    // on the way there and once on the way back. No weight is: its copy comes from the optimizer.
    assert_eq!(made("copy_f32"), 4 + 2, "copies");
    assert_eq!((made("update"), made("square_sums")), (1, 1), "all parameters in one launch");
    assert_eq!(made("cuStreamSynchronize") + made("cuMemcpyDtoHAsync_v2"), 0, "nothing waits");
    Ok(())
}
