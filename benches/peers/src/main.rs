//! Matrix products, convolutions and the MLP step with candle and burn.
//!
//! ```text
//! amp-bench-peers --system candle --case matmul --precision bf16 --threads 2 --json out.json
//! ```

mod burned;
mod candled;
mod timer;

use std::error::Error;
use timer::Report;

/// Batch, M, K, N.
const PRODUCTS: [[usize; 4]; 8] = [
    [1, 256, 256, 256],
    [1, 512, 512, 512],
    [1, 1024, 1024, 1024],
    [1, 2048, 2048, 2048],
    [1, 4096, 4096, 4096],
    [1, 128, 768, 3072],
    [1, 2048, 768, 768],
    [96, 256, 64, 256],
];

const BATCH: usize = 128;
/// Label, input channels, output channels, height and width, kernel, stride, groups; at batch [`BATCH`].
const CONVOLUTIONS: [(&str, usize, usize, usize, usize, usize, usize); 10] = [
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

fn label([batch, m, k, n]: [usize; 4]) -> String {
    if batch == 1 { format!("{m}x{k}x{n} nn") } else { format!("{batch}x{m}x{k}x{n} nn") }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let text = |name: &str, default: &str| option(name).cloned().unwrap_or_else(|| default.into());
    let (case, precision) = (text("--case", "matmul"), text("--precision", "f32"));
    let mut report = Report::new(text("--repeat", "3").parse()?, text("--budget", "0.5").parse()?);
    match text("--system", "candle").as_str() {
        "candle" => candled::run(&case, &precision, &mut report)?,
        "burn" => burned::run(&case, &precision, &mut report)?,
        other => return Err(format!("no system is called {other}").into()),
    }
    if let Some(path) = option("--json") {
        std::fs::write(path, report.json())?;
    }
    Ok(())
}
