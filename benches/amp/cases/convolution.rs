//! Convolutions of ResNet-18 on 32 × 32 images at batch 128, and depthwise ones, with images and gradients in either
//! order: row-major as a first layer gets them, and with the channels of a pixel together as they lie between layers.

use super::randn;
use crate::report::Report;
use crate::timer::Timer;
use amp::ConvOptions;
use amp::prelude::*;

/// Label, input channels, output channels, height and width, kernel, stride, groups.
type Shape = (&'static str, usize, usize, usize, usize, usize, usize);

const BATCH: usize = 128;
const SHAPES: [Shape; 10] = [
    ("3x3 64ch 32x32", 64, 64, 32, 3, 1, 1),
    ("3x3 128ch 16x16", 128, 128, 16, 3, 1, 1),
    ("3x3 256ch 8x8", 256, 256, 8, 3, 1, 1),
    ("3x3 512ch 4x4", 512, 512, 4, 3, 1, 1),
    ("3x3 stem 3->64 32x32", 3, 64, 32, 3, 1, 1),
    ("1x1/2 64->128 32x32", 64, 128, 32, 1, 2, 1),
    ("1x1/2 128->256 16x16", 128, 256, 16, 1, 2, 1),
    ("1x1/2 256->512 8x8", 256, 512, 8, 1, 2, 1),
    ("depthwise 3x3 64ch 32x32", 64, 64, 32, 3, 1, 64),
    ("depthwise 3x3 256ch 8x8", 256, 256, 8, 3, 1, 256),
];

pub fn run<P: Float>(timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    for (label, c_in, c_out, size, kernel, stride, groups) in SHAPES {
        let w = randn::<P>(&[c_out, c_in / groups, kernel, kernel], device)?;
        let w = (w * 0.05)?.detach().tracked();
        let options = ConvOptions::default().stride(stride).padding(kernel / 2).groups(groups);
        let out = (size + 2 * (kernel / 2) - kernel) / stride + 1;
        let gflop = 2e-6 * (BATCH * c_out * (c_in / groups) * kernel * kernel * out * out) as f64;
        for layout in ["nchw", "nhwc"] {
            let x = images::<P>(layout, c_in, size, device)?.tracked();
            let conv = || x.conv2d(&w, None, options);
            let time = timer.time(|| no_grad(conv))?;
            report.add(&format!("{label} {layout} fwd"), &time, &[("gflops", gflop / time.ms())]);
            let g = images::<P>(layout, c_out, out, device)?;
            let time = timer.time(|| conv()?.backward_with(&g))?;
            report.add(&format!("{label} {layout} fwd+bwd"), &time, &[("gflops", 3.0 * gflop / time.ms())]);
        }
    }
    Ok(())
}

/// Images `[BATCH, channels, size, size]` in an order.
fn images<P: Float>(layout: &str, channels: usize, size: usize, device: &Device) -> Result<Tensor<P>> {
    match layout {
        "nchw" => randn(&[BATCH, channels, size, size], device),
        _ => randn(&[BATCH, size, size, channels], device)?.permute([0, 3, 1, 2]),
    }
}
