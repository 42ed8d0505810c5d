//! Calls that a region rejects by the type they are made on.

use super::{Inside, Probe, RuntimePrecision};
use crate::io::TensorFile;
use crate::nn::Module;
use crate::optim::{Ema, Optimizer};
use crate::param::Parameter;
use crate::scaler::{GradScaler, ScaledLoss};
use std::marker::PhantomData;
use std::path::Path;

/// What belongs to training and not to a forward pass: optimizers, the scaler, parameters, their averages.
pub trait OutsideOnly {}

impl<T: Optimizer> OutsideOnly for T {}
impl OutsideOnly for GradScaler {}
impl OutsideOnly for Parameter {}
impl OutsideOnly for Ema {}

/// What a call that trains is made on: `T` if that belongs outside of regions.
#[derive(Debug)]
pub struct CalledOn<T>(PhantomData<fn() -> T>);

/// What it is called on where that is something of the user's own.
#[derive(Debug)]
pub struct Own;

macro_rules! outside {
    ($($(#[$doc:meta])* $trait:ident for $probe:ty;)*) => { $(
        $(#[$doc])*
        pub trait $trait {
            /// What it is called on.
            type On;
            /// Says so.
            fn outside(&self) -> CalledOn<Self::On> {
                CalledOn(PhantomData)
            }
        }

        impl<T: OutsideOnly, K> $trait for $probe {
            type On = T;
        }
    )* };
}
outside! {
    /// A call on something that belongs outside.
    Outside for &&&Probe<T, K>;
    /// The same behind a reference.
    OutsideShared for &&Probe<&T, K>;
    /// The same behind an exclusive reference.
    OutsideExclusive for &Probe<&mut T, K>;
}

/// A call on anything else.
pub trait Anywhere {
    /// Accepts the call.
    fn outside(&self) -> CalledOn<Own> {
        CalledOn(PhantomData)
    }
}

impl<T: ?Sized, K> Anywhere for Probe<T, K> {}

/// What a model is loaded from.
pub trait Saved {}

impl<T: AsRef<Path>> Saved for T {}
impl Saved for &TensorFile {}

macro_rules! loading {
    ($($(#[$doc:meta])* $trait:ident for $probe:ty;)*) => { $(
        $(#[$doc])*
        pub trait $trait {
            /// What it is called on.
            type On;
            /// Says so.
            fn loads(&self) -> CalledOn<Self::On> {
                CalledOn(PhantomData)
            }
        }

        impl<T: Module, S: Saved, K> $trait for $probe {
            type On = T;
        }
    )* };
}
loading! {
    /// A call that loads a model.
    Loads for &&&Probe<(&T, &S), K>;
    /// The same behind a reference.
    LoadsShared for &&Probe<(&&T, &S), K>;
    /// The same behind an exclusive reference.
    LoadsExclusive for &Probe<(&&mut T, &S), K>;
}

/// A call on anything else.
pub trait LoadsNot {
    /// Accepts the call.
    fn loads(&self) -> CalledOn<Own> {
        CalledOn(PhantomData)
    }
}

impl<T: ?Sized, K> LoadsNot for Probe<T, K> {}

/// What a graph is walked back from.
pub trait Loss {}

impl<T: Inside> Loss for T {}
impl Loss for ScaledLoss {}

/// A walk back from a loss.
pub trait WalksBack {
    /// What it is called on.
    type On;
    /// Says so.
    fn walks(&self) -> CalledOn<Self::On> {
        CalledOn(PhantomData)
    }
}

impl<T: Loss, K> WalksBack for &Probe<T, K> {
    type On = T;
}

/// A call on anything else.
pub trait WalksNot {
    /// Accepts the call.
    fn walks(&self) -> CalledOn<Own> {
        CalledOn(PhantomData)
    }
}

impl<T: ?Sized, K> WalksNot for Probe<T, K> {}

/// The receiver of a call carries its precision at run time.
#[derive(Clone, Copy, Debug)]
pub struct OnTensor;

/// It does not.
#[derive(Clone, Copy, Debug)]
pub struct OnOther;

/// A receiver that carries its precision at run time.
pub trait AtRuntimeReceiver {
    /// What it is.
    fn receiver(&self) -> OnTensor;
}

/// Any other receiver.
pub trait OtherReceiver {
    /// What it is.
    fn receiver(&self) -> OnOther;
}

impl<T: Inside, K> AtRuntimeReceiver for &Probe<T, K>
where
    T::Tensor: RuntimePrecision,
{
    fn receiver(&self) -> OnTensor {
        OnTensor
    }
}

impl<T: ?Sized, K> OtherReceiver for Probe<T, K> {
    fn receiver(&self) -> OnOther {
        OnOther
    }
}

/// A value with tensors in it that carry their precision at run time.
pub trait HoldsRuntime {}

impl<T: RuntimePrecision> HoldsRuntime for T {}
impl<T: HoldsRuntime, E> HoldsRuntime for Result<T, E> {}
impl<T: HoldsRuntime> HoldsRuntime for Option<T> {}
impl<T: HoldsRuntime> HoldsRuntime for Vec<T> {}

/// Implemented by nothing: the bound that rejects an operation without a policy.
#[diagnostic::on_unimplemented(
    message = "no precision policy for `{Op}`, so autocast cannot choose its precision",
    label = "this operation is in no policy",
    note = "list it on the attribute: `full({Op})`, `lower({Op})` or `keep({Op})`",
    note = "or list it in an `amp_policy!`, or write `skip({Op})` to leave the call as it is"
)]
pub trait HasPolicy<Op> {}

/// A tensor that came out of a tensor's method without a policy.
pub trait NeedsPolicy {
    /// What came out.
    type Value;
    /// Rejects the call.
    fn policy<Op>(&self)
    where
        Self::Value: HasPolicy<Op>;
}

/// Anything else: an accessor, or no operation at all.
pub trait NeedsNone {
    /// Accepts the call.
    fn policy<Op>(&self);
}

impl<T: HoldsRuntime> NeedsPolicy for &Probe<T, OnTensor> {
    type Value = T;
    fn policy<Op>(&self)
    where
        T: HasPolicy<Op>,
    {
    }
}

impl<T: ?Sized, K> NeedsNone for Probe<T, K> {
    fn policy<Op>(&self) {}
}
