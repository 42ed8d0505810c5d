//! Trains a small vision transformer in F32, f16 and bf16 and compares the three.
//!
//! Without `--data` it trains on the shipped digits, enlarged to 32 × 32; with it, on CIFAR-10.

#[path = "../models/mod.rs"]
mod models;
#[path = "../support/mod.rs"]
mod support;

use amp::optim::{AdamW, OneCycle};
use amp::prelude::*;
use clap::Parser;
use models::vit::{Sizes, Vit};
use std::path::PathBuf;
use std::process::ExitCode;
use support::images::Images;
use support::training::{Plan, Task, accuracy, fit};
use support::{Failure, Options, Output, finish, plot, report};

/// Compare F32 training of a vision transformer with f16 and bf16 mixed precision
#[derive(Debug, Parser)]
#[command(name = "vit")]
struct Args {
    /// Passes over the training data
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Images of a step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,

    /// Width of a token; a multiple of 32
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(32..=4096))]
    width: u32,

    /// Transformer blocks
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=96))]
    layers: u32,

    /// Highest learning rate
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,

    /// Directory with CIFAR-10 in its binary format [default: the shipped digits, enlarged]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

struct Classify {
    net: Vit,
    images: Images,
    device: Device,
}

impl Task for Classify {
    type Batch = (Tensor<F32>, Tensor<I64>);

    fn count(&self) -> usize {
        self.images.train.len()
    }

    fn batch(&self, chosen: &[usize]) -> Result<Self::Batch> {
        self.images.augmented(chosen, &self.device)
    }

    fn loss<P: AutocastPrecision>(&self, (images, classes): &Self::Batch) -> Result<Tensor<F32>> {
        self.net.forward::<P>(images)?.cross_entropy(classes)
    }

    fn score<P: AutocastPrecision>(&self) -> Result<f64> {
        accuracy(self.images.test.chunks(100).map(|chunk| {
            let (images, classes) = self.images.batch(chunk.iter(), &self.device)?;
            Ok((self.net.forward::<P>(&images)?, classes))
        }))
    }
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let width = args.width as usize;
    if !width.is_multiple_of(32) {
        return Err(Failure::Input(format!("--width {width}: not a multiple of 32, the width of a head")));
    }
    let plot_file = Output::new(args.options.out.clone().unwrap_or("vit.svg".into()), "svg")?;
    let device = Device::best();
    let mut runs = Vec::new();
    for &precision in &args.options.precision {
        let images = Images::load(args.data.as_deref(), args.options.seed, &device)?;
        amp::manual_seed(args.options.seed);
        let Images { channels, side, classes, .. } = images;
        let sizes = Sizes { channels, side, width, layers: args.layers as usize, heads: width / 32, classes };
        let task = Classify { net: Vit::new(sizes, &device)?, images, device: device.clone() };
        let plan = Plan { precision, epochs: args.epochs as usize, batch: args.batch as usize };
        let mut optimizer = AdamW::new(task.net.parameters(), args.lr).weight_decay(0.05);
        let schedule = OneCycle::new(&mut optimizer, plan.steps(&task))?;
        runs.push(support::in_precision!(precision, P => fit::<P>(&task, plan, optimizer, schedule, &device)?));
    }
    print!("{}", report::table("test accuracy %", &runs));
    plot_file.write(&plot::svg("A vision transformer in three precisions", &runs))?;
    println!("losses and loss scale: {}", plot_file.path().display());
    Ok(())
}
