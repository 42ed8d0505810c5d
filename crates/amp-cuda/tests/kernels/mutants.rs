//! The tests of the kernels can fail: a seeded mistake in each kernel file is noticed, and memory is not overrun.
//!
//! The tests run once more, in processes of their own, on kernels with a mistake or with AddressSanitizer.

use crate::standin;
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A line of a kernel file, what a mistake makes of it, and the tests that must notice.
struct Mutant {
    file: &'static str,
    line: &'static str,
    mistake: &'static str,
    tests: &'static str,
}

const fn mutant(file: &'static str, line: &'static str, mistake: &'static str, tests: &'static str) -> Mutant {
    Mutant { file, line, mistake, tests }
}

/// Dropped barriers, wrong bounds and wrong conditions.
const MUTANTS: [Mutant; 24] = [
    mutant("attention", "* a.keys + key) != 0;", "* a.keys + key) == 0;", "::attention_with"),
    mutant("batch_norm_relu", "c = c + 1 == a.channels ? 0 : c + 1;", "c = c + 1;", "batch_normalisations_with"),
    mutant("binary", "default: return l >= r;", "default: return l > r;", "elementwise"),
    mutant("conv", "if (a.accumulate) v += ((C*)a.y)[i];", "", "convolutions_with"),
    mutant("copy", "column = same_row ? column : 0;", "column = 0;", "memory::"),
    mutant("cross_entropy", "if (k + j == target) d[j] -=", "if (k + j > target) d[j] -=", "cross_entropy_with"),
    mutant("factor", "__syncthreads();  // all have read the pivot", "", "factors_of"),
    mutant(
        "flash_attention",
        "            __syncthreads();\n            if (key0 + KEYS < end)",
        "            if (key0 + KEYS < end)",
        "flash_attention_with",
    ),
    mutant("flash_attention_grad", "dp = s * (dp - delta);", "dp = s * dp;", "flash_attention_with"),
    mutant("index", " || (p > 0 && a.target[a.order[p - 1]] == target)", "", "selecting_gathering"),
    mutant("matmul", "if (a.bias.data) v +=", "if (a.bias.data && m > 0) v +=", "products_of"),
    mutant("norm", "C var = squares / (C)a.len, rstd", "C var = squares / (C)(a.len + 1), rstd", "normalisations_and"),
    mutant("optimizer", "if (a.skip && *a.skip) return;\n    i64 step", "i64 step", "every_rule"),
    mutant("pixel_conv", "i64 h = top + down * a.dilation[0];", "i64 h = top + down;", "convolutions_of_whole"),
    mutant("pixel_norm", "delta * (delta * weight);", "delta * delta;", "normalisations_in_packs"),
    mutant("pool", "if (v[j] > best[j] ||", "if (v[j] >= best[j] ||", "pooling_and"),
    mutant("pool", "if (where.at[j] == at) sum[j]", "sum[j]", "channels_that_lie"),
    mutant("random", "k1 += 0xBB67AE85u;", "", "random_streams"),
    mutant(
        "recurrent",
        "store_as(a.of_h, a.out[2], i, grad * keep);",
        "store_as(a.of_h, a.out[2], i, grad);",
        "cells_of",
    ),
    mutant(
        "reduce",
        "        __syncthreads();\n        if (threadIdx.x < half",
        "        if (threadIdx.x < half",
        "moments_positions",
    ),
    mutant(
        "scan",
        "            __syncthreads();\n        }\n        W folded",
        "        }\n        W folded",
        "moments_positions",
    ),
    mutant("softmax", "scale = 1 / all.sum;", "scale = all.sum;", "softmax_of"),
    mutant(
        "sort",
        "            __syncthreads();\n            for (int t",
        "            for (int t",
        "moments_positions",
    ),
    mutant("unary", "{ return v > 0 ? (C)1", "{ return v >= 0 ? (C)1", "elementwise"),
];

/// A result that is written one element too far.
const OVERRUN: Mutant = mutant(
    "scan",
    "if (k < a.len) store_as(a.y, a.out, i,",
    "if (k <= a.len) store_as(a.y, a.out, i,",
    "moments_positions",
);

/// The stand-in with a mistake.
fn mutated(mutant: &Mutant, name: &str, flags: &[&str]) -> PathBuf {
    let mut texts = standin::sources();
    let (_, text) = texts.iter_mut().find(|(n, _)| n == mutant.file).expect("the file is there");
    assert_eq!(text.matches(mutant.line).count(), 1, "{}.cu: {}", mutant.file, mutant.line);
    *text = text.replace(mutant.line, mutant.mistake);
    standin::build(&texts, &standin::headers(), &standin::kernels(), name, flags)
}

/// Runs the tests with these names on a stand-in.
fn run_tests(tests: &str, folder: &Path, variables: &[(&str, String)]) -> Output {
    let mut command = Command::new(env::current_exe().expect("this test's file"));
    command.args([tests, "--skip", "mutants::", "--test-threads=1"]).env("AMP_STANDIN", folder);
    command.envs(variables.iter().cloned()).output().expect("the tests run")
}

#[test]
fn a_mistake_in_any_file_is_noticed() {
    let sound = standin::build(&standin::sources(), &standin::headers(), &standin::kernels(), "standin", &[]);
    for kernel in standin::sources() {
        assert!(MUTANTS.iter().any(|m| m.file == kernel.0), "{}.cu has no mutant", kernel.0);
    }
    let passes = run_tests("random_streams", &sound, &[]);
    assert!(passes.status.success(), "{}", String::from_utf8_lossy(&passes.stdout));
    let mut unnoticed = Vec::new();
    for mutant in &MUTANTS {
        let folder = mutated(mutant, &format!("mutant-{}", mutant.file), &[]);
        let output = run_tests(mutant.tests, &folder, &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("running ") && !text.contains("running 0 tests"), "{}: {text}", mutant.tests);
        if output.status.success() {
            unnoticed.push((mutant.file, mutant.mistake));
        }
    }
    assert!(unnoticed.is_empty(), "nobody notices {unnoticed:?}");
}

#[test]
fn kernels_stay_within_their_memory() {
    let Some((folder, variables)) = standin::sanitized() else {
        let _ = writeln!(std::io::stderr(), "NOT RUN: no kernel ran under AddressSanitizer, the compiler has none");
        return;
    };
    let output = run_tests("", &folder, &variables);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("attention_with"), "{text}\n{errors}");
    // A result one element short must be noticed, or the run above proves nothing.
    let output = run_tests(OVERRUN.tests, &mutated(&OVERRUN, "sanitized-overrun", &standin::SANITIZED), &variables);
    assert!(String::from_utf8_lossy(&output.stderr).contains("AddressSanitizer"), "an overrun goes unnoticed");
}
