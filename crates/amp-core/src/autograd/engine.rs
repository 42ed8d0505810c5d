//! The backward walk.

use super::graph::{Edge, Node, Turn};
use super::later::{Later, give_later};
use super::parts::Part;
use super::peaks::{Lookout, Peaks, Spread};
use super::rows::{Rows, Which};
use super::watch;
use crate::autograd::{IdMap, IdSet};
use crate::backend::Buffer;
use crate::order::{elementwise, order_of, tensor, walk};
use crate::param::PendingUpdate;
use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, Dims, MemoryOrder};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// What a backward pass leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Gradients of leaves and of nodes marked with `retain_grad`.
    pub(crate) grads: IdMap<RawTensor>,
    /// State changes of the forward pass, oldest first.
    pub(crate) pending: Vec<PendingUpdate>,
    /// Gradients of which only some rows are stored: which ones.
    pub(crate) rows: IdMap<Which>,
    /// Rows given so far, by leaf.
    given_rows: IdMap<Vec<Rows>>,
    /// Parts of gradients of nodes that may be joined by others.
    joining: IdMap<Part>,
    /// Shares of leaves that are still to be computed.
    pub(super) later: Vec<Later>,
    /// Largest magnitudes of the gradients, where they were asked for.
    pub(crate) peaks: Peaks,
}

/// One node's turn: the gradient of its output, and where to put those of its inputs.
pub(crate) struct Pass<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) grad: RawTensor,
    pub(super) wanted: &'a IdSet,
    pub(super) collected: &'a mut Collected,
    pub(super) lookout: Option<&'a mut Lookout>,
}

impl<'a> Pass<'a> {
    /// Gradient of the node's output, in its shape and precision.
    pub(crate) fn grad(&self) -> &RawTensor {
        &self.grad
    }

    /// Lets the gradient go for another of its shape.
    pub(crate) fn becomes(&mut self, grad: RawTensor) {
        self.grad = grad;
    }

    /// Whether input `i` needs a gradient in this pass.
    pub(crate) fn wants(&self, i: usize) -> bool {
        self.edge(i).is_some()
    }

    /// Where the gradient of input `i` goes, if it needs one.
    pub(crate) fn input(&self, i: usize) -> Option<Edge> {
        self.edge(i).cloned()
    }

    /// Shape of the gradient of input `i`, or `None` when it needs none.
    pub(crate) fn shape(&self, i: usize) -> Option<Dims> {
        self.edge(i).map(|edge| *edge.shape())
    }

    /// Precision in which the gradient of input `i` is collected (F32 for an input that needs none).
    pub(crate) fn dtype(&self, i: usize) -> DType {
        self.edge(i).map_or(DType::F32, Edge::dtype)
    }

    /// Precision of what an element-wise operation gives input `i` for each element of its output: where several are summed
    /// because `i` was broadcast, no less than that of the output, so that a widened 16-bit input's sum alone is rounded.
    pub(crate) fn summand(&self, i: usize) -> DType {
        let collected = self.dtype(i);
        let summed = self.edge(i).is_some_and(|edge| edge.shape() != self.grad.shape());
        if summed && self.grad.logical.size() > collected.size() { self.grad.logical } else { collected }
    }

    /// The 16-bit precision that the gradient of input `i` is rounded to for others once it is complete, if it is: that of a
    /// summand, where the input is a sum in F32, or of what it is a view of. Nothing else is given to an input that has no
    /// gradient yet.
    pub(crate) fn narrows(&self, i: usize) -> Option<DType> {
        let edge = self.edge(i)?;
        let also = narrowed_by(edge, self.wanted).or_else(|| viewed_in(edge));
        also.filter(|_| !self.collected.grads.contains_key(&edge.id()))
    }

    /// Adds to the gradient of input `i`, summing over broadcast dimensions and rounding to its precision.
    pub(crate) fn give(&mut self, i: usize, grad: RawTensor) -> Result<()> {
        self.give_product(i, grad, None)
    }

    /// As [`give`](Self::give), for a product whose factors' `spread` may be known.
    pub(crate) fn give_product(&mut self, i: usize, grad: RawTensor, spread: Option<Spread>) -> Result<()> {
        self.edge(i).map_or(Ok(()), |edge| self.give_to(edge, grad, spread))
    }

    /// The output of relu that input `i` is, and relu's own input, if that is a node which collects in the same precision and
    /// nobody asks for the gradient of the output: a product may give its share to relu's input, 0 where relu was.
    ///
    /// Relu in its turn has what others gave to it, or nothing.
    pub(crate) fn through_relu(&self, i: usize) -> Option<(RawTensor, &'a Edge)> {
        let Some(Edge::Node(relu)) = self.edge(i) else { return None };
        let before = relu.inputs.first()?.as_ref().filter(|edge| self.wanted.contains(&edge.id()))?;
        let plain = matches!(before, Edge::Node(_)) && before.dtype() == relu.dtype;
        if !plain || relu.retain.load(Ordering::Relaxed) || watch::on() {
            return None;
        }
        match &relu.held.lock().unwrap_or_else(PoisonError::into_inner).turn {
            Some(Turn::Relu(signs)) => signs.output().map(|y| (y, before)),
            _ => None,
        }
    }

    /// Adds to the gradient of an input, or of [what lies behind it](Self::through_relu).
    pub(crate) fn give_to(&mut self, edge: &Edge, mut grad: RawTensor, spread: Option<Spread>) -> Result<()> {
        if let (Some(lookout), Edge::Leaf(_)) = (&mut self.lookout, edge) {
            lookout.note(edge.id(), spread);
        }
        if grad.shape() != edge.shape() || grad.logical != edge.dtype() {
            grad = grad.sum_to(edge.shape(), edge.dtype())?;
        }
        grad.edge = None;
        match self.collected.grads.entry(edge.id()) {
            Entry::Vacant(slot) => {
                slot.insert(grad);
            }
            Entry::Occupied(mut slot) => {
                let sum = match narrowed_by(edge, self.wanted) {
                    Some(also) => add_narrowed(slot.get(), &grad, also)?,
                    None => add(slot.get(), &grad, edge.dtype())?,
                };
                slot.insert(sum);
            }
        }
        Ok(())
    }

    /// Adds rows to the gradient of input `i`; they stay rows if it is an F32 leaf that gets nothing else.
    pub(crate) fn give_rows(&mut self, i: usize, rows: Rows) -> Result<()> {
        match self.edge(i) {
            Some(Edge::Leaf(leaf)) if leaf.dtype == DType::F32 => {
                let id = leaf.id;
                self.collected.given_rows.entry(id).or_default().push(rows);
                Ok(())
            }
            Some(_) => self.give(i, rows.dense()?),
            None => Ok(()),
        }
    }

    /// Gives neighbours along `axis`, from `start` on, of the gradient of input `i` a part of it, if it is of a node and may lie
    /// beside the other parts; whether it did.
    pub(crate) fn give_part(&mut self, i: usize, axis: usize, start: usize) -> Result<bool> {
        let Some(Edge::Node(node)) = self.edge(i) else { return Ok(false) };
        let (id, shape) = (node.id, node.shape);
        let Some(part) = Part::new(axis, start, &self.grad, node.dtype) else { return Ok(false) };
        let Some(other) = self.collected.joining.remove(&id) else {
            self.collected.joining.insert(id, part);
            return Ok(true);
        };
        match other.joined(&part).or_else(|| part.joined(&other)) {
            Some(joined) => match joined.whole(&shape) {
                Some(whole) => self.give(i, whole)?,
                None => {
                    self.collected.joining.insert(id, joined);
                }
            },
            None => {
                self.give(i, other.spread(shape)?)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes out what input `i` has collected so far, for a kernel that accumulates into it; give the result back.
    pub(crate) fn take(&mut self, i: usize) -> Option<RawTensor> {
        let id = self.edge(i)?.id();
        self.collected.grads.remove(&id)
    }

    /// Takes out what input `i`, a node, has collected so far, for a kernel that adds to it where it lies in `order`; give the
    /// result back. Nothing that others hold too, and no sum of which a copy is rounded for others as it is added.
    pub(crate) fn take_in(&mut self, order: MemoryOrder, i: usize) -> Option<Buffer> {
        let edge = self.edge(i).filter(|edge| matches!(edge, Edge::Node(_)))?;
        if narrowed_by(edge, self.wanted).is_some() {
            return None;
        }
        let collected = self.take(i)?;
        let layout = collected.layout;
        let walked = RawTensor { layout: order.walked(&layout), ..collected };
        walked.into_buffer().map_err(|shared| self.put_back(i, RawTensor { layout, ..shared })).ok()
    }

    /// Takes out what input `i`, a node, has collected so far, for a kernel that writes it anew with its own share; give the
    /// result back. Only a sum in the precision `computed` that is stored in it, row-major.
    pub(crate) fn take_sum(&mut self, i: usize, computed: DType) -> Option<RawTensor> {
        let edge = self.edge(i).filter(|edge| matches!(edge, Edge::Node(_)) && edge.dtype() == computed)?;
        let collected = self.collected.grads.get(&edge.id())?;
        let as_written = collected.value.buffer.dtype() == computed && collected.layout.is_contiguous();
        as_written.then(|| self.take(i)).flatten()
    }

    /// Puts back what was taken.
    pub(crate) fn put_back(&mut self, i: usize, grad: RawTensor) {
        if let Some(id) = self.edge(i).map(Edge::id) {
            self.collected.grads.insert(id, grad);
        }
    }

    /// Walks back from `root`, which was made in this turn, with the node's gradient: leaves and nodes that were there before
    /// collect their shares, and those nodes have their turns later.
    pub(crate) fn walk(&mut self, root: &RawTensor) -> Result<()> {
        let Some(edge) = &root.edge else { return Ok(()) };
        let nodes = reachable(edge, self.node.id);
        let wanted = wanted(&nodes, edge, Some(self.wanted));
        if wanted.contains(&edge.id()) {
            self.give_to(edge, self.grad.clone(), None)?;
        }
        let earlier = std::mem::take(&mut self.collected.later);
        for node in nodes.values().rev() {
            step(node, &wanted, false, self.collected, self.lookout.as_deref_mut())?;
            if watch::on() {
                watch::backward(node, &self.collected.grads);
            }
        }
        give_later(&wanted, self.collected, self.lookout.as_deref_mut())?;
        self.collected.later = earlier;
        Ok(())
    }

    pub(super) fn edge(&self, i: usize) -> Option<&'a Edge> {
        self.node.inputs.get(i)?.as_ref().filter(|edge| self.wanted.contains(&edge.id()))
    }
}

/// `a + b` in precision `dtype`.
pub(crate) fn add(a: &RawTensor, b: &RawTensor, dtype: DType) -> Result<RawTensor> {
    elementwise([a, b], |backend, [a, b]| backend.binary(Binary::Add, a, b, dtype))
}

/// `a + b` in F32, with its copy in precision `also` where the device writes both at once.
fn add_narrowed(a: &RawTensor, b: &RawTensor, also: DType) -> Result<RawTensor> {
    let order = order_of([a, b]);
    let (sum, copy) =
        walk(order, [a, b], |backend, [a, b]| backend.binary_narrowed(Binary::Add, a, b, DType::F32, also))?;
    Ok(tensor(order, a.device(), sum, *a.shape()).with_narrowed(copy))
}

/// The precision of a 16-bit summand of the same shape, if the gradient of `edge` is that of a sum in F32.
fn narrowed_by(edge: &Edge, wanted: &IdSet) -> Option<DType> {
    let Edge::Node(node) = edge else { return None };
    if node.op != "add" || node.dtype != DType::F32 {
        return None;
    }
    let summands = node.inputs.iter().flatten().filter(|of| wanted.contains(&of.id()) && *of.shape() == node.shape);
    summands.map(Edge::dtype).find(|dtype| dtype.is_half())
}

/// The 16-bit precision of what `edge` shows all elements of in F32, in another shape.
fn viewed_in(edge: &Edge) -> Option<DType> {
    let Edge::Node(node) = edge else { return None };
    let [Some(from)] = &node.inputs[..] else { return None };
    let held = node.held.lock().unwrap_or_else(PoisonError::into_inner);
    let views = matches!(held.turn, Some(Turn::Sizes(_))) && from.shape().count() == node.shape.count();
    match from.dtype() {
        _ if !views || node.dtype != DType::F32 => None,
        DType::F32 => viewed_in(from),
        dtype => Some(dtype).filter(|dtype| dtype.is_half()),
    }
}

/// Walks back from `root` with gradient `seed`. With `targets`, only towards those; otherwise to every leaf.
/// With `retain`, the graph can be walked again; with `look`, the magnitudes of all gradients are reported.
pub(crate) fn run(
    root: &RawTensor,
    seed: RawTensor,
    targets: Option<&IdSet>,
    retain: bool,
    look: bool,
) -> Result<Collected> {
    let Some(edge) = &root.edge else { return Err(Error::NoGraph) };
    let nodes = reachable(edge, 0);
    let wanted = wanted(&nodes, edge, targets);
    let mut collected = Collected::default();
    let mut lookout = look.then(|| Lookout::new(nodes.values().copied()));
    if wanted.contains(&edge.id()) {
        collected.grads.insert(edge.id(), seed.cast_view(edge.dtype())?);
    }
    for node in nodes.values().rev() {
        step(node, &wanted, retain, &mut collected, lookout.as_mut())?;
        if let Some(lookout) = &mut lookout {
            lookout.done(node, &collected.grads)?;
        }
        if watch::on() {
            watch::backward(node, &collected.grads);
        }
    }
    give_later(&wanted, &mut collected, lookout.as_mut())?;
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

/// Makes one gradient of all rows of a leaf; a dense one where the leaf got other shares too.
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

fn step(
    node: &Arc<Node>,
    wanted: &IdSet,
    retain: bool,
    collected: &mut Collected,
    lookout: Option<&mut Lookout>,
) -> Result<()> {
    if !wanted.contains(&node.id) {
        return Ok(());
    }
    let mut held = node.held.lock().unwrap_or_else(PoisonError::into_inner);
    // Each lands once: behind a retained graph those of the pass that is stepped with.
    if retain {
        collected.pending.extend(held.pending.iter().rev().cloned());
    } else {
        collected.pending.extend(held.pending.drain(..).rev());
    }
    if let Some(part) = collected.joining.remove(&node.id) {
        let part = part.spread(node.shape)?;
        let sum = collected.grads.remove(&node.id).map_or(Ok(part.clone()), |other| add(&other, &part, node.dtype))?;
        collected.grads.insert(node.id, sum);
    }
    let keep = node.retain.load(Ordering::Relaxed);
    let grad = if keep { collected.grads.get(&node.id).cloned() } else { collected.grads.remove(&node.id) };
    let Some(grad) = grad else {
        // Whatever was to come has gone past the node.
        held.turn.take_if(|turn| !retain && matches!(turn, Turn::Relu(_)));
        return Ok(());
    };
    let freed = || Error::GraphFreed { op: node.op, location: node.location };
    let mut pass = Pass { node, grad, wanted, collected, lookout };
    if retain || held.turn.as_ref().is_some_and(|turn| !turn.holds()) {
        return held.turn.as_ref().ok_or_else(freed)?.run(&mut pass);
    }
    let turn = held.turn.take().ok_or_else(freed)?;
    drop(held);
    turn.run(&mut pass)
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

/// Every node younger than `since` that `root` depends on, oldest first. Handles of their own would be counted up and down.
fn reachable(root: &Edge, since: u64) -> BTreeMap<u64, &Arc<Node>> {
    let mut found = BTreeMap::new();
    let mut stack = vec![root];
    while let Some(edge) = stack.pop() {
        if let Edge::Node(node) = edge
            && node.id > since
            && let std::collections::btree_map::Entry::Vacant(slot) = found.entry(node.id)
        {
            stack.extend(node.inputs.iter().flatten());
            slot.insert(node);
        }
    }
    found
}

/// Ids of all leaves and nodes that lie on a way to a target.
fn wanted(nodes: &BTreeMap<u64, &Arc<Node>>, root: &Edge, targets: Option<&IdSet>) -> IdSet {
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
