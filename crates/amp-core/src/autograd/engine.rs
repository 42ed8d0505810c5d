//! The backward walk: every node has its turn, from the newest to the oldest.

use super::deferred::{Deferred, give_deferred};
use super::graph::{Edge, Node, Turn};
use super::parts::Part;
use super::pass::{Pass, add};
use super::peaks::{Lookout, Peaks};
use super::rows::{Rows, Which};
use super::watch;
use crate::autograd::{IdMap, IdSet};
use crate::locks::lock;
use crate::param::PendingUpdate;
use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::DType;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a backward pass leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Gradients of leaves, of nodes marked with `retain_grad` and of the walk's targets.
    pub(crate) grads: IdMap<RawTensor>,
    /// Nodes among them that only `retain_grad` asked for.
    pub(super) shown: IdSet,
    /// State changes of the forward pass, oldest first.
    pub(crate) pending: Vec<PendingUpdate>,
    /// Which rows are stored of the gradients that are sparse.
    pub(crate) rows: IdMap<Which>,
    /// Rows given so far, by leaf.
    pub(super) given_rows: IdMap<Vec<Rows>>,
    /// Parts of nodes' gradients that wait for the other parts.
    pub(super) joining: IdMap<Part>,
    /// Shares of leaves that are still to be computed.
    pub(super) deferred: Vec<Deferred>,
    /// Largest magnitudes of the gradients, where they were asked for.
    pub(crate) peaks: Peaks,
}

/// How a backward pass walks a graph; by default once, to every leaf.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk<'a> {
    /// Only towards these leaves and nodes.
    pub(crate) targets: Option<&'a IdSet>,
    /// The nodes keep what they saved, so that the graph can be walked again.
    pub(crate) retain: bool,
    /// The magnitudes of all gradients are taken ([`Collected::peaks`]).
    pub(crate) peaks: bool,
}

impl Walk<'_> {
    /// Whether somebody wants to see the gradient of a node's output.
    pub(super) fn shows(&self, node: &Node) -> bool {
        node.retain.load(Ordering::Relaxed) || self.targets.is_some_and(|targets| targets.contains(&node.id))
    }
}

/// Walks back from `root` with gradient `seed`.
pub(crate) fn run(root: &RawTensor, seed: RawTensor, walk: Walk<'_>) -> Result<Collected> {
    let Some(edge) = &root.edge else { return Err(Error::NoGraph) };
    let nodes = reachable(edge, 0);
    let wanted = wanted(&nodes, edge, walk.targets);
    let mut collected = Collected::default();
    let mut lookout = walk.peaks.then(|| Lookout::new(nodes.values().copied()));
    if wanted.contains(&edge.id()) {
        collected.grads.insert(edge.id(), seed.cast_view(edge.dtype())?);
    }
    for node in nodes.values().rev() {
        step(node, &wanted, walk, &mut collected, lookout.as_mut())?;
        if let Some(lookout) = &mut lookout {
            lookout.done(node, &collected.grads)?;
        }
        if watch::on() {
            watch::backward(node, &collected.grads);
        }
    }
    give_deferred(&wanted, walk, &mut collected, lookout.as_mut())?;
    if watch::on() {
        watch::finish(nodes.values().copied(), &collected.grads);
    }
    join_rows(&mut collected, lookout.as_mut())?;
    if let Some(lookout) = lookout {
        collected.peaks = lookout.finish(&collected.grads)?;
    }
    collected.pending.reverse();
    Ok(collected)
}

/// Joins all rows that a leaf was given into one gradient, which is dense where the leaf has other shares too.
fn join_rows(collected: &mut Collected, mut lookout: Option<&mut Lookout>) -> Result<()> {
    for (id, given) in std::mem::take(&mut collected.given_rows) {
        let rows = Rows::coalesced(&given)?;
        let grad = match collected.grads.remove(&id) {
            Some(dense) => add(&dense, &rows.dense()?, dense.logical)?,
            None => {
                collected.rows.insert(id, rows.which);
                rows.values
            }
        };
        collected.grads.insert(id, grad);
        if let Some(lookout) = &mut lookout {
            lookout.note(id, None);
        }
    }
    Ok(())
}

/// One node's turn, if it lies on the way to a target and somebody gave it a gradient. Where the way ends it stays usable.
pub(super) fn step(
    node: &Arc<Node>,
    wanted: &IdSet,
    walk: Walk<'_>,
    collected: &mut Collected,
    lookout: Option<&mut Lookout>,
) -> Result<()> {
    if !wanted.contains(&node.id) {
        return Ok(());
    }
    if !node.inputs.iter().flatten().any(|edge| wanted.contains(&edge.id())) {
        return output_grad(node, walk, collected).map(drop);
    }
    let retain = walk.retain;
    let mut held = lock(&node.held);
    // Behind a retained graph several passes have the same changes: those of the pass that is stepped with land.
    if retain {
        collected.pending.extend(held.pending.iter().rev().cloned());
    } else {
        collected.pending.extend(held.pending.drain(..).rev());
    }
    let Some(grad) = output_grad(node, walk, collected)? else {
        // A product may have given its share to what lies behind the relu: then no turn comes.
        held.turn.take_if(|turn| !retain && matches!(turn, Turn::Relu(_)));
        return Ok(());
    };
    let freed = || Error::GraphFreed { op: node.op, location: node.location };
    let mut pass = Pass { node, grad, wanted, walk, collected, lookout };
    if retain || held.turn.as_ref().is_some_and(|turn| !turn.holds()) {
        return held.turn.as_ref().ok_or_else(freed)?.run(&mut pass);
    }
    let turn = held.turn.take().ok_or_else(freed)?;
    drop(held);
    turn.run(&mut pass)
}

/// The gradient of a node's output, complete by now; it stays among the collected ones where somebody wants to see it.
fn output_grad(node: &Node, walk: Walk<'_>, collected: &mut Collected) -> Result<Option<RawTensor>> {
    if let Some(part) = collected.joining.remove(&node.id) {
        let part = part.spread(node.shape)?;
        let sum = collected.grads.remove(&node.id).map_or(Ok(part.clone()), |other| add(&other, &part, node.dtype))?;
        collected.grads.insert(node.id, sum);
    }
    if !walk.shows(node) {
        return Ok(collected.grads.remove(&node.id));
    }
    if !walk.targets.is_some_and(|targets| targets.contains(&node.id)) {
        collected.shown.insert(node.id);
    }
    Ok(collected.grads.get(&node.id).cloned())
}

impl Turn {
    fn holds(&self) -> bool {
        match self {
            Self::Backward(backward) => backward.holds(),
            Self::Sizes(_) => false,
            Self::Relu(_) => true,
        }
    }

    fn run(&self, pass: &mut Pass<'_>) -> Result<()> {
        match self {
            Self::Backward(backward) | Self::Sizes(backward) => backward.give(pass),
            Self::Relu(signs) => {
                let dx = signs.grad(pass.grad(), pass.dtype(0))?;
                pass.give(0, dx)
            }
        }
    }
}

/// The oldest operation in the graph of `root` that ran in F16, if any.
pub(crate) fn first_f16(root: &RawTensor) -> Option<(&'static str, &'static Location<'static>)> {
    let nodes = reachable(root.edge.as_ref()?, 0);
    nodes.values().find(|node| node.dtype == DType::F16).map(|node| (node.op, node.location))
}

/// Takes the changes of state that forward passes left pending in the graph of `root`, of nodes younger than `since`; oldest
/// first.
pub(crate) fn take_pending(root: &RawTensor, since: u64) -> Vec<PendingUpdate> {
    let nodes = root.edge.as_ref().map(|edge| reachable(edge, since)).unwrap_or_default();
    nodes.values().flat_map(|node| std::mem::take(&mut lock(&node.held).pending)).collect()
}

/// Every node younger than `since` that `root` depends on, oldest first; borrowed, which saves counting references.
pub(super) fn reachable(root: &Edge, since: u64) -> BTreeMap<u64, &Arc<Node>> {
    let mut found = BTreeMap::new();
    let mut stack = vec![root];
    while let Some(edge) = stack.pop() {
        if let Edge::Node(node) = edge
            && node.id > since
            && let Entry::Vacant(slot) = found.entry(node.id)
        {
            stack.extend(node.inputs.iter().flatten());
            slot.insert(node);
        }
    }
    found
}

/// Ids of all leaves and nodes on a path to a target; without targets, to any leaf.
pub(super) fn wanted(nodes: &BTreeMap<u64, &Arc<Node>>, root: &Edge, targets: Option<&IdSet>) -> IdSet {
    let mut wanted = IdSet::with_capacity_and_hasher(2 * nodes.len(), Default::default());
    let is_target = |edge: &Edge| match (edge, targets) {
        (_, Some(targets)) => targets.contains(&edge.id()),
        (Edge::Leaf(_), None) => true,
        (Edge::Node(_), None) => false,
    };
    for node in nodes.values() {
        for edge in node.inputs.iter().flatten() {
            if is_target(edge) {
                wanted.insert(edge.id());
            }
        }
        let on_the_way = node.inputs.iter().flatten().any(|edge| wanted.contains(&edge.id()));
        if on_the_way || node.retain.load(Ordering::Relaxed) {
            wanted.insert(node.id);
        }
    }
    if is_target(root) {
        wanted.insert(root.id());
    }
    wanted
}
