//! Switching recording off.

use std::cell::Cell;

/// What operations on a thread leave for a backward pass.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GradMode {
    /// Nothing.
    Off,
    /// Nodes that know what they depend on and keep nothing: what a part that runs again will be.
    Outline,
    /// Nodes with what their turn needs.
    On,
}

thread_local! {
    static MODE: Cell<GradMode> = const { Cell::new(GradMode::On) };
}

/// Restores the mode also when the closure panics.
struct Restore(GradMode);

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

/// Runs `f` without recording anything for a backward pass; results do not require a gradient.
///
/// Applies to the calling thread (`torch.no_grad`).
///
/// ```
/// # use amp_core::{no_grad, Device, F32, Tensor};
/// let x = Tensor::<F32>::ones([2], &Device::cpu())?.tracked();
/// assert!(x.exp()?.requires_grad());
/// assert!(!no_grad(|| x.exp())?.requires_grad());
/// # Ok::<_, amp_core::Error>(())
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_grad_mode(GradMode::Off, f)
}

pub(crate) fn with_grad_mode<R>(mode: GradMode, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(MODE.replace(mode));
    f()
}

pub(crate) fn grad_mode() -> GradMode {
    MODE.get()
}

/// Whether operations on the calling thread are recorded.
pub fn grad_enabled() -> bool {
    grad_mode() == GradMode::On
}
