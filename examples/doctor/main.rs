//! Says what this machine can do in each precision, which one to train in, and at which sizes not to bother.

mod machine;
mod measure;
#[path = "../models/mod.rs"]
mod models;
#[path = "../support/mod.rs"]
mod support;

use amp::prelude::*;
use clap::Parser;
use measure::Measured;
use std::process::ExitCode;
use support::{Failure, finish, progress, report};

/// Say which precision pays on this machine, by measuring
#[derive(Debug, Parser)]
#[command(name = "doctor")]
struct Args {
    /// Seconds for each measurement
    #[arg(long, default_value_t = 0.2)]
    budget: f64,
}

/// Widths of the measured layers.
const WIDTHS: [usize; 5] = [16, 64, 256, 512, 1024];
/// Speed-up below which mixed precision is not worth its noise.
const WORTH_IT: f64 = 1.1;

fn main() -> ExitCode {
    finish(run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Failure> {
    if !(args.budget > 0.0 && args.budget <= 60.0) {
        return Err(Failure::Input(format!("--budget {}: expected seconds above 0, at most 60", args.budget)));
    }
    machine::describe();
    let device = Device::best();
    println!("\nTraining step of two square layers at batch 256 on {}, in ms:\n", device.name());
    let measured = measure_all(args.budget, &device)?;
    print!("{}", report::aligned(&rows(&measured)));
    println!("\n{}", advice(&measured));
    Ok(())
}

fn measure_all(budget: f64, device: &Device) -> Result<Vec<Measured>> {
    let bar = progress::bar("layers", WIDTHS.len() as u64);
    let measured = WIDTHS.iter().map(|&width| {
        bar.set_message(format!("width {width}"));
        let measured = measure::layers(width, budget, device);
        bar.inc(1);
        measured
    });
    let measured = measured.collect();
    bar.finish_and_clear();
    measured
}

fn rows(measured: &[Measured]) -> Vec<[String; 7]> {
    let mut rows = vec![["width", "f32", "f16", "bf16", "f16 gains", "bf16 gains", ""].map(String::from)];
    for m in measured {
        let best = m.gain_f16().max(m.gain_bf16());
        rows.push([
            m.width.to_string(),
            format!("{:.3}", m.f32),
            format!("{:.3}", m.f16),
            format!("{:.3}", m.bf16),
            format!("{:.2}x", m.gain_f16()),
            format!("{:.2}x", m.gain_bf16()),
            if best < WORTH_IT { "do not bother at this size".into() } else { String::new() },
        ]);
    }
    rows
}

/// The fastest precision of the widest layers, unless F32 keeps up with it.
fn advice(measured: &[Measured]) -> String {
    let Some(widest) = measured.last() else { return String::new() };
    let (name, gain, recipe) = if widest.gain_bf16() >= widest.gain_f16() {
        ("bf16", widest.gain_bf16(), "`#[autocast(bf16)]`, no scaler")
    } else {
        ("f16", widest.gain_f16(), "`#[autocast(f16)]` with a GradScaler")
    };
    if gain < WORTH_IT {
        return "Use F32: mixed precision saves memory on this machine, but no time.".into();
    }
    let enough = measured.iter().find(|m| m.gain_f16().max(m.gain_bf16()) >= WORTH_IT);
    let from = enough.map_or(widest.width, |m| m.width);
    format!(
        "Use {name} ({recipe}): {gain:.1} times as fast as F32 at width {}, worth it from width {from} up.",
        widest.width
    )
}
