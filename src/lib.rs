//! Automatic mixed precision for Rust, decided at compile time.

#![forbid(unsafe_code)]

pub use amp_core::*;
pub use amp_macros::{Module, amp_op, amp_policy, amp_region, autocast};

// Being linked is enough: the crate makes itself known to `Device::cuda`.
#[cfg(any(feature = "cuda", feature = "cuda-12"))]
use amp_cuda as _;

/// What expansions of the macros name. Not public API.
#[doc(hidden)]
pub mod __private {
    pub use amp_core::private::*;
    pub use amp_macros::{autocast_with, region_with};
}

/// Everything a training program needs: `use amp::prelude::*;`.
pub mod prelude {
    pub use amp_core::{
        AutocastPrecision, BF16, Bool, Device, Element, Error, F16, F32, F64, Fill, Float, FullRange, GradScaler,
        Gradients, HalfPrecision, I64, Module, Optimizer, Parameter, Result, Step, Tensor, U8, no_grad,
        optim::Schedule,
    };
    pub use amp_macros::{Module, amp_op, amp_policy, amp_region, autocast};
}
