//! What is made ahead of its uses, once the first of them is there.

use std::ops::Deref;
use std::sync::OnceLock;

/// A value and what makes it. Threads may share it, and what it borrows may be moved behind its last use: a `LazyCell` is not
/// shared, and a `LazyLock` ends with its block.
#[derive(Debug)]
pub struct Later<T, F> {
    value: OnceLock<T>,
    make: F,
}

/// A value that is made where it is first used.
pub const fn later<T, F: Fn() -> T>(make: F) -> Later<T, F> {
    Later { value: OnceLock::new(), make }
}

impl<T, F: Fn() -> T> Deref for Later<T, F> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.get_or_init(&self.make)
    }
}
