//! Sums of integers and of truth values: how many labels were found, how often each class came.

use super::kernel::reduce;
use crate::precision::{Bool, I64, U8};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{DType, Reduce, Scan};

/// Sums of I64, U8 and Bool, as I64 (`torch.sum`, `torch.cumsum`): exact; beyond 64 bits they wrap around.
///
/// ```
/// use amp_core::{Bool, Device, IntegerSums, Tensor};
///
/// let found = Tensor::<Bool>::from_vec(vec![true, false, true], [3], &Device::cpu())?;
/// assert_eq!(found.sum_all()?.item()?, 2);
/// # Ok::<_, amp_core::Error>(())
/// ```
///
/// A trait, so that a tensor whose precision is not known yet has the one `sum` of floating-point tensors.
pub trait IntegerSums {
    /// Sum over `axes` (all when none are given), which stay with size 1 if `keep`: of Bool, how many elements are true.
    fn sum(&self, axes: impl Axes, keep: bool) -> Result<Tensor<I64>>;

    /// [`sum`](Self::sum) of all elements, as a tensor of no dimensions.
    fn sum_all(&self) -> Result<Tensor<I64>> {
        self.sum([], false)
    }

    /// Running sum along `axis`.
    fn cumsum(&self, axis: isize) -> Result<Tensor<I64>>;
}

macro_rules! integer_sums {
    ($($precision:ty),*) => { $(
        impl IntegerSums for Tensor<$precision> {
            fn sum(&self, axes: impl Axes, keep: bool) -> Result<Tensor<I64>> {
                let axes = shape::axes("sum", &axes.as_axes(), self.rank())?;
                Tensor::from_raw(reduce(Reduce::Sum, &self.raw, &axes, DType::I64)?).drop_axes(&axes, keep)
            }

            fn cumsum(&self, axis: isize) -> Result<Tensor<I64>> {
                if let Some(line) = self.line(axis)? {
                    return line.cumsum(0)?.reshape(());
                }
                let axis = shape::axis("cumsum", axis, self.rank())?;
                let sums = self.raw.backend().scan(Scan::Sum, self.raw.operand()?, axis, false, DType::I64)?;
                Ok(Tensor::from_raw(RawTensor::new(self.raw.device(), sums, *self.raw.shape())))
            }
        }
    )* };
}
integer_sums!(I64, U8, Bool);

#[cfg(test)]
mod tests {
    use super::IntegerSums;
    use crate::{Bool, Device, F32, I64, Result, Tensor, U8};

    #[test]
    fn what_was_found_is_counted() -> Result<()> {
        let scores = Tensor::<F32>::from_vec(vec![0.1, 2.0, 0.3, 5.0, 4.0, 0.0], [3, 2], &Device::cpu())?;
        let labels = Tensor::<I64>::from_vec(vec![1, 0, 0], [3], &Device::cpu())?;
        let right = scores.argmax(-1, false)?.eq(&labels)?;
        assert_eq!(right.sum_all()?.item()?, 2);
        assert_eq!(right.unsqueeze(0)?.sum(-1, true)?.to_vec()?, [2]);
        assert_eq!(right.cumsum(0)?.to_vec()?, [1, 1, 2]);
        assert_eq!(labels.one_hot(3)?.sum(0, false)?.to_vec()?, [2, 1, 0]);
        Ok(())
    }

    #[test]
    fn a_precision_that_is_found_later_is_no_integer() -> Result<()> {
        let x = Tensor::full([2, 3], 0.5, &Device::cpu())?;
        let sums = x.sum(1, false)?;
        let _: &Tensor<F32> = &x;
        assert_eq!((sums.to_vec()?, x.sum_all()?.item()?), (vec![1.5; 2], 3.0));
        Ok(())
    }

    #[test]
    fn integers_are_summed_exactly() -> Result<()> {
        let large = (1_i64 << 60) + 1;
        let x = Tensor::<I64>::from_vec(vec![large, 2, -large, 5, 6, 7], [2, 3], &Device::cpu())?;
        assert_eq!(x.sum([], false)?.item()?, 20);
        assert_eq!(x.sum(0, false)?.to_vec()?, [large + 5, 8, 7 - large]);
        assert_eq!(x.t()?.cumsum(-1)?.to_vec()?, [large, large + 5, 2, 8, -large, 7 - large]);
        let bytes = Tensor::<U8>::full([300], 255, &Device::cpu())?;
        assert_eq!(bytes.sum_all()?.item()?, 76_500);
        assert_eq!(bytes.cumsum(0)?.to_vec()?[299], 76_500);
        let none = Tensor::<Bool>::zeros([0, 2], &Device::cpu())?;
        assert_eq!(none.sum(0, false)?.to_vec()?, [0, 0]);
        assert_eq!(bytes.select(0, 0)?.cumsum(0)?.item()?, 255);
        assert!(x.sum(2, false).is_err() && x.cumsum(-3).is_err());
        Ok(())
    }
}
