//! Finding where numbers stop being finite.
//!
//! Off, it costs a look at one thread-local flag per operation. On, every result and every gradient is checked, which
//! is slow and waits for the device.

use super::graph::{Edge, Node};
use crate::autograd::IdMap;
use crate::locks::read;
use crate::raw::RawTensor;
use amp_cpu::DType;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};

/// The first place where a value was not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// Operation.
    pub op: &'static str,
    /// Where it was called.
    pub location: &'static Location<'static>,
    /// The function that called it, where the program still has its symbols.
    pub function: Option<String>,
    /// Whether the gradient was at fault and not the operation's result.
    pub backward: bool,
    /// Precision of the value or gradient.
    pub dtype: DType,
    /// How many elements are not finite.
    pub bad: usize,
    /// Of how many.
    pub count: usize,
    /// Largest magnitude among the finite ones.
    pub largest: f64,
    /// Names of the parameters whose gradients were not finite in the end.
    pub parameters: Vec<String>,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.backward { "gradient through" } else { "result of" };
        write!(f, "{what} `{}` at {}", self.op, self.location)?;
        if let Some(function) = &self.function {
            write!(f, " in {function}")?;
        }
        let Self { bad, count, largest, dtype, .. } = self;
        write!(f, ": {bad} of {count} {dtype} values are not finite, the largest other is {largest:e}")?;
        match self.parameters.as_slice() {
            [] => Ok(()),
            names => write!(f, "; affects {}", names.join(", ")),
        }
    }
}

/// Why a thread's operations are watched: [`diagnose`] runs, or a scaler could not lower its scale.
const DIAGNOSED: u8 = 1;
const GUARDED: u8 = 2;

thread_local! {
    static ON: Cell<u8> = const { Cell::new(0) };
    static FOUND: RefCell<Option<Culprit>> = const { RefCell::new(None) };
    /// The scaler's [`Watch`], while it exists.
    static GUARD: RefCell<Weak<()>> = const { RefCell::new(Weak::new()) };
}

/// Runs `f`, usually a whole training iteration, and reports the first place where a value or a gradient was not
/// finite. Slow: for looking into a problem, not for training.
///
/// ```
/// # use amp_core::{diagnose, Device, F32, Parameter, Tensor};
/// # let w = Parameter::new(&Tensor::ones([2], &Device::cpu())?)?;
/// let (loss, culprit) = diagnose(|| (w.tensor() * 1e38)?.exp()?.sum_all());
/// assert_eq!(culprit.expect("e^1e38 is not finite").op, "exp");
/// # loss?;
/// # Ok::<_, amp_core::Error>(())
/// ```
pub fn diagnose<R>(f: impl FnOnce() -> R) -> (R, Option<Culprit>) {
    /// Ends the watch also when the closure panics.
    struct Restore(u8, Option<Culprit>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ON.set(ON.get() & !DIAGNOSED | self.0);
            FOUND.set(self.1.take());
        }
    }
    let _restore = Restore(ON.get() & DIAGNOSED, FOUND.take());
    ON.set(ON.get() | DIAGNOSED);
    let result = f();
    (result, FOUND.take())
}

/// Watches the operations of the thread that began it, until it is dropped, on any thread.
#[derive(Debug)]
pub(crate) struct Watch(
    #[expect(dead_code, reason = "the thread checks with a `Weak` whether it still exists")] Arc<()>,
);

impl Watch {
    /// Begins a watch in place of an earlier one; what that found is forgotten, unless [`diagnose`] runs, too.
    pub(crate) fn begin() -> Self {
        let guard = Arc::new(());
        GUARD.set(Arc::downgrade(&guard));
        if ON.get() & DIAGNOSED == 0 {
            FOUND.take();
        }
        ON.set(ON.get() | GUARDED);
        Self(guard)
    }

    /// What was found on this thread since a watch began; [`diagnose`] will say it, too, where it runs.
    pub(crate) fn found() -> Option<Culprit> {
        match ON.get() {
            0 => None,
            on if on & DIAGNOSED == 0 => FOUND.take(),
            _ => FOUND.with_borrow(Clone::clone),
        }
    }
}

pub(crate) fn on() -> bool {
    ON.get() != 0 && still_on()
}

/// Whether a watch or [`diagnose`] is still there; forgets a watch that was dropped.
#[cold]
fn still_on() -> bool {
    if ON.get() & GUARDED != 0 && GUARD.with_borrow(|guard| guard.strong_count() == 0) {
        ON.set(ON.get() & !GUARDED);
    }
    ON.get() != 0
}

fn searching() -> bool {
    on() && FOUND.with_borrow(Option::is_none)
}

/// Looks at the result of an operation.
pub(super) fn forward(op: &'static str, location: &'static Location<'static>, out: &RawTensor) {
    if searching() {
        report(op, location, None, false, out);
    }
}

/// Looks at the gradients that a node gave to its inputs.
pub(super) fn backward(node: &Node, grads: &IdMap<RawTensor>) {
    for grad in node.inputs.iter().flatten().filter_map(|edge| grads.get(&edge.id())) {
        if searching() {
            report(node.op, node.location, node.function.clone(), true, grad);
        }
    }
}

/// Names the parameters that a finished pass left with gradients that are not finite.
pub(super) fn finish<'n>(nodes: impl Iterator<Item = &'n Arc<Node>>, grads: &IdMap<RawTensor>) {
    let mut bad = Vec::new();
    for edge in nodes.flat_map(|node| node.inputs.iter().flatten()) {
        let Edge::Leaf(leaf) = edge else { continue };
        let name = read(&leaf.name).clone();
        let name = if name.is_empty() { format!("a tensor of shape {:?}", leaf.shape) } else { format!("`{name}`") };
        let finite = grads.get(&leaf.id).is_none_or(|grad| matches!(magnitude(grad), None | Some((0, _))));
        if !finite && !bad.contains(&name) {
            bad.push(name);
        }
    }
    FOUND.with_borrow_mut(|found| {
        if let Some(culprit) = found.as_mut().filter(|c| c.parameters.is_empty()) {
            culprit.parameters = bad;
        }
    });
}

fn magnitude(x: &RawTensor) -> Option<(usize, f64)> {
    x.operand().and_then(|operand| x.backend().magnitude(operand)).ok()
}

fn report(
    op: &'static str,
    location: &'static Location<'static>,
    function: Option<String>,
    backward: bool,
    value: &RawTensor,
) {
    if !value.logical.is_float() {
        return;
    }
    let Some((bad @ 1.., largest)) = magnitude(value) else { return };
    let function = if backward { function } else { function_at(location) };
    let (dtype, count) = (value.logical, value.layout.count());
    FOUND.set(Some(Culprit { op, location, function, backward, dtype, bad, count, largest, parameters: Vec::new() }));
}

/// The function that `location` lies in, as far as the program has symbols: the frame on the stack of that line.
pub(super) fn function_at(location: &Location<'_>) -> Option<String> {
    let stack = Backtrace::force_capture().to_string();
    let place = format!("{}:{}:", location.file(), location.line());
    let mut symbol = None;
    for line in stack.lines().map(str::trim) {
        match line.strip_prefix("at ") {
            Some(path) if path.contains(&place) => return symbol.map(str::to_owned),
            Some(_) => {}
            None => symbol = line.split_once(": ").map(|(_, symbol)| symbol.trim_end_matches("::{{closure}}")),
        }
    }
    None
}
