//! What the variables hold at a point of the walk, and how that joins where control does.

use super::constants::Constants;
use super::pins::{Pins, PinsBefore};
use super::{FOREIGN, Flow, Flows, Node};
use std::collections::{BTreeMap, BTreeSet};

/// A variable, or a field of the tuple or struct in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) var: usize,
    fields: String,
}

impl Slot {
    /// The variable itself.
    pub(crate) const fn of(var: usize) -> Self {
        Self { var, fields: String::new() }
    }

    /// A field of it.
    pub(crate) fn field(&self, name: &str) -> Self {
        Self { var: self.var, fields: format!("{}.{name}", self.fields) }
    }

    pub(super) fn holds(&self, other: &Self) -> bool {
        let rest = other.fields.strip_prefix(&self.fields);
        self.var == other.var && rest.is_some_and(|rest| rest.starts_with('.'))
    }
}

/// The node of each slot that does not hold something foreign.
#[derive(Clone, Default)]
pub(crate) struct State {
    nodes: BTreeMap<Slot, usize>,
    /// Slots that hold, or may hold, what the user cast to F32.
    pub(super) pins: Pins,
    /// Numbers that slots hold, or may hold, as they are written.
    pub(super) constants: Constants,
    /// Results that nobody has narrowed on the way here, of who keeps more for that.
    waiting: BTreeSet<usize>,
    /// Control does not come here.
    pub(super) dead: bool,
}

/// The state at the head of a loop; what is assigned in its body is added when that is known.
pub(crate) struct Head {
    nodes: BTreeMap<Slot, usize>,
    pub(super) pins: PinsBefore,
}

impl Flows {
    /// The state at this point.
    pub(crate) fn state(&self) -> State {
        self.state.clone()
    }

    /// Goes on from a state.
    pub(crate) fn resume(&mut self, state: State) {
        self.state = state;
    }

    /// Leaves for somewhere else: gives the state there.
    pub(crate) fn leave(&mut self) -> State {
        let state = self.state.clone();
        self.state.dead = true;
        state
    }

    /// Leaves the function.
    pub(crate) fn finish(&mut self) {
        self.give_up();
        self.leave();
    }

    /// Nobody narrows any more what was not narrowed on the way here.
    pub(super) fn give_up(&mut self) {
        if !self.state.dead {
            self.unused.extend(&self.state.waiting);
        }
    }

    /// Enters the body of a closure: gives the state to go on from behind it.
    pub(crate) fn enter_body(&mut self) -> State {
        let before = self.state.clone();
        self.state.waiting.clear();
        before
    }

    /// Goes on where control comes from one of these states, or from the present one.
    pub(crate) fn merge(&mut self, others: Vec<State>) {
        let mut alive: Vec<State> = others.into_iter().filter(|state| !state.dead).collect();
        if !self.state.dead {
            alive.push(self.state.clone());
        }
        let Some(first) = alive.first() else { return };
        let mut merged = first.clone();
        for state in &alive {
            merged.pins.join(&state.pins);
            merged.constants.join(&state.constants);
        }
        merged.waiting = alive.iter().flat_map(|state| state.waiting.clone()).collect();
        let slots: BTreeSet<&Slot> = alive.iter().flat_map(|state| state.nodes.keys()).collect();
        for slot in slots {
            let mut nodes: Vec<usize> = alive.iter().map(|state| state.of(slot)).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let node = if nodes.len() == 1 { nodes[0] } else { self.node(Node::Either(nodes)) };
            merged.nodes.insert(slot.clone(), node);
        }
        self.state = merged;
    }

    /// Enters a loop that may assign to these variables, where so many are declared.
    pub(crate) fn enter_loop(&mut self, vars: impl Iterator<Item = usize>, declared: usize) -> Head {
        let mut head = Head { nodes: BTreeMap::new(), pins: self.enter_pins(declared) };
        for var in vars {
            let own = Slot::of(var);
            let fields = self.state.below(&own).map(|(slot, node)| (slot.clone(), node));
            for (slot, node) in fields.chain([(own.clone(), self.state.of(&own))]).collect::<Vec<_>>() {
                head.nodes.insert(slot, self.node(Node::Either(vec![node])));
            }
        }
        self.state.nodes.extend(head.nodes.clone());
        head
    }

    /// Control comes back to the head of the loop from here.
    pub(crate) fn back_to(&mut self, head: &Head, from: &State) {
        if from.dead {
            return;
        }
        self.carry_pins(&head.pins, from);
        for (slot, &node) in &head.nodes {
            let end = from.of(slot);
            if let Node::Either(list) = &mut self.nodes[node]
                && end != node
            {
                list.push(end);
            }
        }
        // A field that was not one at the head: who reads it there is not known.
        let new = |slot: &Slot| !head.nodes.contains_key(slot) && head.nodes.contains_key(&Slot::of(slot.var));
        let new: Vec<usize> = from.nodes.iter().filter(|(slot, _)| new(slot)).map(|(_, &node)| node).collect();
        new.into_iter().for_each(|node| drop(self.open(vec![node])));
    }

    /// From here on a slot holds the value.
    pub(crate) fn bind(&mut self, slot: Slot, flow: &Flow) {
        let mut nodes = self.take(flow);
        let node = match nodes.len() {
            0 => FOREIGN,
            1 => nodes.remove(0),
            _ => self.node(Node::Either(nodes)),
        };
        self.state.nodes.insert(slot, node);
    }

    /// What the slot and its fields held is gone.
    pub(crate) fn forget(&mut self, slot: &Slot) {
        self.state.nodes.retain(|other, _| !slot.holds(other));
        self.unpin(slot);
        self.forget_constants(slot);
    }

    /// The variable is declared without a value.
    pub(crate) fn unset(&mut self, var: usize) {
        let nothing = self.node(Node::Either(Vec::new()));
        self.state.nodes.insert(Slot::of(var), nothing);
    }

    /// The slot is assigned where it is not known when.
    pub(crate) fn disturb(&mut self, slot: &Slot) {
        self.disturbed.insert(slot.var);
        let fields: Vec<Slot> = self.state.below(slot).map(|(slot, _)| slot.clone()).collect();
        for slot in fields.into_iter().chain([slot.clone()]) {
            let node = self.node(Node::Either(vec![self.state.of(&slot), FOREIGN]));
            self.state.nodes.insert(slot, node);
        }
    }

    /// The fields of a slot are read, by nobody knows whom.
    pub(crate) fn read_fields(&mut self, slot: &Slot) {
        let nodes: Vec<usize> = self.state.below(slot).map(|(_, node)| node).collect();
        nodes.into_iter().for_each(|node| drop(self.open(vec![node])));
    }

    /// The slot is read.
    pub(crate) fn read(&mut self, slot: &Slot) -> Flow {
        match self.state.of(slot) {
            FOREIGN => Flow::default(),
            node => self.open(vec![node]),
        }
    }
}

impl State {
    pub(super) fn wait_for(&mut self, result: usize) {
        self.waiting.insert(result);
    }

    pub(super) fn stop_waiting_for(&mut self, results: &[usize]) {
        self.waiting.retain(|result| !results.contains(result));
    }

    /// This state of a loop that was left may come from the end of its body.
    pub(crate) fn after(mut self, bodies: &[State]) -> Self {
        let ends = bodies.iter().filter(|state| !state.dead);
        for end in ends {
            self.waiting.extend(&end.waiting);
            self.pins.join(&end.pins);
            self.constants.join(&end.constants);
        }
        self
    }

    fn of(&self, slot: &Slot) -> usize {
        self.nodes.get(slot).copied().unwrap_or(FOREIGN)
    }

    /// The fields of a slot.
    fn below<'s>(&'s self, slot: &'s Slot) -> impl Iterator<Item = (&'s Slot, usize)> {
        let from = self.nodes.range(slot..).take_while(|(other, _)| other.var == slot.var);
        from.filter(|(other, _)| slot.holds(other)).map(|(other, &node)| (other, node))
    }
}
