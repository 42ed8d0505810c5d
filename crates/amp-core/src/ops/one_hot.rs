//! Labels as vectors of zeros and ones.

use super::kernel::compare;
use crate::precision::I64;
use crate::tensor::Tensor;
use crate::{IntoShape, Result};
use amp_cpu::Compare;

impl Tensor<I64> {
    /// 1 at each label, 0 elsewhere, along a new last dimension of size `classes` (`torch.nn.functional.one_hot`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) for a label outside `0..classes`.
    pub fn one_hot(&self, classes: usize) -> Result<Tensor<I64>> {
        [self.dims(), &[classes]].concat().into_shape("one_hot")?;
        self.raw.backend().check_indices("one_hot", self.raw.operand()?, classes, None)?;
        let labels = self.detach().unsqueeze(-1)?;
        let numbers = Self::arange(0, classes, self.device())?;
        let same = compare("one_hot", Compare::Eq, &labels.raw, &numbers.raw)?;
        Ok(Tensor::from_raw(same.cast_view(amp_cpu::DType::I64)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, I64, Tensor};

    #[test]
    fn labels_have_a_1_at_their_class() {
        let index = |data: &[i64]| Tensor::<I64>::from_slice(data, [data.len()], &Device::cpu()).unwrap();
        assert_eq!(index(&[2, 0]).one_hot(3).unwrap().to_vec().unwrap(), [0, 0, 1, 1, 0, 0]);
        assert!(index(&[4]).one_hot(4).is_err());
    }
}
