//! Modules, whose policy depends on their type: `self.fc.forward(&x)` is `lower` because `fc` is a `Linear`.

use super::probe::Answer;
use super::{Commutes, Inside, Keep, Narrows, Precise, Probe, To, Writing, to, writing};
use crate::precision::{BF16, F32};
use std::cell::{Ref, RefMut};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// The class of a module's forward pass; a type without one takes what its signature says.
pub trait ModuleClass {
    /// [`Lower`], [`Full`], [`FullDirect`], [`KeepClass`], [`KeepCommuting`] or [`KeepSigns`].
    type Class;
}

/// Inputs are narrowed to the region's precision.
#[derive(Clone, Copy, Debug)]
pub struct Lower;

/// Inputs are widened to F32.
#[derive(Clone, Copy, Debug)]
pub struct Full;

/// As [`Full`], and the module can write its result in the region's precision.
#[derive(Clone, Copy, Debug)]
pub struct FullDirect;

/// Inputs stay as they are.
#[derive(Clone, Copy, Debug)]
pub struct KeepClass;

/// As [`KeepClass`], and the module commutes with rounding.
#[derive(Clone, Copy, Debug)]
pub struct KeepCommuting;

/// As [`KeepCommuting`] in BF16 only: the gradient depends on signs, and F16 has 0 where F32 has small values.
#[derive(Clone, Copy, Debug)]
pub struct KeepSigns;

impl Narrows for Lower {}
impl<K> Commutes<K> for KeepCommuting {}
impl Commutes<To<BF16>> for KeepSigns {}

/// What a class casts to in a region of precision `L`.
pub trait Target<L> {
    /// The target.
    type Token;
    /// The target as a value.
    fn target() -> Self::Token;
    /// The target when the result is only ever narrowed.
    type Direct;
    /// That target as a value.
    fn direct() -> Self::Direct;
}

macro_rules! targets {
    ($($class:ident: $token:ty = $target:expr, $direct:ty = $if_narrowed:expr;)*) => { $(
        impl<L> Target<L> for $class {
            type Token = $token;
            fn target() -> $token {
                $target
            }
            type Direct = $direct;
            fn direct() -> $direct {
                $if_narrowed
            }
        }
    )* };
}
targets! {
    Lower: To<L> = to(), To<L> = to();
    Full: To<F32> = to(), To<F32> = to();
    FullDirect: To<F32> = to(), Writing<L> = writing();
    KeepClass: Keep = Keep, Keep = Keep;
    KeepCommuting: Keep = Keep, Keep = Keep;
    KeepSigns: Keep = Keep, Keep = Keep;
}

macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<T: ModuleClass> ModuleClass for $pointer {
            type Class = T::Class;
        }
    )* };
}
pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>, LazyLock<T>);
pointers!(Ref<'_, T>, RefMut<'_, T>, MutexGuard<'_, T>, RwLockReadGuard<'_, T>, RwLockWriteGuard<'_, T>);

/// A precision that does not undo a cast to F32 by the user.
#[diagnostic::on_unimplemented(
    message = "this cast to `F32` would be undone by a `lower` module",
    label = "the module narrows its input again",
    note = "run it in full precision with `amp_region!(f32, ..)`, or cast to the region's precision where it may be rounded"
)]
pub trait KeepsF32 {}

#[diagnostic::do_not_recommend]
impl KeepsF32 for F32 {}

/// What an F32 tensor is after its cast to a target.
pub trait OfF32 {
    /// Its precision.
    type Then;
}

impl<L> OfF32 for To<L> {
    type Then = L;
}

impl OfF32 for Keep {
    type Then = F32;
}

impl<L> OfF32 for Writing<L> {
    type Then = F32;
}

/// The target of an input that the user cast to F32.
pub const fn pinned<T: OfF32<Then: KeepsF32> + Copy>(target: T) -> T {
    target
}

/// A cast of the user's to `M`, which has another name in the program.
#[derive(Debug)]
pub struct Marked<M>(PhantomData<fn() -> M>);

/// Asks what a cast to `M` is.
pub const fn marked<M>() -> Marked<M> {
    Marked(PhantomData)
}

/// A target that does not undo such a cast where it is one to F32.
#[diagnostic::on_unimplemented(
    message = "this cast to `F32` would be undone",
    label = "what takes this value narrows it again",
    note = "run it in full precision with `amp_region!(f32, ..)`, or cast to the region's precision where it may be rounded"
)]
pub trait LeavesF32 {}

#[diagnostic::do_not_recommend]
impl LeavesF32 for To<F32> {}
#[diagnostic::do_not_recommend]
impl LeavesF32 for Keep {}
#[diagnostic::do_not_recommend]
impl<L> LeavesF32 for Writing<L> {}

impl Marked<F32> {
    /// A target that does not narrow.
    pub fn keeps<T: LeavesF32>(self, target: T) -> T {
        target
    }
}

/// A cast of the user's to F32 of what has the type `T`.
#[derive(Debug)]
pub struct CastOf<T>(PhantomData<fn() -> T>);

/// Asks what was cast to F32.
pub const fn cast_of<T>(_: &T) -> CastOf<T> {
    CastOf(PhantomData)
}

impl<T> Answer for CastOf<T> {
    const ANSWER: Self = Self(PhantomData);
}

impl<T: Inside<Tensor: Precise>> CastOf<T> {
    /// A target that does not narrow.
    pub fn keeps<U: LeavesF32>(self, target: U) -> U {
        target
    }
}

/// What the modules of type `M`, in nested pairs, make one after the other of what the user cast to F32.
#[derive(Debug)]
pub struct GivenTo<M>(PhantomData<fn() -> M>);

/// Asks whether modules keep the precision of what they are given.
pub const fn given_to<M>(_: &M) -> GivenTo<M> {
    GivenTo(PhantomData)
}

impl<M> Answer for GivenTo<M> {
    const ANSWER: Self = Self(PhantomData);
}

impl<M: KeepsPrecision> GivenTo<M> {
    /// A target that does not narrow.
    pub fn keeps<T: LeavesF32>(self, target: T) -> T {
        target
    }
}

/// Modules that give what they are given in the precision that it has.
pub trait KeepsPrecision {}

impl KeepsPrecision for () {}
impl KeepsPrecision for KeepClass {}
impl KeepsPrecision for KeepCommuting {}
impl KeepsPrecision for KeepSigns {}
impl<T: ModuleClass<Class: KeepsPrecision>, M: KeepsPrecision> KeepsPrecision for (&T, M) {}

/// A cast to another precision, or of what was none of those between which autocast casts: truth values, integers, F64.
pub trait MarkedOther: Sized {
    /// Any target.
    fn keeps<T>(self, target: T) -> T {
        target
    }
}

impl<M> MarkedOther for Marked<M> {}
impl<T> MarkedOther for CastOf<T> {}
impl<M> MarkedOther for GivenTo<M> {}

impl<T: ModuleClass<Class: Target<L>>, L> Probe<T, To<L>> {
    /// What the inputs of a module of a known class are cast to.
    pub fn module(self) -> <T::Class as Target<L>>::Token {
        T::Class::target()
    }
}

/// Any other receiver.
pub trait NotModule: Sized {
    /// Inputs stay as they are.
    fn module(self) -> Keep {
        Keep
    }
}

impl<T: ?Sized, K> NotModule for Probe<T, K> {}
