//! Stand-alone casts. A cast by itself is a view here; what is measured is making the memory it would need elsewhere.

use super::randn;
use crate::report::Report;
use crate::timer::Timer;
use amp::prelude::*;

pub fn run<P: AutocastPrecision + Float>(timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    let name = P::DTYPE.to_string().to_lowercase();
    for (label, n) in [("64K", 1 << 16), ("1M", 1 << 20), ("4M", 1 << 22), ("64M", 1 << 26)] {
        let gb = (n * (4 + P::DTYPE.size())) as f64 * 1e-6;
        // A slice of a larger tensor keeps no 16-bit copy, so every call converts.
        let wide = randn::<F32>(&[3, n], device)?.select(0, 0)?;
        let time = timer.time(|| wide.to::<P>()?.contiguous())?;
        report.add(&format!("f32->{name} {label} .to()"), &time, &[("gbps", gb / time.ms())]);
        let narrow = randn::<P>(&[n], device)?;
        let time = timer.time(|| narrow.to::<F32>()?.contiguous())?;
        report.add(&format!("{name}->f32 {label} .to()"), &time, &[("gbps", gb / time.ms())]);
    }
    Ok(())
}
