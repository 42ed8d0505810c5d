//! The tests of kernels once more at every level that this machine has and does not use by itself.

use super::Level;
use crate::testing::run_again;

/// Whose kernels are compiled for each level.
const KERNELS: [&str; 23] = [
    "assemble::tests",
    "conv::",
    "convert::tests",
    "distance::tests",
    "elementwise::",
    "factor::tests",
    "grid::tests",
    "index::tests",
    "join::tests",
    "layout::tests",
    "line::tests",
    "math::tests",
    "norm::",
    "optim::",
    "output::tests",
    "pad::tests",
    "pool::tests",
    "random::",
    "recurrent::",
    "reduce::tests",
    "softmax::tests",
    "transpose::tests",
    "upsample::tests",
];

/// Those whose products of BF16 have kernels of their own beyond AVX-512. (So have those of convolutions, but what replaces
/// them is what lower levels use.)
const PRODUCTS: [&str; 2] = ["attention::tests", "gemm::tests"];

#[test]
fn every_other_level_passes_the_tests() {
    if std::env::var_os("AMP_CPU").is_some() {
        return;
    }
    for level in Level::ALL.into_iter().filter(|level| *level <= Level::best() && *level != Level::current()) {
        let rest = if level < Level::Avx512 { &KERNELS[..] } else { &[] };
        // Emulations of AMX are the same at every level, and most of the time of the longest lines is their reference's.
        run_again(level.name(), &[rest, &PRODUCTS].concat(), &["amx", "lines_longer_than"]);
    }
}
