//! Values for one place of which the macro does not see that they have one precision.

use crate::lattice::{Prec, Value};

impl Prec {
    /// Its name if it certainly is one of the two 16-bit ones.
    pub(crate) fn fixed_half(&self) -> Option<&str> {
        match self {
            Self::Half(name) if matches!(name.as_str(), "F16" | "BF16") => Some(name),
            _ => None,
        }
    }

    /// Whether the two are F16 and BF16, or one of them would have to be both and the other is neither F32 nor open.
    pub(crate) fn is_apart_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Apart, Self::Apart | Self::Half(_)) | (Self::Half(_), Self::Apart) => true,
            (a, b) => a.fixed_half().zip(b.fixed_half()).is_some_and(|(a, b)| a != b),
        }
    }
}

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
