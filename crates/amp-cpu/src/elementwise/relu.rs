//! Relu of 16-bit floats and its gradient: a choice among bits, for which nothing is widened and rounded again.
//!
//! On one thread 0.16 ms for 4 M BF16, as long as a copy, where the way through F32 took 0.37 ms; the gradient 0.30 ms for 0.50.

use super::bits::{bits, bits_mut};
use crate::parallel::{Cost, for_each_part};
use crate::simd::{Kernel, Simd, dispatch};
use crate::{DType, Storage, View};

/// `grad` where `saved` is above 0 or NaN, else 0, if all of them have the precision `out` of 16 bits and lie one after the
/// other; relu of a tensor is that of the tensor itself.
pub(super) fn alive(saved: &View, grad: &View, out: DType) -> Option<Storage> {
    if saved.logical != out || grad.logical != out {
        return None;
    }
    let (x, g) = (bits(saved)?, bits(grad)?);
    let least = if out == DType::BF16 { 0xff80 } else { 0xfc00_u16 }.cast_signed();
    let mut output = Storage::unwritten(out, x.len());
    for_each_part(output.as_mut_slice(), Cost::Light, &|start, part| {
        let y = bits_mut(part);
        let (x, g) = (&x[start..][..y.len()], &g[start..][..y.len()]);
        dispatch(Alive { x, g, y, least });
    });
    Some(output)
}

struct Alive<'a> {
    x: &'a [u16],
    g: &'a [u16],
    y: &'a mut [u16],
    /// The bits of -inf: as signed numbers, those of all that is below 0 are not above them, those of NaN are.
    least: i16,
}

impl Kernel for Alive<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for ((y, &x), &g) in self.y.iter_mut().zip(self.x).zip(self.g) {
            *y = g & !dead(x.cast_signed(), self.least).cast_unsigned();
        }
    }
}

/// All bits for 0 and for what is below it, by arithmetic: what a comparison decides is loaded after the comparison, and the
/// gradient's memory would be waited for only when that of `x` has come.
#[inline(always)]
fn dead(x: i16, least: i16) -> i16 {
    let below = x.saturating_sub(least + 1);
    let zero = x.wrapping_sub(1) & !x;
    (below | zero) >> 15
}

#[cfg(test)]
mod tests {
    use super::alive;
    use crate::elementwise::bits::bits_of;
    use crate::elementwise::unary::{computed, computed_grad};
    use crate::{DType, Dims, Layout, Storage, Unary, View};
    use half::{bf16, f16};

    /// All values in an order of no meaning, `turn` bits on.
    fn all(dtype: DType, turn: u16) -> Storage {
        let bits = (0..=u16::MAX).map(|bits| bits.wrapping_mul(7).wrapping_add(turn));
        match dtype {
            DType::BF16 => Storage::BF16(bits.map(bf16::from_bits).collect()),
            _ => Storage::F16(bits.map(f16::from_bits).collect()),
        }
    }

    #[test]
    fn bits_are_those_of_the_way_through_f32() {
        let layout = Layout::contiguous(Dims::new(&[1 << 16]).expect("one dimension"));
        for dtype in [DType::BF16, DType::F16] {
            let (x, g) = (all(dtype, 0), all(dtype, 12345));
            let view = |data| View { data, layout: &layout, logical: dtype };
            let (x, g) = (view(x.as_slice()), view(g.as_slice()));
            let made = |y: Option<Storage>| bits_of(&y.expect("16 bits one after the other"));
            assert_eq!(made(alive(&x, &x, dtype)), bits_of(&computed(Unary::Relu, &x, dtype)), "{dtype}");
            assert_eq!(made(alive(&x, &g, dtype)), bits_of(&computed_grad(Unary::Relu, &x, &g, dtype)), "{dtype}");
            assert!(
                alive(&x, &g, DType::F32).is_none() && alive(&View { logical: DType::F32, ..x }, &g, dtype).is_none()
            );
        }
    }
}
