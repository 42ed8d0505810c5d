//! What is known of the curvature from the last steps.

use super::dot;
use crate::precision::F32;
use crate::{Result, Tensor};
use std::collections::VecDeque;

/// Along less curvature than this, differences of gradients are mostly rounding (PyTorch's limit).
const LEAST_CURVATURE: f64 = 1e-10;

/// A step and how it changed the gradient.
#[derive(Debug)]
struct Pair {
    step: Tensor<F32>,
    change: Tensor<F32>,
    /// The product of both.
    curvature: f64,
}

/// The last steps, oldest first.
#[derive(Debug)]
pub(super) struct History {
    size: usize,
    pairs: VecDeque<Pair>,
    /// Stands for the inverse Hessian where nothing else is known.
    scale: f64,
    /// The last step's gradient before it, and the step, until the gradient behind it is known.
    last: Option<[Tensor<F32>; 2]>,
    has_begun: bool,
}

impl History {
    pub(super) fn new(size: usize) -> Self {
        Self { size, pairs: VecDeque::new(), scale: 1.0, last: None, has_begun: false }
    }

    /// Whether a step was taken.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Keeps a step until the gradient behind it is known.
    pub(super) fn remember(&mut self, grad: Tensor<F32>, step: Tensor<F32>) {
        (self.last, self.has_begun) = (Some([grad, step]), true);
    }

    /// Minus the estimate of the inverse Hessian times `grad`.
    pub(super) fn direction(&mut self, grad: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.learn(grad)?;
        let (mut way, mut shares) = (grad.neg()?, Vec::with_capacity(self.pairs.len()));
        for Pair { step, change, curvature } in self.pairs.iter().rev() {
            let share = dot(step, &way)? / curvature;
            way = (way - (change * share)?)?;
            shares.push(share);
        }
        way = (way * self.scale)?;
        for (Pair { step, change, curvature }, share) in self.pairs.iter().zip(shares.into_iter().rev()) {
            let rest = share - dot(change, &way)? / curvature;
            way = (way + (step * rest)?)?;
        }
        Ok(way)
    }

    /// Takes in how the last step changed the gradient.
    fn learn(&mut self, grad: &Tensor<F32>) -> Result<()> {
        let Some([before, step]) = self.last.take() else { return Ok(()) };
        let change = (grad - before)?;
        let curvature = dot(&change, &step)?;
        if curvature > LEAST_CURVATURE {
            self.scale = curvature / dot(&change, &change)?;
            self.pairs.push_back(Pair { step, change, curvature });
            if self.pairs.len() > self.size {
                self.pairs.pop_front();
            }
        }
        Ok(())
    }
}
