//! Trains an LSTM that reads handwritten digits row by row, in F32, f16 and bf16, and compares the three.

#[path = "../support/mod.rs"]
mod support;

use amp::nn::{Linear, Lstm};
use amp::optim::{AdamW, OneCycle};
use amp::prelude::*;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use support::digits::{self, CLASSES, Digit, SIDE};
use support::training::{Plan, Task, accuracy, fit};
use support::{Failure, Options, Subject, compare, finish, in_precision};

/// Compare F32 training of an LSTM with f16 and bf16 mixed precision
#[derive(Debug, Parser)]
#[command(name = "lstm")]
struct Args {
    /// Passes over the training data
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Sequences of a step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,

    /// Width of the state
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    width: u32,

    /// Highest learning rate
    #[arg(long, default_value_t = 1e-2, allow_negative_numbers = true, value_parser = support::options::rate)]
    lr: f64,

    /// Directory that holds digits.csv.gz
    #[arg(long, value_name = "DIR", default_value_os_t = support::shipped_data())]
    data: PathBuf,

    #[command(flatten)]
    options: Options,
}

#[derive(Module)]
struct Net {
    lstm: Lstm,
    head: Linear,
}

impl Net {
    /// Class scores `[N, 10]` of images `[N, 1, 8, 8]`, each a sequence of 8 rows.
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        let rows = images.squeeze(1)?;
        let (states, _) = self.lstm.forward(&rows)?;
        self.head.forward(&states.select(1, SIDE - 1)?)
    }
}

struct Classify {
    net: Net,
    train: Vec<Digit>,
    test: Vec<Digit>,
    device: Device,
}

impl Task for Classify {
    type Batch = (Tensor<F32>, Tensor<I64>);

    fn count(&self) -> usize {
        self.train.len()
    }

    fn batch(&self, chosen: &[usize]) -> Result<Self::Batch> {
        digits::moved_batch(&self.train, chosen, &self.device)
    }

    fn loss<P: AutocastPrecision>(&self, (images, classes): &Self::Batch) -> Result<Tensor<F32>> {
        self.net.forward::<P>(images)?.cross_entropy(classes)
    }

    fn score<P: AutocastPrecision>(&self) -> Result<f64> {
        let (images, classes) = digits::batch(self.test.iter(), &self.device)?;
        accuracy(std::iter::once_with(|| Ok((self.net.forward::<P>(&images)?, classes))))
    }
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let device = Device::best();
    let all = digits::load(&args.data)?;
    let width = args.width as usize;
    let subject = Subject { name: "lstm", title: "An LSTM in three precisions", score: "test accuracy %" };
    compare(&args.options, subject, |precision, seed| {
        let digits::Split { train, test } = digits::split(&all, seed, &device)?;
        let net = Net { lstm: Lstm::new(SIDE, width, &device)?, head: Linear::new(width, CLASSES, &device)? };
        let task = Classify { net, train, test, device: device.clone() };
        let plan = Plan { precision, epochs: args.epochs as usize, batch: args.batch as usize };
        let mut optimizer = AdamW::new(task.net.parameters(), args.lr);
        let schedule = OneCycle::new(&mut optimizer, plan.steps(&task))?;
        Ok(in_precision!(precision, P => fit::<P>(&task, plan, optimizer, schedule, &device)?))
    })
}
