//! `y += x` says what to write instead: nothing changes a tensor.

use crate::precision::Element;
use crate::tensor::Tensor;
use std::ops;

/// Whatever stands on the right, in a tuple of its own.
///
/// What no type implements must be asked of another type than the tensor on the left, or rustc names the operator in place of
/// our reason; and of one that is found by way of a trait, or it has no reason to give.
#[doc(hidden)]
pub trait Right: Sized {
    type Alone;

    fn alone(self) -> Self::Alone;
}

#[doc(hidden)]
impl<R> Right for R {
    type Alone = (R,);

    fn alone(self) -> Self::Alone {
        (self,)
    }
}

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
        impl<P: Element, R: Right<Alone: $bound>> ops::$trait<R> for Tensor<P> {
            fn $method(&mut self, other: R) {
                other.alone().change(self);
            }
        }
    )* };
}
rejected! {
    AddsInPlace: AddAssign, add_assign, "write `y = (&y + x)?`: the result is a new tensor";
    SubtractsInPlace: SubAssign, sub_assign, "write `y = (&y - x)?`: the result is a new tensor";
    MultipliesInPlace: MulAssign, mul_assign, "write `y = (&y * x)?`: the result is a new tensor";
    DividesInPlace: DivAssign, div_assign, "write `y = (&y / x)?`: the result is a new tensor";
    LeavesInPlace: RemAssign, rem_assign, "write `y = y.remainder(x)?`: the result is a new tensor";
    AndsInPlace: BitAndAssign, bitand_assign, "write `y = (&y & x)?`: the result is a new tensor";
    OrsInPlace: BitOrAssign, bitor_assign, "write `y = (&y | x)?`: the result is a new tensor";
    XorsInPlace: BitXorAssign, bitxor_assign, "write `y = (&y ^ x)?`: the result is a new tensor";
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, Result, Tensor};

    /// What the notes say to write, of what is behind a reference.
    #[test]
    fn what_is_written_instead_moves_nothing() -> Result<()> {
        let x = Tensor::<F32>::ones([2], &Device::cpu())?;
        let mut list = [x.clone()];
        let y = &mut list[0];
        *y = (&*y + &x)?;
        *y = (&*y - 4.0)?;
        list[0] = (&list[0] * &x)?;
        list[0] = (&list[0] / 2.0)?;
        assert_eq!(list[0].to_vec()?, [-1.0; 2]);
        let mut masks = [x.gt(0.0)?];
        masks[0] = (&masks[0] & &masks[0])?;
        masks[0] = (&masks[0] ^ (&masks[0] | &masks[0])?)?;
        assert_eq!(masks[0].to_vec()?, [false; 2]);
        Ok(())
    }
}
