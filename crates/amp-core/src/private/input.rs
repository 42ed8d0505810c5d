//! Checks of a module's input: no module takes integers or truth values, and one that narrows takes nothing of the other
//! 16-bit precision. The check itself is the error, so that a missing result does not cause a second one.

use super::{Cast, Casting, Given, Held, Inside, Keep, Late, Moved, Precise, Probe, To, Writing};
use crate::precision::{AutocastPrecision, BF16, Bool, F16, F32, I64, Rounding, U8};
use crate::tensor::Tensor;
use std::marker::PhantomData;

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

impl<A, K: Casting<A>> Probe<A, K> {
    /// Takes an input that can be cast, as those of which the compiler knows nothing but a mistake are taken to be.
    pub fn enter(self, value: A, to: K) -> K::Held {
        const { K::TOGETHER }
        to.held(value)
    }
}

impl<A, K> Probe<A, K> {
    /// The value and its target, once it is found to be one that may be cast to it.
    pub fn given<V>(self, value: V, to: K) -> Given<V, K> {
        Given(value, to)
    }
}

/// The target of no module: that of one whose type is a mistake is taken to be this, and nothing is asked of its input.
#[derive(Clone, Copy, Debug)]
pub struct Undecided;

impl<A> Probe<A, Undecided> {
    /// Accepts it.
    pub fn apart(&self) -> Self {
        Probe(PhantomData, PhantomData)
    }
}

/// An input of F32, which one is taken to be that nothing else says the precision of: a tensor that was made without a type.
pub trait F32Input<A, K> {
    /// Accepts it.
    fn apart(&self) -> Probe<A, K>;
}

impl<A: Carries<F32>, L> F32Input<A, To<L>> for &Probe<A, To<L>> {
    fn apart(&self) -> Probe<A, To<L>> {
        **self
    }
}

/// Any other input that the module may cast.
pub trait Together<A, K> {
    /// Accepts it.
    fn apart(self) -> Probe<A, K>;
}

impl<A, K> Together<A, K> for Probe<A, K> {
    fn apart(self) -> Self {
        self
    }
}

/// One trait a pair, because a diagnostic's text can name the pair only literally.
macro_rules! apart {
    ($($trait:ident $message:literal $help:literal)*) => { $(
        /// Implemented by nothing: the bound that rejects such a tensor.
        #[diagnostic::on_unimplemented(
            message = $message,
            label = "this would be cast to the precision of the region",
            note = $help
        )]
        pub trait $trait {}
    )* };
}
apart! {
    MeetsF16 "this `BF16` tensor meets `F16`"
    "the two are never cast to each other for you: write `.to::<F16>()`"
    MeetsBF16 "this `F16` tensor meets `BF16`"
    "the two are never cast to each other for you: write `.to::<BF16>()`"
}

/// A tensor of this precision, or an optional one.
pub trait Carries<P> {}

impl<P, A: Inside<Tensor: Precise<Precision = P>>> Carries<P> for A {}
impl<P, A: Inside<Tensor: Precise<Precision = P>>> Carries<P> for Option<A> {}

// The two are written out: rustc shows a user where the bound stands, and a macro there would be shown whole.

/// An input of BF16 where the module casts to F16.
pub trait BF16ForF16<A> {
    /// Rejects it.
    fn apart(&self) -> Probe<A, To<F16>>
    where
        A: MeetsF16;
}

impl<A: Carries<BF16>> BF16ForF16<A> for Probe<A, To<F16>> {
    fn apart(&self) -> Self
    where
        A: MeetsF16,
    {
        Probe(PhantomData, PhantomData)
    }
}

/// An input of F16 where the module casts to BF16.
pub trait F16ForBF16<A> {
    /// Rejects it.
    fn apart(&self) -> Probe<A, To<BF16>>
    where
        A: MeetsBF16;
}

impl<A: Carries<F16>> F16ForBF16<A> for Probe<A, To<BF16>> {
    fn apart(&self) -> Self
    where
        A: MeetsBF16,
    {
        Probe(PhantomData, PhantomData)
    }
}

/// An input that a module which computes does not take.
pub trait NoInput<V, K> {
    /// What it should have been.
    type Taken;
    /// Rejects it.
    fn enter(self, value: V, to: K) -> Self::Taken
    where
        V: FloatInput;
}

impl<A: Inside<Tensor: Discrete>, K: Computes> NoInput<A, K> for Probe<A, K>
where
    Tensor<F32>: Cast<K>,
{
    type Taken = Held<Tensor<F32>, <Tensor<F32> as Cast<K>>::Output>;
    fn enter(self, _value: A, to: K) -> Self::Taken
    where
        A: FloatInput,
    {
        Held::new(super::absent(), to)
    }
}

/// Implemented by nothing: the bound that rejects what is not unwrapped.
#[diagnostic::on_unimplemented(
    message = "this module is given a `Result`, not a tensor",
    label = "a `Result` holds a tensor once it is unwrapped",
    note = "put `?` behind it"
)]
pub trait UnwrappedInput {}

/// A result with a tensor in it.
pub trait HoldsInput {}

impl<T: Inside, E> HoldsInput for Result<T, E> {}
impl<T: Inside, E> HoldsInput for &Result<T, E> {}

/// An input that is not unwrapped.
pub trait WrappedInput<V, K> {
    /// What it should have been.
    type Taken;
    /// Rejects it.
    fn enter(self, value: V, to: K) -> Self::Taken
    where
        V: UnwrappedInput;
}

impl<A: HoldsInput, K: Computes> WrappedInput<A, K> for Probe<A, K>
where
    Tensor<F32>: Cast<K>,
{
    type Taken = Held<Tensor<F32>, <Tensor<F32> as Cast<K>>::Output>;
    fn enter(self, _value: A, to: K) -> Self::Taken
    where
        A: UnwrappedInput,
    {
        Held::new(super::absent(), to)
    }
}

/// Any other input.
pub trait AnyInput {
    /// What it is.
    type Value;
    /// What the module casts to.
    type To;
    /// Moves it along.
    fn enter(self, value: Self::Value, to: Self::To) -> Moved<Self::Value>;
}

impl<A, K> AnyInput for &Probe<A, K> {
    type Value = A;
    type To = K;
    fn enter(self, value: A, _to: K) -> Moved<A> {
        Moved(value)
    }
}

/// A tensor that a module is given and whose type was not known before.
#[derive(Debug)]
pub struct Entered<T>(T);

impl<T> Entered<T> {
    /// The argument of the call.
    pub fn pass(&self) -> &T {
        &self.0
    }
}

impl<L: AutocastPrecision> To<L> {
    /// Casts an input of which nothing is known yet but that the module takes it.
    pub fn enter_late<A: Late<Self, Output = Tensor<L>>>(self, value: A) -> Entered<Tensor<L>> {
        Entered(value.late(self))
    }
}

impl<L: AutocastPrecision> Writing<L> {
    /// As that of [`To`].
    pub fn enter_late<A: Late<Self, Output = Tensor<Rounding<L>>>>(self, value: A) -> Entered<Tensor<Rounding<L>>> {
        Entered(value.late(self))
    }
}

impl Keep {
    /// Moves the input along.
    pub fn enter_late<A>(self, value: A) -> Moved<A> {
        Moved(value)
    }
}
