//! What `#[derive(Module)]` expands to: a field is visited if its type is a module, else passed over.
//!
//! Method lookup tries `&Field` by value before it borrows once more, so [`VisitField`] wins where it applies.

use super::{Module, Visitor};

/// A field of a struct that derives `Module`.
#[derive(Debug)]
pub struct Field<'a, T: ?Sized>(pub &'a T);

/// The field is a module.
pub trait VisitField {
    /// Visits it under its name.
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>);
}

impl<T: Module + ?Sized> VisitField for Field<'_, T> {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.field(name, self.0);
    }
}

/// The field is something else.
pub trait IgnoreField {
    /// Does nothing.
    fn visit_field(&self, _name: &str, _visitor: &mut Visitor<'_>) {}
}

impl<T: ?Sized> IgnoreField for &Field<'_, T> {}
