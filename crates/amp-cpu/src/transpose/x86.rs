//! Squares turned in the registers of AVX-512.

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
    let whole = [rows / 32 * 32, columns / 32 * 32];
    for row in (0..whole[0]).step_by(32) {
        for column in (0..whole[1]).step_by(32) {
            let from = from.wrapping_byte_add(row * stride).wrapping_add(column);
            // SAFETY: 32 whole rows and columns are left on both sides.
            unsafe { thirty_two(from, stride, to.add(column * to_stride + row), to_stride) };
        }
        let rest = columns - whole[1];
        if rest > 0 {
            let from = from.wrapping_byte_add(row * stride).wrapping_add(whole[1]);
            // SAFETY: as above, of the rest of these rows.
            unsafe { by_eight(from, stride, [32, rest], to.add(whole[1] * to_stride + row), to_stride) };
        }
    }
    if rows > whole[0] {
        let from = from.wrapping_byte_add(whole[0] * stride);
        // SAFETY: these are the rows that are left.
        unsafe { by_eight(from, stride, [rows - whole[0], columns], to.add(whole[0]), to_stride) };
    }
}

/// Turns a square of 32 rows: joins pairs of them, and turns those as elements of 32 bits. Writing whole cache lines, 64
/// shuffles fewer than eight rows at a time; packing the left side of a weight's gradient for AMX.
///
/// # Safety
/// As [`of_u16`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn thirty_two(from: *const u16, stride: usize, to: *mut u16, to_stride: usize) {
    // SAFETY: the rows are inside `from`, the columns inside `to` (caller).
    unsafe {
        let row = |i: usize| _mm512_loadu_si512(from.wrapping_byte_add(i * stride).cast());
        let low = sixteen(std::array::from_fn(|i| _mm512_unpacklo_epi16(row(2 * i), row(2 * i + 1))));
        for (i, turned) in low.into_iter().enumerate() {
            _mm512_storeu_si512(to.add((i / 4 * 8 + i % 4) * to_stride).cast(), turned);
        }
        let high = sixteen(std::array::from_fn(|i| _mm512_unpackhi_epi16(row(2 * i), row(2 * i + 1))));
        for (i, turned) in high.into_iter().enumerate() {
            _mm512_storeu_si512(to.add((i / 4 * 8 + 4 + i % 4) * to_stride).cast(), turned);
        }
    }
}

/// [`of_u16`] eight rows at a time.
///
/// # Safety
/// As [`of_u16`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn by_eight(from: *const u16, stride: usize, [rows, columns]: [usize; 2], to: *mut u16, to_stride: usize) {
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
                    _mm_mask_storeu_epi16(to.add((column + i) * to_stride + row).cast(), first(count) as u8, turned);
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
    /// Squares that are prefetched.
    const AHEAD: usize = 3;
    /// Bytes between rows that the hardware follows by itself: prefetching them, too, was 0.2 µs of a transpose of 512 × 16.
    const NEAR: usize = 256;
    for row in (0..rows).step_by(16) {
        let count = 16.min(rows - row);
        let line = |i: usize, column: usize| from.wrapping_byte_add((row + i) * stride).wrapping_add(column);
        for column in (0..columns).step_by(16) {
            let width = 16.min(columns - column);
            // Rows lie too far apart for the hardware to see a pattern; those after these are often the next to be turned.
            let next = column + AHEAD * 16;
            for i in 0..if stride > NEAR { count } else { 0 } {
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

/// Adds the product of `[sums.len(), factors.len()]`, `stride` elements from row to row, with `factors`, along the columns in order.
///
/// # Safety
/// The CPU has the features, and the matrix lies inside its buffer.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn add_products(from: *const f32, stride: usize, factors: &[f32], sums: &mut [f32]) {
    for (square, sums) in sums.chunks_mut(16).enumerate() {
        let count = sums.len();
        let line = |i: usize, column: usize| from.wrapping_add((square * 16 + i) * stride + column);
        // SAFETY: the mask limits it to the sums that are there.
        let mut sum = unsafe { _mm512_maskz_loadu_ps(first(count), sums.as_ptr()) };
        for (column, factors) in (0..).step_by(16).zip(factors.chunks(16)) {
            let width = factors.len();
            // SAFETY: masks limit reads to the rows and columns that are there; whole squares need none.
            let turned = unsafe {
                match [count, width] {
                    [16, 16] => sixteen(std::array::from_fn(|i| _mm512_loadu_si512(line(i, column).cast()))),
                    _ => sixteen(std::array::from_fn(|i| {
                        let mask = first(if i < count { width } else { 0 });
                        _mm512_maskz_loadu_epi32(mask, line(i.min(count - 1), column).cast())
                    })),
                }
            };
            for (&factor, turned) in factors.iter().zip(turned) {
                sum = _mm512_fmadd_ps(_mm512_castsi512_ps(turned), _mm512_set1_ps(factor), sum);
            }
        }
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_ps(sums.as_mut_ptr(), first(count), sum) };
    }
}

/// Transposes `[rows, columns]` of 64 bytes, `stride` bytes from row to row.
///
/// # Safety
/// As [`of_u16`].
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn of_lines(
    from: *const __m512i,
    stride: usize,
    [rows, columns]: [usize; 2],
    to: *mut __m512i,
    to_stride: usize,
) {
    for column in 0..columns {
        for row in 0..rows {
            let from = from.wrapping_byte_add(row * stride).wrapping_add(column);
            // SAFETY: row and column lie inside both matrices (caller).
            unsafe { _mm512_storeu_si512(to.add(column * to_stride + row), _mm512_loadu_si512(from)) };
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
