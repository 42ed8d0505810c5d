//! What a tensor type implements to be cast by the macros.

use std::borrow::Cow;
use std::cell::{Ref, RefMut};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::{Arc, LazyLock, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A place that holds a tensor: the tensor itself, a reference, a smart pointer, the guard of a cell or a lock, a parameter.
pub trait Inside {
    /// The tensor in it.
    type Tensor;
    /// Reaches the tensor.
    fn inside(&self) -> &Self::Tensor;
}

/// A tensor that autocast may cast to target `K`.
pub trait Cast<K> {
    /// The tensor after the cast.
    type Output;
    /// Does not compile where the cast is one that only the user may ask for, between F16 and BF16: of a generic function
    /// that is found when code is generated for its precisions.
    ///
    /// ```compile_fail,E0080
    /// # use amp_core::{Tensor, private::{AutocastPrecision, BF16, F16, TO_F16, cast}};
    /// fn narrowed<P: AutocastPrecision>(x: &Tensor<P>) -> Tensor<F16> {
    ///     cast(x, TO_F16)
    /// }
    /// let rounded: fn(&Tensor<BF16>) -> Tensor<F16> = narrowed;
    /// std::hint::black_box(rounded);
    /// ```
    /// ```
    /// # use amp_core::{Tensor, private::{AutocastPrecision, BF16, F16, F32, TO_BF16, TO_F16, cast}};
    /// # fn narrowed<P: AutocastPrecision>(x: &Tensor<P>) -> Tensor<F16> {
    /// #     cast(x, TO_F16)
    /// # }
    /// let (same, rounded): (fn(&Tensor<F16>) -> Tensor<F16>, fn(&Tensor<F32>) -> Tensor<F16>) = (narrowed, narrowed);
    /// let kept: fn(&Tensor<BF16>) -> Tensor<BF16> = |x| cast(x, TO_BF16);
    /// std::hint::black_box((same, rounded, kept));
    /// ```
    const TOGETHER: () = ();
    /// The same elements at the target; widening is exact, narrowing rounds once.
    fn cast(&self, to: K) -> Self::Output;
    /// The tensor itself where the types say that it is at the target already, so that a call takes it as it is.
    fn unchanged(&self) -> Option<&Self::Output> {
        None
    }
}

/// As [`Cast`], for values that are given away, and for containers of tensors.
pub trait Recast<K> {
    /// The value after the cast.
    type Output;
    /// Casts every tensor in the value.
    fn recast(self, to: K) -> Self::Output;
}

/// Casts what certainly is a tensor.
pub fn cast<A: Inside + ?Sized, K>(place: &A, to: K) -> <A::Tensor as Cast<K>>::Output
where
    A::Tensor: Cast<K>,
{
    const { <A::Tensor as Cast<K>>::TOGETHER }
    place.inside().cast(to)
}

/// Casts what certainly is a tensor, or the result of an operation, and is given away.
pub fn recast<A: Recast<K>, K>(value: A, to: K) -> A::Output {
    value.recast(to)
}

/// A tensor, or a number beside one, whose type is not known yet where it is cast.
#[diagnostic::on_unimplemented(
    message = "the type of this value is known too late for autocast to tell what it is",
    label = "this is neither a tensor nor a number",
    note = "write its type where it is declared"
)]
pub trait Late<K> {
    /// The value after the cast.
    type Output;
    /// Casts it.
    fn late(self, to: K) -> Self::Output;
}

impl<K, T: Inside<Tensor: Cast<K>>> Late<K> for &T {
    type Output = <T::Tensor as Cast<K>>::Output;
    fn late(self, to: K) -> Self::Output {
        cast(self, to)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl<K> Late<K> for $number {
            type Output = Self;
            fn late(self, _to: K) -> Self {
                self
            }
        }
    )* };
}
numbers!(f32, f64, i32);

/// Casts what has to be a tensor or a number, without asking which.
pub fn late<A: Late<K>, K>(value: A, to: K) -> A::Output {
    value.late(to)
}

/// A tensor whose precision is part of its type.
pub trait Precise {
    /// That precision.
    type Precision;
}

impl<T: Precise, E> Precise for Result<T, E> {
    type Precision = T::Precision;
}

impl<T: Precise> Precise for &mut T {
    type Precision = T::Precision;
}

macro_rules! hold_one {
    ($($holder:ty),*) => { $(
        impl<T: Precise> Precise for $holder {
            type Precision = T::Precision;
        }

        impl<T: Plain> Plain for $holder {}
    )* };
}
hold_one!(Option<T>, Box<T>, Rc<T>, Arc<T>, Box<[T]>, Rc<[T]>, Arc<[T]>);

macro_rules! hold {
    ($([$($param:ident),*] $container:ty;)*) => { $(
        impl<T: Precise, $($param),*> Precise for $container {
            type Precision = T::Precision;
        }

        impl<T: Plain, $($param),*> Plain for $container {}
    )* };
}
hold!([] Vec<T>; [] VecDeque<T>; [Q, S] HashMap<Q, T, S>; [Q] BTreeMap<Q, T>;);

impl<T: Precise, const N: usize> Precise for [T; N] {
    type Precision = T::Precision;
}

/// A tensor whose type says its precision and that a call can take as it is (a parameter is first turned into one), and
/// containers of such tensors.
pub trait Plain {}

impl<T: Plain, E> Plain for Result<T, E> {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A tensor whose precision is known at run time only.
pub trait RuntimePrecision {
    /// Its precision as a value.
    type Token: RuntimeToken;
    /// The precision this tensor has now.
    fn token(&self) -> Self::Token;
}

/// Precision as a run-time value.
pub trait RuntimeToken: Copy {
    /// The wider of the two.
    fn widest(self, other: Self) -> Self;
}

macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<T: Inside> Inside for $pointer {
            type Tensor = T::Tensor;
            fn inside(&self) -> &T::Tensor {
                (**self).inside()
            }
        }
    )* };
}
pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>, LazyLock<T>);
pointers!(Ref<'_, T>, RefMut<'_, T>, MutexGuard<'_, T>, RwLockReadGuard<'_, T>, RwLockWriteGuard<'_, T>);

impl<T: Inside + Clone> Inside for Cow<'_, T> {
    type Tensor = T::Tensor;
    fn inside(&self) -> &T::Tensor {
        (**self).inside()
    }
}

impl<K, T: Recast<K>, E> Recast<K> for Result<T, E> {
    type Output = Result<T::Output, E>;
    fn recast(self, to: K) -> Self::Output {
        self.map(|value| value.recast(to))
    }
}

impl<K, T: Recast<K>> Recast<K> for Option<T> {
    type Output = Option<T::Output>;
    fn recast(self, to: K) -> Self::Output {
        self.map(|value| value.recast(to))
    }
}

impl<K: Copy, T: Recast<K>> Recast<K> for Box<[T]> {
    type Output = Box<[T::Output]>;
    fn recast(self, to: K) -> Self::Output {
        self.into_iter().map(|element| element.recast(to)).collect()
    }
}

impl<K, T: Recast<K>> Recast<K> for Box<T> {
    type Output = Box<T::Output>;
    fn recast(self, to: K) -> Self::Output {
        Box::new((*self).recast(to))
    }
}

macro_rules! shared {
    ($($name:ident),*) => { $(
        impl<K, T: Recast<K> + Clone> Recast<K> for $name<T> {
            type Output = $name<T::Output>;
            fn recast(self, to: K) -> Self::Output {
                $name::new($name::unwrap_or_clone(self).recast(to))
            }
        }

        impl<K: Copy, T: Recast<K> + Clone> Recast<K> for $name<[T]> {
            type Output = $name<[T::Output]>;
            fn recast(self, to: K) -> Self::Output {
                self.iter().map(|element| element.clone().recast(to)).collect()
            }
        }
    )* };
}
shared!(Rc, Arc);

impl<K: Copy, T: Recast<K>, const N: usize> Recast<K> for [T; N] {
    type Output = [T::Output; N];
    fn recast(self, to: K) -> Self::Output {
        self.map(|value| value.recast(to))
    }
}

macro_rules! sequences {
    ($($name:ident),*) => { $(
        impl<K: Copy, T: Recast<K>> Recast<K> for $name<T> {
            type Output = $name<T::Output>;
            fn recast(self, to: K) -> Self::Output {
                self.into_iter().map(|value| value.recast(to)).collect()
            }
        }
    )* };
}
sequences!(Vec, VecDeque);

impl<K: Copy, Q: Eq + Hash, T: Recast<K>, S: BuildHasher + Default> Recast<K> for HashMap<Q, T, S> {
    type Output = HashMap<Q, T::Output, S>;
    fn recast(self, to: K) -> Self::Output {
        self.into_iter().map(|(key, value)| (key, value.recast(to))).collect()
    }
}

impl<K: Copy, Q: Ord, T: Recast<K>> Recast<K> for BTreeMap<Q, T> {
    type Output = BTreeMap<Q, T::Output>;
    fn recast(self, to: K) -> Self::Output {
        self.into_iter().map(|(key, value)| (key, value.recast(to))).collect()
    }
}

/// What stands beside a tensor, and has no type to be cast to.
macro_rules! beside {
    ($($kept:ty),*) => { $(
        impl<K> Recast<K> for $kept {
            type Output = Self;
            fn recast(self, _to: K) -> Self {
                self
            }
        }
    )* };
}
beside!(bool, char, u8, u32, u64, usize, i32, i64, isize, f32, f64, String, &str);

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)*) => { $(
        impl<$($name: Plain),+> Plain for ($($name,)+) {}

        impl<Target: Copy, $($name: Recast<Target>),+> Recast<Target> for ($($name,)+) {
            type Output = ($($name::Output,)+);
            fn recast(self, to: Target) -> Self::Output {
                ($(self.$at.recast(to),)+)
            }
        }
    )* };
}
of_tuples!(tuples);
