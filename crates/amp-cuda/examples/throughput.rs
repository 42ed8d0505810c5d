//! Time of the main kernels on the first GPU, as lines of `name,milliseconds,gigabytes per second`.
//!
//! `gpu/throughput.py` prints the same lines for PyTorch. Inputs of 64 Mi elements do not fit a cache.

use amp_core::Dims;
use amp_core::backend::{
    AttentionScores, Backend, Binary, Buffer, DType, Labels, Layout, NormKind, Operand, Unary, UpdateRule, UpdateSlot,
};
use amp_core::{RandomState, Result};
use std::time::Instant;

const ROWS: usize = 16384;
const WIDTH: usize = 4096;
const REPEATS: u32 = 20;

struct Bench<'a> {
    gpu: &'a dyn Backend,
    /// One element: downloading it waits for all work before.
    last: Buffer,
}

impl Bench<'_> {
    /// The mean time of a call, and what it moves if it touches `bytes`.
    fn time(&self, name: &str, bytes: usize, mut call: impl FnMut() -> Result<()>) -> Result<()> {
        call()?;
        call()?;
        self.gpu.download(&self.last)?;
        let start = Instant::now();
        for _ in 0..REPEATS {
            call()?;
        }
        self.gpu.download(&self.last)?;
        let seconds = start.elapsed().as_secs_f64() / f64::from(REPEATS);
        println!("{name},{:.4},{:.0}", seconds * 1e3, bytes as f64 / seconds / 1e9);
        Ok(())
    }
}

fn layout(shape: &[usize]) -> Layout {
    Layout::contiguous(Dims::new(shape).expect("a rank"))
}

fn main() -> Result<()> {
    let gpu = amp_cuda::backend(0)?;
    let bench = Bench { gpu: &*gpu, last: gpu.fill(0.0, 1, DType::F32)? };
    println!("name,milliseconds,gigabytes_per_second");
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        memory_bound(&bench, dtype)?;
        matmul(&bench, dtype)?;
        if dtype.is_half() {
            attention(&bench, dtype)?;
        }
    }
    training(&bench)
}

fn memory_bound(bench: &Bench<'_>, dtype: DType) -> Result<()> {
    let (gpu, n) = (bench.gpu, ROWS * WIDTH);
    let at = layout(&[ROWS, WIDTH]);
    let x = gpu.normal(RandomState { seed: 1, offset: 0 }, 0.0, 1.0, n, dtype)?;
    let x = Operand { buffer: &x, layout: &at, logical: dtype };
    let name = dtype.name().to_lowercase();
    let bytes = n * dtype.size();
    bench.time(&format!("copy {name}"), 2 * bytes, || gpu.copy(x, dtype).map(drop))?;
    bench.time(&format!("gelu {name}"), 2 * bytes, || gpu.unary(Unary::Gelu, x, dtype).map(drop))?;
    bench.time(&format!("add {name}"), 3 * bytes, || gpu.binary(Binary::Add, x, x, dtype).map(drop))?;
    bench.time(&format!("softmax {name}"), 2 * bytes, || gpu.softmax(x, 1, false, dtype).map(drop))?;
    let kind = NormKind::Layer { inner: WIDTH };
    bench
        .time(&format!("layer_norm {name}"), 2 * bytes, || gpu.normalize(x, kind, None, None, 1e-5, dtype).map(drop))?;
    let targets = gpu.fill(7.0, ROWS, DType::I64)?;
    let rows = layout(&[ROWS]);
    let targets = Operand { buffer: &targets, layout: &rows, logical: DType::I64 };
    let labels = Labels { targets, weight: None, ignore_index: -100, smoothing: 0.0 };
    bench.time(&format!("cross_entropy {name}"), bytes, || gpu.cross_entropy(x, labels).map(drop))
}

fn matmul(bench: &Bench<'_>, dtype: DType) -> Result<()> {
    const N: usize = 4096;
    let (gpu, at) = (bench.gpu, layout(&[N, N]));
    let x = gpu.normal(RandomState { seed: 1, offset: 0 }, 0.0, 1.0, N * N, dtype)?;
    let x = Operand { buffer: &x, layout: &at, logical: dtype };
    let name = format!("matmul {}", dtype.name().to_lowercase());
    bench.time(&name, 3 * N * N * dtype.size(), || gpu.matmul(x, x, None, dtype).map(drop))
}

/// Causal attention as of a GPT of 124 M parameters with 8 samples of 1024 tokens, forward and backward.
fn attention(bench: &Bench<'_>, dtype: DType) -> Result<()> {
    const SHAPE: [usize; 4] = [8, 12, 1024, 64];
    let (gpu, at, n) = (bench.gpu, layout(&SHAPE), SHAPE.iter().product());
    let x = gpu.normal(RandomState { seed: 1, offset: 0 }, 0.0, 1.0, n, dtype)?;
    let x = Operand { buffer: &x, layout: &at, logical: dtype };
    let scores = AttentionScores { mask: None, causal: true, scale: 0.125 };
    let (y, lse) = gpu.attention(x, x, x, &scores, dtype)?;
    let [_, heads, tokens, width] = SHAPE;
    // The heads of a token lie beside each other.
    let beside = Dims::new(&[tokens * heads * width, width, heads * width, 1]).expect("rank 4");
    let beside = Layout { strides: beside, ..at };
    let y = Operand { buffer: &y, layout: &beside, logical: dtype };
    let (name, bytes) = (dtype.name().to_lowercase(), n * dtype.size());
    bench.time(&format!("attention {name}"), 4 * bytes, || gpu.attention(x, x, x, &scores, dtype).map(drop))?;
    bench.time(&format!("attention backward {name}"), 8 * bytes, || {
        gpu.attention_grad(x, [x, x, x], y, &lse, &scores, dtype).map(drop)
    })
}

/// Finite check and AdamW over 100 tensors of 1 Mi elements.
fn training(bench: &Bench<'_>) -> Result<()> {
    const TENSORS: usize = 100;
    const SIZE: usize = 1 << 20;
    let (gpu, at) = (bench.gpu, layout(&[SIZE]));
    let make = |value: f64| (0..TENSORS).map(|_| gpu.fill(value, SIZE, DType::F32)).collect::<Result<Vec<_>>>();
    let (mut masters, grads) = (make(1.0)?, make(1e-3)?);
    let mut moments = (0..TENSORS).map(|_| Ok([gpu.fill(0.0, SIZE, DType::F32)?, gpu.fill(0.0, SIZE, DType::F32)?]));
    let mut moments = moments.by_ref().collect::<Result<Vec<_>>>()?;
    let mut steps = (0..TENSORS).map(|_| gpu.fill(0.0, 1, DType::I64)).collect::<Result<Vec<_>>>()?;
    let inverse = gpu.fill(1.0, 1, DType::F32)?;
    let operands: Vec<Operand> =
        grads.iter().map(|buffer| Operand { buffer, layout: &at, logical: DType::F32 }).collect();
    let all: Vec<usize> = (0..TENSORS).collect();
    let bytes = TENSORS * SIZE * size_of::<f32>();
    bench.time("unscale and check f32", bytes, || {
        let sums = gpu.square_sums(&operands, &[&inverse])?;
        gpu.any_non_finite(&sums, &all).map(drop)
    })?;
    let rule = UpdateRule::Adam {
        lr: 1e-3,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
        decoupled: true,
        amsgrad: false,
    };
    bench.time("adamw f32", 7 * bytes, || {
        let state = masters.iter_mut().zip(&mut moments).zip(&mut steps).zip(&operands);
        let slots = state.map(|(((master, moments), steps), &grad)| UpdateSlot {
            master,
            grad,
            moments,
            copies: Vec::new(),
            steps,
        });
        gpu.update((&rule).into(), slots.collect(), &[&inverse], None)
    })
}
