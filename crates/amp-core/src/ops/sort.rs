//! Sorting and the largest or least few.

use crate::autograd::{Pass, record};
use crate::precision::{Element, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

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
        let x = &self.raw;
        let (values, positions) = x.backend().sort(x.operand()?, axis, descending)?;
        let values = RawTensor::new(x.device(), values, *x.shape());
        let positions = RawTensor::new(x.device(), positions, *x.shape());
        let from = positions.clone();
        let values = record("sort", &[x], values, move |_| {
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                let zero = super::kernel::zeros(&from, pass.dtype(0))?;
                let (base, index, grad) = (zero.operand()?, from.operand()?, pass.grad().operand()?);
                let buffer = from.backend().scatter_add(base, axis, index, grad, pass.dtype(0))?;
                pass.give(0, RawTensor::new(from.device(), buffer, *from.shape()))
            }))
        })?;
        Ok((Self::from_raw(values), Tensor::from_raw(positions)))
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
        let size = self.dims()[shape::axis("topk", axis, self.rank())?];
        if k > size {
            return Err(Error::argument("topk", "k", format!("at most {size}, the size of axis {axis}"), k));
        }
        let (values, positions) = self.sort(axis, largest)?;
        Ok((values.narrow(axis, 0, k)?, positions.narrow(axis, 0, k)?))
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
        ] {
            let worst = worst.unwrap();
            assert!(worst.error <= 1e-6, "{name}: {worst:?}");
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
    }
}
