//! Magnitudes of gradients, taken in the backward pass of a scaled loss.
//!
//! The decision whether to step is known before the step begins, so the step reads each gradient once: unscaling, update
//! and the rewriting of 16-bit copies are one pass. Products of F16 matrices, which nearly all gradients of a model are,
//! are judged by their edges ([`Spread`]); others are read right after their last share arrived, while much of them is
//! still in the caches.

use super::graph::Node;
use crate::Result;
use crate::autograd::IdMap;
use crate::backend::Operand;
use crate::raw::RawTensor;
use amp_cpu::DType;
use std::sync::Arc;

/// Bytes of complete gradients that are read in one go: fewer are not worth waking threads for.
const BATCH: usize = 2 << 20;

/// A bound on the magnitude of each gradient: not finite exactly when one of its elements is not.
#[derive(Debug, Default)]
pub(crate) struct Peaks(pub(crate) IdMap<f32>);

/// How a factor that is not finite shows in a gradient `[R, C, ..]`.
///
/// A sum of products of F16 numbers cannot overflow F32, so an element is not finite only where a factor was not. Such a
/// factor spoils whole rows `[r, ..]`, or in whole columns `[.., c, ..]` at least one and the same place of every row of
/// its group. So it is enough to look at the first column, and at the first row of each group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// Bound on the magnitude where all factors are finite.
    bound: f32,
    /// Groups of rows that have factors of their own.
    groups: usize,
}

impl Spread {
    /// The spread in a sum of `depth` products of elements of `a` and `b`; none is known for other precisions than F16.
    pub(crate) fn of(a: DType, b: DType, depth: usize, groups: usize) -> Option<Self> {
        let largest = half::f16::MAX.to_f32();
        (a == DType::F16 && b == DType::F16).then_some(Self { bound: largest * largest * depth as f32, groups })
    }

    /// Both in the same gradient.
    fn and(self, other: Self) -> Option<Self> {
        (self.groups == other.groups).then_some(Self { bound: self.bound + other.bound, ..self })
    }

    /// The edges of a gradient.
    fn edges(&self, grad: &RawTensor) -> [RawTensor; 2] {
        let (mut column, mut rows) = (grad.layout, grad.layout);
        column.shape[1] = column.shape[1].min(1);
        let apart = rows.shape[0] / self.groups;
        rows.shape[0] = rows.shape[0].min(self.groups);
        rows.strides[0] *= apart;
        [grad.with_layout(column), grad.with_layout(rows)]
    }
}

impl Peaks {
    /// What is known of the sum of a gradient with bound `self[id]` and one of the same leaf with bound `other`.
    ///
    /// The sum of both bounds the magnitude of the sum, also as it is rounded; nothing is known when that overflows.
    pub(crate) fn add(&mut self, id: u64, other: Option<f32>) {
        let sum = self.0.remove(&id).zip(other).map(|(a, b)| (a + b, a.is_finite() && b.is_finite()));
        if let Some((sum, _)) = sum.filter(|(sum, finite)| sum.is_finite() || !finite) {
            self.0.insert(id, sum);
        }
    }
}

/// Looks at the gradients of one backward pass.
pub(super) struct Lookout {
    /// How many operations are still to give their share to a leaf.
    open: IdMap<usize>,
    /// Complete, but not yet looked at.
    ready: Vec<u64>,
    bytes: usize,
    /// What is known of the gradients collected so far; `None` for those that must be read.
    spreads: IdMap<Option<Spread>>,
    peaks: Peaks,
}

impl Lookout {
    pub(super) fn new<'n>(nodes: impl Iterator<Item = &'n Arc<Node>>) -> Self {
        let mut open = IdMap::default();
        for edge in nodes.flat_map(|node| node.inputs.iter().flatten()) {
            *open.entry(edge.id()).or_insert(0) += 1;
        }
        Self { open, ready: Vec::new(), bytes: 0, spreads: IdMap::default(), peaks: Peaks::default() }
    }

    /// Notes that `node` has had its turn.
    pub(super) fn done(&mut self, node: &Node, grads: &IdMap<RawTensor>) -> Result<()> {
        for edge in node.inputs.iter().flatten() {
            let Some(left) = self.open.get_mut(&edge.id()) else { continue };
            *left -= 1;
            if let (0, super::Edge::Leaf(_), Some(grad)) = (*left, edge, grads.get(&edge.id())) {
                self.ready.push(edge.id());
                let reads = self.spreads.get(&edge.id()).is_none_or(Option::is_none);
                self.bytes += if reads { grad.layout.count() * grad.logical.size() } else { 0 };
            }
        }
        if self.bytes >= BATCH { self.look(grads) } else { Ok(()) }
    }

    /// Notes a share of a gradient, and forgets what was seen of it before.
    pub(super) fn note(&mut self, id: u64, spread: Option<Spread>) {
        let all = self.spreads.entry(id).or_insert(spread.map(|s| Spread { bound: 0.0, ..s }));
        *all = all.zip(spread).and_then(|(all, share)| all.and(share));
        self.peaks.0.remove(&id);
    }

    /// Looks at the rest: a graph inside a node gives to leaves that no node names.
    pub(super) fn finish(mut self, grads: &IdMap<RawTensor>) -> Result<Peaks> {
        self.ready = grads.keys().filter(|id| !self.peaks.0.contains_key(id)).copied().collect();
        self.look(grads)?;
        Ok(self.peaks)
    }

    fn look(&mut self, grads: &IdMap<RawTensor>) -> Result<()> {
        self.bytes = 0;
        let mut views: Vec<(u64, f32, RawTensor)> = Vec::new();
        for id in self.ready.drain(..) {
            let Some(grad) = grads.get(&id) else { continue };
            match self.spreads.get(&id).copied().flatten() {
                Some(spread) => views.extend(spread.edges(grad).map(|edge| (id, spread.bound, edge))),
                None => views.push((id, 0.0, grad.detached())),
            }
        }
        let Some(device) = views.first().map(|(.., view)| view.device().clone()) else { return Ok(()) };
        views.retain(|(.., view)| *view.device() == device);
        let operands = views.iter().map(|(.., view)| view.operand()).collect::<Result<Vec<Operand<'_>>>>()?;
        let Some(peaks) = device.backend().peaks(&operands)? else { return Ok(()) };
        for ((id, bound, _), peak) in views.iter().zip(peaks) {
            let slot = self.peaks.0.entry(*id).or_insert(*bound);
            // NaN, once there, stays.
            *slot = if slot.is_finite() && (!peak.is_finite() || peak > *slot) { peak } else { *slot };
        }
        Ok(())
    }
}
