//! Writes random well-typed forward functions, each twice: annotated, and with every cast by hand.
//!
//! `AMP_SEED` picks another set than the usual one.

#[path = "generator/mod.rs"]
mod generator;

use generator::{Random, function};
use std::fmt::Write;
use std::path::Path;

/// Functions in one run.
const FUNCTIONS: usize = 240;
const USUAL_SEED: u64 = 20;

fn main() {
    println!("cargo::rerun-if-env-changed=AMP_SEED");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=generator");
    let seed = match std::env::var("AMP_SEED") {
        Ok(text) => text.parse().expect("AMP_SEED is a number"),
        Err(_) => USUAL_SEED,
    };
    println!("cargo::rustc-env=AMP_GENERATED_SEED={seed}");
    let mut random = Random(seed);
    let (mut source, mut table) = (String::new(), String::new());
    for number in 0..FUNCTIONS {
        let made = function(&mut random, number);
        source.push_str(&made.source);
        let _ = writeln!(table, "    (\"f{number}\", f{number}, hand{number}, {}),", made.gradients);
    }
    let _ = writeln!(source, "pub const ALL: &[(&str, Forward, Forward, bool)] = &[\n{table}];");
    let out = std::env::var_os("OUT_DIR").expect("cargo names a folder");
    std::fs::write(Path::new(&out).join("functions.rs"), source).expect("the folder can be written");
}
