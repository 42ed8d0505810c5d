//! Element-wise kernels: every output element depends on the elements of the operands at the same index.
//!
//! Operands are widened to F32 block by block (`stream`), to F64 when an operand or the output is F64 and to I64 when all are
//! integers; the operation runs over them, and the result is rounded once as it is stored.

/// A loop over slices of one length: `each!(y, (a, b) => a + b)` sets every `y[i]` to `a[i] + b[i]`.
///
/// A macro and not a function with a closure, because a closure may be compiled on its own, without the level's
/// instructions.
macro_rules! each {
    ($y:ident, ($($x:ident),+) => $body:expr) => {
        each!(@zip $y.iter_mut(), $y, ($($x),+) => $body)
    };
    (@zip $iter:expr, $y:tt, ($a:ident) => $body:expr) => {
        for ($y, &$a) in $iter.zip($a) {
            *$y = $body;
        }
    };
    (@zip $iter:expr, $y:tt, ($a:ident, $b:ident) => $body:expr) => {
        for (($y, &$a), &$b) in $iter.zip($a).zip($b) {
            *$y = $body;
        }
    };
    (@zip $iter:expr, $y:tt, ($a:ident, $b:ident, $c:ident) => $body:expr) => {
        for ((($y, &$a), &$b), &$c) in $iter.zip($a).zip($b).zip($c) {
            *$y = $body;
        }
    };
}

mod binary;
mod bits;
mod copy;
mod cut;
mod glu;
mod loss;
mod operand;
mod relu;
mod sign_bit;
mod signs;
mod stream;
mod table;
mod ternary;
#[cfg(test)]
mod tests;
mod unary;

pub use binary::{binary, binary_narrowed, compare};
pub(crate) use copy::same_dtype;
pub use copy::{copy, copy_into, fill};
pub use glu::{glu, glu_grad};
pub use loss::{loss_grad, loss_total, losses};
pub use relu::relu_grad_in_place;
pub(crate) use signs::mask;
pub use signs::{alive, dead};
pub use ternary::{select, ternary};
use unary::{computed, computed_grad};
pub use unary::{unary, unary_grad};

use crate::DType;

/// The type that a call computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Domain {
    F32,
    F64,
    I64,
}

impl Domain {
    fn of(dtypes: &[DType]) -> Self {
        match dtypes {
            _ if dtypes.contains(&DType::F64) => Self::F64,
            _ if dtypes.iter().any(|d| d.is_float()) => Self::F32,
            _ => Self::I64,
        }
    }
}
