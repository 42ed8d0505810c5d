//! What becomes of a constant in half precision.

/// A 16-bit format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE half precision: 11 significant bits, largest finite value 65504, smallest positive one 2^-24.
    F16,
    /// bfloat16: 8 significant bits, the range of F32.
    BF16,
}

/// What a constant is to the elements that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is added to them, or put in their place.
    Term,
    /// They are multiplied or divided by it, or held within it: a silent 1 would change the result.
    Factor,
    /// They move towards others by it, and keep the rest of 1: they would stand still.
    Weight,
}

/// What becomes of one constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays what it is, up to rounding.
    Fits,
    /// It is finite and becomes infinite.
    Overflows,
    /// It is not 0 and becomes 0.
    Vanishes,
    /// It is a factor other than 1 and becomes exactly 1.
    BecomesOne,
    /// It is a weight other than 0, and the rest of 1 becomes exactly 1.
    MovesNothing,
}

impl Half {
    /// Judges `value`, which is this to what it meets.
    pub const fn judge(self, value: f64, part: Part) -> Verdict {
        let size = value.abs();
        if value.is_nan() || size == f64::INFINITY || size == 0.0 {
            return Verdict::Fits;
        }
        // Halfway between the largest finite value and its would-be successor ties to even, that is to infinity.
        if size >= self.overflow() {
            return Verdict::Overflows;
        }
        // Half of the smallest subnormal ties to even, that is to zero.
        if size <= self.vanish() {
            return Verdict::Vanishes;
        }
        match part {
            Part::Factor | Part::Weight if size != 1.0 && self.rounds_to_one(size) => Verdict::BecomesOne,
            Part::Weight if self.rounds_to_one(1.0 - value) => Verdict::MovesNothing,
            _ => Verdict::Fits,
        }
    }

    const fn rounds_to_one(self, value: f64) -> bool {
        value >= 1.0 - self.epsilon() / 4.0 && value <= 1.0 + self.epsilon() / 2.0
    }

    /// The least magnitude that rounds to infinity.
    pub const fn overflow(self) -> f64 {
        match self {
            Self::F16 => 65520.0,
            Self::BF16 => 3.396_177_529_230_46e38,
        }
    }

    /// The largest finite value.
    pub const fn largest(self) -> f64 {
        match self {
            Self::F16 => 65504.0,
            Self::BF16 => 3.389_531_389_251_535_5e38,
        }
    }

    /// The largest magnitude that rounds to 0.
    pub const fn vanish(self) -> f64 {
        match self {
            Self::F16 => 2.980_232_238_769_531_3e-8,
            Self::BF16 => 4.591_774_807_899_561e-41,
        }
    }

    /// Distance from 1 to the next larger value.
    pub const fn epsilon(self) -> f64 {
        match self {
            Self::F16 => 9.765_625e-4,
            Self::BF16 => 7.812_5e-3,
        }
    }

    /// The marker type's name.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::BF16 => "BF16",
        }
    }

    /// The name in attributes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Half, Part, Verdict};

    #[test]
    fn range_ends_are_exact() {
        use Part::{Factor, Term, Weight};
        use Verdict::{BecomesOne, Fits, MovesNothing, Overflows, Vanishes};
        for (half, value, part, verdict) in [
            (Half::F16, 65504.0, Term, Fits),
            (Half::F16, 65519.0, Term, Fits),
            (Half::F16, -65520.0, Term, Overflows),
            (Half::F16, -1e9, Term, Overflows),
            (Half::F16, f64::NEG_INFINITY, Term, Fits),
            (Half::F16, 1e-7, Term, Fits),
            (Half::F16, 2f64.powi(-25), Term, Vanishes),
            (Half::F16, 1e-8, Term, Vanishes),
            (Half::F16, 0.0, Factor, Fits),
            (Half::F16, 0.999, Factor, Fits),
            (Half::F16, 0.9999, Factor, BecomesOne),
            (Half::F16, 0.9999, Term, Fits),
            (Half::F16, 1.0, Factor, Fits),
            (Half::BF16, 65504.0, Term, Fits),
            (Half::BF16, f32::MIN as f64, Term, Overflows),
            (Half::BF16, 1e-12, Term, Fits),
            (Half::BF16, 0.999, Factor, BecomesOne),
            (Half::BF16, 0.99, Factor, Fits),
            (Half::BF16, 1e39, Term, Overflows),
            (Half::BF16, 1e-41, Term, Vanishes),
            (Half::BF16, 1e-4, Weight, MovesNothing),
            (Half::BF16, -1e-4, Weight, MovesNothing),
            (Half::BF16, 2f64.powi(-9), Weight, MovesNothing),
            (Half::BF16, 0.002, Weight, Fits),
            (Half::BF16, 0.0, Weight, Fits),
            (Half::BF16, 0.999, Weight, BecomesOne),
            (Half::BF16, 1.0, Weight, Fits),
            (Half::BF16, 2.0, Weight, Fits),
            (Half::BF16, 1e-41, Weight, Vanishes),
            (Half::BF16, 1e-4, Factor, Fits),
            (Half::F16, 1e-4, Weight, MovesNothing),
            (Half::F16, 0.001, Weight, Fits),
        ] {
            assert_eq!(half.judge(value, part), verdict, "{value}, a {part:?} in {half:?}");
        }
    }
}
