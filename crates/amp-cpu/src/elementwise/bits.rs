//! 16-bit floats as numbers without a sign.

use crate::{Slice, SliceMut, View};
use half::slice::HalfFloatSliceExt;

/// Bits of the elements of `x`, where they are 16-bit floats one after the other.
pub(super) fn bits<'a>(x: &View<'a>) -> Option<&'a [u16]> {
    if !x.layout.is_contiguous() || x.data.dtype() != x.logical {
        return None;
    }
    let all = match x.data {
        Slice::F16(v) => v.reinterpret_cast(),
        Slice::BF16(v) => v.reinterpret_cast(),
        _ => return None,
    };
    Some(&all[x.layout.offset..][..x.layout.count()])
}

/// Bits of 16-bit floats, to be written.
pub(super) fn bits_mut(part: SliceMut<'_>) -> &mut [u16] {
    match part {
        SliceMut::F16(v) => v.reinterpret_cast_mut(),
        SliceMut::BF16(v) => v.reinterpret_cast_mut(),
        _ => unreachable!("a 16-bit precision was asked for"),
    }
}

/// Bits of what a result holds, where all NaN are one.
#[cfg(test)]
pub(super) fn bits_of(storage: &crate::Storage) -> Vec<u16> {
    use crate::Storage;
    let one = |nan: bool, bits: u16| if nan { u16::MAX } else { bits };
    match storage {
        Storage::F16(v) => v.iter().map(|v| one(v.is_nan(), v.to_bits())).collect(),
        Storage::BF16(v) => v.iter().map(|v| one(v.is_nan(), v.to_bits())).collect(),
        _ => panic!("not 16 bits"),
    }
}
