//! The one-pass update of all parameters of an optimizer.

use super::describe;
use super::groups::{Group, ParameterGroups, State};
use super::rates::Rates;
use super::rule::{moves_rows, without_momentum};
use crate::autograd::{Gradients, Unscaled, flat};
use crate::backend::{Buffer, UpdateSettings, UpdateSlot};
use crate::param::Parameter;
use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::optim::UpdateRule;
use std::borrow::Cow;

/// A parameter that is updated.
pub(super) struct Used<'g> {
    pub(super) id: u64,
    pub(super) group: usize,
    /// Number of the parameter in its group.
    pub(super) index: usize,
    /// F32 and contiguous.
    pub(super) grad: Cow<'g, RawTensor>,
}

impl ParameterGroups {
    /// Updates every parameter that has a gradient, unless the flag `skip` is set.
    pub(crate) fn update(
        &mut self,
        op: &'static str,
        grads: &Gradients<Unscaled>,
        skip: Option<&Buffer>,
    ) -> Result<()> {
        self.check_distinct(op)?;
        self.groups.iter().try_for_each(|group| group.settings().validate(op))?;
        self.check_matrices(op)?;
        let mut used = self.used(grads)?;
        self.prepare_state(&used)?;
        if let (None, Some(device)) = (&self.rates, self.all.first().map(Parameter::device)) {
            self.rates = Rates::new(device, self.told())?;
        }
        let mut factors: Vec<&Buffer> = grads.factors.iter().collect();
        if self.is_muon() {
            self.orthogonalise(&mut used, &std::mem::take(&mut factors), skip)?;
        }
        // Locked in the order of ids: two optimizers that share parameters cannot wait for each other in a circle.
        let mut guards = Vec::with_capacity(used.len());
        for Used { group, index, .. } in &used {
            guards.push(self.groups[*group].parameters[*index].write()?);
        }
        let mut states: Vec<Option<&mut State>> = used.iter().map(|_| None).collect();
        for (&id, state) in &mut self.state {
            if let Ok(i) = used.binary_search_by_key(&id, |used| used.id) {
                states[i] = Some(state);
            }
        }
        for (number, group) in self.groups.iter().enumerate() {
            let rates = self.rates.as_ref().map(|rates| (rates.memory(), number));
            let rule = group.newton_schulz.map_or(group.rule, |_| without_momentum(&group.rule));
            let settings = UpdateSettings { rule: &rule, rates };
            let (mut slots, mut sparse) = (Vec::with_capacity(group.parameters.len()), Vec::new());
            for ((used, guard), state) in used.iter().zip(&mut guards).zip(&mut states) {
                let Some(state) = state.as_mut().filter(|_| used.group == number) else { continue };
                let (master, copies) = guard.open();
                // Muon's momentum has made the gradient.
                let moments = if group.newton_schulz.is_some() { &mut [] } else { state.moments.as_mut_slice() };
                let slot = UpdateSlot { master, grad: used.grad.operand()?, moments, copies, steps: &mut state.steps };
                match grads.rows.get(&used.id).filter(|_| self.lazy || moves_rows(&group.rule)) {
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

    /// The parameters that have a gradient, in the order of their ids.
    fn used<'g>(&self, grads: &'g Gradients<Unscaled>) -> Result<Vec<Used<'g>>> {
        let device = self.all.first().map(Parameter::device);
        let mut found = Vec::with_capacity(self.all.len());
        for (number, group) in self.groups.iter().enumerate() {
            for (index, p) in group.parameters.iter().enumerate() {
                let (Some(grad), Some(device)) = (grads.grads.get(&p.id()), device) else { continue };
                p.device().check_same(device, "step")?;
                grad.device().check_same(device, "step")?;
                let grad = match grads.rows.contains_key(&p.id()) && !self.lazy && !moves_rows(&group.rule) {
                    true => Cow::Owned(flat(&self.densified(grads, &group.rule, p)?)?.into_owned()),
                    false => flat(grad)?,
                };
                found.push(Used { id: p.id(), group: number, index, grad });
            }
        }
        found.sort_unstable_by_key(|used| used.id);
        Ok(found)
    }

    /// A sparse gradient as a dense one, for momentum without weight decay, where both come to the same.
    fn densified(&self, grads: &Gradients<Unscaled>, rule: &UpdateRule, p: &Parameter) -> Result<RawTensor> {
        match (rule, grads.whole(p.id())?) {
            (UpdateRule::Sgd { weight_decay: 0.0, .. }, Some(whole)) => Ok(whole),
            _ => Err(Error::SparseGradient { optimizer: self.kind(), parameter: describe(p) }),
        }
    }

    fn prepare_state(&mut self, used: &[Used<'_>]) -> Result<()> {
        for &Used { id, group, index, .. } in used {
            let Group { parameters, rule, .. } = &self.groups[group];
            let p = &parameters[index];
            let state = match self.state.entry(id) {
                std::collections::hash_map::Entry::Occupied(slot) => slot.into_mut(),
                std::collections::hash_map::Entry::Vacant(slot) => slot.insert(State::new(p.device())?),
            };
            state.fit(rule, p.count(), p.device())?;
        }
        Ok(())
    }
}
