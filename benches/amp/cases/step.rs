//! Whole training steps: forward in a region, loss, backward, optimizer; F16 with the scaler.

use super::randn;
use crate::models::{gpt, mlp::Mlp, resnet::ResNet18, vit};
use crate::process;
use crate::report::Report;
use crate::timer::Timer;
use amp::optim::{Adam, AdamW, Optimizer, Sgd};
use amp::prelude::*;
use std::time::Instant;

/// A case by its name in `torch_bench.py`.
pub fn run<P: AutocastPrecision>(case: &str, timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    let step = Step { case, timer, device };
    match case {
        "step-seed" => {
            let model = Mlp::new(&[10, 1], device)?;
            let optimizer = Sgd::new(model.parameters(), 0.01);
            let batch = || Ok((randn::<F32>(&[20, 10], device)?, randn::<F32>(&[20, 1], device)?));
            step.measure::<P, _>(report, optimizer, batch, |(x, y)| model.forward::<P>(x)?.mse_loss(y), 20.0)
        }
        "step-mlp-small" => {
            let model = Mlp::new(&[8, 16, 16, 1], device)?;
            let optimizer = Sgd::new(model.parameters(), 0.01);
            let batch = || Ok((randn::<F32>(&[512, 8], device)?, randn::<F32>(&[512, 1], device)?));
            step.measure::<P, _>(report, optimizer, batch, |(x, y)| model.forward::<P>(x)?.mse_loss(y), 512.0)
        }
        "step-mlp" => {
            let model = Mlp::new(&[784, 1024, 1024, 10], device)?;
            let optimizer = Adam::new(model.parameters(), 1e-3);
            let batch = || Ok((randn::<F32>(&[256, 784], device)?, integers(&[256], 10, device)?));
            step.measure::<P, _>(report, optimizer, batch, |(x, y)| model.forward::<P>(x)?.cross_entropy(y), 256.0)
        }
        "step-resnet18-b32" => resnet::<P>(&step, report, 32),
        "step-resnet18-b128" => resnet::<P>(&step, report, 128),
        "step-gpt" => {
            let sizes = gpt::Sizes { vocabulary: 256, context: 256, width: 384, layers: 6, heads: 6 };
            let model = gpt::Gpt::new(sizes, device)?;
            let optimizer = AdamW::new(model.parameters(), 3e-4);
            let batch = || {
                let ids = integers(&[8, 257], 256, device)?;
                Ok((ids.narrow(1, 0, 256)?.contiguous()?, ids.narrow(1, 1, 256)?.reshape([8 * 256])?))
            };
            let loss =
                |(x, y): &(Tensor<I64>, Tensor<I64>)| model.forward::<P>(x)?.reshape([8 * 256, 256])?.cross_entropy(y);
            step.measure::<P, _>(report, optimizer, batch, loss, 8.0 * 256.0)
        }
        _ => {
            let sizes = vit::Sizes { channels: 3, side: 32, width: 192, layers: 12, heads: 3, classes: 10 };
            let model = vit::Vit::new(sizes, device)?;
            let optimizer = AdamW::new(model.parameters(), 3e-4);
            let batch = || images(64, device);
            step.measure::<P, _>(report, optimizer, batch, |(x, y)| model.forward::<P>(x)?.cross_entropy(y), 64.0)
        }
    }
}

fn resnet<P: AutocastPrecision>(step: &Step<'_>, report: &mut Report, batch: usize) -> Result<()> {
    let model = ResNet18::new(64, 10, step.device)?;
    let optimizer = Sgd::new(model.parameters(), 0.05).momentum(0.9).weight_decay(1e-4);
    let loss = |(x, y): &(Tensor<F32>, Tensor<I64>)| model.forward::<P>(x)?.cross_entropy(y);
    step.measure::<P, _>(report, optimizer, || images(batch, step.device), loss, batch as f64)
}

struct Step<'a> {
    case: &'a str,
    timer: &'a Timer,
    device: &'a Device,
}

impl Step<'_> {
    fn measure<P: AutocastPrecision, B>(
        &self,
        report: &mut Report,
        mut optimizer: impl Optimizer,
        batch: impl Fn() -> Result<B>,
        loss: impl Fn(&B) -> Result<Tensor<F32>>,
        items: f64,
    ) -> Result<()> {
        let batches = (0..4).map(|_| batch()).collect::<Result<Vec<B>>>()?;
        let mut scaler = GradScaler::builder().enabled(P::DTYPE == amp::DType::F16).build(self.device)?;
        let mut steps = 0;
        let mut step = || -> Result<f32> {
            let loss = loss(&batches[steps % batches.len()])?;
            steps += 1;
            let grads = scaler.scale(&loss)?.backward()?;
            scaler.step(&mut optimizer, grads)?;
            scaler.update()?;
            loss.item()
        };

        process::reset_peak();
        let before = process::memory_mib("VmRSS");
        let start = Instant::now();
        let loss_first = step()?;
        let first_ms = start.elapsed().as_secs_f64() * 1e3;
        step()?;
        let casts = amp::memory::cast_kernels();
        step()?;
        let casts = amp::memory::cast_kernels() - casts;
        let (faults, mut calls) = (process::page_faults(), 0.0);
        let mut loss_last = 0.0;
        let time = self.timer.time(|| {
            calls += 1.0;
            loss_last = step()?;
            Ok(())
        })?;
        let extra = [
            ("per_s", items / time.ms() * 1e3),
            ("first_step_ms", first_ms),
            ("rss_growth_mib", process::memory_mib("VmHWM") - before),
            ("page_faults_per_step", (process::page_faults() - faults) / calls),
            ("casts", casts as f64),
            ("saved_mib", amp::saved_bytes().peak as f64 / 1_048_576.0),
            ("loss_first", f64::from(loss_first)),
            ("loss_last", f64::from(loss_last)),
        ];
        report.add(self.case, &time, &extra);
        Ok(())
    }
}

fn images(batch: usize, device: &Device) -> Result<(Tensor<F32>, Tensor<I64>)> {
    Ok((randn::<F32>(&[batch, 3, 32, 32], device)?, integers(&[batch], 10, device)?))
}

fn integers(shape: &[usize], below: usize, device: &Device) -> Result<Tensor<I64>> {
    Tensor::<F32>::uniform(shape, 0.0, below as f64, device)?.to::<I64>()
}
