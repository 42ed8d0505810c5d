//! Comparisons, and tests for values that are not numbers.

use super::kernel::{self, unary};
use super::operand::{Operand, Term};
use crate::Result;
use crate::precision::{Bool, Element, Float};
use crate::tensor::Tensor;
use amp_cpu::{Compare, Unary};

macro_rules! comparisons {
    ($($name:ident, $op:ident, $doc:literal;)*) => {
        impl<P: Element> Tensor<P> { $(
            #[doc = $doc]
            ///
            /// The other side is a tensor of the same precision, with which this one broadcasts, or a number.
            /// NaN is unequal to everything.
            pub fn $name<R: Operand<P>>(&self, other: R) -> Result<Tensor<Bool>> {
                let other = other.term().compared(&self.raw)?;
                Ok(Tensor::from_raw(kernel::compare(stringify!($name), Compare::$op, &self.raw, &other)?))
            }
        )* }
    };
}
comparisons! {
    eq, Eq, "`self == other` (`torch.eq`).";
    ne, Ne, "`self != other` (`torch.ne`).";
    lt, Lt, "`self < other` (`torch.lt`).";
    le, Le, "`self <= other` (`torch.le`).";
    gt, Gt, "`self > other` (`torch.gt`).";
    ge, Ge, "`self >= other` (`torch.ge`).";
}

impl<P: Float> Tensor<P> {
    /// Where the elements are NaN (`torch.isnan`).
    pub fn isnan(&self) -> Result<Tensor<Bool>> {
        Ok(Tensor::from_raw(kernel::compare("isnan", Compare::Ne, &self.raw, &self.raw)?))
    }

    /// Where the elements are infinite (`torch.isinf`).
    pub fn isinf(&self) -> Result<Tensor<Bool>> {
        self.magnitude("isinf", Compare::Eq)
    }

    /// Where the elements are neither infinite nor NaN (`torch.isfinite`).
    pub fn isfinite(&self) -> Result<Tensor<Bool>> {
        self.magnitude("isfinite", Compare::Lt)
    }

    /// `|x| op infinity`
    fn magnitude(&self, name: &'static str, op: Compare) -> Result<Tensor<Bool>> {
        let size = unary(Unary::Abs, &self.raw, self.raw.logical)?;
        let infinity = Term::Number(f64::INFINITY).beside(&size)?;
        Ok(Tensor::from_raw(kernel::compare(name, op, &size, &infinity)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bool, Device, F16, F32, I64, Tensor, U8};
    use half::f16;

    #[test]
    fn nan_is_unequal_to_everything() {
        let device = Device::cpu();
        let x = Tensor::<F32>::from_vec(vec![1.0, f32::NAN, 3.0], [3], &device).unwrap();
        let y = Tensor::<F32>::from_vec(vec![1.0, f32::NAN, 2.0], [3], &device).unwrap();
        let truth = |t: crate::Result<Tensor<Bool>>| t.unwrap().to_vec().unwrap();
        assert_eq!(truth(x.eq(&y)), [true, false, false]);
        assert_eq!(truth(x.ne(&y)), [false, true, true]);
        assert_eq!(truth(x.lt(&y)), [false, false, false]);
        assert_eq!(truth(x.le(&y)), [true, false, false]);
        assert_eq!(truth(x.gt(&y)), [false, false, true]);
        assert_eq!(truth(x.ge(&y)), [true, false, true]);
        assert_eq!(truth(x.isnan()), [false, true, false]);
    }

    #[test]
    fn numbers_are_compared_in_full_precision() {
        let device = Device::cpu();
        let x = Tensor::<F16>::from_vec(vec![f16::from_f32(0.1)], [1], &device).unwrap();
        // The nearest F16 to 0.1 is a little less than 0.1.
        assert!(x.lt(0.1).unwrap().item().unwrap());
        let labels = Tensor::<I64>::from_vec(vec![3, -100, (1 << 53) + 1], [3], &device).unwrap();
        assert_eq!(labels.ne(-100).unwrap().to_vec().unwrap(), [true, false, true]);
        let shifted = Tensor::<I64>::from_vec(vec![1 << 53], [1], &device).unwrap();
        assert_eq!(labels.eq(&shifted).unwrap().to_vec().unwrap(), [false, false, false]);
    }

    #[test]
    fn infinities_are_told_from_nan() {
        let values = vec![1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let x = Tensor::<F32>::from_vec(values, [4], &Device::cpu()).unwrap();
        assert_eq!(x.isinf().unwrap().to_vec().unwrap(), [false, true, true, false]);
        assert_eq!(x.isfinite().unwrap().to_vec().unwrap(), [true, false, false, false]);
    }

    #[test]
    fn bytes_are_compared_with_the_number_itself() {
        let bytes = Tensor::<U8>::from_vec(vec![0, 44, 255], [3], &Device::cpu()).unwrap();
        let truth = |t: crate::Result<Tensor<Bool>>| t.unwrap().to_vec().unwrap();
        assert_eq!(truth(bytes.eq(-1)), [false; 3]);
        assert_eq!(truth(bytes.ne(300)), [true; 3]);
        assert_eq!(truth(bytes.gt(-1)), [true; 3]);
        assert_eq!(truth(bytes.lt(300)), [true; 3]);
        assert_eq!(truth(bytes.le(-1)), [false; 3]);
        assert_eq!(truth(bytes.ge(256)), [false; 3]);
        assert_eq!(truth(bytes.ge(44)), [false, true, true]);
    }
}
