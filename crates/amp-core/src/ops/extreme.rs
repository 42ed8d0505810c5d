//! Largest and least elements and their positions.

use super::kernel::{binary, compare, folded_count, reduce, select, zeros};
use super::matmul::accumulator;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, I64};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Binary, Compare, DType, Reduce};

/// Folds `axes`, which stay with size 1, rounded to `writes` if that is given; the gradient is shared evenly among equals, as
/// in PyTorch.
#[track_caller]
pub(super) fn extreme(
    name: &'static str,
    op: Reduce,
    x: &RawTensor,
    axes: &[usize],
    writes: Option<DType>,
) -> Result<RawTensor> {
    refuse_empty(name, x, axes)?;
    let axes = axes.to_vec();
    record(name, &[x], reduce(op, x, &axes, writes.unwrap_or(x.logical))?.counted(x.logical), |y| {
        let kept = if writes.is_some() { None } else { Some(Saved::new(y)?) };
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            // Elements are compared with the result before it was rounded.
            let again = if kept.is_none() { Some(reduce(op, &x, &axes, x.logical)?) } else { None };
            let y = kept.as_deref().or(again.as_ref()).expect("saved or computed again");
            pass.give(0, among_equals(name, pass, &x, y, &axes)?)
        }))
    })
}

/// The gradient of `y`, which was chosen among the elements along `axes` of `x`, shared evenly by those that equal it.
pub(super) fn among_equals(
    name: &'static str,
    pass: &Pass<'_>,
    x: &RawTensor,
    y: &RawTensor,
    axes: &[usize],
) -> Result<RawTensor> {
    let chosen = compare(name, Compare::Eq, x, y)?;
    // In F32 at least: F16 counts no further than 2048. A result of NaN has no equals and gradients of NaN.
    let count = reduce(Reduce::Sum, &chosen, axes, accumulator(x.logical))?;
    let share = binary(name, Binary::Div, pass.grad(), &count, pass.dtype(0))?;
    let none = binary(name, Binary::Div, &zeros(&count, count.logical)?, &count, pass.dtype(0))?;
    select(name, &chosen, &share, &none, pass.dtype(0))
}

fn refuse_empty(op: &'static str, x: &RawTensor, axes: &[usize]) -> Result<()> {
    let outputs: usize = (0..x.shape().len()).filter(|a| !axes.contains(a)).map(|a| x.shape()[a]).product();
    if outputs > 0 && folded_count(x.shape(), axes) == 0 {
        return Err(Error::Empty { op, shape: x.shape().into() });
    }
    Ok(())
}

fn position<P: Element>(op: &'static str, max: bool, x: &Tensor<P>, axis: isize, keep: bool) -> Result<Tensor<I64>> {
    if let Some(line) = x.line(axis)? {
        return position(op, max, &line, 0, false);
    }
    let axis = shape::axis(op, axis, x.rank())?;
    refuse_empty(op, &x.raw, &[axis])?;
    let buffer = x.raw.backend().arg_reduce(max, x.raw.operand()?, axis)?;
    let kept = super::kernel::folded(x.raw.shape(), &[axis]);
    Tensor::from_raw(RawTensor::new(x.device(), buffer, kept)).drop_axes(&[axis], keep)
}

impl<P: Element> Tensor<P> {
    #[track_caller]
    fn extreme(&self, op: &'static str, reduce: Reduce, axes: impl Axes, keep: bool) -> Result<Self> {
        let axes = shape::axes(op, &axes.as_axes(), self.rank())?;
        Self::from_raw(extreme(op, reduce, &self.raw, &axes, None)?).drop_axes(&axes, keep)
    }

    /// Largest element over `axes` (all when none are given); they stay with size 1 if `keep` (`torch.amax`).
    ///
    /// NaN wins. The gradient is shared evenly among equal elements.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn max(&self, axes: impl Axes, keep: bool) -> Result<Self> {
        self.extreme("max", Reduce::Max, axes, keep)
    }

    /// Least element over `axes` (all when none are given); they stay with size 1 if `keep` (`torch.amin`).
    ///
    /// NaN wins. The gradient is shared evenly among equal elements.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn min(&self, axes: impl Axes, keep: bool) -> Result<Self> {
        self.extreme("min", Reduce::Min, axes, keep)
    }

    /// [`max`](Self::max) under PyTorch's name for the reduction that returns values only.
    #[track_caller]
    pub fn amax(&self, axes: impl Axes, keep: bool) -> Result<Self> {
        self.extreme("amax", Reduce::Max, axes, keep)
    }

    /// [`min`](Self::min) under PyTorch's name for the reduction that returns values only.
    #[track_caller]
    pub fn amin(&self, axes: impl Axes, keep: bool) -> Result<Self> {
        self.extreme("amin", Reduce::Min, axes, keep)
    }

    /// Largest of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn max_all(&self) -> Result<Self> {
        self.extreme("max_all", Reduce::Max, [], false)
    }

    /// Least of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn min_all(&self) -> Result<Self> {
        self.extreme("min_all", Reduce::Min, [], false)
    }

    /// Least and largest element over `axes` (all when none are given), which stay with size 1 if `keep` (`torch.aminmax`).
    ///
    /// # Errors
    /// [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn aminmax(&self, axes: impl Axes, keep: bool) -> Result<(Self, Self)> {
        let axes = &*axes.as_axes();
        Ok((self.extreme("aminmax", Reduce::Min, axes, keep)?, self.extreme("aminmax", Reduce::Max, axes, keep)?))
    }

    /// Position of the largest element along `axis`: the first of equals, NaN before all numbers (`torch.argmax`).
    pub fn argmax(&self, axis: isize, keep: bool) -> Result<Tensor<I64>> {
        position("argmax", true, self, axis, keep)
    }

    /// Position of the least element along `axis`: the first of equals, NaN before all numbers (`torch.argmin`).
    pub fn argmin(&self, axis: isize, keep: bool) -> Result<Tensor<I64>> {
        position("argmin", false, self, axis, keep)
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
            ("max", gradcheck(|x| x[0].max([1], false), std::slice::from_ref(&x))),
            ("min", gradcheck(|x| x[0].min([0], true), std::slice::from_ref(&x))),
            ("max_all", gradcheck(|x| x[0].max_all(), std::slice::from_ref(&x))),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn equals_share_the_gradient() {
        let x = Tensor::<F32>::from_vec(vec![2.0, 1.0, 2.0], [3], &Device::cpu()).unwrap().tracked();
        let grads = x.max_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.5, 0.0, 0.5]);
    }

    #[test]
    fn positions_prefer_the_first_and_nan() {
        let x = Tensor::<F16>::from_vec(
            [1.0, 3.0, 3.0, 0.0, f32::NAN, 9.0].map(f16::from_f32).to_vec(),
            [2, 3],
            &Device::cpu(),
        );
        let x = x.unwrap();
        assert_eq!(x.argmax(-1, false).unwrap().to_vec().unwrap(), [1, 1]);
        assert_eq!(x.argmin(1, true).unwrap().dims(), [2, 1]);
        assert_eq!(x.argmin(1, false).unwrap().to_vec().unwrap(), [0, 1]);
        assert!(x.max_all().unwrap().item().unwrap().is_nan());
    }

    #[test]
    fn nothing_to_choose_from_is_an_error() {
        let x = Tensor::<F32>::zeros([2, 0], &Device::cpu()).unwrap();
        let error = x.max([1], false).unwrap_err();
        assert_eq!(error.to_string(), "max: a tensor of shape [2, 0] has no elements to choose from");
        assert!(x.argmax(1, false).is_err());
        assert_eq!(x.max([0], false).unwrap().dims(), [0]);
    }

    #[test]
    fn more_ties_than_f16_counts_share_the_gradient() {
        let x = Tensor::<F16>::zeros([70_000], &Device::cpu()).unwrap().tracked();
        let grad = Tensor::<F16>::full([1], f16::from_f32(7e4 / 16.0), &Device::cpu()).unwrap();
        let grads = x.max(0, true).unwrap().backward_with(&grad).unwrap();
        let share = grads.get(&x).unwrap().unwrap().to_vec().unwrap();
        assert!(share.iter().all(|s| (s.to_f32() - 0.0625).abs() < 1e-4), "{}", share[0]);
    }

    #[test]
    fn a_result_of_nan_has_gradients_of_nan() {
        let x = Tensor::<F32>::from_vec(vec![1.0, f32::NAN, 2.0, 3.0], [2, 2], &Device::cpu()).unwrap().tracked();
        for y in [x.max(1, false).unwrap(), x.min(1, false).unwrap()] {
            let grads = y.sum_all().unwrap().backward().unwrap();
            let grad = grads.get(&x).unwrap().unwrap().to_vec().unwrap();
            assert!(grad[0].is_nan() && grad[1].is_nan() && grad[2] + grad[3] == 1.0, "{grad:?}");
        }
    }
}
