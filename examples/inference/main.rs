//! Inference only: one file of F32 weights, evaluated in F32, f16 and bf16.
//!
//! Without `--weights` it first trains the digits network for a few epochs and writes `digits.safetensors`.

#[path = "../digits/model.rs"]
mod model;
#[path = "../support/mod.rs"]
mod support;
#[path = "../digits/train.rs"]
mod train;

use amp::prelude::*;
use clap::Parser;
use model::Net;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::digits::{self, Split};
use support::{Failure, Precision, finish, in_precision, report};

/// Passes over the test images that are timed; the fastest counts.
const PASSES: usize = 20;

/// Compare inference in F32, f16 and bf16 on the digits data set
#[derive(Debug, Parser)]
#[command(name = "inference")]
struct Args {
    /// Weights to read [default: train some and write digits.safetensors]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,

    /// Directory that holds digits.csv.gz
    #[arg(long, value_name = "DIR", default_value_os_t = support::shipped_data())]
    data: PathBuf,

    /// Precisions to run in
    #[arg(long, value_delimiter = ',', default_values_t = [Precision::F32, Precision::F16, Precision::Bf16])]
    precision: Vec<Precision>,

    /// Seed of the split, and of the weights without --weights
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What one precision gave.
struct Evaluation {
    precision: Precision,
    scores: Vec<f32>,
    accuracy: f64,
    time: Duration,
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let device = Device::best();
    let all = digits::load(&args.data)?;
    let file = match &args.weights {
        Some(file) => file.clone(),
        None => {
            let (net, _) = train::run::<F32>(Precision::F32, &all, 3, args.seed, &device)?;
            net.save("digits.safetensors")?;
            "digits.safetensors".into()
        }
    };
    let net = loaded(&file, &device)?;
    let Split { test, .. } = digits::split(&all, args.seed, &device)?;
    let (images, classes) = digits::batch(test.iter(), &device)?;
    let mut rows = vec![["precision", "test accuracy %", "time per image", "worst score difference"].map(String::from)];
    let exact = evaluate::<F32>(Precision::F32, &net, &images, &classes)?;
    for &precision in &args.precision {
        let found = in_precision!(precision, P => evaluate::<P>(precision, &net, &images, &classes)?);
        let differences = found.scores.iter().zip(&exact.scores).map(|(a, b)| (a - b).abs());
        rows.push([
            found.precision.to_string(),
            format!("{:.2}", found.accuracy),
            format!("{:.2} us", found.time.as_secs_f64() * 1e6 / test.len() as f64),
            format!("{:.4}", differences.fold(0.0, worse)),
        ]);
    }
    print!("{}", report::aligned(&rows));
    Ok(())
}

/// The larger one, and NaN if either is: a model that gives NaN is not exact.
fn worse(a: f32, b: f32) -> f32 {
    if a >= b || a.is_nan() { a } else { b }
}

fn loaded(file: &Path, device: &Device) -> Result<Net, Failure> {
    let net = Net::new(device)?;
    net.load(file).map_err(|e| Failure::file(file, e))?;
    net.eval();
    Ok(net)
}

fn evaluate<P: AutocastPrecision>(
    precision: Precision,
    net: &Net,
    images: &Tensor<F32>,
    classes: &Tensor<I64>,
) -> Result<Evaluation> {
    let mut time = Duration::MAX;
    let mut scores = Vec::new();
    for _ in 0..PASSES {
        let start = Instant::now();
        scores = no_grad(|| net.forward::<P>(images)?.to_vec())?;
        time = time.min(start.elapsed());
    }
    let answers = scores.chunks(digits::CLASSES).map(|row| {
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        best.unwrap_or(0) as i64
    });
    let right = answers.zip(&classes.to_vec()?).filter(|(answer, class)| answer == *class).count();
    Ok(Evaluation { precision, scores, accuracy: 100.0 * right as f64 / images.dims()[0] as f64, time })
}
