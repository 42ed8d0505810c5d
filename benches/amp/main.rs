//! Our side of every case of `benches/torch_bench.py`: same names, same shapes, same way of measuring.
//!
//! ```text
//! cargo bench                                            every case, every precision
//! cargo bench -- --case matmul --precision bf16          one of them
//! benches/compare                                        both sides in turn, with ratios
//! ```
//!
//! One case in one precision is one process, so that neither the buffer pool nor peak memory leak from one to the next.

mod cases;
#[path = "../../examples/models/mod.rs"]
mod models;
mod process;
mod report;
mod timer;

use clap::{Parser, ValueEnum};
use report::Report;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use timer::Timer;

/// Measures the library on this machine
#[derive(Clone, Debug, Parser)]
struct Args {
    /// Case to run; all when none is given (see --list)
    #[arg(long, value_parser = cases::names())]
    case: Option<String>,

    /// Precision of the tensors (micro cases) or of the autocast region (steps); all when none is given
    #[arg(long)]
    precision: Option<Precision>,

    /// Threads of the kernels
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,

    /// Least number of samples
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Seconds of samples per measurement
    #[arg(long, default_value_t = 0.5)]
    budget: f64,

    /// Write the records to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print the names of the cases
    #[arg(long)]
    list: bool,

    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// A precision of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl Precision {
    /// As printed, and as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// Tells a child process to measure instead of starting children of its own.
const CHILD: &str = "AMP_BENCH_CHILD";

fn main() -> ExitCode {
    // `cargo test --all-targets` runs benches without arguments; timing is not a test.
    if std::env::args_os().len() == 1 {
        println!("run `cargo bench`, or give --case");
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    if args.list {
        cases::names().iter().for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    match (&args.case, args.precision, std::env::var_os(CHILD)) {
        (Some(case), Some(precision), Some(_)) => measure(&args, case, precision),
        _ => run_children(&args),
    }
}

/// Runs each wanted case in each wanted precision in a process of its own.
fn run_children(args: &Args) -> ExitCode {
    let cases = args.case.as_deref().map_or(cases::names().to_vec(), |case| vec![case]);
    let precisions = args.precision.map_or(Precision::value_variants().to_vec(), |p| vec![p]);
    if args.json.is_some() && cases.len() * precisions.len() > 1 {
        eprintln!("error: --json needs --case and --precision: one process writes one file");
        return ExitCode::from(2);
    }
    let program = std::env::current_exe().expect("a running program has a path");
    let mut worst = ExitCode::SUCCESS;
    for case in cases {
        for precision in &precisions {
            let mut child = Command::new(&program);
            child.env(CHILD, "1").env("RAYON_NUM_THREADS", args.threads.to_string());
            child.args(["--case", case, "--precision", precision.name(), "--threads", &args.threads.to_string()]);
            child.args(["--repeat", &args.repeat.to_string(), "--budget", &args.budget.to_string()]);
            if let Some(json) = &args.json {
                child.arg("--json").arg(json);
            }
            if !child.status().is_ok_and(|status| status.success()) {
                worst = ExitCode::FAILURE;
            }
        }
    }
    worst
}

fn measure(args: &Args, case: &str, precision: Precision) -> ExitCode {
    let timer = Timer::new(args.repeat as usize, args.budget);
    let mut report = Report::new(case, precision, args.threads);
    let result = cases::run(case, precision, &timer, &mut report);
    let written = args.json.as_ref().map_or(Ok(()), |path| std::fs::write(path, report.json()));
    match (result, written) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (Err(error), _) => fail(&error),
        (_, Err(error)) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
