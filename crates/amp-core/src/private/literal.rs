//! Constants against the range of the precision they meet.

use super::{Keep, To};
use crate::precision::Element;
use amp_cpu::DType;
use amp_policy::{Half, Verdict};

/// What becomes of `value` in half precision; the macros check literals with the same function.
///
/// # Panics
/// At compile time, with the fault in words, when the constant cannot be used.
pub const fn check_literal(value: f64, half: Half, scales: bool) {
    match half.judge(value, scales) {
        Verdict::Fits => {}
        Verdict::Overflows => panic!("this constant does not fit in the region's precision: it would become infinite"),
        Verdict::Vanishes => panic!("this constant becomes 0 in the region's precision"),
        Verdict::BecomesOne => panic!("this constant becomes exactly 1 in the region's precision"),
    }
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
    match dtype {
        // A constant that becomes 1 is judged where the macro itself sees what it meets.
        DType::F16 => check_literal(value, Half::F16, false),
        DType::BF16 => check_literal(value, Half::BF16, false),
        _ => {}
    }
}
