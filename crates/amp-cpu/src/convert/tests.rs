//! The 16-bit formats bit for bit, the other pairs value by value.

use super::*;
use crate::simd::{Level, dispatch_at};

fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|l| *l <= Level::best())
}

/// Every value halfway between two neighbours of a 16-bit format, the values next to it, and all exponents.
fn borders() -> Vec<f32> {
    let shift_13 = (0..=u32::MAX).step_by(1 << 12).flat_map(|b| [b.wrapping_sub(1), b, b + 1]);
    let subnormal = (0..4096).map(|i| i as f32 * 2f32.powi(-26));
    let near = |v: f32| [v, -v, f32::from_bits(v.to_bits() + 1), f32::from_bits(v.to_bits() - 1)];
    let overflow = [65504.0, 65519.996, 65520.0, 3.3895e38].into_iter().flat_map(near);
    shift_13.map(f32::from_bits).chain(subnormal).chain(overflow).collect()
}

#[test]
fn all_patterns_widen_exactly() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let halves: Vec<f16> = bits.iter().map(|b| f16::from_bits(*b)).collect();
    let brains: Vec<bf16> = bits.iter().map(|b| bf16::from_bits(*b)).collect();
    let mut wide = vec![0.0; bits.len()];
    for level in levels() {
        dispatch_at(level, WidenF16(&halves, &mut wide));
        for (h, w) in halves.iter().zip(&wide) {
            assert_eq!(w.to_bits(), h.to_f32().to_bits(), "F16 {:#06x} at {level:?}", h.to_bits());
        }
        dispatch_at(level, Each(&brains, &mut wide));
        for (h, w) in brains.iter().zip(&wide) {
            let same = w.to_bits() == h.to_f32().to_bits() || (w.is_nan() && h.is_nan());
            assert!(same, "BF16 {:#06x} at {level:?}", h.to_bits());
        }
    }
}

#[test]
fn narrowing_rounds_to_nearest_even_at_every_border() {
    let x = borders();
    let (mut half, mut brain) = (vec![f16::ZERO; x.len()], vec![bf16::ZERO; x.len()]);
    for level in levels() {
        dispatch_at(level, NarrowF16(&x, &mut half));
        dispatch_at(level, Each(&x, &mut brain));
        for ((x, h), b) in x.iter().zip(&half).zip(&brain) {
            assert_eq!(h.to_bits(), f16::from_f32_const(*x).to_bits(), "{x:e} to F16 at {level:?}");
            assert_eq!(b.to_bits(), bf16::from_f32(*x).to_bits(), "{x:e} to BF16 at {level:?}");
        }
    }
}

#[test]
fn short_slices_use_the_same_rounding() {
    let x: Vec<f32> = (0..40).map(|i| 1.0 + i as f32 * 2f32.powi(-12)).collect();
    for level in levels() {
        for n in 0..x.len() {
            let (mut half, mut rounded) = (vec![f16::ZERO; n], x[..n].to_vec());
            dispatch_at(level, NarrowF16(&x[..n], &mut half));
            dispatch_at(level, Round::<_, f16>(&mut rounded, PhantomData));
            let exact: Vec<f16> = x[..n].iter().map(|v| f16::from_f32(*v)).collect();
            assert_eq!(half, exact, "{n} elements at {level:?}");
            assert_eq!(rounded, exact.iter().map(|v| v.to_f32()).collect::<Vec<_>>(), "{n} at {level:?}");
        }
    }
}

/// The rounding that the definition gives: the nearer of two neighbours, the even one of two equally near.
fn nearest_f16(v: f64) -> f16 {
    let below = (0..0x7c00u16).rev().map(f16::from_bits).find(|h| h.to_f64() <= v).expect("0 is below");
    let above = f16::from_bits(below.to_bits() + 1);
    let ceiling = if above.is_infinite() { 65536.0 } else { above.to_f64() };
    let (down, up) = (v - below.to_f64(), ceiling - v);
    if down < up || (down == up && below.to_bits() & 1 == 0) { below } else { above }
}

#[test]
fn f64_is_rounded_once() {
    // Just above a tie: rounding to F32 first would land on the tie and then round to even, down.
    let tie = 1.0 + 2f64.powi(-11);
    let mut values =
        vec![tie, tie + 2f64.powi(-40), tie - 2f64.powi(-40), 65519.999999, 65520.0, 2f64.powi(-25), 1e-12];
    values.extend((0..2000).map(|i| f64::from(i * 33) + 2f64.powi(-30)));
    for v in values {
        let (half, negative): (f16, f16) = (v.converted(), (-v).converted());
        assert_eq!(half, nearest_f16(v), "{v:e}");
        assert_eq!(negative, -nearest_f16(v), "{v:e}");
    }
    let brain: bf16 = (1.0 + 2f64.powi(-8) + 2f64.powi(-40)).converted();
    assert_eq!(brain.to_f64(), 1.0 + 2f64.powi(-7));
}

#[test]
fn special_values_stay() {
    for v in [f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, -1e300, 1e-300] {
        let half: f16 = v.converted();
        assert_eq!(half.to_bits(), f16::from_f64(v).to_bits(), "{v:e}");
    }
    let nan: bf16 = f64::NAN.converted();
    assert!(nan.is_nan());
}

#[test]
fn integers_truncate_saturate_and_wrap() {
    let to_int: [i64; 4] = [2.9f32, -2.9, f32::NAN, 1e30].map(Cast::converted);
    assert_eq!(to_int, [2, -2, 0, i64::MAX]);
    let to_byte: [u8; 3] = [-5.0f32, 255.5, 300.0].map(Cast::converted);
    assert_eq!(to_byte, [0, 255, 255]);
    let low_bits: [u8; 2] = [257i64, -1].map(Cast::converted);
    assert_eq!(low_bits, [1, 255]);
    let truth: [bool; 3] = [0.0f64, f64::NAN, -3.0].map(Cast::converted);
    assert_eq!(truth, [false, true, true]);
}

/// Just above a tie of BF16: rounding to F32 or F64 first would land on the tie and then round to even, down.
#[test]
fn integers_are_rounded_once() {
    for (above, expected) in [(1_i64 << 24, 1_i64 << 17), (1 << 55, 1 << 48), (1 << 62, 1 << 55)] {
        let (tie, up) = (above + expected / 2, (above + expected) as f64);
        for (value, expected) in [(tie + 1, up), (tie, above as f64), (tie - 1, above as f64), (above, above as f64)] {
            let [plus, minus]: [bf16; 2] = [value, -value].map(Cast::converted);
            assert_eq!([plus.to_f64(), minus.to_f64()], [expected, -expected], "{value}");
        }
    }
    let ends: [bf16; 3] = [i64::MAX, i64::MIN, 0].map(Cast::converted);
    assert_eq!(ends.map(bf16::to_f64), [2f64.powi(63), -(2f64.powi(63)), 0.0]);
    let halves: [f16; 4] = [65519, 65520, -2049, i64::MIN].map(Cast::converted);
    assert_eq!(halves.map(f16::to_f64), [65504.0, f64::INFINITY, -2048.0, f64::NEG_INFINITY]);
}
