//! Calls that a region rejects by the type they are made on.

use super::{Inside, Probe, RuntimePrecision};
use crate::io::TensorFile;
use crate::nn::Module;
use crate::optim::{Ema, Lbfgs, Optimizer};
use crate::param::Parameter;
use crate::scaler::{GradScaler, ScaledLoss};
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

/// What belongs to training and not to a forward pass: optimizers, the scaler, parameters, their averages.
pub trait OutsideOnly: Sized {}

impl<T: Optimizer> OutsideOnly for T {}
impl OutsideOnly for GradScaler {}
impl OutsideOnly for Lbfgs {}
impl OutsideOnly for Parameter {}
impl OutsideOnly for Ema {}

/// What a call that trains is made on: `T` if that belongs outside of regions.
#[derive(Debug)]
pub struct CalledOn<T>(PhantomData<fn() -> T>);

/// What it is called on where that is something of the user's own.
#[derive(Debug)]
pub struct Own;

/// What a reference, a pointer or a guard of a cell or a lock refers to.
type At<T> = <T as Deref>::Target;

/// Questions about a value and what it refers to, which are asked in the order in which a method is looked for.
macro_rules! behind {
    ($question:ident: $($(#[$doc:meta])* $trait:ident<$($param:ident),*> for $probe:ty, on $on:ty where { $($bounds:tt)* };)*) => { $(
        $(#[$doc])*
        pub trait $trait {
            /// What it is called on.
            type On;
            /// Says so.
            fn $question(&self) -> CalledOn<Self::On> {
                CalledOn(PhantomData)
            }
        }

        impl<$($param),*> $trait for $probe
        where
            $($bounds)*
        {
            type On = $on;
        }
    )* };
}
behind! {
    outside:
    /// A call on something that belongs outside.
    Outside<T, K> for &&&&Probe<T, K>, on T where { T: OutsideOnly };
    /// The same behind a reference, a pointer or a guard.
    OutsideBehind<T, K> for &&&Probe<T, K>, on At<T> where { T: Deref, At<T>: OutsideOnly };
    /// The same behind two.
    OutsideBehindTwo<T, K> for &&Probe<T, K>, on At<At<T>> where { T: Deref<Target: Deref>, At<At<T>>: OutsideOnly };
    /// The same behind three.
    OutsideBehindThree<T, K> for &Probe<T, K>, on At<At<At<T>>> where {
        T: Deref<Target: Deref<Target: Deref>>,
        At<At<At<T>>>: OutsideOnly,
    };
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

behind! {
    loads:
    /// A call that loads a model.
    Loads<T, S, K> for &&&Probe<(&T, &S), K>, on T where { T: Module, S: Saved };
    /// The same behind a reference or a guard.
    LoadsBehind<T, S, K> for &&Probe<(&T, &S), K>, on At<T> where { T: Deref<Target: Module + Sized>, S: Saved };
    /// The same behind two.
    LoadsBehindTwo<T, S, K> for &Probe<(&T, &S), K>, on At<At<T>> where {
        T: Deref<Target: Deref<Target: Module + Sized>>,
        S: Saved,
    };
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

behind! {
    walks:
    /// A walk back from a loss.
    WalksBack<T, K> for &Probe<T, K>, on T where { T: Loss };
}

/// A call on anything else.
pub trait WalksNot {
    /// Accepts the call.
    fn walks(&self) -> CalledOn<Own> {
        CalledOn(PhantomData)
    }
}

impl<T: ?Sized, K> WalksNot for Probe<T, K> {}

behind! {
    probabilities:
    /// A call of an operation that is unsafe in half precision, on a tensor.
    OfProbabilities<T, K> for &Probe<T, K>, on T where { T: Inside };
}

/// A call of that name on anything else.
pub trait OfOthers {
    /// Accepts the call.
    fn probabilities(&self) -> CalledOn<Own> {
        CalledOn(PhantomData)
    }
}

impl<T: ?Sized, K> OfOthers for Probe<T, K> {}

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
