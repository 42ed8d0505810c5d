//! The result of a backward pass, typed by whether it is still multiplied by a loss scale.

use super::check::Checked;
use super::engine::Collected;
use super::graph::Differentiable;
use super::pass::add;
use super::peaks::Peaks;
use super::rows::{Rows, Which};
use super::scale_state::{IsUnscaled, ScaleState, ScaleTag, Unscaled};
use super::shown::Shown;
use crate::autograd::{IdMap, IdSet};
use crate::backend::Buffer;
use crate::locks::{lock, unlocked};
use crate::order::elementwise;
use crate::param::{Parameter, PendingUpdate};
use crate::precision::{Element, F32, I64};
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, Dims};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Mutex;

/// Gradients of one backward pass, or the sum of several, by parameter or tensor.
///
/// `S` says whether they are still [`Scaled`](super::Scaled) by a loss scale; only [`Unscaled`] ones can be read, clipped or
/// stepped with. Unscaling and clipping cost no pass of their own: their factors are remembered, and the kernel that reads
/// the gradients next applies them.
///
/// ```
/// # use amp_core::{optim::{Optimizer, Sgd}, Device, Gradients, Parameter, Tensor};
/// let w = Parameter::new(&Tensor::ones([2], &Device::cpu())?)?;
/// let mut optimizer = Sgd::new([w.clone()], 0.1);
///
/// let mut grads = Gradients::accumulator();
/// for factor in [1.0, 3.0] {
///     let loss = (w.tensor() * factor)?.sum_all()?; // of one micro-batch
///     grads.add(loss.backward()?)?;
/// }
/// assert_eq!(grads.get(&w)?.expect("the losses depend on w").to_vec()?, [4.0, 4.0]);
///
/// let norm = grads.clip_norm(1.0)?; // the norm before clipping
/// assert!((norm.item()? - 32.0_f32.sqrt()).abs() <= 32.0_f32.sqrt() * f32::EPSILON);
/// optimizer.step(&grads)?;
/// # Ok::<_, amp_core::Error>(())
/// ```
#[must_use = "gradients change nothing until an optimizer steps with them"]
pub struct Gradients<S = Unscaled> {
    pub(crate) grads: IdMap<RawTensor>,
    /// Of intermediate results, to be seen only.
    shown: Shown,
    /// Which rows of its table `[V, ..]` a sparse gradient holds: it is F32 `[K, ..]`, each row once.
    pub(crate) rows: IdMap<Which>,
    pending: Mutex<Vec<PendingUpdate>>,
    pub(crate) scale: ScaleTag,
    /// What the stored values are still to be multiplied by: F32, one element each.
    pub(crate) factors: Vec<Buffer>,
    /// What the backward pass saw of the stored values.
    pub(super) peaks: Peaks,
    /// The check at the time of unscaling: it decides about the step, whatever comes later.
    pub(crate) checked: Option<Checked>,
    /// Whether `checked` holds sums of squares of the present values.
    pub(super) fresh: bool,
    /// Whether the values were clipped or replaced since `checked`.
    pub(super) changed: bool,
    state: PhantomData<S>,
}

impl<S: ScaleState> Gradients<S> {
    pub(crate) fn new(collected: Collected, scale: ScaleTag, inverse: Option<Buffer>) -> Self {
        let Collected { mut grads, shown, rows, pending, peaks, .. } = collected;
        let (pending, factors) = (Mutex::new(pending), inverse.into_iter().collect::<Vec<_>>());
        let shown = shown.into_iter().filter_map(|id| Some((id, grads.remove(&id)?))).collect();
        Self {
            grads,
            shown: Shown::new(shown, factors.clone()),
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
        self.len() == 0
    }

    /// Number of tensors with a gradient, intermediate results that `retain_grad` shows among them.
    pub fn len(&self) -> usize {
        self.grads.len() + self.shown.len()
    }

    /// The same gradients in state `T`; only a scaler may decide that.
    pub(crate) fn into_state<T>(self) -> Gradients<T> {
        let Self { grads, shown, rows, pending, scale, factors, peaks, checked, fresh, changed, .. } = self;
        Gradients { grads, shown, rows, pending, scale, factors, peaks, checked, fresh, changed, state: PhantomData }
    }

    /// Adds the gradients of another micro-batch, in F32 for parameters.
    ///
    /// Add scaled gradients before they are unscaled, which then is one pass for all of them. Where unscaled ones are added, a
    /// gradient that a check has found to be infinite or NaN stays so, even if it was clipped or replaced since.
    ///
    /// # Errors
    /// [`Error::MixedScales`] when the two were scaled by different scalers, or with an `update` in between.
    pub fn add(&mut self, mut other: Self) -> Result<()> {
        if self.is_empty() {
            (self.scale, self.factors) = (other.scale, std::mem::take(&mut other.factors));
        } else if S::SCALED && !other.is_empty() && self.scale != other.scale {
            return Err(Error::MixedScales);
        } else if !same_factors(&self.factors, &other.factors) {
            self.multiply_out()?;
            other.multiply_out()?;
        }
        self.forget_check()?;
        other.forget_check()?;
        if self.scale.scaler == 0 {
            self.scale = other.scale;
        }
        self.shown.add(other.shown)?;
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
        let landed = std::mem::take(unlocked(&mut other.pending));
        unlocked(&mut self.pending).extend(landed);
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

    /// Applies the remembered factors to the stored values.
    pub(super) fn multiply_out(&mut self) -> Result<()> {
        if !self.factors.is_empty() {
            for grad in self.grads.values_mut() {
                *grad = at_true_size(grad, &self.factors)?;
            }
            self.factors.clear();
            self.peaks.0.clear();
        }
        Ok(())
    }

    /// The gradient of leaf `id` at its true size, if there is one.
    fn true_size(&self, id: u64) -> Result<Option<RawTensor>> {
        let Some(grad) = self.whole(id)? else { return self.shown.get(id) };
        at_true_size(&grad, &self.factors).map(Some)
    }

    /// State changes of the forward passes; each is handed out once.
    pub(crate) fn take_pending(&self) -> Vec<PendingUpdate> {
        std::mem::take(&mut *lock(&self.pending))
    }

    /// The changes of layers that one of `parameters` belongs to, and of layers without any gradient, which no optimizer's step
    /// could claim.
    pub(crate) fn take_pending_of(&self, parameters: &[Parameter]) -> Vec<PendingUpdate> {
        let trained: IdSet = parameters.iter().map(Parameter::id).collect();
        let decided = |update: &mut PendingUpdate| {
            let ids = update.parameters();
            ids.iter().any(|id| trained.contains(id)) || !ids.iter().any(|id| self.grads.contains_key(id))
        };
        lock(&self.pending).extract_if(.., decided).collect()
    }

    /// What the backward pass saw of a gradient: for tests.
    #[cfg(test)]
    pub(crate) fn peak(&self, id: u64) -> Option<f32> {
        self.peaks.0.get(&id).copied()
    }
}

/// Whether these are the same remembered factors.
pub(super) fn same_factors(a: &[Buffer], b: &[Buffer]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.ptr_eq(b))
}

/// `grad` times all of the remembered factors.
pub(super) fn at_true_size(grad: &RawTensor, factors: &[Buffer]) -> Result<RawTensor> {
    factors.iter().try_fold(grad.clone(), |grad, factor| times(&grad, factor))
}

/// `grad * factor`, in the precision of `grad`.
fn times(grad: &RawTensor, factor: &Buffer) -> Result<RawTensor> {
    multiplied(grad, &RawTensor::new(grad.device(), factor.clone(), Dims::default()))
}

pub(super) fn multiplied(grad: &RawTensor, factor: &RawTensor) -> Result<RawTensor> {
    let factor = factor.broadcast_to("mul", grad.shape())?;
    elementwise([grad, &factor], |backend, [x, factor]| backend.binary(Binary::Mul, x, factor, grad.logical))
}

/// Reading and replacing need gradients at their true size; the bound says so in the user's words.
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
        let values = at_true_size(grad, &self.factors)?;
        Ok(Some((Tensor::from_raw(which.index.clone()), Tensor::from_raw(values))))
    }

    /// Replaces the gradient of one parameter or tensor, or gives it one (`p.grad = g`), for rules of one's own.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes differ, [`Error::Argument`] for a tensor that is not tracked.
    pub fn set<P: Element>(&mut self, of: &(impl Differentiable + Typed<P>), grad: &Tensor<P>) -> Result<()>
    where
        S: IsUnscaled,
    {
        let Some(id) = of.grad_id() else {
            return Err(Error::argument("set", "of", "a parameter or a tracked tensor", "one that is not tracked"));
        };
        check_same("set", "the new gradient", of.grad_dims(), grad.dims())?;
        if self.shown.contains(id) {
            return self.shown.set(id, &grad.raw);
        }
        let earlier = self.grads.get(&id).map(|grad| grad.logical);
        if earlier.is_some() {
            self.check()?;
            (self.fresh, self.changed) = (false, true);
        } else {
            // A check so far says nothing of this one.
            self.forget_check()?;
        }
        self.multiply_out()?;
        self.rows.remove(&id);
        self.grads.insert(id, grad.raw.cast_view(earlier.unwrap_or(P::DTYPE))?);
        Ok(())
    }
}

/// Ties a differentiable thing to the precision of its gradient.
pub trait Typed<P: Element> {}

impl<P: Element> Typed<P> for Tensor<P> {}

impl<S: ScaleState> fmt::Debug for Gradients<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradients({} tensors)", self.len())
    }
}
