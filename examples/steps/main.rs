//! Times whole training steps of a GPT with 124 million parameters and of ResNet-50 on the best device, as a line of
//! `name,milliseconds,steps per second`; `crates/amp-cuda/gpu/steps.py` prints the same line for PyTorch.
//!
//! `cargo run --release --example steps -- gpt bf16`; `--tiny` tries everything out on small models, `--graph` replays the
//! step as a CUDA graph.

#[path = "../models/mod.rs"]
mod models;

use amp::cuda::Graph;
use amp::optim::{AdamW, Optimizer, Sgd};
use amp::prelude::*;
use clap::{Parser, ValueEnum};
use models::gpt::{Gpt, Sizes};
use models::resnet50::ResNet50;
use std::time::{Duration, Instant};

/// Time a training step
#[derive(Debug, Parser)]
#[command(name = "steps")]
struct Args {
    /// What is trained
    model: Model,

    /// Precision of the products
    precision: Precision,

    /// Small models and inputs, for a try
    #[arg(long)]
    tiny: bool,

    /// Replay the step as a CUDA graph
    #[arg(long)]
    graph: bool,

    /// Longest time to measure, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    Gpt,
    Resnet50,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Precision {
    F32,
    F16,
    Bf16,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let device = Device::best();
    amp::manual_seed(1);
    match args.precision {
        Precision::F32 => run::<F32>(&args, &device),
        Precision::F16 => run::<F16>(&args, &device),
        Precision::Bf16 => run::<BF16>(&args, &device),
    }
}

fn run<P: AutocastPrecision>(args: &Args, device: &Device) -> Result<()> {
    match args.model {
        Model::Gpt => gpt::<P>(args, device),
        Model::Resnet50 => resnet50::<P>(args, device),
    }
}

fn gpt<P: AutocastPrecision>(args: &Args, device: &Device) -> Result<()> {
    let (batch, sizes) = match args.tiny {
        false => (8, Sizes { vocabulary: 50_304, context: 1024, width: 768, layers: 12, heads: 12 }),
        true => (2, Sizes { vocabulary: 40, context: 16, width: 32, layers: 2, heads: 2 }),
    };
    let model = Gpt::new(sizes, device)?;
    let tokens = (0..batch * (sizes.context + 1)).map(|i| (i * 7919 % sizes.vocabulary) as i64).collect();
    let tokens = Tensor::<I64>::from_vec(tokens, [batch, sizes.context + 1], device)?;
    let x = tokens.narrow(1, 0, sizes.context)?.contiguous()?;
    let y = tokens.narrow(1, 1, sizes.context)?.reshape([batch * sizes.context])?;
    let optimizer = AdamW::new(model.parameters(), 3e-4);
    let loss = || model.forward::<P>(&x)?.reshape([batch * sizes.context, sizes.vocabulary])?.cross_entropy(&y);
    measure(args, device, optimizer, loss)
}

fn resnet50<P: AutocastPrecision>(args: &Args, device: &Device) -> Result<()> {
    let (batch, side, width, classes) = if args.tiny { (2, 32, 4, 10) } else { (64, 224, 64, 1000) };
    let model = ResNet50::new(width, classes, device)?;
    let x = Tensor::<F32>::randn([batch, 3, side, side], device)?;
    let y = Tensor::<I64>::from_vec((0..batch).map(|i| (i % classes) as i64).collect(), [batch], device)?;
    let optimizer = Sgd::new(model.parameters(), 0.01).momentum(0.9).weight_decay(1e-4);
    measure(args, device, optimizer, || model.forward::<P>(&x)?.cross_entropy(&y))
}

/// Times steps until the time is over, and prints the mean; the scaler works for F16 only.
fn measure(
    args: &Args,
    device: &Device,
    mut optimizer: impl Optimizer,
    loss: impl Fn() -> Result<Tensor<F32>>,
) -> Result<()> {
    let scales = matches!(args.precision, Precision::F16);
    let mut scaler = GradScaler::builder().enabled(scales).build(device)?;
    let mut step = || -> Result<Tensor<F32>> {
        let loss = loss()?;
        let grads = scaler.scale(&loss)?.backward()?;
        scaler.step(&mut optimizer, grads)?;
        scaler.update()?;
        Ok(loss)
    };
    let mut last = 0.0;
    for _ in 0..3 {
        last = step()?.item()?;
    }
    let graph = if args.graph { Some(Graph::capture(device, &mut step)?) } else { None };
    let mut next = || graph.as_ref().map_or_else(&mut step, Graph::replay);
    next()?.item()?;
    let (mut spent, mut steps) = (Duration::ZERO, 0);
    // Reading the loss waits for the device: once for a few steps, as a program that prints it does.
    while spent < Duration::from_secs(args.seconds) && steps < 100 {
        let start = Instant::now();
        for _ in 0..5 {
            next()?;
        }
        last = next()?.item()?;
        spent += start.elapsed();
        steps += 6;
    }
    let seconds = spent.as_secs_f64() / f64::from(steps);
    let name =
        format!("{:?} {:?}{}", args.model, args.precision, if args.graph { " graph" } else { "" }).to_lowercase();
    println!("{name},{:.3},{:.2}", seconds * 1e3, seconds.recip());
    eprintln!("{name} on {device}: last loss {last}");
    Ok(())
}
