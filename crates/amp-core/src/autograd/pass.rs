//! What an operation's backward pass sees: the gradient of its output, and where those of its inputs go.

use super::deferred::give_deferred;
use super::engine::{Collected, Walk, reachable, step, wanted};
use super::graph::{Edge, Node, Turn};
use super::parts::Part;
use super::peaks::{Lookout, Spread};
use super::rows::Rows;
use super::watch;
use crate::Result;
use crate::autograd::IdSet;
use crate::backend::Buffer;
use crate::locks::lock;
use crate::order::{elementwise, order_of, tensor, walk};
use crate::raw::RawTensor;
use amp_cpu::{Binary, DType, Dims, MemoryOrder};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// One node's turn in the backward walk.
pub(crate) struct Pass<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) grad: RawTensor,
    pub(super) wanted: &'a IdSet,
    pub(super) walk: Walk<'a>,
    pub(super) collected: &'a mut Collected,
    pub(super) lookout: Option<&'a mut Lookout>,
}

impl<'a> Pass<'a> {
    /// Gradient of the node's output, in its shape and precision.
    pub(crate) fn grad(&self) -> &RawTensor {
        &self.grad
    }

    /// Replaces the gradient of the node's output by another of its shape, so that the first one can be freed.
    pub(crate) fn replace_grad(&mut self, grad: RawTensor) {
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

    /// Precision in which an element-wise operation computes its share for input `i`.
    ///
    /// That of the input's gradient, and at least that of the output where `i` was broadcast: then only the sum over the
    /// broadcast dimensions is rounded, not each of its terms.
    pub(crate) fn summand(&self, i: usize) -> DType {
        let collected = self.dtype(i);
        let summed = self.edge(i).is_some_and(|edge| edge.shape() != self.grad.shape());
        if summed && self.grad.logical.size() > collected.size() { self.grad.logical } else { collected }
    }

    /// The 16-bit precision in which the complete F32 gradient of input `i` will be asked for, if any: that of a summand where
    /// the input is a sum in F32, or of what the input is a view of. A kernel may write both at once, unless the input has a
    /// gradient already, to which this one is only added.
    pub(crate) fn narrows(&self, i: usize) -> Option<DType> {
        let edge = self.edge(i)?;
        let also = narrowed_by(edge, self.wanted).or_else(|| viewed_in(edge));
        also.filter(|_| !self.collected.grads.contains_key(&edge.id()))
    }

    /// Adds to the gradient of input `i`, summing over broadcast dimensions and rounding to its precision.
    pub(crate) fn give(&mut self, i: usize, grad: RawTensor) -> Result<()> {
        self.give_product(i, grad, None)
    }

    /// As [`give`](Self::give), for a product. `spread` says how values that are not finite would show in it, if that is known.
    pub(crate) fn give_product(&mut self, i: usize, grad: RawTensor, spread: Option<Spread>) -> Result<()> {
        self.edge(i).map_or(Ok(()), |edge| self.give_to(edge, grad, spread))
    }

    /// Where input `i` is the output of a relu: that output, and the edge of relu's own input.
    ///
    /// A product may then give its share to that edge itself, with 0 where the output is 0. Relu's turn handles only what
    /// others gave to relu. `None` where relu's input is no node or collects in another precision, and where somebody wants to
    /// see the gradient of relu's output.
    pub(crate) fn through_relu(&self, i: usize) -> Option<(RawTensor, &'a Edge)> {
        let Some(Edge::Node(relu)) = self.edge(i) else { return None };
        let before = relu.inputs.first()?.as_ref().filter(|edge| self.wanted.contains(&edge.id()))?;
        let plain = matches!(before, Edge::Node(_)) && before.dtype() == relu.dtype;
        if !plain || self.walk.shows(relu) || watch::on() {
            return None;
        }
        match &lock(&relu.held).turn {
            Some(Turn::Relu(signs)) => signs.output().map(|y| (y, before)),
            _ => None,
        }
    }

    /// Adds to the gradient of an input, or of the input of a [relu before it](Self::through_relu).
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

    /// Adds rows to the gradient of input `i`, which stays sparse if it is that of an F32 leaf and has no other shares.
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

    /// Offers the node's gradient as the part of the gradient of input `i` that begins at `start` along `axis`; returns
    /// whether it was taken.
    ///
    /// It is where the input is a node and the part may lie beside the others in one buffer ([`Part`]); otherwise the caller
    /// adds it.
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

    /// Takes out what input `i` has collected so far, for a kernel that accumulates into it. The caller
    /// [puts](Self::put_back) the result back.
    pub(crate) fn take(&mut self, i: usize) -> Option<RawTensor> {
        let id = self.edge(i)?.id();
        self.collected.grads.remove(&id)
    }

    /// As [`take`](Self::take), for a kernel that adds to memory in `order`.
    ///
    /// `None` for leaves, for memory that somebody else holds too, and where a 16-bit copy of the sum is written along with it
    /// ([`narrows`](Self::narrows)).
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

    /// As [`take`](Self::take), for a kernel that reads the earlier sum and writes the new one elsewhere.
    ///
    /// `None` for leaves, and unless the sum is stored row-major in the precision `computed`.
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

    /// Walks back with the node's gradient through a graph that was recorded in this turn and ends at `root`.
    ///
    /// Leaves and nodes that were there before collect their shares; those nodes have their own turns later.
    pub(crate) fn walk(&mut self, root: &RawTensor) -> Result<()> {
        let Some(edge) = &root.edge else { return Ok(()) };
        let nodes = reachable(edge, self.node.id);
        let wanted = wanted(&nodes, edge, Some(self.wanted));
        if wanted.contains(&edge.id()) {
            self.give_to(edge, self.grad.clone(), None)?;
        }
        let (earlier, walk) = (std::mem::take(&mut self.collected.deferred), Walk { retain: false, ..self.walk });
        for node in nodes.values().rev() {
            step(node, &wanted, walk, self.collected, self.lookout.as_deref_mut())?;
            if watch::on() {
                watch::backward(node, &self.collected.grads);
            }
        }
        give_deferred(&wanted, walk, self.collected, self.lookout.as_deref_mut())?;
        self.collected.deferred = earlier;
        Ok(())
    }

    /// The edge of input `i`, if this pass needs a gradient there.
    pub(super) fn edge(&self, i: usize) -> Option<&'a Edge> {
        self.node.inputs.get(i)?.as_ref().filter(|edge| self.wanted.contains(&edge.id()))
    }
}

/// `a + b` in precision `dtype`.
pub(crate) fn add(a: &RawTensor, b: &RawTensor, dtype: DType) -> Result<RawTensor> {
    elementwise([a, b], |backend, [a, b]| backend.binary(Binary::Add, a, b, dtype))
}

/// `a + b` in F32, together with a copy in precision `also` where the device writes both at once.
fn add_narrowed(a: &RawTensor, b: &RawTensor, also: DType) -> Result<RawTensor> {
    let order = order_of([a, b]);
    let (sum, copy) =
        walk(order, [a, b], |backend, [a, b]| backend.binary_narrowed(Binary::Add, a, b, DType::F32, also))?;
    Ok(tensor(order, a.device(), sum, *a.shape()).with_narrowed(copy))
}

/// Where `edge` is a sum in F32: the precision of a 16-bit summand of its shape, which will want the gradient rounded.
fn narrowed_by(edge: &Edge, wanted: &IdSet) -> Option<DType> {
    let Edge::Node(node) = edge else { return None };
    if node.op != "add" || node.dtype != DType::F32 {
        return None;
    }
    let summands = node.inputs.iter().flatten().filter(|of| wanted.contains(&of.id()) && *of.shape() == node.shape);
    summands.map(Edge::dtype).find(|dtype| dtype.is_half())
}

/// Where `edge` is an F32 view, through reshapes, of all elements of a 16-bit node: the precision of that node.
fn viewed_in(edge: &Edge) -> Option<DType> {
    let Edge::Node(node) = edge else { return None };
    let [Some(from)] = &node.inputs[..] else { return None };
    let held = lock(&node.held);
    let views = matches!(held.turn, Some(Turn::Sizes(_))) && from.shape().count() == node.shape.count();
    match from.dtype() {
        _ if !views || node.dtype != DType::F32 => None,
        DType::F32 => viewed_in(from),
        dtype => Some(dtype).filter(|dtype| dtype.is_half()),
    }
}
