//! Sorting and the largest or least few.

use crate::autograd::{Pass, record};
use crate::backend::Buffer;
use crate::precision::{Element, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

/// `count` elements along `axis` of `x`, and their positions; gradients go back to where they came from.
#[track_caller]
pub(super) fn taken<P: Element>(
    name: &'static str,
    x: &Tensor<P>,
    axis: usize,
    count: usize,
    (values, positions): (Buffer, Buffer),
) -> Result<(Tensor<P>, Tensor<I64>)> {
    let (x, from, mut shape) = (&x.raw, *x.raw.shape(), *x.raw.shape());
    shape[axis] = count;
    let positions = RawTensor::new(x.device(), positions, shape);
    let places = positions.clone();
    let values = record(name, &[x], RawTensor::written(x.device(), values, shape, x.logical), move |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let zero = RawTensor::full(places.device(), 0.0, from, pass.dtype(0))?;
            let (base, index, grad) = (zero.operand()?, places.operand()?, pass.grad().operand()?);
            let buffer = places.backend().scatter_add(base, axis, index, grad, pass.dtype(0))?;
            pass.give(0, RawTensor::new(places.device(), buffer, from))
        }))
    })?;
    Ok((Tensor::from_raw(values), Tensor::from_raw(positions)))
}

impl<P: Element> Tensor<P> {
    /// Elements in order along `axis`, and the positions they came from (`torch.sort`).
    ///
    /// Equal elements keep their order; NaN counts as largest. Gradients go back to where the elements came from.
    #[track_caller]
    pub fn sort(&self, axis: isize, descending: bool) -> Result<(Self, Tensor<I64>)> {
        if let Some(line) = self.line(axis)? {
            let (values, positions) = line.sort(0, descending)?;
            return Ok((values.reshape(())?, positions.reshape(())?));
        }
        let axis = shape::axis("sort", axis, self.rank())?;
        let sorted = self.raw.backend().sort(self.raw.operand()?, axis, descending)?;
        taken("sort", self, axis, self.dims()[axis], sorted)
    }

    /// Positions that would sort the elements along `axis` (`torch.argsort`).
    pub fn argsort(&self, axis: isize, descending: bool) -> Result<Tensor<I64>> {
        Ok(self.detach().sort(axis, descending)?.1)
    }

    /// The `k` largest (or least) elements along `axis` in order, and their positions (`torch.topk`).
    ///
    /// # Errors
    /// [`Error::Argument`] when `k` exceeds the size of the axis.
    #[track_caller]
    pub fn topk(&self, k: usize, axis: isize, largest: bool) -> Result<(Self, Tensor<I64>)> {
        if let Some(line) = self.line(axis)? {
            let (values, positions) = line.topk(k.max(1), 0, largest)?;
            return Ok((values.reshape(())?, positions.reshape(())?));
        }
        let at = shape::axis("topk", axis, self.rank())?;
        let size = self.dims()[at];
        if k > size {
            return Err(Error::argument("topk", "k", format!("at most {size}, the size of axis {axis}"), k));
        }
        if let Some(first) = self.raw.backend().topk(self.raw.operand()?, at, k, largest)? {
            return taken("topk", self, at, k, first);
        }
        let (values, positions) = self.sort(axis, largest)?;
        Ok((values.narrow(axis, 0, k)?, positions.narrow(axis, 0, k)?))
    }

    /// The element that is number `k` from the least, counted from 1, along `axis`, and its position; the axis stays with size 1
    /// if `keep` (`torch.kthvalue`). NaN counts as largest.
    ///
    /// # Errors
    /// [`Error::Argument`] when `k` is 0 or exceeds the size of the axis.
    #[track_caller]
    pub fn kthvalue(&self, k: usize, axis: isize, keep: bool) -> Result<(Self, Tensor<I64>)> {
        if let Some(line) = self.line(axis)? {
            let (value, position) = line.kthvalue(k, 0, keep)?;
            return Ok((value.reshape(())?, position.reshape(())?));
        }
        let size = self.dims()[shape::axis("kthvalue", axis, self.rank())?];
        if !(1..=size).contains(&k) {
            let expected = format!("from 1 to {size}, the size of axis {axis}");
            return Err(Error::argument("kthvalue", "k", expected, k));
        }
        let (values, positions) = self.topk(k, axis, false)?;
        let (value, position) = (values.narrow(axis, k - 1, 1)?, positions.narrow(axis, k - 1, 1)?);
        if keep { Ok((value, position)) } else { Ok((value.squeeze(axis)?, position.squeeze(axis)?)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("sort", gradcheck(|x| Ok(x[0].sort(0, false)?.0), std::slice::from_ref(&x))),
            ("topk", gradcheck(|x| Ok(x[0].topk(2, -1, true)?.0), std::slice::from_ref(&x))),
            ("kthvalue", gradcheck(|x| Ok(x[0].kthvalue(2, -1, false)?.0), std::slice::from_ref(&x))),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn order_is_stable_and_nan_is_largest() {
        let x = Tensor::<F32>::from_vec(vec![2.0, f32::NAN, 1.0, 2.0], [4], &Device::cpu()).unwrap();
        assert_eq!(x.argsort(0, false).unwrap().to_vec().unwrap(), [2, 0, 3, 1]);
        assert_eq!(x.argsort(0, true).unwrap().to_vec().unwrap(), [1, 0, 3, 2]);
        let (values, positions) = x.to::<BF16>().unwrap().topk(2, 0, false).unwrap();
        assert_eq!(values.to::<F32>().unwrap().to_vec().unwrap(), [1.0, 2.0]);
        assert_eq!(positions.to_vec().unwrap(), [2, 0]);
        assert!(x.topk(5, 0, true).is_err());
        assert_eq!(x.kthvalue(1, 0, true).unwrap().0.to_vec().unwrap(), [1.0]);
        assert_eq!(x.kthvalue(4, 0, false).unwrap().1.item().unwrap(), 1);
        assert_eq!(
            x.kthvalue(0, -1, false).unwrap_err().to_string(),
            "kthvalue: k must be from 1 to 4, the size of axis -1, found 0"
        );
    }
}
