//! Times of a small training step in each precision.

use crate::models::mlp::Mlp;
use amp::optim::Sgd;
use amp::prelude::*;
use std::time::Instant;

const BATCH: usize = 256;

/// Milliseconds of one training step.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Inputs and outputs of each layer.
    pub width: usize,
    /// In full precision.
    pub f32: f64,
    /// With f16 regions and a scaler.
    pub f16: f64,
    /// With bf16 regions.
    pub bf16: f64,
}

impl Measured {
    /// How many times as fast as F32 f16 is.
    pub fn gain_f16(&self) -> f64 {
        self.f32 / self.f16
    }

    /// How many times as fast as F32 bf16 is.
    pub fn gain_bf16(&self) -> f64 {
        self.f32 / self.bf16
    }
}

/// Measures two layers of one width.
pub fn layers(width: usize, budget: f64, device: &Device) -> Result<Measured> {
    Ok(Measured {
        width,
        f32: step::<F32>(width, false, budget, device)?,
        f16: step::<F16>(width, true, budget, device)?,
        bf16: step::<BF16>(width, false, budget, device)?,
    })
}

/// Median time of a step in milliseconds.
fn step<P: AutocastPrecision>(width: usize, scaled: bool, budget: f64, device: &Device) -> Result<f64> {
    let net = Mlp::new(&[width, width, width], device)?;
    let mut optimizer = Sgd::new(net.parameters(), 1e-3);
    let mut scaler = GradScaler::builder().enabled(scaled).build(device)?;
    let x = Tensor::<F32>::randn([BATCH, width], device)?;
    let mut once = || -> Result<f64> {
        let start = Instant::now();
        let loss = net.forward::<P>(&x)?.sqr()?.mean_all()?;
        let grads = scaler.scale(&loss)?.backward()?;
        scaler.step(&mut optimizer, grads)?;
        scaler.update()?;
        loss.item()?; // waits for the device
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    for _ in 0..3 {
        once()?;
    }
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 5 || start.elapsed().as_secs_f64() < budget {
        times.push(once()?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
