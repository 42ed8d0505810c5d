//! What `#[derive(Module)]` expands to: a field is visited if its type is a module, refused if it hides modules, and otherwise
//! ignored.
//!
//! Method lookup on `&&Field` tries the traits of `&Field`, of `&&Field` and of `Field`, in this order, those by value last.
//! That a type of the user's own has parameters in it shows in what the compiler derives by itself from field to field:
//! parameters are not `Unpin`, nor is what holds them other than by a pointer.

use super::{Module, Visitor};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, LinkedList, VecDeque};
use std::sync::{Mutex, OnceLock, RwLock};

/// A field of a struct that derives `Module`.
#[derive(Debug)]
pub struct Field<'a, T: ?Sized>(pub &'a T);

impl<T: ?Sized> Clone for Field<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Field<'_, T> {}

/// The field is a module.
pub trait VisitField {
    /// Visits it under its name.
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>);
}

impl<T: Module + ?Sized> VisitField for &Field<'_, T> {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.field(name, self.0);
    }
}

/// The field hides modules.
pub trait RefuseField<T: ?Sized, Where> {
    /// Does not compile.
    fn visit_field(&self, _name: &str, _visitor: &mut Visitor<'_>)
    where
        T: Visitable,
    {
    }
}

impl<T: Hides<Where> + ?Sized, Where> RefuseField<T, Where> for &&Field<'_, T> {}

/// The field is something else.
pub trait IgnoreField {
    /// Does nothing.
    fn visit_field(&self, _name: &str, _visitor: &mut Visitor<'_>) {}
}

impl<T: Unpin + ?Sized> IgnoreField for Field<'_, T> {}

/// The field is none of these: it is of a type that has parameters in it and is no module.
pub trait DenyField<T: ?Sized>: Sized {
    /// Does not compile.
    fn visit_field(self, _name: &str, _visitor: &mut Visitor<'_>)
    where
        T: Visitable,
    {
    }
}

impl<T: ?Sized> DenyField<T> for Field<'_, T> {}

/// The field is something else, of a generic type, of which nothing more is known.
pub trait IgnoreGeneric {
    /// Does nothing.
    fn visit_field(&self, _name: &str, _visitor: &mut Visitor<'_>) {}
}

impl<T: ?Sized> IgnoreGeneric for Field<'_, T> {}

/// What no type that hides modules is.
#[diagnostic::on_unimplemented(
    message = "the modules in a `{Self}` would not be trained, saved or switched",
    label = "`Module` cannot be derived through this field",
    note = "help: derive `Module` for the type that has them, keep them in a `Vec`, an `Option`, a `BTreeMap` or a tuple, or \
            write `#[module(skip)]` above the field"
)]
pub trait Visitable {}

/// A type that holds modules and is none; `Where` says where they are, so that no two implementations meet.
pub trait Hides<Where> {}

/// A module itself.
#[derive(Debug)]
pub struct Itself;

/// What hides modules.
#[derive(Debug)]
pub struct Within<Where>(Where);

/// What is found at a place.
#[derive(Debug)]
pub struct At<Found, const PLACE: usize>(Found);

macro_rules! hides {
    ($($place:literal $type:ty, $($other:ident),*;)*) => { $(
        impl<H: Module, $($other),*> Hides<At<Itself, $place>> for $type {}
        impl<Where, H: Hides<Where>, $($other),*> Hides<At<Within<Where>, $place>> for $type {}
    )* };
}
hides! {
    0 Cell<H>,;
    0 RefCell<H>,;
    0 OnceCell<H>,;
    0 Mutex<H>,;
    0 RwLock<H>,;
    0 OnceLock<H>,;
    0 VecDeque<H>,;
    0 LinkedList<H>,;
    0 HashMap<K, H, S>, K, S;
    0 Result<H, E>, E;
    0 (H, B), B;
    1 (A, H), A;
}

// These are modules themselves where they hold modules.
macro_rules! holds {
    ($($type:ty),*) => { $(
        impl<Where, H: Hides<Where>> Hides<Within<Where>> for $type {}
    )* };
}
holds!(Vec<H>, Option<H>, Box<H>, std::rc::Rc<H>, std::sync::Arc<H>);

impl<Where, H: Hides<Where>, const N: usize> Hides<Within<Where>> for [H; N] {}
