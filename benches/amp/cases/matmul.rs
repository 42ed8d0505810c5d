//! Square, skinny and batched products.

use super::randn;
use crate::report::Report;
use crate::timer::Timer;
use amp::prelude::*;

const SHAPES: [[usize; 4]; 8] = [
    [1, 256, 256, 256],
    [1, 512, 512, 512],
    [1, 1024, 1024, 1024],
    [1, 2048, 2048, 2048],
    [1, 4096, 4096, 4096],
    [1, 128, 768, 3072],
    [1, 2048, 768, 768],
    [96, 256, 64, 256],
];

pub fn run<P: Float>(timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    for [batch, m, k, n] in SHAPES {
        let lead = if batch == 1 { vec![] } else { vec![batch] };
        let shape = |a, b| [lead.clone(), vec![a, b]].concat();
        let (a, b) = (randn::<P>(&shape(m, k), device)?, randn::<P>(&shape(k, n), device)?);
        let weight = b.t()?.contiguous()?;
        let gflop = 2e-6 * (batch * m * k * n) as f64;
        let label = if batch == 1 { format!("{m}x{k}x{n}") } else { format!("{batch}x{m}x{k}x{n}") };

        let time = timer.time(|| a.matmul(&b))?;
        report.add(&format!("{label} nn"), &time, &[("gflops", gflop / time.ms())]);
        let time = timer.time(|| a.matmul(&weight.t()?))?;
        report.add(&format!("{label} nt (weight as in Linear)"), &time, &[("gflops", gflop / time.ms())]);
        // Slices of larger tensors: no 16-bit copy is kept with those, so every call rounds its operands anew.
        let sliced = |rows, columns| randn::<F32>(&[3 * batch, rows, columns], device)?.narrow(0, 0, batch);
        let (wide_a, wide_b) = (sliced(m, k)?, sliced(k, n)?);
        let time = timer.time(|| wide_a.to::<P>()?.matmul(&wide_b.to::<P>()?))?;
        report.add(&format!("{label} autocast"), &time, &[("gflops", gflop / time.ms())]);
    }
    Ok(())
}
