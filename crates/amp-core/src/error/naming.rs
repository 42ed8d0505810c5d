//! Errors of operations that others are made of, as the user meets them.

use super::Error;
use amp_cpu::Dims;

impl Error {
    /// The same under the name of the operation that the user called, which is made of the one that found it.
    ///
    /// What a graph, a driver or a file reports keeps the name that stands in it: it may be that of an earlier call.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        if let Some(op) = self.operation() {
            *op = name;
        }
        self
    }

    /// The operation that refused its arguments.
    fn operation(&mut self) -> Option<&mut &'static str> {
        match self {
            Self::Broadcast { op, .. }
            | Self::Shape { op, .. }
            | Self::LastClasses { op, .. }
            | Self::InnerDimensions { op, .. }
            | Self::Rank { op, .. }
            | Self::TooManyDimensions { op, .. }
            | Self::TooLarge { op, .. }
            | Self::OutOfMemory { op, .. }
            | Self::Axis { op, .. }
            | Self::RepeatedAxis { op, .. }
            | Self::ElementCount { op, .. }
            | Self::IndexOutOfRange { op, .. }
            | Self::RangeOutOfBounds { op, .. }
            | Self::Empty { op, .. }
            | Self::Argument { op, .. }
            | Self::Device { op, .. }
            | Self::Unsupported { op, .. } => Some(op),
            _ => None,
        }
    }

    /// An [`Error::Shape`] about the input or an [`Error::Empty`], under the name of the operation that the user called and with
    /// the shape given to it.
    pub(crate) fn given(self, op: &'static str, shape: &Dims) -> Self {
        match self {
            Self::Shape { what: what @ "the input", expected, .. } => {
                Self::Shape { op, what, expected, found: shape.into() }
            }
            Self::Empty { .. } => Self::Empty { op, shape: shape.into() },
            other => other,
        }
    }

    /// As [`named`](Self::named), of an operation that was handed the input in another shape than the one given, which stands in
    /// the error.
    pub(crate) fn within(self, op: &'static str, shape: &Dims) -> Self {
        match self.given(op, shape) {
            Self::Rank { what: what @ "the input", expected, .. } => {
                Self::Rank { op, what, expected, found: shape.into() }
            }
            other => other.named(op),
        }
    }
}
