//! Casts that the user wrote.

use crate::lattice::{Prec, Value};

/// Whether the user cast a value to F32, or a region that is switched off made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pin {
    #[default]
    No,
    /// To a precision of which the macro knows the name alone, the one of this number: its type says whether that is F32.
    Named(usize),
    /// Of what only the compiler knows, at the place of this number: if that held no floats, nothing is undone.
    Of(usize),
    /// Given by the modules of this number, one after the other: if all of them keep the precision of what they are given, it is
    /// what the user cast.
    By(usize),
    /// It may have been narrow before. A variable of a loop has one type, which such a cast gives it: that the next pass
    /// narrows it again loses nothing.
    Widened,
    /// It was F32 before, too.
    Kept,
}

impl Pin {
    /// That of a region's value, by whether the region is `switched_off`.
    pub(crate) fn of_region(switched_off: bool) -> Self {
        if switched_off { Self::Kept } else { Self::No }
    }

    /// That of a value which may be either. The compiler is asked about one cast: of two that it knows more of than the macro,
    /// nobody can say that they undo nothing.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            // Nobody can say of two modules that both keep it.
            (Self::By(_), Self::By(_)) if self != other => Self::No,
            (Self::By(_), Self::Named(_) | Self::Of(_)) => other,
            (Self::Named(_) | Self::Of(_), Self::By(_)) => self,
            (Self::Named(_) | Self::Of(_), Self::Named(_) | Self::Of(_)) if self != other => Self::Widened,
            _ => self.max(other),
        }
    }
}

impl Value {
    /// Whether narrowing it would undo what the user wrote; of a module's result in full precision nothing says F32.
    pub(crate) fn is_pinned(&self) -> bool {
        !matches!(self.pinned, Pin::No | Pin::Named(_) | Pin::By(_))
            && match self.prec {
                Prec::F32 | Prec::Unknown | Prec::Apart => true,
                // A field that it was put into.
                Prec::Opaque => !self.inferred,
                Prec::Never | Prec::Other | Prec::Half(_) => false,
            }
    }

    /// What holds it, or is given by who made it, and is known by no more than that narrowing it would undo a cast.
    pub(crate) fn kept(&self) -> Option<Self> {
        let own = self.is_pinned().then_some(self.pinned);
        let parts = self.parts.iter().filter_map(Self::kept).map(|part| part.pinned);
        let pinned = own.into_iter().chain(parts).reduce(Pin::or)?;
        Some(Self { pinned, ..Self::new(Prec::F32) })
    }
}
