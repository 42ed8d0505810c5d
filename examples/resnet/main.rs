//! Trains ResNet-18 on CIFAR-10 in F32, f16 and bf16 and compares the three.
//!
//! Without `--data` it trains a narrow one on the shipped digits, enlarged to CIFAR's size, so that it runs anywhere in a
//! few minutes. The full one on CIFAR-10:
//! `cargo run --release --example resnet -- --data cifar-10-batches-bin --width 64 --epochs 30`.

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
use support::classify::{Classifier, Classify};
use support::images::Images;
use support::training::{Plan, fit};
use support::{Failure, Options, Subject, compare, finish, in_precision};

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
    #[arg(long, default_value_t = 0.05, allow_negative_numbers = true, value_parser = support::options::rate)]
    lr: f64,

    /// Directory with CIFAR-10 in its binary format [default: the shipped digits, enlarged]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

impl Classifier for ResNet18 {
    fn scores<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.forward::<P>(images)
    }
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let device = Device::best();
    let subject = Subject { name: "resnet", title: "ResNet-18 in three precisions", score: "test accuracy %" };
    compare(&args.options, subject, |precision, seed| {
        let net = |images: &Images| ResNet18::new(args.width as usize, images.classes, &device);
        let task = Classify::new(args.data.as_deref(), seed, &device, net)?;
        let plan = Plan { precision, epochs: args.epochs as usize, batch: args.batch as usize };
        let optimizer = Sgd::new(task.net.parameters(), args.lr).momentum(0.9).weight_decay(1e-4);
        let schedule = CosineLr::new(plan.steps(&task));
        Ok(in_precision!(precision, P => fit::<P>(&task, plan, optimizer, schedule, &device)?))
    })
}
