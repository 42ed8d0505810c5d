//! The tag that stands for an element type where types are erased.

use std::fmt;

/// Element type of a buffer or of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 half precision: 5 exponent bits, 10 mantissa bits, largest finite value 65504.
    F16,
    /// bfloat16: the exponent range of F32 with 7 mantissa bits.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Signed 64-bit integers: indices, labels, counts.
    I64,
    /// Bytes: images before normalisation.
    U8,
    /// Truth values, one byte each.
    Bool,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether this is one of the four floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Whether this is one of the two 16-bit floating-point types.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// Name as in the typed API: `F16`, `Bool`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::I64 => "I64",
            Self::U8 => "U8",
            Self::Bool => "Bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
