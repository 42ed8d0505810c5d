//! Who takes the result of a `full` operation: when everybody narrows it, the operation writes the narrow result itself.
//!
//! Every expression that gives such a result, or reads a variable that may hold it, is a use. A use counts as taken only
//! where the walk meets something that narrows it, binds it to a variable or commutes with rounding; everything else (a
//! return, a place, a call that is not known, a `full` operation) leaves it open, and one open use keeps the result in F32.

mod constants;
mod pins;
mod state;
#[cfg(test)]
mod tests;

use crate::place::Place;
pub(crate) use pins::Carried;
pub(crate) use state::{Head, Slot, State};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use syn::Path;

/// A call, by its number in the order of the walk.
pub(crate) type Site = usize;

/// The uses that a value stands for. A copy of what is known about a value is no use of it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    uses: Vec<usize>,
    /// It may be something else too.
    foreign: bool,
}

impl Clone for Flow {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Flow {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Flow {
    pub(crate) fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// These uses, for whoever takes them in place of this.
    pub(crate) fn same(&self) -> Self {
        Self { uses: self.uses.clone(), foreign: self.foreign }
    }

    /// The uses of several values, one of which it is.
    pub(crate) fn either(flows: Vec<Self>) -> Self {
        let foreign = flows.iter().any(|flow| flow.foreign || flow.is_empty());
        Self { uses: flows.into_iter().flat_map(|flow| flow.uses).collect(), foreign }
    }

    /// The uses of values that it is made of; none if one of them has none.
    pub(crate) fn all(flows: Vec<Self>) -> Self {
        if flows.iter().any(Self::is_empty) { Self::default() } else { Self::either(flows) }
    }
}

/// A module that a result is given to; its type says whether it narrows it.
pub(crate) struct Taker {
    pub(crate) place: Rc<Place>,
    /// The place does not change and can be borrowed wherever it is named.
    pub(crate) fixed: bool,
    /// The closures around it.
    pub(crate) closures: Vec<u32>,
    pub(crate) site: Site,
}

/// A call whose result may be written narrow.
struct Origin {
    site: Site,
    /// The region's precision there.
    half: String,
    writer: Writer,
}

/// Who may write a result narrow.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Writer {
    /// An operation.
    Operation,
    /// An operation that keeps more for its gradient when it does: in vain, where control does not come by who narrows
    /// the result.
    Keeping,
    /// A module, whose type says whether it can.
    Module,
}

/// What a value is.
enum Node {
    /// The result of no such call.
    Foreign,
    Result(Origin),
    /// One of these: a variable that was assigned in a branch or a loop.
    Either(Vec<usize>),
}

/// Every graph has it, and it is what a variable holds that no other node is known for.
const FOREIGN: usize = 0;

enum Taking {
    /// Its value goes on as another use, or is only asked for what it is in every precision.
    Passed,
    /// Narrowed to this precision.
    Narrowed(String),
    /// Given to a module in a region of this precision.
    Given(String, Rc<Taker>),
    /// As `Passed`, if the functions of this Rust module are the library's.
    PassedBy(Rc<Path>),
}

struct Use {
    nodes: Vec<usize>,
    taking: Option<Taking>,
}

/// How a call whose result nobody needs in F32 writes it.
#[derive(Clone)]
pub(crate) struct Decision {
    /// The modules that have to narrow it.
    pub(crate) takers: Vec<Rc<Taker>>,
    /// The Rust modules whose functions have to be the library's.
    pub(crate) functions: Vec<Rc<Path>>,
    /// Whoever narrows it finds it narrow.
    free: bool,
}

/// The calls that write a narrow result.
#[derive(Clone, Default)]
pub(crate) struct Direct {
    calls: HashMap<Site, Decision>,
    /// By the number of a use: its value was written narrow, whatever the modules are.
    free: Vec<bool>,
}

impl Direct {
    pub(crate) fn get(&self, site: Site) -> Option<&Decision> {
        self.calls.get(&site)
    }

    /// Whether narrowing a value costs nothing.
    pub(crate) fn is_free(&self, flow: &Flow) -> bool {
        let free = |&number: &usize| self.free.get(number).copied().unwrap_or(false);
        !flow.is_empty() && !flow.foreign && flow.uses.iter().all(free)
    }
}

/// What is known about one origin when all its uses are.
#[derive(Default)]
struct Fate {
    open: bool,
    narrowed: bool,
    takers: Vec<Rc<Taker>>,
    functions: Vec<Rc<Path>>,
}

/// Values and uses of one round.
pub(crate) struct Flows {
    nodes: Vec<Node>,
    uses: Vec<Use>,
    state: State,
    /// Results that were given up before anybody narrowed them.
    unused: BTreeSet<usize>,
    /// Variables that closures assign to, nobody knows when.
    disturbed: BTreeSet<usize>,
    pins: pins::Loops,
}

impl Default for Flows {
    fn default() -> Self {
        let (uses, state, unused, disturbed, pins) = Default::default();
        Self { nodes: vec![Node::Foreign], uses, state, unused, disturbed, pins }
    }
}

impl Flows {
    /// The result of the call `site` in a region of precision `half`.
    pub(crate) fn produce(&mut self, site: Site, half: &str, writer: Writer) -> Flow {
        let node = self.node(Node::Result(Origin { site, half: half.to_owned(), writer }));
        if writer == Writer::Keeping {
            self.state.wait_for(node);
        }
        self.open(vec![node])
    }

    fn node(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn open(&mut self, nodes: Vec<usize>) -> Flow {
        self.uses.push(Use { nodes, taking: None });
        Flow { uses: vec![self.uses.len() - 1], foreign: false }
    }

    /// What the values are whose uses end here.
    fn take(&mut self, flow: &Flow) -> Vec<usize> {
        let mut nodes = if flow.foreign { vec![FOREIGN] } else { Vec::new() };
        for &number in &flow.uses {
            self.uses[number].taking = Some(Taking::Passed);
            nodes.extend(&self.uses[number].nodes);
        }
        nodes
    }

    /// The value goes on, changed in a way that commutes with rounding, if the functions of this Rust module are the
    /// library's.
    pub(crate) fn pass(&mut self, flow: &Flow, functions: Option<&Rc<Path>>) -> Flow {
        if flow.is_empty() {
            return Flow::default();
        }
        let nodes = self.take(flow);
        for (&number, functions) in flow.uses.iter().zip(functions.into_iter().cycle()) {
            self.uses[number].taking = Some(Taking::PassedBy(functions.clone()));
        }
        self.open(nodes)
    }

    /// The value is asked for what it is in every precision.
    pub(crate) fn ask(&mut self, flow: &Flow) {
        self.take(flow);
    }

    /// An operation narrows the value to `half`.
    pub(crate) fn narrow(&mut self, flow: &Flow, half: &str) {
        for &number in &flow.uses {
            self.uses[number].taking = Some(Taking::Narrowed(half.to_owned()));
            self.met(number);
        }
    }

    /// Whoever comes by here has narrowed the value of this use.
    fn met(&mut self, number: usize) {
        let nodes = self.reached(&self.uses[number].nodes);
        self.state.stop_waiting_for(&nodes);
    }

    /// A module takes the value in a region of precision `half`.
    pub(crate) fn give(&mut self, flow: &Flow, half: &str, taker: &Rc<Taker>) {
        for &number in &flow.uses {
            self.uses[number].taking = Some(Taking::Given(half.to_owned(), taker.clone()));
            self.met(number);
        }
    }

    /// The calls whose results nobody needs in F32.
    pub(crate) fn direct(&mut self) -> Direct {
        self.give_up();
        let reached: Vec<Vec<usize>> = self.uses.iter().map(|one| self.reached(&one.nodes)).collect();
        let mut fates: HashMap<usize, Fate> = HashMap::new();
        for (one, nodes) in self.uses.iter().zip(&reached) {
            let (half, taker) = match &one.taking {
                Some(Taking::Passed) => continue,
                Some(Taking::PassedBy(path)) => {
                    nodes.iter().for_each(|&node| fates.entry(node).or_default().functions.push(path.clone()));
                    continue;
                }
                Some(Taking::Narrowed(half)) => (Some(half), None),
                Some(Taking::Given(half, taker)) => (Some(half), Some(taker)),
                None => (None, None),
            };
            let agrees = self.origins(nodes).all(|origin| half == Some(&origin.half));
            for &node in nodes {
                let fate = fates.entry(node).or_default();
                fate.open |= !agrees;
                fate.narrowed |= taker.is_none();
                fate.takers.extend(taker.cloned());
            }
        }
        let calls = fates.into_iter().filter(|(_, fate)| !fate.open && (fate.narrowed || !fate.takers.is_empty()));
        let calls: HashMap<Site, Decision> = calls.filter_map(|(node, fate)| self.decision(node, fate)).collect();
        let written = |node: &usize| match &self.nodes[*node] {
            Node::Result(origin) => calls.get(&origin.site).is_some_and(|decision| decision.free),
            Node::Foreign | Node::Either(_) => false,
        };
        let free = reached.iter().map(|nodes| !nodes.is_empty() && nodes.iter().all(written)).collect();
        Direct { calls, free }
    }

    fn decision(&self, node: usize, fate: Fate) -> Option<(Site, Decision)> {
        let Node::Result(origin) = &self.nodes[node] else { return None };
        if self.unused.contains(&node) {
            return None;
        }
        // A single module either narrows the result, and finds it narrow, or takes it in F32.
        let agreed = fate.takers.is_empty() || fate.takers.len() == 1 && !fate.narrowed;
        let free = origin.writer != Writer::Module && agreed;
        Some((origin.site, Decision { takers: fate.takers, functions: fate.functions, free }))
    }

    fn origins(&self, nodes: &[usize]) -> impl Iterator<Item = &Origin> {
        nodes.iter().filter_map(|&node| match &self.nodes[node] {
            Node::Result(origin) => Some(origin),
            Node::Foreign | Node::Either(_) => None,
        })
    }

    /// The results (or what is none) that these nodes lead to.
    fn reached(&self, from: &[usize]) -> Vec<usize> {
        let mut seen = from.to_vec();
        let mut next = 0;
        while let Some(&node) = seen.get(next) {
            next += 1;
            if let Node::Either(list) = &self.nodes[node] {
                let new: Vec<usize> = list.iter().copied().filter(|node| !seen.contains(node)).collect();
                seen.extend(new);
            }
        }
        seen.retain(|&node| !matches!(self.nodes[node], Node::Either(_)));
        seen
    }
}
