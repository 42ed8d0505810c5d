//! A foreign tensor library as the macros see one: one type, its precision known at run time, errors when precisions
//! differ. It logs what it runs, so that tests can read the precision of every operation and count the casts.

#![forbid(unsafe_code)]

mod contract;
mod log;
mod tensor;

pub use log::{Record, recorded};
pub use tensor::{Dtype, HostError, Tensor, cat};

/// What expansions name when the attribute says `host = amp_test_host`.
#[doc(hidden)]
pub mod __private {
    pub use amp::__private::*;
}
