//! What the variables hold at a point of the walk, and how that joins where control does.

use super::{FOREIGN, Flow, Flows, Node};
use std::collections::BTreeMap;

/// The node of each variable that does not hold something foreign.
#[derive(Clone, Default)]
pub(crate) struct State {
    nodes: BTreeMap<usize, usize>,
    /// Control does not come here.
    dead: bool,
}

/// The state at the head of a loop; what is assigned in its body is added when that is known.
pub(crate) struct Head {
    nodes: Vec<(usize, usize)>,
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

    /// Goes on where control comes from one of these states, or from the present one.
    pub(crate) fn merge(&mut self, others: Vec<State>) {
        let mut alive: Vec<State> = others.into_iter().filter(|state| !state.dead).collect();
        if !self.state.dead {
            alive.push(self.state.clone());
        }
        let Some(first) = alive.first() else { return };
        let mut merged = first.clone();
        let vars: Vec<usize> = alive.iter().flat_map(|state| state.nodes.keys().copied()).collect();
        for var in vars {
            let mut nodes: Vec<usize> = alive.iter().map(|state| state.of(var)).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let node = if nodes.len() == 1 { nodes[0] } else { self.node(Node::Either(nodes)) };
            merged.nodes.insert(var, node);
        }
        self.state = merged;
    }

    /// Enters a loop that may assign to these variables.
    pub(crate) fn enter_loop(&mut self, vars: impl Iterator<Item = usize>) -> Head {
        let nodes = vars.map(|var| (var, self.node(Node::Either(vec![self.state.of(var)])))).collect();
        let head = Head { nodes };
        self.state.nodes.extend(head.nodes.iter().copied());
        head
    }

    /// Control comes back to the head of the loop from here.
    pub(crate) fn back_to(&mut self, head: &Head, from: &State) {
        if from.dead {
            return;
        }
        for &(var, node) in &head.nodes {
            let end = from.of(var);
            if let Node::Either(list) = &mut self.nodes[node]
                && end != node
            {
                list.push(end);
            }
        }
    }

    /// From here on a variable holds the value.
    pub(crate) fn bind(&mut self, var: usize, flow: &Flow) {
        let mut nodes = self.take(flow);
        let node = match nodes.len() {
            0 => FOREIGN,
            1 => nodes.remove(0),
            _ => self.node(Node::Either(nodes)),
        };
        self.state.nodes.insert(var, node);
    }

    /// The variable is declared without a value.
    pub(crate) fn unset(&mut self, var: usize) {
        let nothing = self.node(Node::Either(Vec::new()));
        self.state.nodes.insert(var, nothing);
    }

    /// The variable is assigned where it is not known when.
    pub(crate) fn disturb(&mut self, var: usize) {
        let node = self.node(Node::Either(vec![self.state.of(var), FOREIGN]));
        self.state.nodes.insert(var, node);
    }

    /// The variable is read.
    pub(crate) fn read(&mut self, var: usize) -> Flow {
        match self.state.of(var) {
            FOREIGN => Flow::default(),
            node => self.open(vec![node]),
        }
    }
}

impl State {
    fn of(&self, var: usize) -> usize {
        self.nodes.get(&var).copied().unwrap_or(FOREIGN)
    }
}
