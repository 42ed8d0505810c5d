//! `y += x` says what to write instead: nothing changes a tensor.

use crate::precision::Element;
use crate::tensor::Tensor;
use std::ops;

/// One trait an operator, because a diagnostic's text can name it only literally.
macro_rules! rejected {
    ($($bound:ident: $trait:ident, $method:ident, $help:literal;)*) => { $(
        /// Implemented by nothing: the bound that rejects the operator.
        #[doc(hidden)]
        #[diagnostic::on_unimplemented(
            message = "a tensor is never changed in place",
            label = "this operator would change it",
            note = $help
        )]
        pub trait $bound {
            fn change<P: Element>(self, tensor: &mut Tensor<P>);
        }

        #[doc(hidden)]
        impl<P: Element, R: $bound> ops::$trait<R> for Tensor<P> {
            fn $method(&mut self, other: R) {
                other.change(self);
            }
        }
    )* };
}
rejected! {
    AddsInPlace: AddAssign, add_assign, "write `y = (y + x)?`: the result is a new tensor";
    SubtractsInPlace: SubAssign, sub_assign, "write `y = (y - x)?`: the result is a new tensor";
    MultipliesInPlace: MulAssign, mul_assign, "write `y = (y * x)?`: the result is a new tensor";
    DividesInPlace: DivAssign, div_assign, "write `y = (y / x)?`: the result is a new tensor";
}
