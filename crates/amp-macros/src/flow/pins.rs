//! Where casts to F32 that the user wrote are held: in variables and fields. And what loops carry round: these, and numbers.

use super::constants::Constants;
use super::{Flows, Slot, State};
use crate::pin::Pin;
use std::collections::{BTreeMap, BTreeSet};

/// What control carries round loops: slots, each with the number of the loop.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Carried {
    /// Those that hold such a cast at the end of the loop's body.
    pins: BTreeSet<(usize, Slot)>,
    /// Those that hold another number there than before the loop.
    numbers: BTreeSet<(usize, Slot)>,
}

/// The slots that hold such a cast, or may.
#[derive(Clone, Default)]
pub(super) struct Pins(BTreeMap<Slot, Pin>);

/// The loops of one round.
#[derive(Default)]
pub(super) struct Loops {
    count: usize,
    /// What the round before found.
    known: Carried,
    found: Carried,
}

/// What was held before a loop.
pub(super) struct PinsBefore {
    number: usize,
    /// How many variables were declared.
    declared: usize,
    pins: Pins,
    constants: Constants,
}

impl Pins {
    pub(super) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(slot, &pin)| self.add(slot, pin));
    }

    fn add(&mut self, slot: &Slot, pin: Pin) {
        let known = self.of(slot);
        let pin = known.or(pin);
        if pin != known {
            self.0.insert(slot.clone(), pin);
        }
    }

    fn of(&self, slot: &Slot) -> Pin {
        self.0.get(slot).copied().unwrap_or_default()
    }
}

impl Flows {
    /// A round after one that found this.
    pub(crate) fn knowing(known: Carried) -> Self {
        let mut flows = Self::default();
        flows.pins.known = known;
        flows
    }

    /// What this round found.
    pub(crate) fn carried(&self) -> &Carried {
        &self.pins.found
    }

    /// The slot may hold such a cast from here on.
    pub(crate) fn pin(&mut self, slot: &Slot, pin: Pin) {
        self.state.pins.add(slot, pin);
    }

    /// The slot and its fields hold something else.
    pub(crate) fn unpin(&mut self, slot: &Slot) {
        self.state.pins.0.retain(|other, _| other != slot && !slot.holds(other));
    }

    /// Each of two variables holds what the other did.
    pub(crate) fn swap_pins(&mut self, one: usize, other: usize) {
        let pins = std::mem::take(&mut self.state.pins.0).into_iter();
        let swapped = |(mut slot, pin): (Slot, Pin)| {
            slot.var = if slot.var == one {
                other
            } else if slot.var == other {
                one
            } else {
                slot.var
            };
            (slot, pin)
        };
        self.state.pins.0 = pins.map(swapped).collect();
    }

    pub(crate) fn pin_of(&self, slot: &Slot) -> Pin {
        self.state.pins.of(slot)
    }

    pub(super) fn enter_pins(&mut self, declared: usize) -> PinsBefore {
        let number = self.pins.count;
        self.pins.count += 1;
        let (pins, constants) = (self.state.pins.clone(), self.state.constants.clone());
        let here = |known: &BTreeSet<(usize, Slot)>| known.iter().filter(|(of, _)| *of == number).cloned().collect();
        let (kept, changed): (Vec<_>, Vec<_>) = (here(&self.pins.known.pins), here(&self.pins.known.numbers));
        kept.iter().for_each(|(_, slot)| self.state.pins.add(slot, Pin::Kept));
        changed.iter().for_each(|(_, slot)| self.forget_constants(slot));
        PinsBefore { number, declared, pins, constants }
    }

    pub(super) fn carry_pins(&mut self, before: &PinsBefore, end: &State) {
        let kept = end.pins.0.iter().filter(|(slot, pin)| **pin == Pin::Kept && slot.var < before.declared);
        let new = kept.filter(|(slot, _)| before.pins.of(slot) != Pin::Kept);
        self.pins.found.pins.extend(new.map(|(slot, _)| (before.number, slot.clone())));
        let changed = before.constants.changed(&end.constants);
        self.pins.found.numbers.extend(changed.map(|slot| (before.number, slot.clone())));
    }
}
