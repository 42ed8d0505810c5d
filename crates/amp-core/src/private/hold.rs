//! What an argument becomes between its cast and the call.

use super::Inside;

/// A tensor that was cast.
#[derive(Debug)]
pub struct Held<T>(pub(super) T);

impl<T> Held<T> {
    /// The argument of the call.
    pub fn pass(&self) -> &T {
        &self.0
    }
}

/// An optional tensor that was cast.
#[derive(Debug)]
pub struct HeldOption<T>(pub(super) Option<T>);

impl<T> HeldOption<T> {
    /// The argument of the call.
    pub fn pass(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

/// A tensor that had the right precision already.
#[derive(Debug)]
pub struct Kept<A>(pub(super) A);

impl<A: Inside> Kept<A> {
    /// The argument of the call.
    pub fn pass(&self) -> &A::Tensor {
        self.0.inside()
    }
}

/// Anything that is not a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Moved<A>(pub(super) A);

impl<A> Moved<A> {
    /// The argument of the call.
    pub fn pass(self) -> A {
        self.0
    }
}
