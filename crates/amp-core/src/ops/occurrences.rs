//! Which values occur, and how often.

use super::kernel::compare;
use crate::precision::{Bool, Element, I64};
use crate::tensor::Tensor;
use crate::{IntegerSums, IntoShape, Result};
use amp_cpu::Compare;

impl Tensor<I64> {
    /// How often each of the numbers `0, 1, ..` occurs in a tensor of any shape: a line up to the largest of them, and of `least`
    /// numbers or more (`torch.bincount(minlength=least)`). Waits for the device.
    ///
    /// Sums of weights instead of numbers of occurrences are `zeros.scatter_add(0, &labels, &weights)`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) for a number below 0,
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) when there are too many up to the largest.
    #[track_caller]
    pub fn bincount(&self, least: usize) -> Result<Self> {
        const OP: &str = "bincount";
        let largest = if self.count() == 0 { -1 } else { self.max([], false)?.item()? };
        let size = least.max(usize::try_from(largest).map_or(0, |largest| largest.saturating_add(1)));
        [size].into_shape(OP)?;
        self.raw.backend().check_indices(OP, self.raw.operand()?, size, None)?;
        let labels = self.reshape([self.count()])?;
        let none = Self::zeros([size], self.device()).map_err(|error| error.named(OP))?;
        none.scatter_add(0, &labels, &Self::ones([self.count()], self.device())?)
    }
}

impl<P: Element> Tensor<P> {
    /// Every value once, in ascending order, as a line (`torch.unique`); each NaN is a value of its own. Not differentiable. Waits
    /// for the device.
    #[track_caller]
    pub fn unique(&self) -> Result<Self> {
        Ok(self.unique_with_counts()?.0)
    }

    /// Every value once, as [`unique`](Self::unique) gives it; for each element, in the shape of the tensor, the position of its
    /// value; and how often each value occurs (`torch.unique(return_inverse=True, return_counts=True)`). Not differentiable.
    /// Waits for the device.
    #[doc(alias("return_inverse", "return_counts"))]
    #[track_caller]
    pub fn unique_with_counts(&self) -> Result<(Self, Tensor<I64>, Tensor<I64>)> {
        let (n, device) = (self.count(), self.device());
        let (sorted, from) = self.detach().reshape([n])?.sort(0, false)?;
        if n == 0 {
            return Ok((sorted, from.reshape(self.dims())?, from));
        }
        let [before, behind] = [sorted.narrow(0, 0, n - 1)?, sorted.narrow(0, 1, n - 1)?];
        let differs = Tensor::<Bool>::from_raw(compare("unique", Compare::Ne, &before.raw, &behind.raw)?);
        let begins = Tensor::cat(&[Tensor::<Bool>::ones([1], device)?, differs], 0)?;
        let inverse = (begins.cumsum(0)? - 1)?;
        let inverse = inverse.scatter(0, &from, &inverse)?.reshape(self.dims())?;
        let counts = inverse.bincount(0)?;
        let starts = counts.cumsum(0)?.sub(&counts)?;
        Ok((sorted.index_select(0, &starts)?, inverse, counts))
    }
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F32, I64, Result, Tensor};

    fn whole(values: &[i64], shape: &[usize]) -> Tensor<I64> {
        Tensor::from_slice(values, shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn numbers_are_counted() -> Result<()> {
        assert_eq!(whole(&[1, 4, 1, 0], &[4]).bincount(0)?.to_vec()?, [1, 2, 0, 0, 1]);
        assert_eq!(whole(&[1, 1, 0, 1], &[2, 2]).t()?.bincount(3)?.to_vec()?, [1, 3, 0]);
        assert_eq!(whole(&[], &[0]).bincount(2)?.to_vec()?, [0, 0]);
        assert_eq!(whole(&[2], &[]).bincount(0)?.to_vec()?, [0, 0, 1]);
        assert!(whole(&[3, -1], &[2]).bincount(9).unwrap_err().to_string().starts_with("bincount: "));
        assert!(whole(&[i64::MAX], &[1]).bincount(0).unwrap_err().to_string().starts_with("bincount: "));
        Ok(())
    }

    #[test]
    fn every_value_is_found_once() -> Result<()> {
        let x = whole(&[7, -2, 7, 0, 7, -2], &[2, 3]);
        let (values, inverse, counts) = x.unique_with_counts()?;
        assert_eq!((values.to_vec()?, counts.to_vec()?), (vec![-2, 0, 7], vec![2, 1, 3]));
        assert!(values.index_select(0, &inverse.flatten(0, 1)?)?.reshape([2, 3])?.equal(&x)?);
        let (values, inverse, counts) = x.t()?.unique_with_counts()?;
        assert_eq!((values.count(), inverse.dims(), counts.count()), (3, [3, 2].as_slice(), 3));
        assert_eq!(whole(&[], &[0, 2]).unique_with_counts()?.1.dims(), [0, 2]);
        Ok(())
    }

    #[test]
    fn each_nan_is_a_value_of_its_own() -> Result<()> {
        let x = Tensor::<F32>::from_slice(&[f32::NAN, 1.0, f32::NAN, -0.0, 0.0], [5], &Device::cpu())?;
        let (values, inverse, counts) = x.tracked().unique_with_counts()?;
        let values = values.to_vec()?;
        assert!(values[2..].iter().all(|value| value.is_nan()));
        assert_eq!((&values[..2], inverse.to_vec()?), (&[0.0, 1.0][..], vec![2, 1, 3, 0, 0]));
        assert_eq!(counts.to_vec()?, [2, 1, 1, 1]);
        assert_eq!(x.to::<BF16>()?.unique()?.count(), 4);
        Ok(())
    }
}
