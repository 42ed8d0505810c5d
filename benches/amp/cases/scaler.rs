//! What the scaler adds to an iteration on the 11.2 million parameters of ResNet-18.
//!
//! A step alone is repeated on the same gradients, as on PyTorch's side: right after a backward pass, whose gradients the
//! caches have yet to write out, SGD's took 3.2 ms and not 2.6.
//! Then plain and scaled iterations alternate, so that both see the same machine. An iteration is timed in two parts: the
//! backward pass, in which the scaler looks at each gradient as it is completed, and the step, in which it decides.
//! `share_of_step` is what the look costs in the backward pass, in terms of a step.

use crate::models::resnet::ResNet18;
use crate::report::Report;
use crate::timer::{Timer, Timing};
use amp::nn::Linear;
use amp::optim::{AdamW, Optimizer, Sgd};
use amp::prelude::*;
use std::time::Instant;

pub fn run(timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    let model = ResNet18::new(64, 10, device)?;
    let parameters = model.parameters();
    let sgd = Sgd::new(parameters.clone(), 1e-9).momentum(0.9).weight_decay(1e-4);
    // The cheapest loss that gives every parameter a gradient of its own; it leaves nothing to hide the scaler behind.
    let mut sum = Tensor::<F32>::scalar(0.0, device)?;
    for parameter in &parameters {
        sum = (sum + (parameter.tensor() * 1e-3)?.sum_all()?)?;
    }
    compare("SGD momentum wd fused", sgd, &sum, timer, report, device)?;
    compare("AdamW fused", AdamW::new(parameters.clone(), 1e-9), &sum, timer, report, device)?;
    drop(parameters);
    // As many parameters in layers of an F16 region, with the smallest of batches.
    let layers = (0..11).map(|_| Linear::new(1010, 1010, device)).collect::<Result<Vec<_>>>()?;
    let mut h = Tensor::<F32>::randn([1, 1010], device)?.to::<F16>()?;
    for layer in &layers {
        h = layer.forward(&h)?;
    }
    let (loss, parameters) = (h.to::<F32>()?.mean_all()?, layers.iter().flat_map(|layer| layer.parameters()));
    compare("AdamW fused, f16 layers", AdamW::new(parameters, 1e-9), &loss, timer, report, device)
}

/// Seconds of the parts of an iteration.
struct Parts {
    backward: f64,
    step: f64,
}

fn compare(
    name: &str,
    mut optimizer: impl Optimizer,
    loss: &Tensor<F32>,
    timer: &Timer,
    report: &mut Report,
    device: &Device,
) -> Result<()> {
    let mut none = GradScaler::builder().enabled(false).build(device)?;
    let mut scaler = GradScaler::builder().init_scale(1.0).growth_interval(1_000_000).build(device)?;
    let grads = none.unscale(none.scale(loss)?.backward_retained()?)?;
    let alone = timer.time(|| optimizer.step(&grads))?;
    drop(grads);
    let (mut plain, mut scaled) = (Vec::new(), Vec::new());
    timer.sample(|| {
        let (start, grads) = (Instant::now(), none.unscale(none.scale(loss)?.backward_retained()?)?);
        let backward = start.elapsed().as_secs_f64();
        optimizer.step(&grads)?;
        plain.push(Parts { backward, step: start.elapsed().as_secs_f64() - backward });
        drop(grads);
        let (start, grads) = (Instant::now(), scaler.scale(loss)?.backward_retained()?);
        let backward = start.elapsed().as_secs_f64();
        let grads = scaler.unscale(grads)?;
        scaler.step(&mut optimizer, &grads)?;
        scaler.update()?;
        scaled.push(Parts { backward, step: start.elapsed().as_secs_f64() - backward });
        Ok(())
    })?;
    let part = |parts: &[Parts], of: fn(&Parts) -> f64| Timing::new(parts.iter().map(of).collect());
    // What each pair of neighbours says, for they see the same machine: memory that is slow for a second moved the ratio of the
    // medians by a tenth either way.
    let paired = |of: fn(&Parts, &Parts) -> f64| {
        Timing::new(plain.iter().zip(&scaled).map(|(plain, scaled)| of(plain, scaled)).collect()).median()
    };
    let overhead = paired(|plain, scaled| scaled.step / plain.step - 1.0);
    let share = paired(|plain, scaled| (scaled.backward - plain.backward) / plain.step);
    let with = part(&scaled, |p| p.step);
    let (backward, looking) = (part(&plain, |p| p.backward), part(&scaled, |p| p.backward));
    report.add(&format!("{name}: step"), &alone, &[]);
    report.add(&format!("{name}: step+update"), &with, &[("overhead", overhead)]);
    report.add(&format!("{name}: backward"), &backward, &[]);
    report.add(&format!("{name}: backward with the check"), &looking, &[("share_of_step", share)]);
    Ok(())
}
