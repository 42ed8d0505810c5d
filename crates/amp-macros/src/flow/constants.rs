//! Numeric constants that variables may hold: those that are assigned on any way here.

use super::{Flows, Slot};
use std::collections::BTreeMap;

/// Constants as written, with their values.
type Numbers = Vec<(String, f64)>;

/// The constants of each slot that holds one, or may.
#[derive(Clone, Default)]
pub(super) struct Constants(BTreeMap<Slot, Numbers>);

impl Constants {
    pub(super) fn join(&mut self, other: &Self) {
        for (slot, numbers) in &other.0 {
            let held = self.0.entry(slot.clone()).or_default();
            held.extend(numbers.iter().filter(|number| !held.contains(number)).cloned().collect::<Numbers>());
        }
    }

    /// The slots that hold something else `after`.
    pub(super) fn changed(&self, after: &Self) -> impl Iterator<Item = &Slot> {
        self.0.iter().filter(|(slot, numbers)| after.0.get(slot) != Some(numbers)).map(|(slot, _)| slot)
    }
}

impl Flows {
    /// The slot holds one of these from here on.
    pub(crate) fn hold_constants(&mut self, slot: &Slot, numbers: &[(String, f64)]) {
        match numbers.is_empty() {
            true => drop(self.state.constants.0.remove(slot)),
            false => drop(self.state.constants.0.insert(slot.clone(), numbers.to_vec())),
        }
    }

    /// The slot and its fields are changed in a way that is not known.
    pub(crate) fn forget_constants(&mut self, slot: &Slot) {
        self.state.constants.0.retain(|other, _| other != slot && !slot.holds(other));
    }

    /// The variable is changed where it is not known when.
    pub(crate) fn distrust_constants(&mut self, var: usize) {
        self.disturbed.insert(var);
    }

    pub(crate) fn constants_of(&self, slot: &Slot) -> Numbers {
        let held = self.state.constants.0.get(slot).filter(|_| !self.disturbed.contains(&slot.var));
        held.cloned().unwrap_or_default()
    }
}
