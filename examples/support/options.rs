//! Command-line options that every training example takes.

use clap::ValueEnum;
use std::fmt;
use std::path::PathBuf;

/// A recipe to train with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Everything in F32.
    F32,
    /// `#[autocast(f16)]` with a GradScaler.
    F16,
    /// `#[autocast(bf16)]`, which needs no scaler.
    Bf16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

/// A learning rate from the command line.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "not a positive number".into())
}

/// Options in common.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Precisions to train in, one after the other from the same seed
    #[arg(long, value_delimiter = ',', default_values_t = [Precision::F32, Precision::F16, Precision::Bf16])]
    pub precision: Vec<Precision>,

    /// Seed of the weights, the batches and the split
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Train from this many seeds, counting up from `--seed`, and print mean and standard deviation
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,

    /// Where the plot of losses and loss scale goes (SVG) [default: the example's name, in this directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
