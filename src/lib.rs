//! Automatic mixed precision for Rust, decided at compile time.

#![forbid(unsafe_code)]

pub use amp_core::*;
pub use amp_macros::{Module, amp_op, amp_policy, amp_region, autocast};

// Being linked is enough: the crate makes itself known to `Device::cuda`.
#[cfg(any(feature = "cuda", feature = "cuda-12"))]
use amp_cuda as _;

/// What expansions of the macros name. Not public API.
///
/// Constants beside a module's result, or in a function of any precision, are judged when code is generated:
///
/// ```compile_fail,E0080
/// # use amp::{nn::Linear, prelude::*};
/// #[autocast(f16)]
/// fn log_probability(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
///     (fc.forward(x)?.sigmoid()? + 1e-8)?.log()
/// }
/// # log_probability(&Linear::new(1, 1, &Device::cpu())?, &Tensor::ones(1, &Device::cpu())?)?;
/// # Ok::<_, Error>(())
/// ```
/// ```compile_fail,E0080
/// # use amp::prelude::*;
/// const MASK: f32 = -1e9;
///
/// #[autocast(P)]
/// fn masked<P: AutocastPrecision>(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
///     x.matmul(w)?.masked_fill(mask, MASK)
/// }
/// # let ones = Tensor::ones([1, 1], &Device::cpu())?;
/// # masked::<F16>(&ones, &ones, &ones.gt(0.0)?)?;
/// # Ok::<_, Error>(())
/// ```
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
