//! Everything that can go wrong, with the values that made it go wrong.

mod naming;
#[cfg(test)]
mod tests;

use amp_cpu::{DType, Dims};
use std::fmt;
use std::path::Path;

/// Result of every operation that can meet bad input.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an argument must be and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The rule
    pub expected: String,
    /// The value given
    pub found: String,
}

/// An error names the operation first, then the rule, then the values that broke it.
///
/// Every result of the library may carry one, so it is kept small: what is large stands in a box. `Debug` prints the message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes do not broadcast to a common one.
    #[error("{op}: shapes {left:?} and {right:?} do not broadcast")]
    Broadcast {
        /// Operation
        op: &'static str,
        /// Shape of the left operand
        left: Box<Dims>,
        /// Shape of the right operand
        right: Box<Dims>,
    },
    /// A shape is not the one that the operation needs.
    #[error("{op}: {what} must have shape {expected}, found {found:?}")]
    Shape {
        /// Operation
        op: &'static str,
        /// Which operand
        what: &'static str,
        /// The rule
        expected: String,
        /// What was given
        found: Box<Dims>,
    },
    /// The labels of scores whose classes are their last dimension, where they have to be dimension 1.
    #[error(
        "{op}: the target {target:?} is the input {input:?} without its last dimension, but the classes are dimension 1; \
         use `scores.reshape((.., {classes}))?` and `labels.reshape(..)?`"
    )]
    LastClasses {
        /// Operation
        op: &'static str,
        /// Shape of the scores
        input: Box<Dims>,
        /// Shape of the labels
        target: Box<Dims>,
        /// Size of the last dimension
        classes: usize,
    },
    /// The inner dimensions of a matrix product differ.
    #[error("{op}: inner dimensions differ, left is {left:?}, right is {right:?}")]
    InnerDimensions {
        /// Operation
        op: &'static str,
        /// Shape of the left operand
        left: Box<Dims>,
        /// Shape of the right operand
        right: Box<Dims>,
    },
    /// A tensor has too few or too many dimensions.
    #[error("{op}: {what} must have {expected}, found shape {found:?}")]
    Rank {
        /// Operation
        op: &'static str,
        /// Which operand
        what: &'static str,
        /// The rule, such as "at least 2 dimensions"
        expected: &'static str,
        /// What was given
        found: Box<Dims>,
    },
    /// More dimensions than a tensor can have.
    #[error("{op}: {rank} dimensions, but a tensor has at most {max}", max = amp_cpu::MAX_RANK)]
    TooManyDimensions {
        /// Operation
        op: &'static str,
        /// How many were asked for
        rank: usize,
    },
    /// The number of elements does not fit in the address space.
    #[error("{op}: a tensor of shape {shape:?} has more elements than can be addressed")]
    TooLarge {
        /// Operation
        op: &'static str,
        /// What was asked for
        shape: Box<Dims>,
    },
    /// The system has no memory for a result.
    #[error("{op}: no memory for {bytes} bytes")]
    OutOfMemory {
        /// Operation
        op: &'static str,
        /// What was asked for
        bytes: usize,
    },
    /// An axis does not exist.
    #[error("{op}: axis {axis} does not exist in a tensor of {rank} dimensions")]
    Axis {
        /// Operation
        op: &'static str,
        /// The axis, negative from the end
        axis: isize,
        /// Number of dimensions
        rank: usize,
    },
    /// The same axis was given twice.
    #[error("{op}: axis {axis} is given twice in {axes:?}")]
    RepeatedAxis {
        /// Operation
        op: &'static str,
        /// The axis
        axis: isize,
        /// All axes given
        axes: Vec<isize>,
    },
    /// The element count of a slice or of a new shape differs from the shape's.
    #[error("{op}: shape {shape:?} has {expected} elements, found {found}")]
    ElementCount {
        /// Operation
        op: &'static str,
        /// The shape
        shape: Box<Dims>,
        /// Elements of that shape
        expected: usize,
        /// Elements given
        found: usize,
    },
    /// An index lies outside its dimension.
    ///
    /// A GPU does not wait to see this: there the error comes from the next call that reads from the device (`item`, `to_vec`),
    /// and `op` names the operation at fault.
    #[error("{op}: index {index} is out of range for size {size}")]
    IndexOutOfRange {
        /// Operation
        op: &'static str,
        /// The index
        index: i64,
        /// Size of the dimension
        size: usize,
    },
    /// A range lies outside its dimension.
    #[error("{op}: range {start}..{end} does not lie within axis {axis} of shape {shape:?}")]
    RangeOutOfBounds {
        /// Operation
        op: &'static str,
        /// First index
        start: usize,
        /// One past the last index
        end: usize,
        /// The axis
        axis: usize,
        /// Shape of the tensor
        shape: Box<Dims>,
    },
    /// A reduction that has no neutral element met an empty dimension.
    #[error("{op}: a tensor of shape {shape:?} has no elements to choose from")]
    Empty {
        /// Operation
        op: &'static str,
        /// Shape of the tensor
        shape: Box<Dims>,
    },
    /// An argument has a value that makes no sense.
    #[error("{op}: {argument} must be {}, found {}", mismatch.expected, mismatch.found)]
    Argument {
        /// Operation
        op: &'static str,
        /// Name of the argument
        argument: &'static str,
        /// The rule, and what it got
        mismatch: Box<Mismatch>,
    },
    /// Operands live on different devices.
    #[error("{op}: one tensor is on {left}, the other on {right}; move one with `to_device`")]
    Device {
        /// Operation
        op: &'static str,
        /// Device of the first operand
        left: Box<str>,
        /// Device of the second operand
        right: Box<str>,
    },
    /// A device was asked for that this machine or build does not have.
    #[error("{device} is not available: {reason}")]
    DeviceUnavailable {
        /// The device asked for
        device: String,
        /// Why it cannot be used
        reason: String,
    },
    /// The backend has no kernel for this precision.
    #[error("{op}: {device} has no kernel for {dtype}")]
    Unsupported {
        /// Operation
        op: &'static str,
        /// The device
        device: Box<str>,
        /// The element type
        dtype: DType,
    },
    /// A driver or library call of a device failed.
    #[error("{op}: {device} reports {message}")]
    Backend {
        /// Operation
        op: &'static str,
        /// The device
        device: Box<str>,
        /// What the driver said
        message: String,
    },
    /// `backward` starts from a single value.
    #[error("backward: the loss must be a single value, found shape {shape:?}; reduce it with `mean_all` or `sum_all`")]
    LossNotScalar {
        /// Shape of the tensor
        shape: Box<Dims>,
    },
    /// `item` reads a single value.
    #[error("item: the tensor must hold a single value, found shape {shape:?}; read several with `to_vec`")]
    NotScalar {
        /// Shape of the tensor
        shape: Box<Dims>,
    },
    /// Nothing that leads to this tensor asks for a gradient.
    #[error(
        "backward: this tensor does not depend on any tensor that requires a gradient; \
         use parameters that are not frozen, or `tracked`, outside of `no_grad` and not behind `detach`"
    )]
    NoGraph,
    /// The saved tensors of the graph are gone.
    #[error(
        "backward: the saved tensors of `{op}` ({location}) were freed by an earlier backward; \
         use `backward_retained` or `backward_for_retained` for the first of several passes"
    )]
    GraphFreed {
        /// Operation whose saved tensors are gone
        op: &'static str,
        /// Where the operation was called
        location: &'static std::panic::Location<'static>,
    },
    /// Part of the graph ran in F16, so that small gradients would vanish without a loss scale.
    #[error(
        "backward: `{op}` ({location}) ran in F16, where small gradients vanish; \
         use `scaler.scale(&loss)?.backward()?` with a GradScaler, or BF16"
    )]
    NeedsScaler {
        /// First operation that ran in F16
        op: &'static str,
        /// Where it was called
        location: &'static std::panic::Location<'static>,
    },
    /// Gradients of different scalers, or of different scales of one scaler, were mixed.
    #[error(
        "gradients: multiplied by different loss scales; accumulate within one `update` of one scaler, or unscale first"
    )]
    MixedScales,
    /// Gradients were handed to a scaler that did not scale them.
    #[error("{op}: another GradScaler scaled these gradients; use the one that scaled the loss")]
    ForeignGradients {
        /// Operation
        op: &'static str,
    },
    /// A scaler was handed gradients that none has scaled: dividing them by its scale would be wrong, and so would be not to.
    #[error(
        "step: no GradScaler scaled these gradients; use `scaler.scale(&loss)?.backward()?`, \
         or `optimizer.step(&grads)` if the loss needs no scale"
    )]
    NotScaled,
    /// An optimizer was stepped with what a scaler has unscaled, past the scaler's finding.
    #[error(
        "step: a GradScaler unscaled these gradients and may have found infinities; \
         use `scaler.step(&mut optimizer, &grads)`, which skips the step then"
    )]
    PastScaler,
    /// A scaler stepped an optimizer with gradients of none of its parameters. (`Optimizer::step` leaves parameters without a
    /// gradient as they are.)
    #[error("{op}: none of the optimizer's {parameters} parameters has a gradient; does the loss depend on them?")]
    NoGradients {
        /// Operation
        op: &'static str,
        /// How many parameters the optimizer has
        parameters: usize,
    },
    /// An optimizer that moves all of a parameter met a gradient of some of its rows.
    #[error(
        "{optimizer}: the gradient of {parameter} must be dense, that of a sparse embedding has rows only; \
         use SparseAdam, or Adagrad or Sgd without weight decay"
    )]
    SparseGradient {
        /// Name of the optimizer
        optimizer: &'static str,
        /// The parameter
        parameter: String,
    },
    /// An optimizer was stepped twice by a scaler without an update in between.
    #[error(
        "step: this optimizer was stepped since the last update already; call `scaler.update()` once per iteration"
    )]
    SteppedTwice,
    /// A scaler was updated without anything to decide on.
    #[error("update: no gradients were checked since the last update; call `scaler.step(&mut optimizer, grads)` first")]
    NothingChecked,
    /// The loss scale is at its floor and gradients still are not finite.
    #[error(
        "update: gradients were not finite {times} times running at the least loss scale {scale}; \
         the first such parameter is {parameter}{}",
        culprit.as_ref().map(|c| format!("; it began with the {c}")).unwrap_or_default()
    )]
    ScaleAtFloor {
        /// The loss scale
        scale: f32,
        /// How many times running
        times: u64,
        /// The first parameter with a non-finite gradient
        parameter: String,
        /// Where the first value was not finite, where this thread saw it
        culprit: Option<Box<crate::Culprit>>,
    },
    /// The saved state of a scaler cannot be read.
    #[error("GradScaler: cannot read the saved state: {reason}")]
    ScalerState {
        /// What is wrong with it
        reason: String,
    },
    /// A saved tensor does not fit what it is loaded into.
    #[error("{op}: tensor `{name}`: {reason}")]
    State {
        /// Operation
        op: &'static str,
        /// Name of the tensor in the file
        name: Box<str>,
        /// What does not fit
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{op}: {path}: {source}", path = path.display())]
    Io {
        /// Operation
        op: &'static str,
        /// The file
        path: Box<Path>,
        /// What the operating system said
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{op}: {path}: {reason}", path = path.display())]
    Format {
        /// Operation
        op: &'static str,
        /// The file
        path: Box<Path>,
        /// What is wrong with it
        reason: String,
    },
    /// An error of the user's own code, made by [`Error::other`].
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// The message: what a `main` that returns an error prints, and what `unwrap` shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// An error of one's own, of a message or of any other error, for code that returns [`Result`].
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    /// An [`Error::Argument`], with any printable value.
    pub fn argument(
        op: &'static str,
        argument: &'static str,
        expected: impl Into<String>,
        found: impl fmt::Display,
    ) -> Self {
        let mismatch = Mismatch { expected: expected.into(), found: found.to_string() };
        Self::Argument { op, argument, mismatch: mismatch.into() }
    }
}
