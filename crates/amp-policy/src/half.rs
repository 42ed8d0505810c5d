//! What becomes of a constant in half precision.

/// A 16-bit format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE half precision: 11 significant bits, largest finite value 65504, smallest positive one 2^-24.
    F16,
    /// bfloat16: 8 significant bits, the range of F32.
    BF16,
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
}

impl Half {
    /// Judges `value`; `scales` says that it is a factor, where a silent 1 would change the result.
    pub const fn judge(self, value: f64, scales: bool) -> Verdict {
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
        let near_one = size >= 1.0 - self.epsilon() / 4.0 && size <= 1.0 + self.epsilon() / 2.0;
        if scales && size != 1.0 && near_one {
            return Verdict::BecomesOne;
        }
        Verdict::Fits
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
    use super::{Half, Verdict};

    #[test]
    fn range_ends_are_exact() {
        use Verdict::{BecomesOne, Fits, Overflows, Vanishes};
        for (half, value, scales, verdict) in [
            (Half::F16, 65504.0, false, Fits),
            (Half::F16, 65519.0, false, Fits),
            (Half::F16, -65520.0, false, Overflows),
            (Half::F16, -1e9, false, Overflows),
            (Half::F16, f64::NEG_INFINITY, false, Fits),
            (Half::F16, 1e-7, false, Fits),
            (Half::F16, 2f64.powi(-25), false, Vanishes),
            (Half::F16, 1e-8, false, Vanishes),
            (Half::F16, 0.0, true, Fits),
            (Half::F16, 0.999, true, Fits),
            (Half::F16, 0.9999, true, BecomesOne),
            (Half::F16, 0.9999, false, Fits),
            (Half::F16, 1.0, true, Fits),
            (Half::BF16, 65504.0, false, Fits),
            (Half::BF16, f32::MIN as f64, false, Overflows),
            (Half::BF16, 1e-12, false, Fits),
            (Half::BF16, 0.999, true, BecomesOne),
            (Half::BF16, 0.99, true, Fits),
            (Half::BF16, 1e39, false, Overflows),
            (Half::BF16, 1e-41, false, Vanishes),
        ] {
            assert_eq!(half.judge(value, scales), verdict, "{value} in {half:?}");
        }
    }
}
