//! Numbers of any type, where a tensor counts between them.

use crate::{Error, Result};
use std::fmt::Display;

/// A number that a range starts or ends at: an integer of any type, and a float where the range is of floats (`T` is `f64`).
#[diagnostic::on_unimplemented(
    message = "a range of `{T}` has no `{Self}` in it",
    label = "this is no number that it starts, ends or steps by",
    note = "write an integer of any type, or for a range of floats `Tensor::<F32>::arange(..)`"
)]
pub trait Number<T>: Copy + Display {
    /// The number, if `T` holds it exactly.
    fn number(self) -> Option<T>;
}

macro_rules! integers {
    ($($host:ty)*) => { $(
        impl Number<i64> for $host {
            fn number(self) -> Option<i64> {
                i64::try_from(self).ok()
            }
        }

        impl Number<f64> for $host {
            fn number(self) -> Option<f64> {
                let float = self as f64;
                (float as i128 == self as i128).then_some(float)
            }
        }
    )* };
}
integers! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

macro_rules! floats {
    ($($host:ty)*) => { $(
        impl Number<f64> for $host {
            fn number(self) -> Option<f64> {
                Some(self.into())
            }
        }
    )* };
}
floats! { half::f16 half::bf16 f32 f64 }

/// `given` as a whole number.
pub(super) fn whole(op: &'static str, given: impl Number<i64>) -> Result<i64> {
    given.number().ok_or_else(|| Error::argument(op, "start and end", "integers of 64 bits", given))
}

/// `given` as a float that no rounding has changed.
pub(super) fn float(op: &'static str, given: impl Number<f64>) -> Result<f64> {
    given.number().ok_or_else(|| Error::argument(op, "start, end and step", "numbers that F64 holds", given))
}
