//! Gradients of intermediate results that `retain_grad` asks for.

use super::IdMap;
use super::gradients::{at_true_size, same_factors};
use super::pass::add;
use crate::Result;
use crate::backend::Buffer;
use crate::raw::RawTensor;

/// They are there to be looked at: no norm, check or clipping knows of them, so that looking changes no training.
#[derive(Debug, Default)]
pub(super) struct Shown {
    grads: IdMap<RawTensor>,
    /// What they are still to be multiplied by.
    factors: Vec<Buffer>,
}

impl Shown {
    pub(super) fn new(grads: IdMap<RawTensor>, factors: Vec<Buffer>) -> Self {
        Self { grads, factors }
    }

    pub(super) fn len(&self) -> usize {
        self.grads.len()
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        self.grads.contains_key(&id)
    }

    /// One of them at its true size.
    pub(super) fn get(&self, id: u64) -> Result<Option<RawTensor>> {
        self.grads.get(&id).map(|grad| at_true_size(grad, &self.factors)).transpose()
    }

    /// Puts `grad` in the place of one of them, in its precision.
    pub(super) fn set(&mut self, id: u64, grad: &RawTensor) -> Result<()> {
        self.multiply_out()?;
        if let Some(place) = self.grads.get_mut(&id) {
            *place = grad.cast_view(place.logical)?;
        }
        Ok(())
    }

    /// Adds those of another pass.
    pub(super) fn add(&mut self, mut other: Self) -> Result<()> {
        if self.grads.is_empty() {
            *self = other;
            return Ok(());
        }
        if !other.grads.is_empty() && !same_factors(&self.factors, &other.factors) {
            self.multiply_out()?;
            other.multiply_out()?;
        }
        for (id, grad) in other.grads {
            let sum = match self.grads.remove(&id) {
                Some(earlier) => add(&earlier, &grad, earlier.logical)?,
                None => grad,
            };
            self.grads.insert(id, sum);
        }
        Ok(())
    }

    fn multiply_out(&mut self) -> Result<()> {
        for grad in self.grads.values_mut() {
            *grad = at_true_size(grad, &self.factors)?;
        }
        self.factors.clear();
        Ok(())
    }
}
