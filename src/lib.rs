//! Automatic mixed precision for Rust, decided at compile time.

#![forbid(unsafe_code)]

pub use amp_core::*;

/// Everything a training program needs: `use amp::prelude::*;`.
pub mod prelude {
    pub use amp_core::{
        AutocastPrecision, BF16, Bool, Device, Element, Error, F16, F32, F64, Float, FullRange, Gradients,
        HalfPrecision, I64, Parameter, Result, Tensor, U8, no_grad,
    };
}
