//! Transposing lines of elements, or of small groups that stay together.

use crate::scratch::Plain;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

/// Transposes `width` lines of `depth` elements, `stride` apart.
pub(crate) fn turn<E: Plain>(lines: &[E], stride: usize, depth: usize, width: usize, out: &mut [E]) {
    turn_groups::<E, 1>(lines, stride, depth, width, out);
}

/// Transposes `width` lines of `units` groups of `G` elements; the lines are `stride` elements apart.
pub(crate) fn turn_groups<E: Plain, const G: usize>(
    lines: &[E],
    stride: usize,
    units: usize,
    width: usize,
    out: &mut [E],
) {
    let done = turn_words::<E, G>(lines, stride, units, width, out);
    let out = out.as_chunks_mut::<G>().0;
    let line = |r: usize| &lines[r * stride + done * G..][..(units - done) * G].as_chunks::<G>().0[..units - done];
    turn_squares(&line, units - done, width, &mut out[done * width..]);
}

/// In squares of four that the compiler may keep in registers.
fn turn_squares<'a, U: Copy + 'a>(line: &dyn Fn(usize) -> &'a [U], units: usize, width: usize, out: &mut [U]) {
    let (squares, whole) = (width / 4 * 4, units / 4 * 4);
    for r in (0..squares).step_by(4) {
        let rows: [&[U]; 4] = std::array::from_fn(|i| line(r + i));
        for d in (0..whole).step_by(4) {
            let square: [&[U; 4]; 4] = rows.map(|row| row[d..].first_chunk().expect("four columns are left"));
            for i in 0..4 {
                let to: &mut [U; 4] = out[(d + i) * width + r..].first_chunk_mut().expect("four rows are left");
                *to = [square[0][i], square[1][i], square[2][i], square[3][i]];
            }
        }
        for d in whole..units {
            for (i, row) in rows.iter().enumerate() {
                out[d * width + r + i] = row[d];
            }
        }
    }
    for r in squares..width {
        for (d, &unit) in line(r).iter().enumerate() {
            out[d * width + r] = unit;
        }
    }
}

/// Turns units from the front that are words, in squares of 16, where the machine has the registers for it; returns how
/// many of each line that were.
#[cfg(target_arch = "x86_64")]
fn turn_words<E: Plain, const G: usize>(
    lines: &[E],
    stride: usize,
    units: usize,
    width: usize,
    out: &mut [E],
) -> usize {
    let whole = units / 16 * 16;
    if size_of::<[E; G]>() != 4 || !(width.is_multiple_of(16) || width == 12) || Level::current() < Level::Avx512 {
        return 0;
    }
    if whole == 0 || width == 0 {
        return 0;
    }
    assert!(lines.len() >= (width - 1) * stride + whole * G && out.len() >= whole * width * G);
    let stride = stride * size_of::<E>();
    let (from, to) = (lines.as_ptr().cast::<u32>(), out.as_mut_ptr().cast::<u32>());
    for r in (0..width).step_by(16) {
        // SAFETY: the level has AVX-512 F. 16 (or all 12) lines from `r` on have `whole` words each, `stride` bytes apart,
        // and as many columns of `out` are written, the last of which ends `whole * width` words from its start (both
        // asserted). Words need no alignment here.
        unsafe {
            let (from, to) = (from.byte_add(r * stride), to.add(r));
            if width == 12 {
                x86::turn::<12>(from, stride, whole, to, width);
            } else {
                x86::turn::<16>(from, stride, whole, to, width);
            }
        }
    }
    whole
}

#[cfg(not(target_arch = "x86_64"))]
fn turn_words<E: Plain, const G: usize>(_: &[E], _: usize, _: usize, _: usize, _: &mut [E]) -> usize {
    0
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Transposes `ROWS` lines of `units` words, `stride` bytes apart, into columns `width` words apart.
    ///
    /// # Safety
    /// The lines must be readable, the columns writable, `units` a multiple of 16; nothing need be aligned.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn turn<const ROWS: usize>(
        from: *const u32,
        stride: usize,
        units: usize,
        to: *mut u32,
        width: usize,
    ) {
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        for d in (0..units).step_by(16) {
            let mut rows = [_mm512_setzero_si512(); 16];
            for (i, row) in rows[..ROWS].iter_mut().enumerate() {
                // SAFETY: words `d..d + 16` of line `i` (caller).
                *row = unsafe { _mm512_loadu_si512(from.byte_add(i * stride).add(d).cast()) };
            }
            // Interleaving the upper half of the rows with the lower rotates the bits of every element's place by one; after
            // four times, row and column have changed places.
            for _ in 0..4 {
                let mut woven = rows;
                for i in 0..8 {
                    woven[2 * i] = _mm512_permutex2var_epi32(rows[i], low, rows[i + 8]);
                    woven[2 * i + 1] = _mm512_permutex2var_epi32(rows[i], high, rows[i + 8]);
                }
                rows = woven;
            }
            for (j, &column) in rows.iter().enumerate() {
                // SAFETY: the first `ROWS` words of column `d + j` (caller).
                unsafe {
                    _mm512_mask_storeu_epi32(to.add((d + j) * width).cast(), ((1_u32 << ROWS) - 1) as u16, column)
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn check<E: Plain + PartialEq + std::fmt::Debug, const G: usize>(value: impl Fn(usize) -> E) {
        for (width, units, gap) in
            [(12, 16, 0), (12, 37, 5), (16, 48, 1), (32, 35, 3), (6, 19, 0), (8, 16, 1), (32, 0, 1)]
        {
            let stride = units * G + gap;
            let lines: Vec<E> = (0..width * stride).map(&value).collect();
            let mut out = vec![E::default(); width * units * G + 1];
            turn_groups::<E, G>(&lines, stride, units, width, &mut out);
            for (at, got) in out[..width * units * G].iter().enumerate() {
                let (unit, r, i) = (at / G / width, at / G % width, at % G);
                assert_eq!(*got, lines[r * stride + unit * G + i], "{width} × {units}, gap {gap}, at {at}");
            }
            assert_eq!(out[width * units * G], E::default(), "nothing is written behind the end");
        }
    }

    #[test]
    fn every_size_of_unit_is_turned() {
        check::<f32, 1>(|i| i as f32 + 1.0);
        check::<f64, 1>(|i| i as f64 + 1.0);
        check::<bf16, 2>(|i| bf16::from_bits(i as u16 % 0x7000 + 1));
        check::<bf16, 32>(|i| bf16::from_bits(i as u16 % 0x7000 + 1));
    }
}
