//! Sums and means.

use super::kernel;
use crate::autograd::{Pass, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{DType, Reduce, Unary};

full_range! {
    SumPrecision, "`sum` must run in `F32`";
    SumAllPrecision: SumPrecision, "`sum_all` must run in `F32`";
    MeanPrecision, "`mean` must run in `F32`";
    MeanAllPrecision: MeanPrecision, "`mean_all` must run in `F32`";
}

/// Folds `axes` away, keeping them with size 1, and records the gradient: `factor` everywhere.
#[track_caller]
pub(super) fn fold(name: &'static str, op: Reduce, x: &RawTensor, axes: &[usize], factor: f64) -> Result<RawTensor> {
    fold_to(name, op, x, axes, factor, None)
}

/// As [`fold`], rounded to `writes` if that is given.
#[track_caller]
fn fold_to(
    name: &'static str,
    op: Reduce,
    x: &RawTensor,
    axes: &[usize],
    factor: f64,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let y = kernel::reduce(op, x, axes, writes.unwrap_or(x.logical))?.counted(x.logical);
    let from = *x.shape();
    record(name, &[x], y, |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            // In the precision of the input's gradient: that of a narrowed image is not rounded on its way.
            let each = Unary::Affine { mul: factor, add: 0.0 };
            let grad = kernel::unary(each, pass.grad(), pass.dtype(0))?.broadcast_to("sum", &from)?;
            pass.give(0, grad)
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// Sum over `axes` (all when none are given); they stay with size 1 if `keep` (`torch.sum`).
    #[track_caller]
    pub fn sum(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: SumPrecision,
    {
        let axes = shape::axes("sum", &axes.as_axes(), self.rank())?;
        Self::from_raw(fold_to("sum", Reduce::Sum, &self.raw, &axes, 1.0, P::WRITES)?).drop_axes(&axes, keep)
    }

    /// Mean over `axes` (all when none are given); they stay with size 1 if `keep` (`torch.mean`).
    #[track_caller]
    pub fn mean(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: MeanPrecision,
    {
        let axes = shape::axes("mean", &axes.as_axes(), self.rank())?;
        let count: usize = axes.iter().map(|&a| self.dims()[a]).product();
        Self::from_raw(fold_to("mean", Reduce::Mean, &self.raw, &axes, 1.0 / count as f64, P::WRITES)?)
            .drop_axes(&axes, keep)
    }

    /// Sum of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn sum_all(&self) -> Result<Self>
    where
        P: SumAllPrecision,
    {
        self.sum([], false)
    }

    /// Mean of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn mean_all(&self) -> Result<Self>
    where
        P: MeanAllPrecision,
    {
        self.mean([], false)
    }
}
