//! Sums that leave out what is not a number, and counts.

use super::kernel::{compare, reduce};
use crate::precision::{Element, Float, I64, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{Compare, DType, Dims, Reduce};

full_range! {
    NansumPrecision, "`nansum` must run in `F32`";
    NanmeanPrecision, "`nanmean` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// [`sum`](Self::sum) of the elements that are not NaN (`torch.nansum`).
    #[track_caller]
    pub fn nansum(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: NansumPrecision,
    {
        self.eq(self)?.where_(self, 0.0)?.sum(axes, keep).map_err(|error| error.named("nansum"))
    }

    /// [`mean`](Self::mean) of the elements that are not NaN (`torch.nanmean`).
    #[track_caller]
    pub fn nanmean(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: NanmeanPrecision,
    {
        let numbers = self.detach().isnan()?.logical_not()?;
        let sums = numbers.where_(self, 0.0)?.sum(&*axes.as_axes(), keep);
        let sums = sums.map_err(|error| error.named("nanmean"))?;
        sums.div(&numbers.to::<P>()?.sum(axes, keep)?)
    }
}

impl<P: Element> Tensor<P> {
    /// How many elements over `axes` (all when none are given) are not 0; NaN is not (`torch.count_nonzero`).
    pub fn count_nonzero(&self, axes: impl Axes) -> Result<Tensor<I64>> {
        const OP: &str = "count_nonzero";
        let axes = shape::axes(OP, &axes.as_axes(), self.rank())?;
        let zero = RawTensor::full(self.device(), 0.0, Dims::default(), self.raw.logical)?;
        let counts = reduce(Reduce::Sum, &compare(OP, Compare::Ne, &self.raw, &zero)?, &axes, DType::F64)?;
        Tensor::from_raw(counts.cast_view(DType::I64)?).drop_axes(&axes, false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, I64, Result, Tensor};

    #[test]
    fn what_is_no_number_counts_nothing() -> Result<()> {
        let nan = f32::NAN;
        let x = Tensor::<F32>::from_vec(vec![1.0, nan, 4.0, nan, nan, 0.0], [2, 3], &Device::cpu())?.tracked();
        assert_eq!(x.nansum(1, false)?.to_vec()?, [5.0, 0.0]);
        assert_eq!(x.nanmean(1, true)?.to_vec()?, [2.5, 0.0]);
        assert!(x.narrow(1, 0, 2)?.nanmean(1, false)?.to_vec()?[1].is_nan());
        let grads = (x.nanmean(1, false)?.sum_all()? + x.nansum([], false)?)?.backward()?;
        assert_eq!(grads.get(&x)?.unwrap().to_vec()?, [1.5, 0.0, 1.5, 0.0, 0.0, 2.0]);
        assert_eq!(x.count_nonzero([])?.item()?, 5);
        assert_eq!(x.count_nonzero(0)?.to_vec()?, [2, 2, 1]);
        let whole = Tensor::<I64>::from_vec(vec![0, 3, -1], [3], &Device::cpu())?;
        assert_eq!(whole.count_nonzero(-1)?.item()?, 2);
        Ok(())
    }
}
