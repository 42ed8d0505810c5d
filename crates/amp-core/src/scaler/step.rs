//! One optimizer's decision.

use super::{GradScaler, Seen};
use crate::autograd::{Gradients, Scaled, Unscaled};
use crate::optim::{Optimizer, Step};
use crate::param::{Parameter, PendingUpdate};
use crate::{Error, Result};

/// What [`GradScaler::step`] takes: gradients by value, scaled or unscaled, or a reference to unscaled ones.
#[diagnostic::on_unimplemented(
    message = "a scaler steps with gradients by value",
    label = "these are no gradients by value",
    note = "gradients are what a loss gives: `scaler.scale(&loss)?.backward()?`",
    note = "write `scaler.step(&mut optimizer, grads)?`; only unscaled gradients can be lent to several optimizers"
)]
pub trait StepGradients {
    /// Decides and steps.
    #[doc(hidden)]
    fn step<O: Optimizer + ?Sized>(self, scaler: &mut GradScaler, optimizer: &mut O) -> Result<Step>;
}

impl StepGradients for Gradients<Scaled> {
    fn step<O: Optimizer + ?Sized>(self, scaler: &mut GradScaler, optimizer: &mut O) -> Result<Step> {
        let checks = scaler.seen.len();
        let step = scaler.unscaled("step", self)?.step(scaler, optimizer);
        if step.is_err() {
            // `update` must not count a step that failed.
            scaler.seen.truncate(checks);
        }
        step
    }
}

impl StepGradients for Gradients<Unscaled> {
    fn step<O: Optimizer + ?Sized>(self, scaler: &mut GradScaler, optimizer: &mut O) -> Result<Step> {
        let step = scaler.decide(optimizer, &self)?;
        land(self.take_pending(), step)
    }
}

impl StepGradients for &Gradients<Unscaled> {
    fn step<O: Optimizer + ?Sized>(self, scaler: &mut GradScaler, optimizer: &mut O) -> Result<Step> {
        let step = scaler.decide(optimizer, self)?;
        land(self.take_pending_of(optimizer.parameters()), step)
    }
}

impl GradScaler {
    fn decide<O: Optimizer + ?Sized>(&mut self, optimizer: &mut O, grads: &Gradients<Unscaled>) -> Result<Step> {
        if grads.scale.scaler != 0 && grads.scale.scaler != self.id {
            return Err(Error::ForeignGradients { op: "step" });
        }
        if !self.enabled {
            optimizer.apply(grads)?;
            return Ok(Step::taken());
        }
        if grads.scale.scaler == 0 && !grads.is_empty() {
            return Err(Error::NotScaled);
        }
        let id = optimizer.groups().map(|groups| groups.id);
        if id.is_some() && self.seen.iter().any(|seen| seen.optimizer == id) {
            return Err(Error::SteppedTwice);
        }
        let parameters: Vec<Parameter> =
            optimizer.parameters().iter().filter(|p| grads.grads.contains_key(&p.id())).cloned().collect();
        let Some(first) = parameters.first() else {
            return Err(Error::NoGradients { op: "step", parameters: optimizer.parameters().len() });
        };
        let device = first.device().clone();
        let checked = grads.decisive()?;
        let seen = Seen { checked, parameters, optimizer: id };
        let flag = seen.flag()?;
        let step = Step::unless(device, flag.clone());
        match optimizer.groups() {
            Some(groups) => groups.update("step", grads, Some(&flag))?,
            None if step.was_taken()? => optimizer.apply(grads)?,
            None => {}
        }
        // Only now: a step that failed must not count as one that was decided, nor use up the check made at unscaling.
        self.seen.retain(|other| !(other.parameters.is_empty() && other.checked.is(&seen.checked)));
        self.seen.push(seen);
        Ok(step)
    }
}

/// Makes pending changes of state if the step was taken.
///
/// On a CPU a skipped step leaves them alone: a later pass of a retained graph may still make them. A GPU decides by the flag
/// as it makes them, and then they are spent.
fn land(pending: Vec<PendingUpdate>, step: Step) -> Result<Step> {
    if step.flag().is_some_and(|skip| skip.device().is_cpu()) && !step.was_taken()? {
        return Ok(step);
    }
    pending.into_iter().try_for_each(|update| update.land(step.flag()))?;
    Ok(step)
}
