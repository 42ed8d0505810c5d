//! Working memory that a thread keeps between kernels, so that steady state touches no fresh pages.

use crate::num::Real;
use std::any::Any;
use std::cell::RefCell;

/// Bytes in one kept buffer above which it is returned to the system instead.
const KEEP: usize = 64 << 20;

thread_local! {
    static FREE: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Lends `len` elements of unspecified content to `body`.
pub(crate) fn with<T: Real, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = take::<T>();
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    let result = body(&mut buffer[..len]);
    if buffer.len() * size_of::<T>() <= KEEP {
        FREE.with_borrow_mut(|free| free.push(Box::new(buffer)));
    }
    result
}

fn take<T: Real>() -> Vec<T> {
    FREE.with_borrow_mut(|free| {
        let found = free.iter().rposition(|buffer| buffer.is::<Vec<T>>())?;
        free.remove(found).downcast().ok()
    })
    .map_or_else(Vec::new, |buffer| *buffer)
}
