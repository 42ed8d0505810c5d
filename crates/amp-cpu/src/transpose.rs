//! Transposing small matrices: what brings the channels of a pixel together, or its neighbours.

use crate::scratch::Plain;
use crate::simd::Level;

/// `to[column * to_stride + row] = from[row * from_stride + column]` for `size` (rows, columns).
pub(crate) fn transpose<T: Plain>(from: &[T], from_stride: usize, size: [usize; 2], to: &mut [T], to_stride: usize) {
    transpose_at(Level::current(), from, from_stride, size, to, to_stride);
}

/// [`transpose`] with the instructions of a level, or of the best this machine has if that is less.
fn transpose_at<T: Plain>(
    level: Level,
    from: &[T],
    from_stride: usize,
    size: [usize; 2],
    to: &mut [T],
    to_stride: usize,
) {
    let [rows, columns] = size;
    if rows == 0 || columns == 0 {
        return;
    }
    assert!((rows - 1) * from_stride + columns <= from.len() && (columns - 1) * to_stride + rows <= to.len());
    if columns == 1 && from_stride == 1 {
        return to[..rows].copy_from_slice(&from[..rows]);
    }
    #[cfg(target_arch = "x86_64")]
    if level.min(Level::best()) >= Level::Avx512 {
        let (from, to) = (from.as_ptr(), to.as_mut_ptr());
        if size_of::<T>() == 2 {
            // SAFETY: the level has every feature that is enabled there, both matrices lie inside their slices (asserted),
            // and 16 bits are what the elements consist of.
            return unsafe { x86::of_u16(from.cast(), from_stride, size, to.cast(), to_stride) };
        }
        if size_of::<T>() == 4 {
            // SAFETY: as above, with 32 bits.
            return unsafe { x86::of_u32(from.cast(), from_stride, size, to.cast(), to_stride) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    squares(from, from_stride, size, to, to_stride);
}

/// Square by square, in whatever registers the target has.
fn squares<T: Plain>(from: &[T], from_stride: usize, [rows, columns]: [usize; 2], to: &mut [T], to_stride: usize) {
    const SIDE: usize = 4;
    let whole = [rows / SIDE * SIDE, columns / SIDE * SIDE];
    for row in (0..whole[0]).step_by(SIDE) {
        let lines: [&[T]; SIDE] = std::array::from_fn(|i| &from[(row + i) * from_stride..][..columns]);
        for column in (0..whole[1]).step_by(SIDE) {
            for i in 0..SIDE {
                let square = lines.map(|line| line[column + i]);
                to[(column + i) * to_stride + row..][..SIDE].copy_from_slice(&square);
            }
        }
        for column in whole[1]..columns {
            for (i, line) in lines.iter().enumerate() {
                to[column * to_stride + row + i] = line[column];
            }
        }
    }
    for row in whole[0]..rows {
        for (column, &value) in from[row * from_stride..][..columns].iter().enumerate() {
            to[column * to_stride + row] = value;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Squares of one 128-bit lane, four of them side by side where there are as many columns.
    macro_rules! transpose {
        ($name:ident, $type:ty, $side:literal, $turn4:ident, $turn1:ident, $mask:ty, $load:ident, $store:ident) => {
            /// # Safety
            /// The CPU has the features; both matrices lie inside their buffers, and no one else uses `to` meanwhile.
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            pub(super) unsafe fn $name(
                from: *const $type,
                from_stride: usize,
                [rows, columns]: [usize; 2],
                to: *mut $type,
                to_stride: usize,
            ) {
                const SIDE: usize = $side;
                for row in (0..rows).step_by(SIDE) {
                    let count = SIDE.min(rows - row);
                    let wanted = (1_u32 << count).wrapping_sub(1) as $mask;
                    let mut column = 0;
                    while count == SIDE && column + 4 * SIDE <= columns {
                        // SAFETY: eight (four) whole rows of four squares are left (just compared), so the reads are inside
                        // `from`, and each column's part of these rows is inside `to`.
                        unsafe {
                            let lines: [__m512i; SIDE] = std::array::from_fn(|i| {
                                _mm512_loadu_si512(from.add((row + i) * from_stride + column).cast())
                            });
                            for (i, turned) in $turn4(lines).into_iter().enumerate() {
                                let to = |lane: usize| to.add((column + lane * SIDE + i) * to_stride + row).cast();
                                _mm_storeu_si128(to(0), _mm512_castsi512_si128(turned));
                                _mm_storeu_si128(to(1), _mm512_extracti32x4_epi32::<1>(turned));
                                _mm_storeu_si128(to(2), _mm512_extracti32x4_epi32::<2>(turned));
                                _mm_storeu_si128(to(3), _mm512_extracti32x4_epi32::<3>(turned));
                            }
                        }
                        column += 4 * SIDE;
                    }
                    while column < columns {
                        let width = SIDE.min(columns - column);
                        let there = (1_u32 << width).wrapping_sub(1) as $mask;
                        // SAFETY: masks limit reads to the rows and columns that are there, and writes to the rows; columns
                        // that are not there are not written.
                        unsafe {
                            let lines: [__m128i; SIDE] = std::array::from_fn(|i| {
                                let line = from.wrapping_add((row + i) * from_stride + column);
                                $load(if i < count { there } else { 0 }, line.cast())
                            });
                            for (i, turned) in $turn1(lines).into_iter().take(width).enumerate() {
                                $store(to.add((column + i) * to_stride + row).cast(), wanted, turned);
                            }
                        }
                        column += SIDE;
                    }
                }
            }
        };
    }

    transpose!(of_u16, u16, 8, eight_by_512, eight_by_128, __mmask8, _mm_maskz_loadu_epi16, _mm_mask_storeu_epi16);
    transpose!(of_u32, u32, 4, four_by_512, four_by_128, __mmask8, _mm_maskz_loadu_epi32, _mm_mask_storeu_epi32);

    macro_rules! turn {
        ($eight:ident, $four:ident, $vector:ty: $lo16:ident $hi16:ident $lo32:ident $hi32:ident $lo64:ident $hi64:ident) => {
            /// Turns squares of eight 16-bit elements.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            fn $eight(r: [$vector; 8]) -> [$vector; 8] {
                let pairs: [[$vector; 2]; 4] =
                    std::array::from_fn(|i| [$lo16(r[2 * i], r[2 * i + 1]), $hi16(r[2 * i], r[2 * i + 1])]);
                let half = |a: [$vector; 2], b: [$vector; 2]| {
                    [$lo32(a[0], b[0]), $hi32(a[0], b[0]), $lo32(a[1], b[1]), $hi32(a[1], b[1])]
                };
                let (upper, lower) = (half(pairs[0], pairs[1]), half(pairs[2], pairs[3]));
                std::array::from_fn(|i| {
                    let (a, b) = (upper[i / 2], lower[i / 2]);
                    if i % 2 == 0 { $lo64(a, b) } else { $hi64(a, b) }
                })
            }

            /// Turns squares of four 32-bit elements.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            fn $four(r: [$vector; 4]) -> [$vector; 4] {
                let (a, b) = ([$lo32(r[0], r[1]), $hi32(r[0], r[1])], [$lo32(r[2], r[3]), $hi32(r[2], r[3])]);
                [$lo64(a[0], b[0]), $hi64(a[0], b[0]), $lo64(a[1], b[1]), $hi64(a[1], b[1])]
            }
        };
    }

    turn!(eight_by_512, four_by_512, __m512i: _mm512_unpacklo_epi16 _mm512_unpackhi_epi16 _mm512_unpacklo_epi32
        _mm512_unpackhi_epi32 _mm512_unpacklo_epi64 _mm512_unpackhi_epi64);
    turn!(eight_by_128, four_by_128, __m128i: _mm_unpacklo_epi16 _mm_unpackhi_epi16 _mm_unpacklo_epi32
        _mm_unpackhi_epi32 _mm_unpacklo_epi64 _mm_unpackhi_epi64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn check<T: Plain + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
        for level in Level::ALL {
            for rows in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33] {
                for columns in [1, 3, 4, 7, 8, 9, 16, 31, 32, 33, 70] {
                    let (wide, tall) = (columns + rows % 3, rows + columns % 2);
                    let from: Vec<T> = (0..rows * wide).map(&of).collect();
                    let mut to = vec![of(1 << 14); columns * tall];
                    let last = (columns - 1) * tall + rows;
                    transpose_at(level, &from, wide, [rows, columns], &mut to[..last], tall);
                    for (i, &value) in to.iter().enumerate() {
                        let (column, row) = (i / tall, i % tall);
                        let expected = if row < rows { from[row * wide + column] } else { of(1 << 14) };
                        assert_eq!(value, expected, "{level:?}, {rows} x {columns}, row {row}, column {column}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_element_finds_its_place_and_nothing_else_is_written() {
        check(|i| i as u32);
        check(|i| i as f64);
        check(|i| bf16::from_bits(i as u16));
    }
}
