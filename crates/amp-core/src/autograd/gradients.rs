//! The result of a backward pass, typed by whether it is still multiplied by a loss scale.

use super::engine::{Collected, add};
use super::graph::Differentiable;
use super::peaks::Peaks;
use super::rows::{Rows, Which};
use crate::autograd::IdMap;
use crate::backend::Buffer;
use crate::order::elementwise;
use crate::param::PendingUpdate;
use crate::precision::{Element, F32, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use amp_cpu::{Binary, DType, Dims, Layout, Reduce, Storage, Unary};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// State of gradients that are still multiplied by the loss scale.
#[derive(Clone, Copy, Debug)]
pub struct Scaled;

/// State of gradients at their true size.
#[derive(Clone, Copy, Debug)]
pub struct Unscaled;

/// Bound of everything that needs gradients at their true size: clipping, norms, plain optimizer steps.
#[diagnostic::on_unimplemented(
    message = "these gradients are still multiplied by the loss scale",
    label = "needs unscaled gradients",
    note = "call `let mut grads = scaler.unscale(grads)?;` first, or let `scaler.step(&mut optimizer, grads)` do both"
)]
pub trait IsUnscaled: ScaleState + Sized {
    /// Always the same gradients: there is one implementation.
    #[doc(hidden)]
    fn unscaled(grads: &Gradients<Self>) -> &Gradients<Unscaled>;
}

impl IsUnscaled for Unscaled {
    fn unscaled(grads: &Gradients<Self>) -> &Gradients<Unscaled> {
        grads
    }
}

/// [`Scaled`] or [`Unscaled`].
pub trait ScaleState: 'static {
    /// Whether a loss scale is still in the values.
    #[doc(hidden)]
    const SCALED: bool;
}

impl ScaleState for Scaled {
    const SCALED: bool = true;
}

impl ScaleState for Unscaled {
    const SCALED: bool = false;
}

/// Gradients of one backward pass (or of several, accumulated), by parameter or tensor.
///
/// `S` says whether they are [`Scaled`] by a loss scale; only [`Unscaled`] ones can be read, clipped or stepped with.
/// Factors (the inverse of the loss scale, a clipping coefficient) are remembered and applied by the kernel that reads
/// the gradients next: unscaling and clipping cost no pass of their own.
#[must_use = "gradients change nothing until an optimizer steps with them"]
pub struct Gradients<S = Unscaled> {
    pub(crate) grads: IdMap<RawTensor>,
    /// Which rows those gradients hold that are not whole: F32 `[K, ..]` of a table `[V, ..]`, each row once.
    pub(crate) rows: IdMap<Which>,
    pending: Mutex<Vec<PendingUpdate>>,
    pub(crate) scale: ScaleTag,
    /// What the stored values are still to be multiplied by: F32, one element each.
    pub(crate) factors: Vec<Buffer>,
    /// What the backward pass saw of the stored values.
    peaks: Peaks,
    /// The check at the time of unscaling: it decides about the step, whatever comes later.
    pub(crate) checked: Option<Checked>,
    /// Whether `checked` holds sums of squares of the present values.
    fresh: bool,
    /// Whether the values were clipped or replaced since `checked`.
    changed: bool,
    state: PhantomData<S>,
}

/// Which scaler multiplied these gradients; ties them to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScaleTag {
    /// Identity of the scaler, 0 for none.
    pub(crate) scaler: u64,
    /// The scaler's update count when the loss was scaled: gradients of different scales cannot be mixed.
    pub(crate) round: u64,
}

/// A number for each gradient that is finite exactly when the gradient is (its sum of squares, or its largest magnitude),
/// and where each one stands.
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
    pub(crate) fn new(collected: Collected, scale: ScaleTag, inverse: Option<Buffer>) -> Self {
        let Collected { grads, rows, pending, peaks, .. } = collected;
        let (pending, factors) = (Mutex::new(pending), inverse.into_iter().collect());
        Self {
            grads,
            rows,
            pending,
            scale,
            factors,
            peaks,
            checked: None,
            fresh: false,
            changed: false,
            state: PhantomData,
        }
    }

    /// An empty set to [`add`](Self::add) micro-batches to.
    pub fn accumulator() -> Self {
        Self::new(Collected::default(), ScaleTag::default(), None)
    }

    /// Whether there is no gradient at all.
    pub fn is_empty(&self) -> bool {
        self.grads.is_empty()
    }

    /// Number of tensors with a gradient.
    pub fn len(&self) -> usize {
        self.grads.len()
    }

    /// The same gradients counted as in state `T`; the scaler alone may say so.
    pub(crate) fn into_state<T>(self) -> Gradients<T> {
        let Self { grads, rows, pending, scale, factors, peaks, checked, fresh, changed, .. } = self;
        Gradients { grads, rows, pending, scale, factors, peaks, checked, fresh, changed, state: PhantomData }
    }

    /// Adds the gradients of another micro-batch, in F32 for parameters.
    ///
    /// Scaled ones are best added before they are unscaled, which then costs one pass for all. Where unscaled ones are
    /// added, what a check has found to be infinite or NaN stays so, even if it was clipped or replaced since.
    ///
    /// # Errors
    /// [`Error::MixedScales`] when the two were scaled by different scalers, or with an `update` in between.
    pub fn add(&mut self, mut other: Self) -> Result<()> {
        if self.is_empty() {
            (self.scale, self.factors) = (other.scale, std::mem::take(&mut other.factors));
        } else if S::SCALED && !other.is_empty() && self.scale != other.scale {
            return Err(Error::MixedScales);
        } else if !self.same_factors(&other) {
            self.multiply_out()?;
            other.multiply_out()?;
        }
        self.forget_check()?;
        other.forget_check()?;
        if self.scale.scaler == 0 {
            self.scale = other.scale;
        }
        for (id, grad) in other.grads {
            let (peak, which) = (other.peaks.0.remove(&id), other.rows.remove(&id));
            let sum = match self.grads.remove(&id) {
                Some(earlier) => {
                    self.peaks.add(id, peak.filter(|_| earlier.logical == DType::F32));
                    self.added(id, earlier, grad, which)?
                }
                None => {
                    self.peaks.0.extend(peak.map(|peak| (id, peak)));
                    self.rows.extend(which.map(|which| (id, which)));
                    grad
                }
            };
            self.grads.insert(id, sum);
        }
        let landed = other.pending.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.pending.get_mut().unwrap_or_else(PoisonError::into_inner).extend(landed);
        Ok(())
    }

    /// The sum of two gradients of leaf `id`, as rows if both are.
    fn added(&mut self, id: u64, a: RawTensor, b: RawTensor, b_rows: Option<Which>) -> Result<RawTensor> {
        let dense = |which: Option<Which>, values: RawTensor| match which {
            Some(which) => Rows { which, values }.dense(),
            None => Ok(values),
        };
        match (self.rows.remove(&id), b_rows) {
            (Some(a_rows), Some(b_rows)) => {
                let parts = [Rows { which: a_rows, values: a }, Rows { which: b_rows, values: b }];
                let Rows { which, values } = Rows::coalesced(&parts)?;
                self.rows.insert(id, which);
                Ok(values)
            }
            (a_rows, b_rows) => {
                let (a, b) = (dense(a_rows, a)?, dense(b_rows, b)?);
                add(&a, &b, a.logical)
            }
        }
    }

    /// The gradient of leaf `id` as it is stored, but whole.
    pub(crate) fn whole(&self, id: u64) -> Result<Option<RawTensor>> {
        let Some(grad) = self.grads.get(&id) else { return Ok(None) };
        match self.rows.get(&id) {
            Some(which) => Rows { which: which.clone(), values: grad.clone() }.dense().map(Some),
            None => Ok(Some(grad.clone())),
        }
    }

    fn same_factors(&self, other: &Self) -> bool {
        self.factors.len() == other.factors.len() && self.factors.iter().zip(&other.factors).all(|(a, b)| a.is(b))
    }

    /// Applies the remembered factors to the stored values.
    fn multiply_out(&mut self) -> Result<()> {
        if !self.factors.is_empty() {
            for grad in self.grads.values_mut() {
                *grad = self.factors.iter().try_fold(grad.clone(), |grad, factor| times(&grad, factor))?;
            }
            self.factors.clear();
            self.peaks.0.clear();
        }
        Ok(())
    }

    /// Makes way for a check of sums with other gradients. What the present one has found is marked by NaN in the gradients
    /// themselves, where changes since may have hidden it.
    fn forget_check(&mut self) -> Result<()> {
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

    /// The gradient of leaf `id` at its true size, if there is one.
    fn true_size(&self, id: u64) -> Result<Option<RawTensor>> {
        let Some(grad) = self.whole(id)? else { return Ok(None) };
        self.factors.iter().try_fold(grad, |grad, factor| times(&grad, factor)).map(Some)
    }

    /// State changes of the forward passes; each is handed out once.
    pub(crate) fn take_pending(&self) -> Vec<PendingUpdate> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the backward pass saw of a gradient: for tests.
    #[cfg(test)]
    pub(crate) fn peak(&self, id: u64) -> Option<f32> {
        self.peaks.0.get(&id).copied()
    }

    fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.grads.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The check that needs no look at the gradients, because the backward pass had one at each of them.
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
        // A bound that overflows says nothing, unlike a magnitude.
        if peaks.iter().any(|peak| peak.is_finite() && !(peak * factor).is_finite()) {
            return Ok(None);
        }
        let peaks = Storage::F64(peaks.into_iter().map(f64::from).collect());
        Ok(Some(Checked::new(&device, device.backend().upload(peaks)?, ids)))
    }

    /// Sums of squares of the gradients at their true size, in one pass over them.
    fn square_sums(&self) -> Result<Option<Checked>> {
        let ids = self.ids();
        let Some(first) = ids.first() else { return Ok(None) };
        let device = self.grads[first].device().clone();
        for id in &ids {
            self.grads[id].device().check_same(&device, "gradients")?;
        }
        let flat = ids.iter().map(|id| flat(&self.grads[id])).collect::<Result<Vec<_>>>()?;
        let operands = flat.iter().map(RawTensor::operand).collect::<Result<Vec<_>>>()?;
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

    /// The check that decides about a step: that of the time of unscaling, or one of now.
    pub(crate) fn decisive(&self) -> Result<Checked> {
        if let Some(checked) = self.checked.clone().map_or_else(|| self.seen(), |checked| Ok(Some(checked)))? {
            return Ok(checked);
        }
        self.square_sums()?.ok_or(Error::NothingChecked)
    }

    fn sums_now(&self) -> Result<Option<Checked>> {
        if self.fresh { Ok(self.checked.clone()) } else { self.square_sums() }
    }
}

/// F32 and contiguous, as the multi-tensor kernels want gradients.
pub(crate) fn flat(grad: &RawTensor) -> Result<RawTensor> {
    grad.cast_view(DType::F32)?.contiguous()
}

/// Whether the gradient is as [`flat`] would make it.
pub(crate) fn is_flat(grad: &RawTensor) -> bool {
    (grad.logical, grad.value.buffer.dtype()) == (DType::F32, DType::F32) && grad.layout.is_contiguous()
}

/// `grad * factor`, in the precision of `grad`.
fn times(grad: &RawTensor, factor: &Buffer) -> Result<RawTensor> {
    multiplied(grad, &RawTensor::new(grad.device(), factor.clone(), Dims::default()))
}

fn multiplied(grad: &RawTensor, factor: &RawTensor) -> Result<RawTensor> {
    let factor = factor.broadcast_to("mul", grad.shape())?;
    elementwise([grad, &factor], |backend, [x, factor]| backend.binary(Binary::Mul, x, factor, grad.logical))
}

/// Clipping, norms and reading need gradients at their true size; the bound says so in the user's words.
impl<S: ScaleState> Gradients<S> {
    /// The gradient of a parameter or tensor; `None` when it did not take part.
    pub fn get<P: Element>(&self, of: &(impl Differentiable + Typed<P>)) -> Result<Option<Tensor<P>>>
    where
        S: IsUnscaled,
    {
        let Some(id) = of.grad_id() else { return Ok(None) };
        let Some(raw) = self.true_size(id)? else { return Ok(None) };
        Ok(Some(Tensor::from_raw(raw.cast_view(P::DTYPE)?)))
    }

    /// The rows of a table that have a gradient, in ascending order `[K]`, and their gradients `[K, ..]`; `None` when the
    /// gradient is not sparse. [`get`](Self::get) gives the whole, with zeros.
    pub fn rows(&self, of: &(impl Differentiable + Typed<F32>)) -> Result<Option<(Tensor<I64>, Tensor<F32>)>>
    where
        S: IsUnscaled,
    {
        let Some(id) = of.grad_id() else { return Ok(None) };
        let (Some(which), Some(grad)) = (self.rows.get(&id), self.grads.get(&id)) else { return Ok(None) };
        let values = self.factors.iter().try_fold(grad.clone(), |grad, factor| times(&grad, factor))?;
        Ok(Some((Tensor::from_raw(which.index.clone()), Tensor::from_raw(values))))
    }

    /// The L2 norm of all gradients together, accumulated in F64; not finite when a gradient is not.
    pub fn norm(&self) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        self.global_norm()
    }

    /// Scales all gradients down so that their common L2 norm is at most `max`, and returns the norm before
    /// (`torch.nn.utils.clip_grad_norm_`).
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    pub fn clip_norm(&mut self, max: f32) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        if max.is_nan() || max < 0.0 {
            return Err(Error::argument("clip_norm", "max", "at least 0", max));
        }
        self.check()?;
        let norm = self.global_norm()?;
        if !self.is_empty() {
            self.factors.push(clip_factor(&norm.raw, f64::from(max))?);
            self.fresh = false;
        }
        Ok(norm)
    }

    /// Limits every element to `-max..=max` (`torch.nn.utils.clip_grad_value_`). NaN stays NaN.
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    pub fn clip_value(&mut self, max: f32) -> Result<()>
    where
        S: IsUnscaled,
    {
        if max.is_nan() || max < 0.0 {
            return Err(Error::argument("clip_value", "max", "at least 0", max));
        }
        let max = f64::from(max);
        // The decision to step is taken on the values before clipping, where an infinity still shows.
        self.check()?;
        self.multiply_out()?;
        (self.fresh, self.changed) = (false, true);
        for grad in self.grads.values_mut() {
            let op = Unary::Clamp { min: -max, max };
            *grad = elementwise([grad], |backend, [x]| backend.unary(op, x, grad.logical))?;
        }
        Ok(())
    }

    /// Replaces the gradient of one parameter or tensor, for rules of one's own.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes differ or there is no such gradient.
    pub fn set<P: Element>(&mut self, of: &(impl Differentiable + Typed<P>), grad: &Tensor<P>) -> Result<()>
    where
        S: IsUnscaled,
    {
        let found = *grad.raw.shape();
        self.check()?;
        self.multiply_out()?;
        (self.fresh, self.changed) = (false, true);
        if let Some(id) = of.grad_id()
            && let Some(whole) = self.whole(id)?
        {
            self.grads.insert(id, whole);
            self.rows.remove(&id);
        }
        let Some(slot) = of.grad_id().and_then(|id| self.grads.get_mut(&id)) else {
            return Err(Error::Shape {
                op: "set",
                what: "the new gradient",
                expected: "of no gradient".into(),
                found: found.into(),
            });
        };
        if *slot.shape() != found {
            let expected = format!("{:?}", slot.shape());
            return Err(Error::Shape { op: "set", what: "the new gradient", expected, found: found.into() });
        }
        *slot = grad.raw.cast_view(slot.logical)?;
        Ok(())
    }

    fn global_norm(&self) -> Result<Tensor<F32>> {
        let Some(Checked { sums, .. }) = self.sums_now()? else { return Tensor::zeros((), &Device::cpu()) };
        let device = sums.device();
        let total = device.backend().reduce(Reduce::Sum, sums.operand()?, &[0], DType::F64)?;
        let total = RawTensor::new(device, total, Dims::default());
        let norm = device.backend().unary(Unary::Sqrt, total.operand()?, DType::F32)?;
        Ok(Tensor::from_raw(RawTensor::new(device, norm, Dims::default())))
    }
}

/// `min(1, max / (norm + 1e-6))`, where the tensors are.
fn clip_factor(norm: &RawTensor, max: f64) -> Result<Buffer> {
    let steps = [
        Unary::Affine { mul: 1.0, add: 1e-6 },
        Unary::Recip,
        Unary::Affine { mul: max, add: 0.0 },
        Unary::Clamp { min: 0.0, max: 1.0 },
    ];
    let factor = steps.into_iter().try_fold(norm.detached(), |x, step| {
        let buffer = x.backend().unary(step, x.operand()?, DType::F32)?;
        Ok::<_, Error>(RawTensor::new(x.device(), buffer, Dims::default()))
    })?;
    Ok(factor.value.buffer.clone())
}

/// Ties a differentiable thing to the precision of its gradient.
pub trait Typed<P: Element> {}

impl<P: Element> Typed<P> for Tensor<P> {}

impl<S: ScaleState> fmt::Debug for Gradients<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradients({} tensors)", self.grads.len())
    }
}
