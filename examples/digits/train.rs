//! The training loop: the same lines for every precision; only F16 needs the scaler to be on.

use crate::model::Net;
use crate::support::digits::{self, Digit, Split};
use crate::support::{Precision, Run, progress};
use amp::optim::{AdamW, OneCycle, Schedule};
use amp::prelude::*;
use std::time::Instant;

const BATCH: usize = 64;
const LEARNING_RATE: f64 = 3e-3;

/// Trains a fresh network for `epochs` passes with regions of precision `P`, then tests it; leaves it in evaluation mode.
pub fn run<P: AutocastPrecision>(
    precision: Precision,
    digits: &[Digit],
    epochs: usize,
    seed: u64,
    device: &Device,
) -> Result<(Net, Run)> {
    let Split { train, test } = digits::split(digits, seed, device)?;
    let net = Net::new(device)?;
    let steps = (epochs * train.len().div_ceil(BATCH)) as u64;
    let mut optimizer = AdamW::new(net.parameters(), LEARNING_RATE);
    let mut schedule = OneCycle::new(&mut optimizer, steps)?;
    let mut scaler = GradScaler::builder().enabled(precision == Precision::F16).growth_interval(100).build(device)?;

    let mut run = Run::new(precision, epochs);
    let bar = progress::bar(precision, steps);
    amp::SavedBytes::reset_peak();
    for _ in 0..epochs {
        let start = Instant::now();
        for chosen in digits::shuffled(train.len(), device)?.chunks(BATCH) {
            let (images, classes) = digits::moved_batch(&train, chosen, device)?;
            let loss = net.forward::<P>(&images)?.cross_entropy(&classes)?;
            let grads = scaler.scale(&loss)?.backward()?;
            let step = scaler.step(&mut optimizer, grads)?;
            schedule.step(&mut optimizer, &step)?; // moves only when the step was taken
            scaler.update()?;
            run.record(loss.item()?, &scaler, &step)?;
            bar.inc(1);
        }
        run.training_time += start.elapsed();
        bar.set_message(format!("loss {:.4}", run.recent_loss()));
    }
    bar.finish();
    run.saved_bytes = amp::saved_bytes().peak;
    run.score = accuracy::<P>(&net, &test, device)?;
    Ok((net, run))
}

/// Share of right answers in percent.
fn accuracy<P: AutocastPrecision>(net: &Net, digits: &[Digit], device: &Device) -> Result<f64> {
    net.eval();
    let (images, classes) = digits::batch(digits.iter(), device)?;
    let answers = no_grad(|| net.forward::<P>(&images)?.argmax(-1, false))?;
    let right = answers.eq(&classes)?.sum_all()?.item()?;
    Ok(100.0 * right as f64 / digits.len() as f64)
}
