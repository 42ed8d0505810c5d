//! Trains a generator of handwritten digits against a discriminator, in F32, f16 and bf16: two networks, two losses, two
//! optimizers, one scaler.

#[path = "../support/mod.rs"]
mod support;

use amp::nn::Linear;
use amp::optim::AdamW;
use amp::prelude::*;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use support::digits::{self, Digit, SIDE};
use support::{Failure, Options, Precision, Run, Subject, compare, finish, in_precision, progress};

const PIXELS: usize = SIDE * SIDE;
const NOISE: usize = 16;
const BATCH: usize = 64;

/// Compare F32 training of a GAN with f16 and bf16 mixed precision
#[derive(Debug, Parser)]
#[command(name = "gan")]
struct Args {
    /// Passes over the training data
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,

    /// Directory that holds digits.csv.gz
    #[arg(long, value_name = "DIR", default_value_os_t = support::shipped_data())]
    data: PathBuf,

    #[command(flatten)]
    options: Options,
}

/// Makes images `[N, 64]` with pixels in `0..=1` out of noise `[N, 16]`.
#[derive(Module)]
struct Generator {
    fc1: Linear,
    fc2: Linear,
}

impl Generator {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self { fc1: Linear::new(NOISE, 128, device)?, fc2: Linear::new(128, PIXELS, device)? })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, noise: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.fc1.forward(noise)?.leaky_relu(0.2)?;
        self.fc2.forward(&h)?.sigmoid()
    }
}

/// Scores images `[N, 64]`: `[N, 1]`, high for real ones.
#[derive(Module)]
struct Discriminator {
    fc1: Linear,
    fc2: Linear,
}

impl Discriminator {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self { fc1: Linear::new(PIXELS, 128, device)?, fc2: Linear::new(128, 1, device)? })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.fc1.forward(images)?.leaky_relu(0.2)?;
        self.fc2.forward(&h)
    }

    /// Mean loss of saying `real` (1 or 0) of every image.
    fn loss<P: AutocastPrecision>(&self, images: &Tensor<F32>, real: f32) -> Result<Tensor<F32>> {
        let scores = self.forward::<P>(images)?;
        let wanted = Tensor::<F32>::full([scores.dims()[0], 1], real, scores.device())?;
        scores.bce_with_logits(&wanted)
    }
}

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    let device = Device::best();
    let all = digits::load(&args.data)?;
    let title = "A GAN in three precisions (loss of the generator)";
    compare(&args.options, Subject { name: "gan", title, score: "distance to real" }, |precision, seed| {
        amp::manual_seed(seed);
        Ok(in_precision!(precision, P => train::<P>(precision, &all, args.epochs as usize, &device)?))
    })
}

fn train<P: AutocastPrecision>(precision: Precision, all: &[Digit], epochs: usize, device: &Device) -> Result<Run> {
    let (generator, discriminator) = (Generator::new(device)?, Discriminator::new(device)?);
    let mut generator_optimizer = AdamW::new(generator.parameters(), 1e-3).betas((0.5, 0.999));
    let mut discriminator_optimizer = AdamW::new(discriminator.parameters(), 1e-3).betas((0.5, 0.999));
    let mut scaler = GradScaler::builder().enabled(precision == Precision::F16).growth_interval(200).build(device)?;

    let mut run = Run::new(precision, epochs);
    let bar = progress::bar(precision, (epochs * all.len().div_ceil(BATCH)) as u64);
    amp::SavedBytes::reset_peak();
    for _ in 0..epochs {
        let start = Instant::now();
        for chosen in digits::shuffled(all.len(), device)?.chunks(BATCH) {
            let real = digits::batch(chosen.iter().map(|&i| &all[i]), device)?.0.reshape([chosen.len(), PIXELS])?;
            let fake = generator.forward::<P>(&Tensor::randn([chosen.len(), NOISE], device)?)?;

            let judged = (discriminator.loss::<P>(&real, 0.9)? + discriminator.loss::<P>(&fake.detach(), 0.0)?)?;
            let grads = scaler.scale(&judged)?.backward_for(discriminator_optimizer.parameters())?;
            let step = scaler.step(&mut discriminator_optimizer, grads)?;
            run.count_skipped(&scaler, &step)?;

            let passed = discriminator.loss::<P>(&fake, 1.0)?;
            let grads = scaler.scale(&passed)?.backward_for(generator_optimizer.parameters())?;
            let step = scaler.step(&mut generator_optimizer, grads)?;
            scaler.update()?;
            run.record(passed.item()?, &scaler, &step)?;
            bar.inc(1);
        }
        run.training_time += start.elapsed();
        bar.set_message(format!("generator's loss {:.3}", run.recent_loss()));
    }
    bar.finish();
    run.saved_bytes = amp::saved_bytes().peak;
    run.score = no_grad(|| distance(&generator.forward::<P>(&Tensor::randn([1000, NOISE], device)?)?, all, device))?;
    Ok(run)
}

/// Root mean square difference between real and made images in the mean and the deviation of each pixel.
fn distance(made: &Tensor<F32>, all: &[Digit], device: &Device) -> Result<f64> {
    let real = digits::batch(all.iter(), device)?.0.reshape([all.len(), PIXELS])?;
    let means = (made.mean([0], false)? - real.mean([0], false)?)?.sqr()?.mean_all()?.item()?;
    let deviations = (made.std([0], false)? - real.std([0], false)?)?.sqr()?.mean_all()?.item()?;
    Ok(f64::from(means + deviations).sqrt())
}
