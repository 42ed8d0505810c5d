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

#[cfg(test)]
mod tests {
    use super::no_grad;
    use crate::testing::line;
    use crate::{Device, F16, F32, Result, Tensor};

    type Operation = (&'static str, &'static [usize], fn(&Tensor<F32>) -> Result<Tensor<F32>>);

    /// Operations that have nothing to do with ones of a shape, and casts, which share what they are of.
    const IDLE: [Operation; 16] = [
        ("to", &[2], |x| x.to::<F16>()?.to::<F32>()),
        ("to the same", &[2], |x| x.to::<F32>()),
        ("to_device", &[2], |x| x.to_device(x.device())),
        ("roll", &[2], |x| x.roll(0, 0)),
        ("rot90", &[2, 3], |x| x.rot90(4, 0, 1)),
        ("repeat", &[2], |x| x.repeat([1])),
        ("movedim", &[2, 3], |x| x.movedim([], [])),
        ("transpose", &[], |x| x.transpose(0, 0)),
        ("squeeze", &[], |x| x.squeeze(0)),
        ("prod", &[], |x| x.prod([], false)),
        ("logcumsumexp", &[1], |x| x.logcumsumexp(0)),
        ("dropout", &[2], |x| x.dropout(0.5, false)),
        ("alpha_dropout", &[2], |x| x.alpha_dropout(0.5, false)),
        ("diff", &[2], |x| x.diff(0, 0)),
        ("matrix_power", &[2, 2], |x| x.matrix_power(1)),
        ("upsample_trilinear3d", &[1, 1, 2, 2, 2], |x| x.upsample_trilinear3d([2, 2, 2], false)),
    ];

    #[test]
    fn what_does_nothing_leads_to_no_graph_either() {
        for (name, shape, operation) in IDLE {
            let x = Tensor::<F32>::ones(shape, &Device::cpu()).unwrap().tracked();
            let y = no_grad(|| operation(&x)).unwrap();
            assert!(!y.requires_grad(), "{name}");
            let grads = operation(&x).unwrap().sum_all().unwrap().backward().unwrap();
            let found = grads.get(&x).unwrap().expect(name).to_vec().unwrap();
            assert!(found.iter().all(|g| *g == 1.0), "{name}: {found:?}");
        }
    }

    /// The copy is shared, and only that.
    #[test]
    fn a_cast_within_no_grad_is_none_of_the_casts_behind_it() {
        let x = line(&[2.0, 3.0]).tracked();
        let y = no_grad(|| x.to::<F16>()?.neg()).unwrap();
        assert!(!y.requires_grad());
        assert!(x.to::<F16>().unwrap().requires_grad());
    }
}
