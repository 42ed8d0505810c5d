//! The one-pass update of all parameters of an optimizer.

use super::describe;
use super::groups::{ParameterGroups, State};
use super::rates::Rates;
use super::rule::{moves_rows, validate};
use crate::autograd::{Gradients, IdMap, Unscaled, flat};
use crate::backend::{Buffer, UpdateSettings, UpdateSlot};
use crate::param::{Parameter, ParameterGuard};
use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::optim::UpdateRule;

impl ParameterGroups {
    /// Updates every parameter that has a gradient, unless the flag `skip` is set.
    pub(crate) fn update(
        &mut self,
        op: &'static str,
        grads: &Gradients<Unscaled>,
        skip: Option<&Buffer>,
    ) -> Result<()> {
        self.groups.iter().try_for_each(|group| validate(op, &group.rule))?;
        let flat = self.gradients(op, grads)?;
        self.prepare_state(&flat)?;
        if let (None, Some(device)) = (&self.rates, self.all.first().map(Parameter::device)) {
            self.rates = Rates::new(device, self.told())?;
        }
        let factors: Vec<&Buffer> = grads.factors.iter().collect();
        // Locked in the order of ids: two optimizers that share parameters cannot wait for each other in a circle.
        let mut masters: Vec<&Parameter> = self.all.iter().filter(|p| flat.contains_key(&p.id())).collect();
        masters.sort_unstable_by_key(|p| p.id());
        let mut guards =
            masters.iter().map(|p| Ok((p.id(), p.write()?))).collect::<Result<Vec<(u64, ParameterGuard<'_>)>>>()?;
        let mut open: IdMap<_> = guards.iter_mut().map(|(id, guard)| (*id, guard.open())).collect();
        let mut states: IdMap<&mut State> = self.state.iter_mut().map(|(&id, state)| (id, state)).collect();
        for (number, group) in self.groups.iter().enumerate() {
            let rates = self.rates.as_ref().map(|rates| (rates.memory(), number));
            let settings = UpdateSettings { rule: &group.rule, rates };
            let (mut slots, mut sparse) = (Vec::new(), Vec::new());
            for id in group.parameters.iter().map(Parameter::id) {
                let (Some((master, copies)), Some(state)) = (open.remove(&id), states.remove(&id)) else { continue };
                let (grad, moments) = (flat[&id].operand()?, &mut state.moments);
                let slot = UpdateSlot { master, grad, moments, copies, steps: &mut state.steps };
                match grads.rows.get(&id).filter(|_| self.lazy || moves_rows(&group.rule)) {
                    Some(which) => sparse.push((slot, which.index.operand()?)),
                    None => slots.push(slot),
                }
            }
            if let Some(first) = group.parameters.first() {
                let backend = first.device().backend();
                if !sparse.is_empty() {
                    backend.update_rows(settings, sparse, &factors, skip)?;
                }
                backend.update(settings, slots, &factors, skip)?;
            }
        }
        Ok(())
    }

    /// The gradients of this optimizer's parameters, as the kernels want them.
    fn gradients(&self, op: &'static str, grads: &Gradients<Unscaled>) -> Result<IdMap<RawTensor>> {
        let device = self.all.first().map(Parameter::device);
        let mut found = IdMap::with_capacity_and_hasher(self.all.len(), Default::default());
        for (group, p) in self.groups.iter().flat_map(|g| g.parameters.iter().map(move |p| (g, p))) {
            let (Some(grad), Some(device)) = (grads.grads.get(&p.id()), device) else { continue };
            p.device().check_same(device, "step")?;
            grad.device().check_same(device, "step")?;
            let grad = match grads.rows.contains_key(&p.id()) && !self.lazy && !moves_rows(&group.rule) {
                true => self.densified(op, grads, &group.rule, p)?,
                false => grad.clone(),
            };
            found.insert(p.id(), flat(&grad)?);
        }
        Ok(found)
    }

    /// A sparse gradient as a dense one, for momentum without weight decay, where both come to the same.
    fn densified(
        &self,
        op: &'static str,
        grads: &Gradients<Unscaled>,
        rule: &UpdateRule,
        p: &Parameter,
    ) -> Result<RawTensor> {
        match (rule, grads.whole(p.id())?) {
            (UpdateRule::Sgd { weight_decay: 0.0, .. }, Some(whole)) => Ok(whole),
            _ => Err(Error::SparseGradient { op, optimizer: self.kind(), parameter: describe(p) }),
        }
    }

    fn prepare_state(&mut self, used: &IdMap<RawTensor>) -> Result<()> {
        for group in &self.groups {
            for p in group.parameters.iter().filter(|p| used.contains_key(&p.id())) {
                let state = match self.state.entry(p.id()) {
                    std::collections::hash_map::Entry::Occupied(slot) => slot.into_mut(),
                    std::collections::hash_map::Entry::Vacant(slot) => slot.insert(State::new(p.device())?),
                };
                state.fit(&group.rule, p.count(), p.device())?;
            }
        }
        Ok(())
    }
}
