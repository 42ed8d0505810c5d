//! The loss as a function of all parameters, and ways through it.

use super::dot;
use super::line_search::Probe;
use crate::param::Parameter;
use crate::precision::F32;
use crate::{Result, Tensor};

/// The loss and its gradient, of all parameters one after the other.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) loss: f64,
    pub(super) grad: Tensor<F32>,
}

/// A direction from where the parameters were.
pub(super) struct Way {
    starts: Vec<Tensor<F32>>,
    pub(super) direction: Tensor<F32>,
}

impl Way {
    pub(super) fn new(parameters: &[Parameter], direction: Tensor<F32>) -> Self {
        Self { starts: parameters.iter().map(|p| p.detach()).collect(), direction }
    }
}

/// The loss as a function of the parameters.
pub(super) struct Course<'a, L> {
    pub(super) parameters: &'a [Parameter],
    pub(super) loss: L,
    pub(super) evaluations: usize,
}

impl<L: FnMut() -> Result<Tensor<F32>>> Course<'_, L> {
    /// Evaluates the loss where the parameters are.
    pub(super) fn point(&mut self) -> Result<Point> {
        let loss = (self.loss)()?;
        let grads = loss.backward()?;
        self.evaluations += 1;
        grads.take_pending().into_iter().try_for_each(|update| update.land(None))?;
        let flat = |p: &Parameter| match grads.get(p)? {
            Some(grad) => grad.reshape(..),
            None => Tensor::zeros([p.count()], p.device()),
        };
        let parts = self.parameters.iter().map(flat).collect::<Result<Vec<_>>>()?;
        Ok(Point { loss: loss.item()?.into(), grad: Tensor::cat(&parts, 0)? })
    }

    /// Puts the parameters `t` times the direction from where they were.
    pub(super) fn go(&self, way: &Way, t: f64) -> Result<()> {
        let mut at = 0;
        for (p, start) in self.parameters.iter().zip(&way.starts) {
            let part = way.direction.narrow(0, at, p.count())?.reshape(p.dims())?;
            p.set(&(start + (part * t)?)?)?;
            at += p.count();
        }
        Ok(())
    }

    /// Evaluates the loss `t` times the direction from where the parameters were.
    pub(super) fn probe(&mut self, way: &Way, t: f64) -> Result<Probe> {
        self.go(way, t)?;
        let point = self.point()?;
        Ok(Probe { t, slope: dot(&point.grad, &way.direction)?, point })
    }
}
