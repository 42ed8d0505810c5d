//! Whether gradients are still multiplied by a loss scale, as a type, and by which scaler.

use super::Gradients;

/// State of gradients that are still multiplied by the loss scale.
#[derive(Clone, Copy, Debug)]
pub struct Scaled;

/// State of gradients at their true size.
#[derive(Clone, Copy, Debug)]
pub struct Unscaled;

/// Bound of everything that needs gradients at their true size: clipping, norms, plain optimizer steps.
#[diagnostic::on_unimplemented(
    message = "these gradients are still multiplied by the loss scale",
    label = "needs unscaled gradients",
    note = "call `let mut grads = scaler.unscale(grads)?;` first, or let `scaler.step(&mut optimizer, grads)` do both"
)]
pub trait IsUnscaled: ScaleState + Sized {
    /// Always the same gradients: there is one implementation.
    #[doc(hidden)]
    fn unscaled(grads: &Gradients<Self>) -> &Gradients<Unscaled>;
}

impl IsUnscaled for Unscaled {
    fn unscaled(grads: &Gradients<Self>) -> &Gradients<Unscaled> {
        grads
    }
}

/// Bound of [`GradScaler::unscale`](crate::GradScaler::unscale), under which the error can say what is wrong.
#[diagnostic::on_unimplemented(
    message = "these gradients are not multiplied by a loss scale",
    label = "unscaled before, or never scaled",
    note = "unscale once, after all micro-batches were added; gradients of a loss that no scaler scaled need no unscaling"
)]
pub trait IsScaled: ScaleState + Sized {
    /// Always the same gradients: there is one implementation.
    #[doc(hidden)]
    fn scaled(grads: Gradients<Self>) -> Gradients<Scaled>;
}

impl IsScaled for Scaled {
    fn scaled(grads: Gradients<Self>) -> Gradients<Scaled> {
        grads
    }
}

/// [`Scaled`] or [`Unscaled`].
pub trait ScaleState: 'static {
    /// Whether a loss scale is still in the values.
    #[doc(hidden)]
    const SCALED: bool;
}

impl ScaleState for Scaled {
    const SCALED: bool = true;
}

impl ScaleState for Unscaled {
    const SCALED: bool = false;
}

/// Which scaler multiplied these gradients; ties them to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScaleTag {
    /// Identity of the scaler, 0 for none.
    pub(crate) scaler: u64,
    /// The scaler's update count when the loss was scaled: gradients of different scales cannot be mixed.
    pub(crate) round: u64,
}
