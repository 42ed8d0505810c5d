//! Parts of a tensor along one axis: nothing is copied, gradients go back to where the part lies.

use super::Tensor;
use crate::autograd::{Pass, part_of, record, spread};
use crate::backend::Operand;
use crate::ops::accumulate;
use crate::precision::Element;
use crate::raw::RawTensor;
use crate::shape::{self, Position};
use crate::{Error, Result};
use amp_cpu::Binary;
use std::ops::{Bound, Range, RangeBounds};

impl<P: Element> Tensor<P> {
    /// `length` elements of `axis` from `start` (`torch.narrow`).
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: usize, length: usize) -> Result<Self> {
        let axis = shape::axis("narrow", axis, self.rank())?;
        self.part("narrow", axis, start..start.saturating_add(length), 1)
    }

    /// Elements `range` of `axis`: `x.slice(1, 2..5)` (half-open; also `..n` and `n..`).
    #[track_caller]
    pub fn slice(&self, axis: isize, range: impl RangeBounds<usize>) -> Result<Self> {
        let at = shape::axis("slice", axis, self.rank())?;
        self.part("slice", at, within(&range, self.dims()[at]), 1)
    }

    /// Every `step`-th of the elements `range` of `axis`, from the first on: PyTorch's `x[:, 1:9:3]` is
    /// `x.slice_step(1, 1..9, 3)`.
    ///
    /// # Errors
    /// [`Error::Argument`] when `step` is 0, [`Error::RangeOutOfBounds`] for a range that is not within the axis.
    #[track_caller]
    pub fn slice_step(&self, axis: isize, range: impl RangeBounds<usize>, step: usize) -> Result<Self> {
        const OP: &str = "slice_step";
        let at = shape::axis(OP, axis, self.rank())?;
        if step == 0 {
            return Err(Error::argument(OP, "step", "at least 1", step));
        }
        self.part(OP, at, within(&range, self.dims()[at]), step)
    }

    /// The tensor at `index` of `axis`, without that axis; a negative index counts from the end (`torch.select`).
    #[track_caller]
    pub fn select(&self, axis: isize, index: impl Position) -> Result<Self> {
        let at = shape::axis("select", axis, self.rank())?;
        let index = shape::position("select", index, self.dims()[at])?;
        self.part("select", at, index..index + 1, 1)?.squeezed("select", &[at])
    }

    /// Every `step`-th of the elements of `range`.
    #[track_caller]
    fn part(&self, op: &'static str, axis: usize, range: Range<usize>, step: usize) -> Result<Self> {
        let (Range { start, end }, size) = (range, self.dims()[axis]);
        if start > end || end > size {
            return Err(Error::RangeOutOfBounds { op, start, end, axis, shape: self.raw.shape().into() });
        }
        // A longer step leads out of the axis too, and has a stride that need not be addressable.
        let step = step.min(size.max(1));
        let mut layout = self.raw.layout;
        layout.shape[axis] = (end - start).div_ceil(step);
        layout.offset += start * layout.strides[axis];
        layout.strides[axis] *= step;
        if layout.count() == 0 {
            layout.offset = 0;
        }
        let out = record(op, &[&self.raw], self.raw.with_layout(layout), |_| {
            Ok(Box::new(move |pass: &mut Pass<'_>| add_part(pass, axis, start, step)))
        })?;
        Ok(Self::from_raw(out))
    }
}

/// The range as it is written, of an axis of `size` elements.
fn within(range: &impl RangeBounds<usize>, size: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&s) => s,
        Bound::Excluded(&s) => s.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&e) => e.saturating_add(1),
        Bound::Excluded(&e) => e,
        Bound::Unbounded => size,
    };
    start..end
}

/// Adds the gradient to elements of the input's gradient, every `step`-th from `start` on along `axis`: what other parts have
/// left there stays, and only the elements concerned are touched, so taking a tensor apart costs no more than its size.
fn add_part(pass: &mut Pass<'_>, axis: usize, start: usize, step: usize) -> Result<()> {
    if step == 1 && pass.give_part(0, axis, start)? {
        return Ok(());
    }
    let (grad, Some(shape)) = (pass.grad().clone(), pass.shape(0)) else { return Ok(()) };
    let (backend, mut at) = (grad.backend(), part_of(shape, *grad.shape(), axis, start));
    at.strides[axis] *= step;
    let fresh = |dtype| spread(&grad, &at, shape.count(), dtype);
    accumulate(pass, 0, None, fresh, |whole| {
        let part = Operand { buffer: whole, layout: &at, logical: whole.dtype() };
        let sum = backend.binary(Binary::Add, part, grad.operand()?, whole.dtype())?;
        backend.copy_into(RawTensor::new(grad.device(), sum, *grad.shape()).operand()?, whole, &at)
    })
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F16, F64, Tensor, gradcheck};

    fn counted(rows: usize, columns: usize) -> Tensor<F64> {
        Tensor::from_fn([rows, columns], |i| (i[0] * columns + i[1]) as f64, &Device::cpu()).unwrap()
    }

    #[test]
    fn a_negative_index_counts_from_the_end() {
        let x = counted(3, 2);
        for (back, front) in [(-1, 2), (-2, 1), (-3, 0usize)] {
            let (a, b) = (x.select(0, back).unwrap(), x.select(0, front).unwrap());
            assert_eq!(a.to_vec().unwrap(), b.to_vec().unwrap());
        }
        for outside in [3, -4, i64::MIN, i64::MAX] {
            let error = x.select(0, outside).unwrap_err().to_string();
            assert_eq!(error, format!("select: index {outside} is out of range for size 3"));
        }
        assert!(x.select(0, usize::MAX).is_err());
    }

    #[test]
    fn parts_that_overlap_add_their_gradients() {
        let x = (counted(3, 5) * 0.3).unwrap();
        let f = |x: &[Tensor<F64>]| {
            let (a, b) = (x[0].narrow(1, 0, 3)?, x[0].narrow(1, 2, 3)?);
            let row = x[0].select(0, 1)?.narrow(0, 1, 3)?;
            (&a * &b)? + (row * x[0].t()?.narrow(0, 1, 3)?.t()?)?
        };
        let worst = gradcheck(f, std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }

    #[test]
    fn steps_leave_out_what_lies_between() {
        let x = counted(2, 7);
        for (range, step, row) in [
            (0..7, 3, vec![0.0, 3.0, 6.0]),
            (1..6, 2, vec![1.0, 3.0, 5.0]),
            (1..5, 2, vec![1.0, 3.0]),
            (2..7, 1, vec![2.0, 3.0, 4.0, 5.0, 6.0]),
            (6..7, usize::MAX, vec![6.0]),
            (7..7, 2, vec![]),
        ] {
            let y = x.slice_step(-1, range.clone(), step).unwrap();
            assert_eq!(y.select(0, 0).unwrap().to_vec().unwrap(), row, "{range:?} by {step}");
            for half in [y.to::<F16>().unwrap().to::<F64>(), y.to::<BF16>().unwrap().to::<F64>()] {
                assert_eq!(half.unwrap().to_vec().unwrap(), y.to_vec().unwrap());
            }
        }
        assert_eq!(x.slice_step(0, .., 2).unwrap().slice_step(1, 1.., 4).unwrap().to_vec().unwrap(), [1.0, 5.0]);
        let error = x.slice_step(1, .., 0).unwrap_err().to_string();
        assert_eq!(error, "slice_step: step must be at least 1, found 0");
        assert!(x.slice_step(1, ..8, 2).is_err() && x.slice_step(2, .., 2).is_err());
    }

    #[test]
    fn gradients_go_to_every_step() {
        let x = (counted(3, 5) * 0.3).unwrap();
        let f = |x: &[Tensor<F64>]| {
            let (odd, even) = (x[0].slice_step(1, 1.., 2)?, x[0].slice_step(1, ..4, 2)?);
            (&odd * &even)? * x[0].t()?.slice_step(0, ..3, 2)?.t()?
        };
        let worst = gradcheck(f, std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }
}
