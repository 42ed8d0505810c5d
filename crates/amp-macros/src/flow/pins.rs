//! Where casts to F32 that the user wrote are held: in variables and fields, and round loops.

use super::{Flows, Slot, State};
use crate::pin::Pin;
use std::collections::{BTreeMap, BTreeSet};

/// The slots that control carries such a cast round a loop in, each with the number of the loop.
pub(crate) type Carried = BTreeSet<(usize, Slot)>;

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
}

impl Pins {
    pub(super) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(slot, &pin)| self.add(slot, pin));
    }

    fn add(&mut self, slot: &Slot, pin: Pin) {
        if pin > self.of(slot) {
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

    pub(crate) fn pin_of(&self, slot: &Slot) -> Pin {
        self.state.pins.of(slot)
    }

    pub(super) fn enter_pins(&mut self, declared: usize) -> PinsBefore {
        let number = self.pins.count;
        self.pins.count += 1;
        let pins = self.state.pins.clone();
        let known = self.pins.known.iter().filter(|(of, _)| *of == number);
        known.for_each(|(_, slot)| self.state.pins.add(slot, Pin::Kept));
        PinsBefore { number, declared, pins }
    }

    pub(super) fn carry_pins(&mut self, before: &PinsBefore, end: &State) {
        let kept = end.pins.0.iter().filter(|(slot, pin)| **pin == Pin::Kept && slot.var < before.declared);
        let new = kept.filter(|(slot, _)| before.pins.of(slot) != Pin::Kept);
        self.pins.found.extend(new.map(|(slot, _)| (before.number, slot.clone())));
    }
}
