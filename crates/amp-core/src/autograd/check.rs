//! The check of gradients for overflow: made once, when they are unscaled; it decides about the step, whatever is done to the
//! gradients afterwards.

use super::gradients::multiplied;
use super::{Gradients, IdMap, ScaleState};
use crate::backend::Buffer;
use crate::order::elementwise;
use crate::raw::RawTensor;
use crate::{Device, Error, Result};
use amp_cpu::{DType, Dims, Layout, Storage, Unary};
use std::borrow::Cow;
use std::sync::Arc;

/// A number for each gradient that is finite exactly when the gradient is (its sum of squares, or its largest magnitude),
/// and the place of each in the list.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) sums: RawTensor,
    pub(crate) index: Arc<IdMap<usize>>,
}

impl Checked {
    fn new(device: &Device, sums: Buffer, ids: Vec<u64>) -> Self {
        let shape = Dims::new(&[ids.len()]).expect("one dimension");
        let index = ids.into_iter().enumerate().map(|(i, id)| (id, i)).collect();
        Self { sums: RawTensor::new(device, sums, shape), index: Arc::new(index) }
    }

    /// Whether both are the same check.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.index, &other.index)
    }
}

impl<S: ScaleState> Gradients<S> {
    /// Drops the check, because the gradients are going to be added to others and checked anew.
    ///
    /// Clipping or replacing gradients since may have hidden what the check found: then NaN marks it in the gradients.
    pub(super) fn forget_check(&mut self) -> Result<()> {
        let (checked, changed) = (self.checked.take(), std::mem::take(&mut self.changed));
        self.fresh = false;
        let Some(Checked { sums, index }) = checked.filter(|_| changed && self.scale.scaler != 0) else {
            return Ok(());
        };
        let mark = Unary::Affine { mul: 0.0, add: 1.0 };
        let marks = elementwise([&sums], |backend, [sums]| backend.unary(mark, sums, DType::F64))?;
        for (id, grad) in &mut self.grads {
            if let Some(&offset) = index.get(id) {
                let one = Layout { offset, ..Layout::contiguous(Dims::default()) };
                *grad = multiplied(grad, &marks.with_layout(one).cast_view(DType::F32)?)?;
            }
        }
        Ok(())
    }

    fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.grads.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The check from the magnitudes that the backward pass took, if it took that of every gradient.
    fn seen(&self) -> Result<Option<Checked>> {
        let ids = self.ids();
        let peaks: Option<Vec<f32>> = ids.iter().map(|id| self.peaks.0.get(id).copied()).collect();
        let (Some(peaks), Some(first)) = (peaks, ids.first()) else { return Ok(None) };
        let device = self.grads[first].device().clone();
        let mut factor = 1.0;
        for buffer in &self.factors {
            let Storage::F32(values) = device.backend().download(buffer)? else { return Ok(None) };
            factor *= values[0];
        }
        // A bound may overflow although every element is finite.
        if peaks.iter().any(|peak| peak.is_finite() && !(peak * factor).is_finite()) {
            return Ok(None);
        }
        let peaks = Storage::F64(peaks.into_iter().map(f64::from).collect());
        Ok(Some(Checked::new(&device, device.backend().upload(peaks)?, ids)))
    }

    /// Sums of squares of the gradients at their true size, in one pass over them.
    fn square_sums(&self) -> Result<Option<Checked>> {
        self.square_sums_of(self.ids())
    }

    /// As [`square_sums`](Self::square_sums), of some that are there.
    pub(super) fn square_sums_of(&self, ids: Vec<u64>) -> Result<Option<Checked>> {
        let Some(first) = ids.first() else { return Ok(None) };
        let device = self.grads[first].device().clone();
        for id in &ids {
            self.grads[id].device().check_same(&device, "gradients")?;
        }
        let flat = ids.iter().map(|id| flat(&self.grads[id])).collect::<Result<Vec<_>>>()?;
        let operands = flat.iter().map(|grad| grad.operand()).collect::<Result<Vec<_>>>()?;
        let factors: Vec<&Buffer> = self.factors.iter().collect();
        let sums = device.backend().square_sums(&operands, &factors)?;
        Ok(Some(Checked::new(&device, sums, ids)))
    }

    /// Checks the gradients once; what is done to them afterwards does not change the decision.
    pub(crate) fn check(&mut self) -> Result<Option<&Checked>> {
        if self.checked.is_none() {
            self.checked = self.seen()?;
        }
        if self.checked.is_none() {
            self.checked = self.square_sums()?;
            self.fresh = true;
        }
        Ok(self.checked.as_ref())
    }

    /// The check that decides about a step: the one made at unscaling, otherwise a new one.
    pub(crate) fn decisive(&self) -> Result<Checked> {
        if let Some(checked) = self.checked.clone().map_or_else(|| self.seen(), |checked| Ok(Some(checked)))? {
            return Ok(checked);
        }
        self.square_sums()?.ok_or(Error::NothingChecked)
    }

    pub(super) fn sums_now(&self) -> Result<Option<Checked>> {
        if self.fresh { Ok(self.checked.clone()) } else { self.square_sums() }
    }
}

/// The gradient in F32 and contiguous, as the multi-tensor kernels need it.
pub(crate) fn flat(grad: &RawTensor) -> Result<Cow<'_, RawTensor>> {
    let is_flat = (grad.logical, grad.value.buffer.dtype()) == (DType::F32, DType::F32) && grad.layout.is_contiguous();
    if is_flat { Ok(Cow::Borrowed(grad)) } else { grad.cast_view(DType::F32)?.contiguous().map(Cow::Owned) }
}
