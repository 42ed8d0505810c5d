//! Constants against the range of the precision they meet; the macros judge literals with the same function.

use super::{Keep, To};
use crate::Fill;
use crate::precision::{Element, F32};
use amp_cpu::DType;
use amp_policy::{Half, Part};
use std::marker::PhantomData;

/// What becomes of `value` in half precision, as a number: 0 is nothing.
pub const fn verdict(value: f64, half: Half, part: Part) -> u8 {
    half.judge(value, part) as u8
}

/// A constant of the program's own.
#[derive(Clone, Copy, Debug)]
pub struct Judged<T>(pub T);

macro_rules! judged {
    ($($number:ty)*) => { $(
        impl Judged<$number> {
            /// The number that it is.
            pub const fn number(self) -> f64 {
                self.0 as f64
            }
        }
    )* };
}
judged! { f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

impl Judged<Fill> {
    /// The number that it is, or one that every precision holds where it is each precision's own.
    pub const fn number(self) -> f64 {
        match self.0 {
            Fill::Value(value) => value,
            _ => 2.0,
        }
    }
}

/// Whether `P` is this half precision.
pub const fn is_half<P: Element>(half: Half) -> bool {
    matches!((P::DTYPE, half), (DType::F16, Half::F16) | (DType::BF16, Half::BF16))
}

/// A constant of the program's, judged with the precision that it meets.
pub trait HeldIn<P> {
    /// Does not compile if `P` does not hold the constant.
    const HELD: ();
}

impl<P: Element> To<P> {
    /// Makes the compiler judge a constant when it generates code for `P`.
    ///
    /// ```
    /// # use amp_core::private::{BF16, Element, F32, HeldIn, to, verdict, is_half, Half, Part};
    /// struct Eps;
    /// impl<P: Element> HeldIn<P> for Eps {
    ///     const HELD: () = assert!(!(is_half::<P>(Half::F16) && verdict(1e-8, Half::F16, Part::Term) != 0));
    /// }
    /// to::<BF16>().holds::<Eps>(); // `to::<F16>().holds::<Eps>()` does not compile
    /// to::<F32>().holds::<Eps>();
    /// ```
    pub const fn holds<C: HeldIn<P>>(self) {
        const { C::HELD }
    }

    /// The same of a constant that is judged where it stands, with this precision.
    pub const fn holds_here(self, _judged: Asked<P>) {}
}

/// The precision with which a constant is judged where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Asked<P>(PhantomData<P>);

impl<P: Element> Asked<P> {
    /// The one that it is given to.
    #[expect(clippy::new_without_default, reason = "there is no default in constants")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Whether it is this half precision.
    pub const fn is(self, half: Half) -> bool {
        is_half::<P>(half)
    }
}

impl Keep {
    /// What is no tensor holds every constant.
    pub const fn holds<C>(self) {}

    /// What is no tensor holds every constant.
    pub const fn holds_here(self, _judged: Asked<F32>) {}
}

/// A constant of which this is found.
#[derive(Clone, Copy, Debug)]
pub struct Found<const VERDICT: u8>;

/// What stays as it is where a trait of an expansion does not say that its precision is one which does not hold a literal.
pub trait HoldsAnything {
    /// Nothing.
    fn __amp_judged<C>(&self, _constants: C) {}
}

impl<T> HoldsAnything for T {}

/// Where precision is known at run time only, constants are judged then.
pub trait HoldsAtRuntime: super::RuntimeToken {
    /// Nothing.
    fn holds<C>(self)
    where
        Self: Sized,
    {
    }

    /// Nothing.
    fn holds_here(self, _judged: Asked<F32>)
    where
        Self: Sized,
    {
    }
}

impl<T: super::RuntimeToken> HoldsAtRuntime for T {}
