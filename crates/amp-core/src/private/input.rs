//! What a module is given first: a module that computes takes no integers and no truth values, and says so itself, so
//! that the result it would have had is no second mistake.

use super::{Cast, Held, Inside, Keep, Moved, Probe, To, Writing};
use crate::precision::{Bool, F32, I64, U8};
use crate::tensor::Tensor;

/// A tensor of integers or truth values.
pub trait Discrete {}

impl Discrete for Tensor<I64> {}
impl Discrete for Tensor<U8> {}
impl Discrete for Tensor<Bool> {}

/// Implemented by nothing: the bound that rejects such a tensor.
#[diagnostic::on_unimplemented(
    message = "this module computes with floating-point numbers",
    label = "this tensor holds integers or truth values",
    note = "autocast casts neither for you: write `.to::<F32>()?` where the tensor is given to the module"
)]
pub trait FloatInput {}

/// Targets of modules that compute.
pub trait Computes {}

impl<L> Computes for To<L> {}
impl<L> Computes for Writing<L> {}

/// An input that can be cast, as those of which the compiler knows nothing but a mistake are taken to be.
pub trait InputTensor<V, K> {
    /// What becomes of it.
    type Taken;
    /// Takes it.
    fn hold(&self, value: V, to: K) -> Self::Taken;
}

impl<A: Inside<Tensor: Cast<K>>, K> InputTensor<A, K> for &&&&&Probe<A, K> {
    type Taken = Held<A, <A::Tensor as Cast<K>>::Output>;
    fn hold(&self, value: A, to: K) -> Self::Taken {
        Held::new(value, to)
    }
}

/// An input that a module which computes does not take: further out than the probes of other arguments get by a borrow.
pub trait NoInput<V, K> {
    /// What it should have been.
    type Taken;
    /// Rejects it.
    fn hold(&self, value: V, to: K) -> Self::Taken
    where
        V: FloatInput;
}

impl<A: Inside<Tensor: Discrete>, K: Computes> NoInput<A, K> for &&&&Probe<A, K>
where
    Tensor<F32>: Cast<K>,
{
    type Taken = Held<Tensor<F32>, <Tensor<F32> as Cast<K>>::Output>;
    fn hold(&self, _value: A, to: K) -> Self::Taken
    where
        A: FloatInput,
    {
        Held::new(super::absent(), to)
    }
}

/// A target of modules: what it makes of a reference to what certainly is a tensor of floats.
pub trait Takes<A> {
    /// What becomes of it.
    type Taken;
    /// Takes it.
    fn take(self, place: A) -> Self::Taken;
}

impl<A> Takes<A> for Keep {
    type Taken = Moved<A>;
    fn take(self, place: A) -> Moved<A> {
        Moved(place)
    }
}

macro_rules! takes {
    ($($target:ident),*) => { $(
        impl<A: Inside<Tensor: Cast<$target<L>>>, L> Takes<A> for $target<L> {
            type Taken = Held<A, <A::Tensor as Cast<$target<L>>>::Output>;
            fn take(self, place: A) -> Self::Taken {
                Held::new(place, self)
            }
        }
    )* };
}
takes!(To, Writing);

/// Casts what certainly is a reference to a tensor of floats to what a module takes.
pub fn taken<A, K: Takes<A>>(place: A, to: K) -> K::Taken {
    to.take(place)
}
