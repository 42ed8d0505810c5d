//! Switching recording off.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Restores the mode also when the closure panics.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        ENABLED.set(self.0);
    }
}

/// Runs `f` without recording anything for a backward pass; results do not require a gradient.
///
/// Applies to the calling thread (`torch.no_grad`).
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_grad_mode(false, f)
}

pub(crate) fn with_grad_mode<R>(enabled: bool, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(ENABLED.replace(enabled));
    f()
}

/// Whether operations on the calling thread are recorded.
pub fn grad_enabled() -> bool {
    ENABLED.get()
}
