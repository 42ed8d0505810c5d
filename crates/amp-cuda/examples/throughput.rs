//! Time of the main kernels on the first GPU, as lines of `name,milliseconds,gigabytes per second`.
//!
//! `gpu/throughput.py` prints the same lines for PyTorch. Inputs of 64 Mi elements do not fit a cache; `--tiny` tries
//! everything out on small ones. `--check` says whether there is a GPU and does nothing else.

use amp_core::Dims;
use amp_core::backend::{
    AttentionScores, Backend, Binary, Buffer, DType, Labels, Layout, NormKind, Operand, Unary, UpdateRule, UpdateSlot,
};
use amp_core::{RandomState, Result};
use std::process::ExitCode;
use std::time::Instant;

/// How large everything is.
struct Sizes {
    rows: usize,
    width: usize,
    /// Side of the matrices.
    side: usize,
    /// `[N, heads, T, C]`
    attention: [usize; 4],
    /// How many tensors the optimizer has, and how large they are.
    tensors: [usize; 2],
    repeats: u32,
}

/// Attention is that of a GPT of 124 M parameters with 8 samples of 1024 tokens.
const FULL: Sizes =
    Sizes { rows: 16384, width: 4096, side: 4096, attention: [8, 12, 1024, 64], tensors: [100, 1 << 20], repeats: 20 };
const TINY: Sizes = Sizes { rows: 4, width: 64, side: 32, attention: [1, 2, 16, 64], tensors: [3, 100], repeats: 1 };

struct Bench<'a> {
    gpu: &'a dyn Backend,
    sizes: Sizes,
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
        for _ in 0..self.sizes.repeats {
            call()?;
        }
        self.gpu.download(&self.last)?;
        let seconds = start.elapsed().as_secs_f64() / f64::from(self.sizes.repeats);
        println!("{name},{:.4},{:.0}", seconds * 1e3, bytes as f64 / seconds / 1e9);
        Ok(())
    }
}

fn layout(shape: &[usize]) -> Layout {
    Layout::contiguous(Dims::new(shape).expect("a rank"))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let asked = |option: &str| std::env::args().any(|arg| arg == option);
    let gpu = amp_cuda::backend(0)?;
    if asked("--check") {
        return Ok(());
    }
    let sizes = if asked("--tiny") { TINY } else { FULL };
    let bench = Bench { gpu: &*gpu, sizes, last: gpu.fill(0.0, 1, DType::F32)? };
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
    let Sizes { rows: count, width, .. } = bench.sizes;
    let (gpu, n) = (bench.gpu, count * width);
    let at = layout(&[count, width]);
    let x = gpu.normal(RandomState { seed: 1, offset: 0 }, 0.0, 1.0, n, dtype)?;
    let x = Operand { buffer: &x, layout: &at, logical: dtype };
    let name = dtype.name().to_lowercase();
    let bytes = n * dtype.size();
    bench.time(&format!("copy {name}"), 2 * bytes, || gpu.copy(x, dtype).map(drop))?;
    bench.time(&format!("gelu {name}"), 2 * bytes, || gpu.unary(Unary::Gelu, x, dtype).map(drop))?;
    bench.time(&format!("add {name}"), 3 * bytes, || gpu.binary(Binary::Add, x, x, dtype).map(drop))?;
    bench.time(&format!("softmax {name}"), 2 * bytes, || gpu.softmax(x, 1, false, dtype).map(drop))?;
    let kind = NormKind::Layer { inner: width };
    bench
        .time(&format!("layer_norm {name}"), 2 * bytes, || gpu.normalize(x, kind, None, None, 1e-5, dtype).map(drop))?;
    let targets = gpu.fill(7.0, count, DType::I64)?;
    let rows = layout(&[count]);
    let targets = Operand { buffer: &targets, layout: &rows, logical: DType::I64 };
    let labels = Labels { targets, weight: None, ignore_index: -100, smoothing: 0.0 };
    bench.time(&format!("cross_entropy {name}"), bytes, || gpu.cross_entropy(x, 1, labels).map(drop))
}

fn matmul(bench: &Bench<'_>, dtype: DType) -> Result<()> {
    let n = bench.sizes.side;
    let (gpu, at) = (bench.gpu, layout(&[n, n]));
    let x = gpu.normal(RandomState { seed: 1, offset: 0 }, 0.0, 1.0, n * n, dtype)?;
    let x = Operand { buffer: &x, layout: &at, logical: dtype };
    let name = format!("matmul {}", dtype.name().to_lowercase());
    bench.time(&name, 3 * n * n * dtype.size(), || gpu.matmul(x, x, None, dtype).map(drop))
}

/// Causal attention, forward and backward.
fn attention(bench: &Bench<'_>, dtype: DType) -> Result<()> {
    let shape = bench.sizes.attention;
    let (gpu, at, n) = (bench.gpu, layout(&shape), shape.iter().product());
    let x = gpu.normal(RandomState { seed: 1, offset: 0 }, 0.0, 1.0, n, dtype)?;
    let x = Operand { buffer: &x, layout: &at, logical: dtype };
    let scores = AttentionScores { mask: None, causal: true, scale: 0.125 };
    let (y, lse) = gpu.attention(x, x, x, &scores, dtype)?;
    let [_, heads, tokens, width] = shape;
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

/// Finite check and AdamW over many tensors.
fn training(bench: &Bench<'_>) -> Result<()> {
    let [tensors, size] = bench.sizes.tensors;
    let (gpu, at) = (bench.gpu, layout(&[size]));
    let make = |value: f64| (0..tensors).map(|_| gpu.fill(value, size, DType::F32)).collect::<Result<Vec<_>>>();
    let (mut masters, grads) = (make(1.0)?, make(1e-3)?);
    let mut moments = (0..tensors).map(|_| Ok([gpu.fill(0.0, size, DType::F32)?, gpu.fill(0.0, size, DType::F32)?]));
    let mut moments = moments.by_ref().collect::<Result<Vec<_>>>()?;
    let mut steps = (0..tensors).map(|_| gpu.fill(0.0, 1, DType::I64)).collect::<Result<Vec<_>>>()?;
    let inverse = gpu.fill(1.0, 1, DType::F32)?;
    let operands: Vec<Operand> =
        grads.iter().map(|buffer| Operand { buffer, layout: &at, logical: DType::F32 }).collect();
    let all: Vec<usize> = (0..tensors).collect();
    let bytes = tensors * size * size_of::<f32>();
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
