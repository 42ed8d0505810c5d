//! Calls that a region rejects by the types that they are made on, most of which belong to training: one function for each
//! method, so that the error can name it.

use super::guard::{CalledOn, Own};

macro_rules! rejected {
    ($($trait:ident $message:literal)*, $label:literal, $note:literal) => { $(
        /// Implemented by nothing that such a call is rejected on.
        #[diagnostic::on_unimplemented(message = $message, label = $label, note = $note)]
        pub trait $trait {}

        #[diagnostic::do_not_recommend]
        impl $trait for Own {}
    )* };
}
rejected! {
    Step "`step` does not belong inside an autocast region"
    Set "`set` does not belong inside an autocast region"
    Update "`update` does not belong inside an autocast region"
    UpdateTo "`update_to` does not belong inside an autocast region"
    Unscale "`unscale` does not belong inside an autocast region"
    Apply "`apply` does not belong inside an autocast region"
    Schedule "`schedule` does not belong inside an autocast region"
    Load "`load` does not belong inside an autocast region"
    LoadMatching "`load_matching` does not belong inside an autocast region"
    LoadState "`load_state` does not belong inside an autocast region"
    LoadStateMatching "`load_state_matching` does not belong inside an autocast region"
    Swap "`swap` does not belong inside an autocast region"
    CopyTo "`copy_to` does not belong inside an autocast region"
    SetTrainable "`set_trainable` does not belong inside an autocast region",
    "parameters and what trains them are `F32` and change outside of regions",
    "return what this needs from the region, and call it there"
}
rejected! {
    Backward "`backward` does not belong inside an autocast region"
    BackwardFor "`backward_for` does not belong inside an autocast region"
    BackwardForRetained "`backward_for_retained` does not belong inside an autocast region"
    BackwardRetained "`backward_retained` does not belong inside an autocast region"
    BackwardWith "`backward_with` does not belong inside an autocast region",
    "gradients have the precision of what they belong to",
    "return the loss from the region, and call it there"
}

rejected! {
    BinaryCrossEntropy "`binary_cross_entropy` is unsafe under autocast"
    BinaryCrossEntropyWith "`binary_cross_entropy_with` is unsafe under autocast",
    "use `bce_with_logits`, which takes the values before the sigmoid",
    "or run it in `amp_region!(f32, ..)`"
}

// The functions are written out: rustc shows a user where the bound stands, and a macro there would be shown whole.

/// `optimizer.step(..)`
pub fn step<T: Step>(_on: CalledOn<T>) {}
/// `parameter.set(..)`
pub fn set<T: Set>(_on: CalledOn<T>) {}
/// `scaler.update(..)`
pub fn update<T: Update>(_on: CalledOn<T>) {}
/// `scaler.update_to(..)`
pub fn update_to<T: UpdateTo>(_on: CalledOn<T>) {}
/// `scaler.unscale(..)`
pub fn unscale<T: Unscale>(_on: CalledOn<T>) {}
/// `optimizer.apply(..)`
pub fn apply<T: Apply>(_on: CalledOn<T>) {}
/// `optimizer.schedule(..)`
pub fn schedule<T: Schedule>(_on: CalledOn<T>) {}
/// `model.load(..)`
pub fn load<T: Load>(_on: CalledOn<T>) {}
/// `model.load_matching(..)`
pub fn load_matching<T: LoadMatching>(_on: CalledOn<T>) {}
/// `model.load_state(..)`
pub fn load_state<T: LoadState>(_on: CalledOn<T>) {}
/// `model.load_state_matching(..)`
pub fn load_state_matching<T: LoadStateMatching>(_on: CalledOn<T>) {}
/// `ema.swap()`
pub fn swap<T: Swap>(_on: CalledOn<T>) {}
/// `ema.copy_to(..)`
pub fn copy_to<T: CopyTo>(_on: CalledOn<T>) {}
/// `parameter.set_trainable(..)`
pub fn set_trainable<T: SetTrainable>(_on: CalledOn<T>) {}
/// `loss.backward()`
pub fn backward<T: Backward>(_on: CalledOn<T>) {}
/// `loss.backward_for(..)`
pub fn backward_for<T: BackwardFor>(_on: CalledOn<T>) {}
/// `loss.backward_for_retained(..)`
pub fn backward_for_retained<T: BackwardForRetained>(_on: CalledOn<T>) {}
/// `loss.backward_retained()`
pub fn backward_retained<T: BackwardRetained>(_on: CalledOn<T>) {}
/// `loss.backward_with(..)`
pub fn backward_with<T: BackwardWith>(_on: CalledOn<T>) {}
/// `probabilities.binary_cross_entropy(..)`
pub fn binary_cross_entropy<T: BinaryCrossEntropy>(_on: CalledOn<T>) {}
/// `probabilities.binary_cross_entropy_with(..)`
pub fn binary_cross_entropy_with<T: BinaryCrossEntropyWith>(_on: CalledOn<T>) {}
