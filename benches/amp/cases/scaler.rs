//! What the scaler adds to an optimizer step on the 11.2 million parameters of ResNet-18.

use crate::models::resnet::ResNet18;
use crate::report::Report;
use crate::timer::Timer;
use amp::optim::{AdamW, Optimizer, Sgd};
use amp::prelude::*;

pub fn run(timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    let model = ResNet18::new(64, 10, device)?;
    let parameters = model.parameters();
    let sgd = Sgd::new(parameters.clone(), 1e-9).momentum(0.9).weight_decay(1e-4);
    compare("SGD momentum wd fused", sgd, &parameters, timer, report, device)?;
    compare("AdamW fused", AdamW::new(parameters.clone(), 1e-9), &parameters, timer, report, device)
}

fn compare(
    name: &str,
    mut optimizer: impl Optimizer,
    parameters: &[Parameter],
    timer: &Timer,
    report: &mut Report,
    device: &Device,
) -> Result<()> {
    let mut sum = Tensor::<F32>::scalar(0.0, device)?;
    for parameter in parameters {
        sum = (sum + (parameter.tensor() * 1e-3)?.sum_all()?)?;
    }
    // Gradients are used up by a step, so each call makes new ones and the time for that alone is taken off.
    let mut scaler = GradScaler::builder().init_scale(1.0).growth_interval(1_000_000).build(device)?;
    let making = timer.time(|| scaler.scale(&sum)?.backward_retained())?.ms();
    let plain = timer.time(|| optimizer.step(&sum.backward_retained()?))?;
    report.add(&format!("{name}: step"), &plain, &[("without_gradients_ms", plain.ms() - making)]);
    let scaled = timer.time(|| {
        let grads = scaler.scale(&sum)?.backward_retained()?;
        scaler.step(&mut optimizer, grads)?;
        scaler.update()
    })?;
    let overhead = (scaled.ms() - making) / (plain.ms() - making) - 1.0;
    report.add(&format!("{name}: step+update"), &scaled, &[("overhead", overhead)]);
    Ok(())
}
