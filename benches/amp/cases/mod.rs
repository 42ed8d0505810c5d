//! The cases, by the names that `torch_bench.py` gives them.

mod casting;
mod convolution;
mod elementwise;
mod matmul;
mod scaler;
mod step;

use crate::Precision;
use crate::report::Report;
use crate::timer::Timer;
use amp::prelude::*;

/// Names of all cases.
pub fn names() -> [&'static str; 12] {
    [
        "matmul",
        "conv",
        "eltwise",
        "cast",
        "scaler",
        "step-seed",
        "step-mlp-small",
        "step-mlp",
        "step-resnet18-b32",
        "step-resnet18-b128",
        "step-gpt",
        "step-vit",
    ]
}

/// Runs a case.
pub fn run(case: &str, precision: Precision, timer: &Timer, report: &mut Report) -> Result<()> {
    amp::manual_seed(1);
    match precision {
        Precision::F32 => run_in::<F32>(case, timer, report),
        Precision::Bf16 => run_in::<BF16>(case, timer, report),
        Precision::F16 => run_in::<F16>(case, timer, report),
    }
}

fn run_in<P: AutocastPrecision + Float>(case: &str, timer: &Timer, report: &mut Report) -> Result<()> {
    let device = Device::cpu();
    match case {
        "matmul" => matmul::run::<P>(timer, report, &device),
        "conv" => convolution::run::<P>(timer, report, &device),
        "eltwise" => elementwise::run::<P>(timer, report, &device),
        "cast" => casting::run::<P>(timer, report, &device),
        "scaler" => scaler::run(timer, report, &device),
        step => step::run::<P>(step, timer, report, &device),
    }
}

/// Standard normal values in the memory of precision `P`.
fn randn<P: Float>(shape: &[usize], device: &Device) -> Result<Tensor<P>> {
    Tensor::<F32>::randn(shape, device)?.to::<P>()?.contiguous()
}
