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
use support::{Failure, Options, Output, digits, finish, in_precision, plot, report};

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
    let Options { precision, seed, out } = &args.options;
    let plot_file = Output::new(out.clone().unwrap_or("digits.svg".into()), "svg")?;
    let all = digits::load(&args.data)?;
    let (device, epochs) = (Device::best(), args.epochs as usize);

    let mut runs = Vec::new();
    for &precision in precision {
        runs.push(in_precision!(precision, P => train::run::<P>(precision, &all, epochs, *seed, &device)?.1));
    }

    print!("{}", report::table("test accuracy %", &runs));
    plot_file.write(&plot::svg("Handwritten digits: the same network in three precisions", &runs))?;
    println!("losses and loss scale: {}", plot_file.path().display());
    Ok(())
}
