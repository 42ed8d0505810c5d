//! A `full` operation whose result is only ever narrowed writes the narrow result itself.
//!
//! The macros find these calls. The types decide whether the tensor or module at hand can do so, and whether modules that
//! take the result narrow it. The result still has type F32, so nothing else changes: it is a widened view of what was
//! written, and narrowing that is free. A tensor or module that cannot write another precision writes F32, which is narrowed
//! where it is used.

use super::{Cast, Inside, Keep, ModuleClass, Precise, Probe, Recast, Target, To, to};
use crate::precision::F32;
use std::marker::PhantomData;

/// "Widen to F32, and write results in `L`".
#[derive(Debug)]
pub struct Writing<L>(PhantomData<fn() -> L>);

impl<L> Clone for Writing<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Writing<L> {}

/// The target of such operations.
pub const fn writing<L>() -> Writing<L> {
    Writing(PhantomData)
}

/// A tensor whose `full` operations can write another precision than they compute in.
pub trait WritesDirectly {}

/// Whether everything that takes a result narrows it: `To<L>` if so, [`Keep`] if not.
pub trait Condition: Copy {
    /// `A` if the condition holds, otherwise `B`.
    type Pick<A, B>;
    /// `a` if the condition holds, otherwise `b`.
    fn pick<A, B>(self, a: A, b: B) -> Self::Pick<A, B>;
}

impl<L> Condition for To<L> {
    type Pick<A, B> = A;
    fn pick<A, B>(self, a: A, _b: B) -> A {
        a
    }
}

impl Condition for Keep {
    type Pick<A, B> = B;
    fn pick<A, B>(self, _a: A, b: B) -> B {
        b
    }
}

/// What `__AMP_FUNCTIONS` is in a module whose functions are this library's: a condition that holds.
pub const OURS: To<F32> = to();

/// What it is in any other module, which has none of its own and sees the one that expansions import.
pub const FOREIGN: Keep = Keep;

/// What the operands are cast to, if the first certainly is a tensor that can.
pub fn written<L, C: Condition>(_lower: To<L>, if_narrowed: C) -> C::Pick<Writing<L>, To<F32>> {
    if_narrowed.pick(writing(), to())
}

/// The result of an operation whose operands were cast to `target`.
pub fn finished<A, T: Finish<A>>(value: A, target: T) -> T::Output {
    target.finish(value)
}

/// What becomes of a result: what was written narrow is F32 to the program.
pub trait Finish<A> {
    /// The result.
    type Output;
    /// Gives it.
    fn finish(self, value: A) -> Self::Output;
}

impl<A: Recast<To<F32>>, L> Finish<A> for Writing<L> {
    type Output = A::Output;
    fn finish(self, value: A) -> A::Output {
        value.recast(to())
    }
}

impl<A, P> Finish<A> for To<P> {
    type Output = A;
    fn finish(self, value: A) -> A {
        value
    }
}

impl<A> Finish<A> for Keep {
    type Output = A;
    fn finish(self, value: A) -> A {
        value
    }
}

impl<T: Inside<Tensor: WritesDirectly>, L> Probe<T, To<L>> {
    /// What the operands are cast to where the receiver is a tensor whose `full` operations can write their result.
    pub fn direct<C: Condition>(self, if_narrowed: C) -> C::Pick<Writing<L>, To<F32>> {
        if_narrowed.pick(writing(), to())
    }
}

/// Any other tensor.
pub trait IndirectTensor: Sized {
    /// What the operands are cast to.
    fn direct<C: Condition>(self, _if_narrowed: C) -> To<F32> {
        to()
    }
}

impl<T: Inside<Tensor: Cast<To<F32>>>, L> IndirectTensor for Probe<T, To<L>> {}

/// No tensor at all: the call stays as it is.
pub trait NoTensor: Sized {
    /// What the operands are cast to.
    fn direct<C: Condition>(self, _if_narrowed: C) -> Keep {
        Keep
    }
}

impl<T: ?Sized, K> NoTensor for &Probe<T, K> {}

impl<T: Inside<Tensor: Precise<Precision = L>>, L> Probe<T, To<L>> {
    /// What the operands of a `keep` operation are cast to where the receiver is narrow already.
    pub fn keeping<C: Condition>(self, _if_narrowed: C) -> Keep {
        Keep
    }
}

/// A receiver of another precision whose operations can write their result narrow.
pub trait KeepsOrWrites: Sized {
    /// What they write.
    type Lower;
    /// What the operands of a `keep` operation are cast to.
    fn keeping<C: Condition>(self, if_narrowed: C) -> C::Pick<Writing<Self::Lower>, Keep> {
        if_narrowed.pick(writing(), Keep)
    }
}

impl<T: Inside<Tensor: WritesDirectly>, L> KeepsOrWrites for Probe<T, To<L>> {
    type Lower = L;
}

/// Any other receiver.
pub trait OnlyKeeps: Sized {
    /// The operands of a `keep` operation stay as they are.
    fn keeping<C: Condition>(self, _if_narrowed: C) -> Keep {
        Keep
    }
}

impl<T: ?Sized, K> OnlyKeeps for &Probe<T, K> {}

/// What the inputs of a module of class `K` are cast to under condition `C`.
type Picked<C, K, L> = <C as Condition>::Pick<<K as Target<L>>::Direct, <K as Target<L>>::Token>;

impl<T: ModuleClass<Class: Target<L>>, L> Probe<T, To<L>> {
    /// What the inputs of a module of a known class are cast to whose result is narrowed under a condition.
    pub fn module_for<C: Condition>(self, if_narrowed: C) -> Picked<C, T::Class, L> {
        if_narrowed.pick(T::Class::direct(), T::Class::target())
    }
}

/// Any other receiver.
pub trait NotDirectModule: Sized {
    /// Inputs stay as they are.
    fn module_for<C: Condition>(self, _if_narrowed: C) -> Keep {
        Keep
    }
}

impl<T: ?Sized, K> NotDirectModule for Probe<T, K> {}

/// Classes of modules that narrow what they are given.
pub trait Narrows {}

/// Classes of modules that commute with rounding under condition `K`: they choose, move or negate values and compute none.
pub trait Commutes<K> {}

impl<T: ModuleClass<Class: Narrows>, K> Probe<T, K> {
    /// `others`, since this module narrows its input too.
    pub fn narrows<C: Condition>(self, _then: K, others: C) -> C {
        others
    }
}

/// A module that commutes with rounding: what takes its result decides.
pub trait SeenThrough: Sized {
    /// Whether the module's own result is narrowed.
    type Then: Condition;
    /// `others` if this module narrows its input too.
    fn narrows<C: Condition>(self, then: Self::Then, others: C) -> <Self::Then as Condition>::Pick<C, Keep> {
        then.pick(others, Keep)
    }
}

impl<T: ModuleClass<Class: Commutes<K>>, K: Condition> SeenThrough for Probe<T, K> {
    type Then = K;
}

/// Any other module.
pub trait TakesFull: Sized {
    /// It does not narrow its input.
    fn narrows<T, C: Condition>(self, _then: T, _others: C) -> Keep {
        Keep
    }
}

impl<T: ?Sized, K> TakesFull for &Probe<T, K> {}
