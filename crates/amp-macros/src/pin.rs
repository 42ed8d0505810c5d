//! Casts that the user wrote.

/// Whether the user cast a value to F32, or a region that is switched off made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pin {
    #[default]
    No,
    /// To a precision of which the macro knows the name alone, the one of this number: its type says whether that is F32.
    Named(usize),
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
}
