//! Running sums and products, and whole products.

use super::kernel::{folded, reduce, zeros};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{DType, Layout, Reduce, Scan};

full_range! {
    CumsumPrecision, "`cumsum` must run in `F32`";
    CumprodPrecision, "`cumprod` must run in `F32`";
    ProdPrecision, "`prod` must run in `F32`";
    ProdAllPrecision: ProdPrecision, "`prod_all` must run in `F32`";
}

fn scan(op: Scan, x: &RawTensor, axis: usize, reverse: bool, out: DType) -> Result<RawTensor> {
    let buffer = x.backend().scan(op, x.operand()?, axis, reverse, out)?;
    Ok(RawTensor::new(x.device(), buffer, *x.shape()))
}

/// Running sum, rounded to `writes` if that is given.
#[track_caller]
fn cumsum(x: &RawTensor, axis: usize, writes: Option<DType>) -> Result<RawTensor> {
    let y = scan(Scan::Sum, x, axis, false, writes.unwrap_or(x.logical))?.counted(x.logical);
    record("cumsum", &[x], y, |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| pass.give(0, scan(Scan::Sum, pass.grad(), axis, true, pass.dtype(0))?)))
    })
}

/// Running product, rounded to `writes` if that is given.
#[track_caller]
fn cumprod(x: &RawTensor, axis: usize, writes: Option<DType>) -> Result<RawTensor> {
    let y = scan(Scan::Prod, x, axis, false, writes.unwrap_or(x.logical))?.counted(x.logical);
    record("cumprod", &[x], y, |_| {
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let buffer = x.backend().cumprod_grad(x.operand()?, pass.grad().operand()?, axis, pass.dtype(0))?;
            pass.give(0, RawTensor::new(x.device(), buffer, *x.shape()))
        }))
    })
}

/// Product along one axis, which stays with size 1, rounded to `writes` if that is given. Its gradient is that of the last
/// running product.
#[track_caller]
fn prod(x: &RawTensor, axis: usize, writes: Option<DType>) -> Result<RawTensor> {
    let y = reduce(Reduce::Prod, x, &[axis], writes.unwrap_or(x.logical))?.counted(x.logical);
    record("prod", &[x], y, |_| {
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            if x.layout.count() == 0 {
                return pass.give(0, zeros(&x, pass.dtype(0))?);
            }
            let grad = pass.grad();
            let mut last = Layout::contiguous(*x.shape());
            last.offset = (x.shape()[axis] - 1) * last.strides[axis];
            last.shape = folded(x.shape(), &[axis]);
            let mut buffer = x.backend().fill(0.0, x.layout.count(), grad.logical)?;
            x.backend().copy_into(grad.operand()?, &mut buffer, &last)?;
            let grad = RawTensor::new(x.device(), buffer, *x.shape());
            let buffer = x.backend().cumprod_grad(x.operand()?, grad.operand()?, axis, pass.dtype(0))?;
            pass.give(0, RawTensor::new(x.device(), buffer, *x.shape()))
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// Running sum along `axis` (`torch.cumsum`).
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> Result<Self>
    where
        P: CumsumPrecision,
    {
        if let Some(line) = self.line(axis)? {
            return line.cumsum(0)?.reshape(());
        }
        Ok(Self::from_raw(cumsum(&self.raw, shape::axis("cumsum", axis, self.rank())?, P::WRITES)?))
    }

    /// Running product along `axis` (`torch.cumprod`); its gradient is exact at zeros.
    #[track_caller]
    pub fn cumprod(&self, axis: isize) -> Result<Self>
    where
        P: CumprodPrecision,
    {
        if let Some(line) = self.line(axis)? {
            return line.cumprod(0)?.reshape(());
        }
        Ok(Self::from_raw(cumprod(&self.raw, shape::axis("cumprod", axis, self.rank())?, P::WRITES)?))
    }

    /// Product over `axes` (all when none are given); they stay with size 1 if `keep` (`torch.prod`).
    ///
    /// Its gradient is exact at zeros.
    #[track_caller]
    pub fn prod(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: ProdPrecision,
    {
        let axes = shape::axes("prod", &axes.as_axes(), self.rank())?;
        let Some((&last, others)) = axes.split_last() else { return Ok(self.unchanged()) };
        let folded = others.iter().try_fold(self.raw.clone(), |x, &axis| prod(&x, axis, None))?;
        Self::from_raw(prod(&folded, last, P::WRITES)?).drop_axes(&axes, keep)
    }

    /// Product of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn prod_all(&self) -> Result<Self>
    where
        P: ProdAllPrecision,
    {
        self.prod([], false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences_also_at_zeros() {
        let x = Tensor::<F64>::from_vec(vec![0.3, 0.0, 1.9, 1.1, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("cumsum", gradcheck(|x| x[0].cumsum(1), std::slice::from_ref(&x))),
            ("cumsum of columns", gradcheck(|x| x[0].cumsum(0), std::slice::from_ref(&x))),
            ("cumprod", gradcheck(|x| x[0].cumprod(-1), std::slice::from_ref(&x))),
            ("prod", gradcheck(|x| x[0].prod([1], false), std::slice::from_ref(&x))),
            ("prod_all", gradcheck(|x| x[0].prod_all(), std::slice::from_ref(&x))),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn nothing_multiplies_to_one() {
        let x = Tensor::<F64>::zeros([2, 0], &Device::cpu()).unwrap().tracked();
        assert_eq!(x.prod([1], false).unwrap().to_vec().unwrap(), [1.0, 1.0]);
        assert!(x.prod_all().unwrap().backward().unwrap().get(&x).unwrap().unwrap().to_vec().unwrap().is_empty());
        assert_eq!(x.cumsum(1).unwrap().dims(), [2, 0]);
    }
}
