//! Whether all or any elements are true.

use super::kernel::reduce;
use crate::precision::{Bool, Element};
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{DType, Reduce};

impl<P: Element> Tensor<P> {
    /// Whether all elements over `axes` (all axes when none are given) are non-zero (`torch.all`).
    pub fn all(&self, axes: impl Axes, keep: bool) -> Result<Tensor<Bool>> {
        let axes = shape::axes("all", axes.as_axes(), self.rank())?;
        Tensor::from_raw(reduce(Reduce::All, &self.raw, &axes, DType::Bool)?).drop_axes(&axes, keep)
    }

    /// Whether any element over `axes` (all axes when none are given) is non-zero (`torch.any`).
    pub fn any(&self, axes: impl Axes, keep: bool) -> Result<Tensor<Bool>> {
        let axes = shape::axes("any", axes.as_axes(), self.rank())?;
        Tensor::from_raw(reduce(Reduce::Any, &self.raw, &axes, DType::Bool)?).drop_axes(&axes, keep)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bool, Device, F32, Tensor};

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
