//! What the examples share beside the library: the command line, progress bars, the table, the plot, files.

#![allow(dead_code, unused_imports, unused_macros)] // every example uses a part of it

pub mod cifar;
pub mod classify;
pub mod compare;
pub mod digits;
pub mod failure;
pub mod images;
pub mod options;
pub mod output;
pub mod plot;
pub mod progress;
pub mod report;
pub mod text;
pub mod training;

pub use compare::{Subject, compare};
pub use failure::{Failure, finish};
pub use options::{Options, Precision};
pub use output::Output;
pub use report::Run;

use std::path::{Path, PathBuf};

/// Where the repository keeps its data.
pub fn shipped_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// Runs an expression with `$P` standing for the precision that a value names.
#[allow(unused_macros)] // an example of one precision has no use for it
macro_rules! in_precision {
    ($precision:expr, $P:ident => $body:expr) => {
        match $precision {
            $crate::support::Precision::F32 => {
                type $P = amp::F32;
                $body
            }
            $crate::support::Precision::F16 => {
                type $P = amp::F16;
                $body
            }
            $crate::support::Precision::Bf16 => {
                type $P = amp::BF16;
                $body
            }
        }
    };
}
pub(crate) use in_precision;
