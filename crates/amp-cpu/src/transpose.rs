//! Transposing small matrices: what brings the channels of a pixel together, or its neighbours.
//!
//! Rows that are not there are read, with an empty mask, from where a row is: on Zen 5 such a read of a page that is not
//! mapped takes 150 ns, which made twelve rows four times as expensive as sixteen.

use crate::scratch::{self, Plain};
use crate::simd::Level;

/// `to[column * to_stride + row] = from[row * from_stride + column]` for `size` (rows, columns).
pub(crate) fn transpose<T: Plain>(from: &[T], from_stride: usize, size: [usize; 2], to: &mut [T], to_stride: usize) {
    transpose_at::<T, 1>(Level::current(), from, from_stride, size, to, to_stride);
}

/// [`transpose`] of groups of `G` elements that stay together: columns and `to_stride` count groups, `from_stride`
/// elements.
pub(crate) fn transpose_groups<T: Plain, const G: usize>(
    from: &[T],
    from_stride: usize,
    size: [usize; 2],
    to: &mut [T],
    to_stride: usize,
) {
    transpose_at::<T, G>(Level::current(), from, from_stride, size, to, to_stride);
}

/// [`transpose`] of every `step`-th column: `to[column * to_stride + row] = from[row * from_stride + column * step]`.
pub(crate) fn transpose_every<T: Plain>(
    step: usize,
    from: &[T],
    from_stride: usize,
    size: [usize; 2],
    to: &mut [T],
    to_stride: usize,
) {
    transpose_every_at(Level::current(), step, from, from_stride, size, to, to_stride);
}

/// [`transpose_every`] with the instructions of a level, or of the best this machine has if that is less.
///
/// Pairs are turned as one element of which the second half is left out: picking columns first, an element at a time, was
/// two fifths of a convolution of 1 x 1 by steps of two (64 channels of 32 by 32, BF16).
fn transpose_every_at<T: Plain>(
    level: Level,
    step: usize,
    from: &[T],
    from_stride: usize,
    size @ [rows, columns]: [usize; 2],
    to: &mut [T],
    to_stride: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!((rows - 1) * from_stride + (columns - 1) * step < from.len());
    assert!((columns - 1) * to_stride + rows <= to.len());
    #[cfg(target_arch = "x86_64")]
    if step == 2 && level.min(Level::best()) >= Level::Avx512 {
        let (from, to) = (from.as_ptr(), to.as_mut_ptr());
        if size_of::<T>() == 2 {
            // SAFETY: the level has every feature that is enabled there, both matrices lie inside their slices (asserted), and
            // elements are 16 bits.
            return unsafe { x86::evens::<x86::Bits16>(from.cast(), from_stride, size, to.cast(), to_stride) };
        }
        if size_of::<T>() == 4 {
            // SAFETY: as above, with 32 bits.
            return unsafe { x86::evens::<x86::Bits32>(from.cast(), from_stride, size, to.cast(), to_stride) };
        }
    }
    scratch::with(rows * columns, |thin: &mut [T]| {
        for (row, thin) in thin.chunks_exact_mut(columns).enumerate() {
            let line = from[row * from_stride..].iter().step_by(step);
            thin.iter_mut().zip(line).for_each(|(to, &value)| *to = value);
        }
        transpose_at::<T, 1>(level, thin, columns, size, to, to_stride);
    });
}

/// [`transpose_groups`] with the instructions of a level, or of the best this machine has if that is less.
fn transpose_at<T: Plain, const G: usize>(
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
    assert!((rows - 1) * from_stride + columns * G <= from.len() && ((columns - 1) * to_stride + rows) * G <= to.len());
    if columns == 1 && from_stride == G {
        return to[..rows * G].copy_from_slice(&from[..rows * G]);
    }
    #[cfg(target_arch = "x86_64")]
    if level.min(Level::best()) >= Level::Avx512 {
        let (from, to, stride) = (from.as_ptr(), to.as_mut_ptr(), from_stride * size_of::<T>());
        if size_of::<[T; G]>() == 2 {
            // SAFETY: the level has every feature that is enabled there, both matrices lie inside their slices (asserted),
            // and 16 bits are what a group consists of.
            return unsafe { x86::of_u16(from.cast(), stride, size, to.cast(), to_stride) };
        }
        if size_of::<[T; G]>() == 4 {
            // SAFETY: as above, with 32 bits.
            return unsafe { x86::of_u32(from.cast(), stride, size, to.cast(), to_stride) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    squares::<T, G>(from, from_stride, size, to.as_chunks_mut::<G>().0, to_stride);
}

/// Square by square, in whatever registers the target has.
fn squares<T: Plain, const G: usize>(
    from: &[T],
    from_stride: usize,
    [rows, columns]: [usize; 2],
    to: &mut [[T; G]],
    to_stride: usize,
) {
    const SIDE: usize = 4;
    let whole = [rows / SIDE * SIDE, columns / SIDE * SIDE];
    let line = |row: usize| from[row * from_stride..][..columns * G].as_chunks::<G>().0;
    for row in (0..whole[0]).step_by(SIDE) {
        let lines: [&[[T; G]]; SIDE] = std::array::from_fn(|i| line(row + i));
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
        for (column, &group) in line(row).iter().enumerate() {
            to[column * to_stride + row] = group;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Transposes `[rows, columns]` of 16 bits, `stride` bytes from row to row.
    ///
    /// # Safety
    /// The CPU has the features; both matrices lie inside their buffers, and no one else uses `to` meanwhile. Nothing need be
    /// aligned.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn of_u16(
        from: *const u16,
        stride: usize,
        [rows, columns]: [usize; 2],
        to: *mut u16,
        to_stride: usize,
    ) {
        for row in (0..rows).step_by(8) {
            let count = 8.min(rows - row);
            let line = |i: usize, column: usize| from.wrapping_byte_add((row + i) * stride).wrapping_add(column);
            let mut column = 0;
            while count == 8 && column + 32 <= columns {
                // SAFETY: eight whole rows and 32 columns are left (just compared): the reads are inside `from`, and each
                // column's part of these rows is inside `to`.
                unsafe {
                    let turned = eight_by_512(std::array::from_fn(|i| _mm512_loadu_si512(line(i, column).cast())));
                    for (i, turned) in turned.into_iter().enumerate() {
                        let to = |lane: usize| to.add((column + lane * 8 + i) * to_stride + row).cast();
                        _mm_storeu_si128(to(0), _mm512_castsi512_si128(turned));
                        _mm_storeu_si128(to(1), _mm512_extracti32x4_epi32::<1>(turned));
                        _mm_storeu_si128(to(2), _mm512_extracti32x4_epi32::<2>(turned));
                        _mm_storeu_si128(to(3), _mm512_extracti32x4_epi32::<3>(turned));
                    }
                }
                column += 32;
            }
            for column in (column..columns).step_by(8) {
                let width = 8.min(columns - column);
                // SAFETY: masks limit reads to the rows and columns that are there, and writes to the rows; columns that are
                // not there are not written.
                unsafe {
                    let turned = eight_by_128(std::array::from_fn(|i| {
                        let mask = first(if i < count { width } else { 0 });
                        _mm_maskz_loadu_epi16(mask as u8, line(i.min(count - 1), column).cast())
                    }));
                    for (i, turned) in turned.into_iter().take(width).enumerate() {
                        _mm_mask_storeu_epi16(
                            to.add((column + i) * to_stride + row).cast(),
                            first(count) as u8,
                            turned,
                        );
                    }
                }
            }
        }
    }

    /// Transposes `[rows, columns]` of 32 bits, `stride` bytes from row to row, in squares of 16.
    ///
    /// # Safety
    /// As [`of_u16`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn of_u32(
        from: *const u32,
        stride: usize,
        [rows, columns]: [usize; 2],
        to: *mut u32,
        to_stride: usize,
    ) {
        /// Squares that memory is asked for in advance.
        const AHEAD: usize = 3;
        for row in (0..rows).step_by(16) {
            let count = 16.min(rows - row);
            let line = |i: usize, column: usize| from.wrapping_byte_add((row + i) * stride).wrapping_add(column);
            for column in (0..columns).step_by(16) {
                let width = 16.min(columns - column);
                // Rows lie too far apart for the hardware to see a pattern; those after these are often the next to be turned.
                let next = column + AHEAD * 16;
                for i in 0..count {
                    let next = if next < columns { line(i, next) } else { line(count + i, next - columns) };
                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                }
                // SAFETY: masks limit reads to the rows and columns that are there, and writes to the rows; columns that are
                // not there are not written. Whole squares need no mask.
                unsafe {
                    if [count, width] == [16, 16] {
                        let turned = sixteen(std::array::from_fn(|i| _mm512_loadu_si512(line(i, column).cast())));
                        for (i, turned) in turned.into_iter().enumerate() {
                            _mm512_storeu_si512(to.add((column + i) * to_stride + row).cast(), turned);
                        }
                        continue;
                    }
                    let turned = sixteen(std::array::from_fn(|i| {
                        let mask = first(if i < count { width } else { 0 });
                        _mm512_maskz_loadu_epi32(mask, line(i.min(count - 1), column).cast())
                    }));
                    for (i, turned) in turned.into_iter().take(width).enumerate() {
                        _mm512_mask_storeu_epi32(to.add((column + i) * to_stride + row).cast(), first(count), turned);
                    }
                }
            }
        }
    }

    /// Elements of which every second one is read into 32 bits each, and written as wide as they are.
    pub(super) trait Evens {
        type Element;
        /// Reads `count` elements, at most 16, that lie two apart.
        ///
        /// # Safety
        /// The CPU has the features, and these elements are readable with what lies between them.
        unsafe fn read(from: *const Self::Element, count: usize) -> __m512i;
        /// Writes the first `count` of 16 elements.
        ///
        /// # Safety
        /// The CPU has the features, and so many elements are writable.
        unsafe fn write(turned: __m512i, to: *mut Self::Element, count: usize);
    }

    pub(super) struct Bits16;
    pub(super) struct Bits32;

    impl Evens for Bits16 {
        type Element = u16;

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn read(from: *const u16, count: usize) -> __m512i {
            // SAFETY: the mask ends with the last of these elements (caller).
            unsafe { _mm512_maskz_loadu_epi16(((1_u64 << (2 * count - 1)) - 1) as u32, from.cast()) }
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn write(turned: __m512i, to: *mut u16, count: usize) {
            // SAFETY: the mask ends with the last element (caller).
            unsafe { _mm256_mask_storeu_epi16(to.cast(), first(count), _mm512_cvtepi32_epi16(turned)) }
        }
    }

    impl Evens for Bits32 {
        type Element = u32;

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn read(from: *const u32, count: usize) -> __m512i {
            let mask = (1_u64 << (2 * count - 1)) - 1;
            let evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            // SAFETY: the masks end with the last of these elements (caller); nothing is read with an empty one.
            unsafe {
                let low = _mm512_maskz_loadu_epi32(mask as u16, from.cast());
                let high = if count > 8 { from.add(16) } else { from };
                let high = _mm512_maskz_loadu_epi32((mask >> 16) as u16, high.cast());
                _mm512_permutex2var_epi32(low, evens, high)
            }
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn write(turned: __m512i, to: *mut u32, count: usize) {
            // SAFETY: the mask ends with the last element (caller).
            unsafe { _mm512_mask_storeu_epi32(to.cast(), first(count), turned) }
        }
    }

    /// Transposes `[rows, columns]` of the elements that lie two apart in rows `stride` elements apart, in squares of 16.
    ///
    /// # Safety
    /// As [`of_u16`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn evens<E: Evens>(
        from: *const E::Element,
        stride: usize,
        [rows, columns]: [usize; 2],
        to: *mut E::Element,
        to_stride: usize,
    ) {
        for row in (0..rows).step_by(16) {
            let count = 16.min(rows - row);
            for column in (0..columns).step_by(16) {
                let width = 16.min(columns - column);
                // SAFETY: rows below `rows` and columns below `columns` are inside `from`, as is what lies between them; each
                // column's part of these rows is inside `to`.
                unsafe {
                    let turned = sixteen(std::array::from_fn(|i| {
                        let row = row + i.min(count - 1);
                        E::read(from.add(row * stride + 2 * column), width)
                    }));
                    for (i, turned) in turned.into_iter().take(width).enumerate() {
                        E::write(turned, to.add((column + i) * to_stride + row), count);
                    }
                }
            }
        }
    }

    /// A mask of the first `count` of at most 16 elements.
    fn first(count: usize) -> u16 {
        ((1_u32 << count) - 1) as u16
    }

    /// Turns a square of 32-bit elements: squares of four within the 128-bit parts, then the parts.
    ///
    /// 0.7 of the time of four rounds of `vpermt2d` on a core of Zen 5, of which it starts fewer in a cycle.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn sixteen(rows: [__m512i; 16]) -> [__m512i; 16] {
        let mut turned = rows;
        for (rows, turned) in rows.as_chunks::<4>().0.iter().zip(turned.as_chunks_mut::<4>().0) {
            let low = [_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpacklo_epi32(rows[2], rows[3])];
            let high = [_mm512_unpackhi_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[2], rows[3])];
            let both =
                |pair: [__m512i; 2]| [_mm512_unpacklo_epi64(pair[0], pair[1]), _mm512_unpackhi_epi64(pair[0], pair[1])];
            let ([a, b], [c, d]) = (both(low), both(high));
            *turned = [a, b, c, d];
        }
        let mut all = turned;
        for i in 0..4 {
            let evens = |a, b| _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
            let odds = |a, b| _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
            let [a, b, c, d] = [turned[i], turned[4 + i], turned[8 + i], turned[12 + i]];
            let (even, odd) = ([evens(a, b), evens(c, d)], [odds(a, b), odds(c, d)]);
            all[i] = evens(even[0], even[1]);
            all[4 + i] = evens(odd[0], odd[1]);
            all[8 + i] = odds(even[0], even[1]);
            all[12 + i] = odds(odd[0], odd[1]);
        }
        all
    }

    macro_rules! eight {
        ($name:ident, $vector:ty: $lo16:ident $hi16:ident $lo32:ident $hi32:ident $lo64:ident $hi64:ident) => {
            /// Turns squares of eight 16-bit elements, one in each 128 bits.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            fn $name(r: [$vector; 8]) -> [$vector; 8] {
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
        };
    }

    eight!(eight_by_512, __m512i: _mm512_unpacklo_epi16 _mm512_unpackhi_epi16 _mm512_unpacklo_epi32
        _mm512_unpackhi_epi32 _mm512_unpacklo_epi64 _mm512_unpackhi_epi64);
    eight!(eight_by_128, __m128i: _mm_unpacklo_epi16 _mm_unpackhi_epi16 _mm_unpacklo_epi32 _mm_unpackhi_epi32
        _mm_unpacklo_epi64 _mm_unpackhi_epi64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn check<T: Plain + PartialEq + std::fmt::Debug, const G: usize>(of: impl Fn(usize) -> T) {
        for level in Level::ALL {
            for rows in [1, 3, 4, 7, 8, 9, 12, 15, 16, 17, 33] {
                for columns in [1, 3, 4, 8, 9, 16, 31, 32, 33, 70] {
                    let (wide, tall) = (columns * G + rows % 3, rows + columns % 2);
                    let from: Vec<T> = (0..rows * wide).map(&of).collect();
                    let mut to = vec![of(1 << 14); columns * tall * G];
                    let last = ((columns - 1) * tall + rows) * G;
                    transpose_at::<T, G>(level, &from, wide, [rows, columns], &mut to[..last], tall);
                    for (at, &value) in to.iter().enumerate() {
                        let (column, row, i) = (at / G / tall, at / G % tall, at % G);
                        let expected = if row < rows { from[row * wide + column * G + i] } else { of(1 << 14) };
                        assert_eq!(value, expected, "{level:?}, {rows} x {columns}, row {row}, column {column}");
                    }
                }
            }
        }
    }

    fn check_every<T: Plain + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
        for level in Level::ALL {
            for step in [1, 2, 3] {
                for rows in [1, 2, 9, 16, 17, 33] {
                    for columns in [1, 2, 7, 8, 9, 16, 17, 35] {
                        let (wide, tall) = ((columns - 1) * step + 1 + rows % 3, rows + columns % 2);
                        // Nothing lies behind the last element.
                        let from: Vec<T> = (0..(rows - 1) * wide + (columns - 1) * step + 1).map(&of).collect();
                        let mut to = vec![of(1 << 14); columns * tall];
                        let last = (columns - 1) * tall + rows;
                        transpose_every_at(level, step, &from, wide, [rows, columns], &mut to[..last], tall);
                        for (at, &value) in to.iter().enumerate() {
                            let (column, row) = (at / tall, at % tall);
                            let expected = if row < rows { from[row * wide + column * step] } else { of(1 << 14) };
                            assert_eq!(value, expected, "{level:?}, step {step}, {rows} x {columns}, row {row}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_second_column_finds_its_place() {
        check_every::<f32>(|i| i as f32);
        check_every::<f64>(|i| i as f64);
        check_every::<bf16>(|i| bf16::from_bits(i as u16 % 0x7000));
    }

    #[test]
    fn every_element_finds_its_place_and_nothing_else_is_written() {
        check::<f32, 1>(|i| i as f32);
        check::<f64, 1>(|i| i as f64);
        check::<bf16, 1>(|i| bf16::from_bits(i as u16 % 0x7000));
        check::<bf16, 2>(|i| bf16::from_bits(i as u16 % 0x7000));
        check::<bf16, 32>(|i| bf16::from_bits(i as u16 % 0x7000));
    }
}
