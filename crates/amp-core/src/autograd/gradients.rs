//! The result of a backward pass, typed by whether it is still multiplied by a loss scale.

use super::engine::{Collected, add};
use super::graph::Differentiable;
use crate::param::PendingUpdate;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Element, Result};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

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
pub trait IsUnscaled {}

impl IsUnscaled for Unscaled {}

/// Gradients of one backward pass (or of several, accumulated), by parameter or tensor.
///
/// `S` says whether they are [`Scaled`] by a loss scale; only [`Unscaled`] ones can be clipped or stepped with.
pub struct Gradients<S = Unscaled> {
    pub(crate) grads: HashMap<u64, RawTensor>,
    pub(crate) pending: Vec<PendingUpdate>,
    pub(crate) scale: ScaleTag,
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

impl<S> Gradients<S> {
    pub(crate) fn new(collected: Collected, scale: ScaleTag) -> Self {
        Self { grads: collected.grads, pending: collected.pending, scale, state: PhantomData }
    }

    /// An empty set to [`add`](Self::add) micro-batches to.
    pub fn accumulator() -> Self {
        Self::new(Collected::default(), ScaleTag::default())
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
        Gradients { grads: self.grads, pending: self.pending, scale: self.scale, state: PhantomData }
    }

    /// Adds the gradients of another micro-batch, in F32 for parameters.
    pub fn add(&mut self, other: Self) -> Result<()> {
        if self.is_empty() {
            self.scale = other.scale;
        } else if self.scale != other.scale && !other.is_empty() {
            return Err(crate::Error::MixedScales);
        }
        for (id, grad) in other.grads {
            let sum = match self.grads.get(&id) {
                Some(earlier) => add(earlier, &grad, earlier.logical)?,
                None => grad,
            };
            self.grads.insert(id, sum);
        }
        self.pending.extend(other.pending);
        Ok(())
    }
}

impl Gradients<Unscaled> {
    /// The gradient of a parameter or tensor; `None` when it did not take part.
    pub fn get<P: Element>(&self, of: &(impl Differentiable + Typed<P>)) -> Result<Option<Tensor<P>>> {
        let Some(raw) = of.grad_id().and_then(|id| self.grads.get(&id)) else { return Ok(None) };
        Ok(Some(Tensor::from_raw(raw.cast_view(P::DTYPE)?)))
    }
}

/// Ties a differentiable thing to the precision of its gradient.
pub trait Typed<P: Element> {}

impl<P: Element> Typed<P> for Tensor<P> {}

impl<S> fmt::Debug for Gradients<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradients({} tensors)", self.grads.len())
    }
}
