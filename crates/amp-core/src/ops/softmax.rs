//! Softmax, its logarithm, and log-sum-exp.

use super::kernel::{binary, folded, unary};
use crate::autograd::{Pass, Saved, record};
use crate::order::{order_of, tensor, walk};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Result, shape};
use amp_cpu::{Binary, DType, Unary};

full_range! {
    SoftmaxPrecision, "`softmax` must run in `F32`";
    SoftminPrecision: SoftmaxPrecision, "`softmin` must run in `F32`";
    LogSoftmaxPrecision, "`log_softmax` must run in `F32`";
    LogsumexpPrecision, "`logsumexp` must run in `F32`";
}

/// Softmax or its logarithm, rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn softmax(
    name: &'static str,
    log: bool,
    x: &RawTensor,
    axis: isize,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let axis = shape::axis(name, axis, x.shape().len())?;
    let out = writes.unwrap_or(x.logical);
    let forward = move |x: &RawTensor, out| -> Result<RawTensor> {
        let order = order_of([x]);
        let along = order.axis(axis, x.shape().len());
        let buffer = walk(order, [x], |backend, [x]| backend.softmax(x, along, log, out))?;
        Ok(tensor(order, x.device(), buffer, *x.shape()).counted(x.logical))
    };
    record(name, &[x], forward(x, out)?, |y| {
        // The gradient needs the result before it was rounded; computed again from the input it has the same bits.
        let rounded = out != x.logical;
        let saved = Saved::new(if rounded { x } else { y })?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (order, dtype) = (order_of([&*saved]), pass.dtype(0));
            let along = order.axis(axis, saved.shape().len());
            let of_result = |y: &RawTensor, grad: &RawTensor| {
                walk(order, [y, grad], |backend, [y, grad]| backend.softmax_grad(y, grad, along, log, dtype))
            };
            let of_input = |x: &RawTensor, grad: &RawTensor| {
                walk(order, [x, grad], |backend, [x, grad]| backend.softmax_grad_of_input(x, grad, along, log, dtype))
            };
            let buffer = if rounded {
                let at_once = of_input(&saved, pass.grad())?;
                at_once.map_or_else(|| of_result(&forward(&saved, saved.logical)?, pass.grad()), Ok)?
            } else {
                of_result(&saved, pass.grad())?
            };
            pass.give(0, tensor(order, saved.device(), buffer, *saved.shape()))
        }))
    })
}

/// Log-sum-exp, rounded to `writes` if that is given.
#[track_caller]
fn logsumexp(x: &RawTensor, axis: usize, writes: Option<DType>) -> Result<RawTensor> {
    let forward = move |x: &RawTensor, out| -> Result<RawTensor> {
        let buffer = x.backend().logsumexp(x.operand()?, axis, out)?;
        Ok(RawTensor::written(x.device(), buffer, folded(x.shape(), &[axis]), x.logical))
    };
    record("logsumexp", &[x], forward(x, writes.unwrap_or(x.logical))?, |y| {
        // The gradient needs the result before it was rounded; computed again from the input it has the same bits.
        let kept = if writes.is_some() { None } else { Some(Saved::new(y)?) };
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let again = if kept.is_none() { Some(forward(&x, x.logical)?) } else { None };
            let y = kept.as_deref().or(again.as_ref()).expect("saved or computed again");
            let shifted = binary("logsumexp", Binary::Sub, &x, y, x.logical)?;
            let share = unary(Unary::Exp, &shifted, x.logical)?;
            pass.give(0, binary("logsumexp", Binary::Mul, &share, pass.grad(), pass.dtype(0))?)
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// `exp(x) / Σ exp(x)` along `axis` (`torch.softmax`); a line of nothing but -inf gives NaN.
    ///
    /// # Precision
    /// Lines are shifted by their largest element and summed in F32 (F64 for F64), in one pass over memory.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Result<Self>
    where
        P: SoftmaxPrecision,
    {
        if let Some(line) = self.line(axis)? {
            return line.softmax(0)?.reshape(());
        }
        Ok(Self::from_raw(softmax("softmax", false, &self.raw, axis, P::WRITES)?))
    }

    /// [`softmax`](Self::softmax) of `-x` (`F.softmin`).
    #[track_caller]
    pub fn softmin(&self, axis: isize) -> Result<Self>
    where
        P: SoftminPrecision,
    {
        self.neg()?.softmax(axis).map_err(|error| error.named("softmin"))
    }

    /// Logarithm of [`softmax`](Self::softmax) along `axis`, without the underflow (`torch.log_softmax`).
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Result<Self>
    where
        P: LogSoftmaxPrecision,
    {
        if let Some(line) = self.line(axis)? {
            return line.log_softmax(0)?.reshape(());
        }
        Ok(Self::from_raw(softmax("log_softmax", true, &self.raw, axis, P::WRITES)?))
    }

    /// `ln(Σ exp(x))` over `axes` (all when none are given); they stay with size 1 if `keep` (`torch.logsumexp`).
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: LogsumexpPrecision,
    {
        let axes = shape::axes("logsumexp", &axes.as_axes(), self.rank())?;
        match axes[..] {
            [] => self.unsqueeze(0)?.logsumexp(0, false),
            [axis] => Self::from_raw(logsumexp(&self.raw, axis, P::WRITES)?).drop_axes(&[axis], keep),
            _ => {
                // As one axis behind the others.
                let behind: Vec<isize> = (1..=axes.len() as isize).rev().map(|place| -place).collect();
                let moved = self.movedim(axes.iter().map(|&axis| axis as isize).collect::<Vec<_>>(), &behind)?;
                let y = moved.flatten(behind[0], -1)?.logsumexp(-1, false)?;
                if keep { y.reshape(folded(self.raw.shape(), &axes)) } else { Ok(y) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, Tensor, gradcheck};
    use half::f16;

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("softmax", gradcheck(|x| x[0].softmax(-1), std::slice::from_ref(&x))),
            ("softmax of columns", gradcheck(|x| x[0].softmax(0), std::slice::from_ref(&x))),
            ("softmin", gradcheck(|x| x[0].softmin(-1), std::slice::from_ref(&x))),
            ("log_softmax", gradcheck(|x| x[0].t()?.log_softmax(1), std::slice::from_ref(&x))),
            ("logsumexp", gradcheck(|x| x[0].logsumexp(1, false), std::slice::from_ref(&x))),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn widened_half_tensors_are_read_as_they_are() {
        let x = Tensor::<F16>::from_vec([1.0, 2.0, 11.0].map(f16::from_f32).to_vec(), [3], &Device::cpu()).unwrap();
        let x = x.tracked();
        let y = x.to::<F32>().unwrap().log_softmax(0).unwrap();
        let expected = (x.to::<F64>().unwrap().log_softmax(0).unwrap()).to_vec().unwrap();
        for (y, e) in y.to_vec().unwrap().iter().zip(expected) {
            assert!((f64::from(*y) - e).abs() <= 1e-6, "{y} is not {e}");
        }
        let grads = y.select(0, 0).unwrap().backward();
        assert!(grads.unwrap().get(&x).unwrap().is_some());
    }

    #[test]
    fn masked_lines() {
        let inf = f32::INFINITY;
        let x = Tensor::<F32>::from_vec(vec![-inf, -inf, -inf, 0.0], [2, 2], &Device::cpu()).unwrap();
        let y = x.softmax(1).unwrap().to_vec().unwrap();
        assert!(y[0].is_nan() && y[1].is_nan());
        assert_eq!(y[2..], [0.0, 1.0]);
        assert_eq!(x.logsumexp(1, true).unwrap().to_vec().unwrap(), [-inf, 0.0]);
    }

    #[test]
    fn sums_of_exponentials_run_over_several_axes() -> crate::Result<()> {
        let x = crate::testing::wave(&[2, 3, 4]);
        for (axes, dims) in [(&[0, 2][..], &[1, 3, 1][..]), (&[-1, 1], &[2, 1, 1]), (&[], &[1, 1, 1])] {
            let (axes, expected) = (axes.to_vec(), x.exp()?.sum(axes.to_vec(), true)?.log()?);
            let y = x.logsumexp(&axes, true)?;
            assert_eq!(y.dims(), dims);
            // Sums of 24 terms and a logarithm of each.
            assert!(y.allclose(&expected, 0.0, 1e-13)?, "{axes:?}");
            assert_eq!(x.logsumexp(&axes, false)?.count(), expected.count());
            let worst = gradcheck(|x| x[0].logsumexp(&axes, false), std::slice::from_ref(&x))?;
            assert!(worst.agrees(), "{axes:?}: {worst:?}");
        }
        Ok(())
    }
}
