//! Trains one small convolutional network on handwritten digits in F32, in f16 with a loss scale, and in bf16, from the
//! same seed, and compares the three.
//!
//! `cargo run --release --example digits -- --help`

mod model;
#[path = "../support/mod.rs"]
mod support;
mod train;

use amp::prelude::*;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use support::{Failure, Options, Subject, compare, digits, finish, in_precision};

/// Compare F32 training with f16 and bf16 mixed precision on the digits data set
#[derive(Debug, Parser)]
#[command(name = "digits")]
struct Args {
    /// Passes over the training data
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Directory that holds digits.csv.gz
    #[arg(long, value_name = "DIR", default_value_os_t = support::shipped_data())]
    data: PathBuf,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let all = digits::load(&args.data)?;
    let (device, epochs) = (Device::best(), args.epochs as usize);
    let title = "Handwritten digits: the same network in three precisions";
    compare(&args.options, Subject { name: "digits", title, score: "test accuracy %" }, |precision, seed| {
        Ok(in_precision!(precision, P => train::run::<P>(precision, &all, epochs, seed, &device)?.1))
    })
}
