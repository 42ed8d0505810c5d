//! What the processor and the graphics card say of themselves.

use amp::prelude::*;
use std::fs;

/// What a processor flag does for a precision.
const FLAGS: [(&str, &str); 7] = [
    ("avx2", "F32 arithmetic on 8 values at a time"),
    ("f16c", "F16 memory is widened as it is loaded"),
    ("avx512f", "F32 arithmetic on 16 values at a time"),
    ("avx512_bf16", "dot products of BF16 with F32 sums (used on AMD's cores)"),
    ("avx512_fp16", "F16 arithmetic on 32 values at a time (not used here)"),
    ("amx_bf16", "matrix products of BF16 with F32 sums, by far the fastest"),
    ("amx_fp16", "matrix products of F16 with F32 sums (not used here: those of BF16 serve)"),
];

/// Prints both.
pub fn describe() {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("CPU: {}, {cores} threads", field("model name").unwrap_or_else(|| std::env::consts::ARCH.into()));
    let flags = field("flags").unwrap_or_default();
    for (flag, use_of_it) in FLAGS {
        let has = flags.split_whitespace().any(|f| f == flag);
        println!("  {:3} {flag:12} {use_of_it}", if has { "yes" } else { "no" });
    }
    match Device::cuda(0) {
        Ok(device) => println!("GPU: {}", device.name()),
        Err(reason) => println!("GPU: none ({reason})"),
    }
}
