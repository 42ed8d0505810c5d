//! Nodes, edges and leaves of the recorded graph.

use super::grad_mode::{GradMode, grad_mode};
use super::pass::Pass;
use super::saved::SavedSigns;
use super::{IdSet, watch};
use crate::Result;
use crate::param::PendingUpdate;
use crate::raw::RawTensor;
use amp_cpu::{DType, Dims};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Gives each input of an operation its share of the gradient.
pub(crate) type Backward = Box<dyn Shares>;

/// A function that gives shares, and whether a backward pass frees what it holds.
pub(crate) trait Shares: Send + Sync {
    fn give(&self, pass: &mut Pass<'_>) -> Result<()>;

    /// Whether it holds memory; one that knows only shapes and numbers is kept for later passes.
    fn holds(&self) -> bool;
}

impl<F: Fn(&mut Pass<'_>) -> Result<()> + Send + Sync> Shares for F {
    fn give(&self, pass: &mut Pass<'_>) -> Result<()> {
        self(pass)
    }

    fn holds(&self) -> bool {
        std::mem::needs_drop::<F>()
    }
}

/// What a node does when its turn comes.
pub(crate) enum Turn {
    Backward(Backward),
    /// Holds nothing but sizes, though perhaps on the heap: every later pass can use it, none frees it.
    Sizes(Backward),
    /// Gives its input the gradient where relu let it through; a product that gives to the node may have done so already.
    Relu(Arc<SavedSigns>),
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number no other leaf or node has; later ones are greater.
pub(crate) fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A tensor that collects a gradient: a parameter or an input that asked for one.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) id: u64,
    /// Path in the model, for reports and files; empty for what is not a parameter of one.
    pub(crate) name: RwLock<String>,
    pub(crate) shape: Dims,
    pub(crate) dtype: DType,
}

impl Leaf {
    pub(crate) fn new(shape: Dims, dtype: DType) -> Self {
        Self { id: next_id(), name: RwLock::default(), shape, dtype }
    }
}

/// One recorded operation.
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) op: &'static str,
    pub(crate) location: &'static Location<'static>,
    /// The function that called the operation; known only while a problem is looked for.
    pub(crate) function: Option<String>,
    pub(crate) shape: Dims,
    pub(crate) dtype: DType,
    pub(crate) inputs: Vec<Option<Edge>>,
    /// Set by `retain_grad`: the gradient of this node's output is reported too.
    pub(crate) retain: AtomicBool,
    pub(crate) held: Mutex<Held>,
}

/// What a node keeps for its turn in a backward pass.
pub(crate) struct Held {
    /// Taken by the pass that frees the graph, if it holds memory. None in an outline ([`GradMode::Outline`]).
    pub(crate) turn: Option<Turn>,
    /// Changes of state (running statistics) that wait for the optimizer step to be taken.
    pub(crate) pending: Vec<PendingUpdate>,
}

/// Where the gradient of a tensor goes.
#[derive(Clone)]
pub(crate) enum Edge {
    Leaf(Arc<Leaf>),
    Node(Arc<Node>),
}

impl Edge {
    pub(crate) fn id(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.id,
            Self::Node(node) => node.id,
        }
    }

    /// The operation that made the tensor, if one did.
    pub(crate) fn op(&self) -> Option<&'static str> {
        match self {
            Self::Leaf(_) => None,
            Self::Node(node) => Some(node.op),
        }
    }

    pub(crate) fn shape(&self) -> &Dims {
        match self {
            Self::Leaf(leaf) => &leaf.shape,
            Self::Node(node) => &node.shape,
        }
    }

    /// Precision in which the gradient is collected: that of the tensor before any cast.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Leaf(leaf) => leaf.dtype,
            Self::Node(node) => node.dtype,
        }
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(leaf) => write!(f, "leaf {}", leaf.id),
            Self::Node(node) => write!(f, "{} at {}", node.op, node.location),
        }
    }
}

/// Long chains are taken apart in a loop: a recursive drop would overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut chain = std::mem::take(&mut self.inputs);
        while let Some(edge) = chain.pop() {
            if let Some(Edge::Node(node)) = edge
                && let Some(mut last) = Arc::into_inner(node)
            {
                chain.append(&mut last.inputs);
            }
        }
    }
}

/// Puts `out` into the graph when recording is on and an input asks for a gradient; `backward` is made only then.
#[track_caller]
pub(crate) fn record(
    op: &'static str,
    inputs: &[&RawTensor],
    out: RawTensor,
    backward: impl FnOnce(&RawTensor) -> Result<Backward>,
) -> Result<RawTensor> {
    record_turn(op, inputs, out, |out| backward(out).map(Turn::Backward))
}

/// As [`record`], of a node whose turn need not be a function.
#[track_caller]
pub(crate) fn record_turn(
    op: &'static str,
    inputs: &[&RawTensor],
    out: RawTensor,
    turn: impl FnOnce(&RawTensor) -> Result<Turn>,
) -> Result<RawTensor> {
    let location = Location::caller();
    watch::forward(op, location, &out);
    let mode = grad_mode();
    if mode == GradMode::Off || inputs.iter().all(|x| x.edge.is_none()) {
        return Ok(out);
    }
    let turn = (mode == GradMode::On).then(|| turn(&out)).transpose()?;
    Ok(with_node(op, location, inputs, out, turn))
}

/// `out` as the output of a new node.
fn with_node(
    op: &'static str,
    location: &'static Location<'static>,
    inputs: &[&RawTensor],
    mut out: RawTensor,
    turn: Option<Turn>,
) -> RawTensor {
    let node = Node {
        id: next_id(),
        op,
        location,
        function: if watch::on() { watch::function_at(location) } else { None },
        shape: *out.shape(),
        dtype: out.logical,
        inputs: inputs.iter().map(|x| x.edge.clone()).collect(),
        retain: AtomicBool::new(false),
        held: Mutex::new(Held { turn, pending: Vec::new() }),
    };
    out.edge = Some(Edge::Node(Arc::new(node)));
    out
}

/// A new leaf that collects the gradient of `tensor` in its own precision.
pub(crate) fn leaf(tensor: &RawTensor) -> Edge {
    Edge::Leaf(Arc::new(Leaf::new(*tensor.shape(), tensor.logical)))
}

/// The places of those targets that collect a gradient.
pub(crate) fn grad_ids<'a, D: Differentiable + 'a>(targets: impl IntoIterator<Item = &'a D>) -> IdSet {
    targets.into_iter().filter_map(Differentiable::grad_id).collect()
}

/// Something whose gradient can be looked up in [`super::Gradients`]: a tensor or a parameter.
pub trait Differentiable {
    /// Identity of the place in the graph that collects the gradient, if any.
    #[doc(hidden)]
    fn grad_id(&self) -> Option<u64>;

    /// The shape that its gradient has.
    #[doc(hidden)]
    fn grad_dims(&self) -> &[usize];
}
