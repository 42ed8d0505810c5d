//! Trains ResNet-18 on CIFAR-10 in F32, f16 and bf16 and compares the three.
//!
//! Without `--data` it trains a narrow one on the shipped digits, enlarged to CIFAR's size, so that it runs anywhere in a
//! few minutes: `cargo run --release --example resnet -- --data cifar-10-batches-bin --width 64 --epochs 30`.

#[path = "../models/mod.rs"]
mod models;
#[path = "../support/mod.rs"]
mod support;

use amp::optim::{CosineLr, Sgd};
use amp::prelude::*;
use clap::Parser;
use models::resnet::ResNet18;
use std::path::PathBuf;
use std::process::ExitCode;
use support::images::Images;
use support::training::{Plan, Task, accuracy, fit};
use support::{Failure, Options, Output, finish, plot, report};

/// Compare F32 training of ResNet-18 with f16 and bf16 mixed precision
#[derive(Debug, Parser)]
#[command(name = "resnet")]
struct Args {
    /// Passes over the training data
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Images of a step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=65_536))]
    batch: u32,

    /// Channels of the first stage; 64 is the original
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    width: u32,

    /// Highest learning rate
    #[arg(long, default_value_t = 0.05)]
    lr: f64,

    /// Directory with CIFAR-10 in its binary format [default: the shipped digits, enlarged]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

struct Classify {
    net: ResNet18,
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
        self.net.eval();
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
    let plot_file = Output::new(args.options.out.clone().unwrap_or("resnet.svg".into()), "svg")?;
    let device = Device::best();
    let mut runs = Vec::new();
    for &precision in &args.options.precision {
        let images = Images::load(args.data.as_deref(), args.options.seed, &device)?;
        amp::manual_seed(args.options.seed);
        let net = ResNet18::new(args.width as usize, images.classes, &device)?;
        let task = Classify { net, images, device: device.clone() };
        let plan = Plan { precision, epochs: args.epochs as usize, batch: args.batch as usize };
        let optimizer = Sgd::new(task.net.parameters(), args.lr).momentum(0.9).weight_decay(1e-4);
        let schedule = CosineLr::new(plan.steps(&task));
        runs.push(support::in_precision!(precision, P => fit::<P>(&task, plan, optimizer, schedule, &device)?));
    }
    print!("{}", report::table("test accuracy %", &runs));
    plot_file.write(&plot::svg("ResNet-18 in three precisions", &runs))?;
    println!("losses and loss scale: {}", plot_file.path().display());
    Ok(())
}
