//! The training loop of the larger examples: the same lines for every task and every precision.

use super::{Precision, Run, progress};
use amp::optim::Schedule;
use amp::prelude::*;
use std::time::Instant;

/// What an example trains.
pub trait Task {
    /// Inputs and targets of one step.
    type Batch;

    /// Number of training examples.
    fn count(&self) -> usize;

    /// The chosen training examples.
    fn batch(&self, chosen: &[usize]) -> Result<Self::Batch>;

    /// Mean loss of a batch, with regions of precision `P`.
    fn loss<P: AutocastPrecision>(&self, batch: &Self::Batch) -> Result<Tensor<F32>>;

    /// Score on held-out data, with regions of precision `P`.
    fn score<P: AutocastPrecision>(&self) -> Result<f64>;
}

/// How long to train.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Recipe; names the run.
    pub precision: Precision,
    /// Passes over the training examples.
    pub epochs: usize,
    /// Examples of a step.
    pub batch: usize,
}

impl Plan {
    /// Number of steps in all.
    pub fn steps(&self, task: &impl Task) -> u64 {
        (self.epochs * task.count().div_ceil(self.batch)) as u64
    }
}

/// Trains a task and measures the run.
pub fn fit<P: AutocastPrecision>(
    task: &impl Task,
    plan: Plan,
    mut optimizer: impl Optimizer,
    mut schedule: impl Schedule,
    device: &Device,
) -> Result<Run> {
    let mut scaler =
        GradScaler::builder().enabled(plan.precision == Precision::F16).growth_interval(200).build(device)?;
    let mut run = Run::new(plan.precision, plan.epochs);
    let bar = progress::bar(plan.precision, plan.steps(task));
    amp::SavedBytes::reset_peak();
    for _ in 0..plan.epochs {
        let start = Instant::now();
        for chosen in super::digits::shuffled(task.count(), device)?.chunks(plan.batch) {
            let loss = task.loss::<P>(&task.batch(chosen)?)?;
            let grads = scaler.scale(&loss)?.backward()?;
            let step = scaler.step(&mut optimizer, grads)?;
            schedule.step(&mut optimizer, &step)?;
            scaler.update()?;
            run.record(loss.item()?, &scaler, &step)?;
            bar.inc(1);
            bar.set_message(format!("loss {:.4}", run.recent_loss()));
        }
        run.training_time += start.elapsed();
    }
    bar.finish();
    run.saved_bytes = amp::saved_bytes().peak;
    run.score = no_grad(|| task.score::<P>())?;
    Ok(run)
}

/// Share of the classes that score highest where they should, in percent.
pub fn accuracy(batches: impl Iterator<Item = Result<(Tensor<F32>, Tensor<I64>)>>) -> Result<f64> {
    let (mut right, mut all) = (0, 0);
    for batch in batches {
        let (scores, classes) = batch?;
        right += scores.argmax(-1, false)?.eq(&classes)?.sum_all()?.item()?;
        all += classes.count();
    }
    Ok(100.0 * right as f64 / all.max(1) as f64)
}
