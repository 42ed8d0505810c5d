//! Truth values: joined element by element, and whether all or any of a tensor's elements are true.

use super::kernel::{binary, compare, reduce};
use crate::precision::{Bool, Element};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{Binary, Compare, DType, Dims, Reduce};
use std::borrow::Borrow;
use std::ops;

impl<P: Element> Tensor<P> {
    /// Whether all elements over `axes` (all axes when none are given) are non-zero (`torch.all`).
    pub fn all(&self, axes: impl Axes, keep: bool) -> Result<Tensor<Bool>> {
        let axes = shape::axes("all", &axes.as_axes(), self.rank())?;
        Tensor::from_raw(reduce(Reduce::All, &self.raw, &axes, DType::Bool)?).drop_axes(&axes, keep)
    }

    /// Whether any element over `axes` (all axes when none are given) is non-zero (`torch.any`).
    pub fn any(&self, axes: impl Axes, keep: bool) -> Result<Tensor<Bool>> {
        let axes = shape::axes("any", &axes.as_axes(), self.rank())?;
        Tensor::from_raw(reduce(Reduce::Any, &self.raw, &axes, DType::Bool)?).drop_axes(&axes, keep)
    }
}

macro_rules! joins {
    ($($trait:ident, $operator:ident, $method:ident, |$a:ident, $b:ident| $body:expr, $doc:literal;)*) => { $(
        impl Tensor<Bool> {
            #[doc = $doc]
            ///
            /// Shapes broadcast by NumPy's rule.
            pub fn $method(&self, other: &Self) -> Result<Self> {
                let ($a, $b) = (&self.raw, &other.raw);
                $body.map(Self::from_raw)
            }
        }

        impl<R: Borrow<Tensor<Bool>>> ops::$trait<R> for &Tensor<Bool> {
            type Output = Result<Tensor<Bool>>;

            fn $operator(self, other: R) -> Self::Output {
                self.$method(other.borrow())
            }
        }

        impl<R: Borrow<Tensor<Bool>>> ops::$trait<R> for Tensor<Bool> {
            type Output = Result<Tensor<Bool>>;

            fn $operator(self, other: R) -> Self::Output {
                self.$method(other.borrow())
            }
        }
    )* };
}
joins! {
    BitAnd, bitand, logical_and, |a, b| binary("logical_and", Binary::Minimum, a, b, DType::Bool),
        "`self & other`: where both are true (`torch.logical_and`).";
    BitOr, bitor, logical_or, |a, b| binary("logical_or", Binary::Maximum, a, b, DType::Bool),
        "`self | other`: where at least one is true (`torch.logical_or`).";
    BitXor, bitxor, logical_xor, |a, b| compare("logical_xor", Compare::Ne, a, b),
        "`self ^ other`: where one is true and the other is not (`torch.logical_xor`).";
}

impl Tensor<Bool> {
    /// `!self`: where this is not true (`torch.logical_not`).
    pub fn logical_not(&self) -> Result<Self> {
        let no = RawTensor::full(self.raw.device(), 0.0, Dims::default(), DType::Bool)?;
        compare("logical_not", Compare::Eq, &self.raw, &no).map(Self::from_raw)
    }
}

impl ops::Not for &Tensor<Bool> {
    type Output = Result<Tensor<Bool>>;

    fn not(self) -> Self::Output {
        self.logical_not()
    }
}

impl ops::Not for Tensor<Bool> {
    type Output = Result<Tensor<Bool>>;

    fn not(self) -> Self::Output {
        self.logical_not()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bool, Device, Error, F32, Tensor};

    #[test]
    fn truth_values_are_joined() {
        let bools =
            |values: &[bool]| Tensor::<Bool>::from_vec(values.to_vec(), [values.len()], &Device::cpu()).unwrap();
        let (a, b) = (bools(&[false, false, true, true]), bools(&[false, true, false, true]));
        let values = |t: crate::Result<Tensor<Bool>>| t.unwrap().to_vec().unwrap();
        assert_eq!(values(&a & &b), [false, false, false, true]);
        assert_eq!(values(&a | b.clone()), [false, true, true, true]);
        assert_eq!(values(a.clone() ^ &b), [false, true, true, false]);
        assert_eq!(values(!&a), [true, true, false, false]);
        let square = values(a.reshape([4, 1]).unwrap() & b.reshape([1, 4]).unwrap());
        assert_eq!(square.iter().filter(|&&both| both).count(), 4);
        let error = (&a & &bools(&[true, false, true])).unwrap_err();
        assert!(matches!(error, Error::Broadcast { op: "logical_and", .. }), "{error}");
    }

    #[test]
    fn nan_is_true_and_nothing_is_all_true() {
        let x = Tensor::<F32>::from_vec(vec![0.0, 1.0, f32::NAN, 2.0], [2, 2], &Device::cpu()).unwrap();
        assert_eq!(x.all([1], false).unwrap().to_vec().unwrap(), [false, true]);
        assert_eq!(x.any([1], false).unwrap().to_vec().unwrap(), [true, true]);
        let none = Tensor::<Bool>::zeros([0], &Device::cpu()).unwrap();
        assert!(none.all([], false).unwrap().item().unwrap());
        assert!(!none.any([], false).unwrap().item().unwrap());
    }
}
