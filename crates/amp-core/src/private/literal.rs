//! Constants against the range of the precision they meet; the macros judge literals with the same function.

use super::{Keep, To};
use crate::precision::Element;
use amp_cpu::DType;
use amp_policy::{Half, Verdict};

/// Whether `value` becomes infinite in half precision.
pub const fn overflows(value: f64, half: Half, scales: bool) -> bool {
    matches!(half.judge(value, scales), Verdict::Overflows)
}

/// Whether `value` becomes 0 in half precision.
pub const fn vanishes(value: f64, half: Half, scales: bool) -> bool {
    matches!(half.judge(value, scales), Verdict::Vanishes)
}

/// Whether `value` becomes exactly 1 in half precision.
pub const fn becomes_one(value: f64, half: Half, scales: bool) -> bool {
    matches!(half.judge(value, scales), Verdict::BecomesOne)
}

impl<P: Element> To<P> {
    /// Makes the compiler judge the constant of these bits when it generates code for `P`.
    ///
    /// ```compile_fail,E0080
    /// # use amp_core::private::{F16, to};
    /// to::<F16>().holds::<{ 1e-8f64.to_bits() }>();
    /// ```
    /// ```
    /// # use amp_core::private::{BF16, F16, F32, to};
    /// to::<F16>().holds::<{ 1e-7f64.to_bits() }>();
    /// to::<BF16>().holds::<{ 1e-8f64.to_bits() }>();
    /// to::<F32>().holds::<{ 1e9f64.to_bits() }>();
    /// ```
    pub const fn holds<const BITS: u64>(self) {
        const { check_held(P::DTYPE, f64::from_bits(BITS)) }
    }
}

impl Keep {
    /// What is no tensor holds every constant.
    pub const fn holds<const BITS: u64>(self) {}
}

/// Where precision is known at run time only, constants are judged then.
pub trait HoldsAtRuntime: super::RuntimeToken {
    /// Nothing.
    fn holds<const BITS: u64>(self)
    where
        Self: Sized,
    {
    }
}

impl<T: super::RuntimeToken> HoldsAtRuntime for T {}

const fn check_held(dtype: DType, value: f64) {
    let half = match dtype {
        DType::F16 => Half::F16,
        DType::BF16 => Half::BF16,
        _ => return,
    };
    // A constant that becomes 1 is judged where the macro itself sees what it meets.
    assert!(
        !overflows(value, half, false),
        "this constant does not fit in the region's precision: it would become infinite"
    );
    assert!(!vanishes(value, half, false), "this constant becomes 0 in the region's precision");
}
