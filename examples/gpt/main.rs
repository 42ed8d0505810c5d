//! Trains a small character GPT in F32, f16 and bf16, compares the three and lets each continue a text.
//!
//! Without `--data` the text is the library's own source code; with it, any text file.

#[path = "../models/mod.rs"]
mod models;
#[path = "../support/mod.rs"]
mod support;

use amp::optim::{AdamW, OneCycle};
use amp::prelude::*;
use clap::Parser;
use models::gpt::{Gpt, Sizes};
use std::path::PathBuf;
use std::process::ExitCode;
use support::text::{Text, VOCABULARY};
use support::training::{Plan, Task, fit};
use support::{Failure, Options, Subject, compare, finish, in_precision};

/// Compare F32 training of a character GPT with f16 and bf16 mixed precision
#[derive(Debug, Parser)]
#[command(name = "gpt")]
struct Args {
    /// Rounds of `--steps` steps
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Steps of an epoch
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,

    /// Sequences of a step
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,

    /// Characters of a sequence
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=8192))]
    context: u32,

    /// Width of a token; a multiple of 32
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(32..=4096))]
    width: u32,

    /// Transformer blocks
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=96))]
    layers: u32,

    /// Highest learning rate
    #[arg(long, default_value_t = 2e-3, allow_negative_numbers = true, value_parser = support::options::rate)]
    lr: f64,

    /// Text file to train on [default: the library's source code]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

struct NextCharacter {
    net: Gpt,
    text: Text,
    sequences: usize,
    context: usize,
    device: Device,
}

impl NextCharacter {
    fn loss_of<P: AutocastPrecision>(&self, (inputs, targets): &(Tensor<I64>, Tensor<I64>)) -> Result<Tensor<F32>> {
        self.net.forward::<P>(inputs)?.reshape([targets.count(), VOCABULARY])?.cross_entropy(targets)
    }

    /// The most likely continuation of `start`, one character at a time.
    fn continuation<P: AutocastPrecision>(&self, start: &str, length: usize) -> Result<String> {
        let mut bytes = start.as_bytes().to_vec();
        for _ in 0..length {
            let seen = &bytes[bytes.len().saturating_sub(self.context)..];
            let ids = Tensor::from_vec(seen.iter().map(|&b| i64::from(b)).collect(), [1, seen.len()], &self.device)?;
            let scores = no_grad(|| self.net.forward::<P>(&ids))?.select(1, seen.len() - 1)?;
            bytes.push(scores.argmax(-1, false)?.to_vec()?[0] as u8);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Task for NextCharacter {
    type Batch = (Tensor<I64>, Tensor<I64>);

    fn count(&self) -> usize {
        self.sequences
    }

    /// Sequences from anywhere in the text: which ones does not depend on `chosen`.
    fn batch(&self, chosen: &[usize]) -> Result<Self::Batch> {
        let last = self.text.train.len() - self.context - 1;
        let offsets = Tensor::<F64>::uniform([chosen.len()], 0.0, last as f64, &self.device)?.to_vec()?;
        let offsets: Vec<usize> = offsets.into_iter().map(|at| at as usize).collect();
        Text::windows(&self.text.train, &offsets, self.context, &self.device)
    }

    fn loss<P: AutocastPrecision>(&self, batch: &Self::Batch) -> Result<Tensor<F32>> {
        self.loss_of::<P>(batch)
    }

    /// Bits per character of the held-out tenth (of its first 100 windows).
    fn score<P: AutocastPrecision>(&self) -> Result<f64> {
        let starts = (0..self.text.test.len() - self.context).step_by(self.context);
        let offsets: Vec<usize> = starts.take(100).collect();
        let mut nats = 0.0;
        for chunk in offsets.chunks(10) {
            let batch = Text::windows(&self.text.test, chunk, self.context, &self.device)?;
            nats += f64::from(self.loss_of::<P>(&batch)?.item()?) * chunk.len() as f64;
        }
        Ok(nats / offsets.len() as f64 / std::f64::consts::LN_2)
    }
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let (width, context) = (args.width as usize, args.context as usize);
    if width % 32 != 0 {
        return Err(Failure::Input(format!("--width {width}: not a multiple of 32, the width of a head")));
    }
    let device = Device::best();
    let subject = Subject { name: "gpt", title: "A character GPT in three precisions", score: "bits per character" };
    compare(&args.options, subject, |precision, seed| {
        let text = Text::load(args.data.as_deref(), context + 2)?;
        amp::manual_seed(seed);
        let layers = args.layers as usize;
        let sizes = Sizes { vocabulary: VOCABULARY, context, width, layers, heads: width / 32 };
        let net = Gpt::new(sizes, &device)?;
        let sequences = args.steps as usize * args.batch as usize;
        let task = NextCharacter { net, text, sequences, context, device: device.clone() };
        let plan = Plan { precision, epochs: args.epochs as usize, batch: args.batch as usize };
        let mut optimizer = AdamW::new(task.net.parameters(), args.lr).weight_decay(0.1);
        let schedule = OneCycle::new(&mut optimizer, plan.steps(&task))?;
        Ok(in_precision!(precision, P => {
            let run = fit::<P>(&task, plan, optimizer, schedule, &device)?;
            println!("{precision}: {:?}", task.continuation::<P>("/// The ", 60)?);
            run
        }))
    })
}
