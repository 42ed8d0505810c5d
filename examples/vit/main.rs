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
use support::classify::{Classifier, Classify};
use support::images::Images;
use support::training::{Plan, fit};
use support::{Failure, Options, Subject, compare, finish, in_precision};

/// Compare F32 training of a vision transformer with f16 and bf16 mixed precision
#[derive(Debug, Parser)]
#[command(name = "vit")]
struct Args {
    /// Passes over the training data
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    #[arg(long, default_value_t = 2e-3, allow_negative_numbers = true, value_parser = support::options::rate)]
    lr: f64,

    /// Directory with CIFAR-10 in its binary format [default: the shipped digits, enlarged]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

impl Classifier for Vit {
    fn scores<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.forward::<P>(images)
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
    let device = Device::best();
    let subject = Subject { name: "vit", title: "A vision transformer in three precisions", score: "test accuracy %" };
    compare(&args.options, subject, |precision, seed| {
        let net = |&Images { channels, side, classes, .. }: &Images| {
            let sizes = Sizes { channels, side, width, layers: args.layers as usize, heads: width / 32, classes };
            Vit::new(sizes, &device)
        };
        let task = Classify::new(args.data.as_deref(), seed, &device, net)?;
        let plan = Plan { precision, epochs: args.epochs as usize, batch: args.batch as usize };
        let mut optimizer = AdamW::new(task.net.parameters(), args.lr).weight_decay(0.05);
        let schedule = OneCycle::new(&mut optimizer, plan.steps(&task))?;
        Ok(in_precision!(precision, P => fit::<P>(&task, plan, optimizer, schedule, &device)?))
    })
}
