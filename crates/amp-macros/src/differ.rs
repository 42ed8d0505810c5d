//! Values for one place of which the macro does not see that they have one precision.

use crate::lattice::{Prec, Value};

impl Value {
    /// Whether the macro does not see that two values for one place have one precision: it is known of one of them, or only
    /// one of them certainly is a tensor.
    pub(crate) fn may_differ_from(&self, other: &Self) -> bool {
        self.differs_by_type(other) || self.prec.is_known() != other.prec.is_known() && other.prec != Prec::Never
    }

    /// Whether a variable that begins with one and is given the other holds F32: both precisions are held by that.
    pub(crate) fn joins_at_f32(&self, other: &Self) -> bool {
        let unknown = self.prec == Prec::Unknown && other.prec == Prec::Unknown;
        self.prec.join(&other.prec) == Prec::F32 || self.may_differ_from(other) || unknown
    }

    /// Whether one of them is a tensor, and only its type tells what the other is.
    pub(crate) fn differs_by_type(&self, other: &Self) -> bool {
        self.is_open() && other.prec.is_tensor() || other.is_open() && self.prec.is_tensor()
    }

    /// Whether only its type tells what it is.
    pub(crate) fn is_open(&self) -> bool {
        self.prec == Prec::Opaque && !self.inferred && self.parts.is_empty()
    }
}
