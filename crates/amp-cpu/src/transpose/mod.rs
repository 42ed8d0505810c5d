//! Transposing small matrices: it brings the channels of a pixel together, or neighbouring pixels of a channel.
//!
//! Missing rows are read with an empty mask, at the address of a row that exists: reading an unmapped page so takes 150 ns on
//! Zen 5, which made twelve rows four times as expensive as sixteen.

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::scratch::{self, Plain};
use crate::simd::Level;

/// `to[column * to_stride + row] = from[row * from_stride + column]` for `size` (rows, columns).
pub(crate) fn transpose<T: Plain>(from: &[T], from_stride: usize, size: [usize; 2], to: &mut [T], to_stride: usize) {
    transpose_at::<T, 1>(Level::current(), from, from_stride, size, to, to_stride);
}

/// `sums[row] += Σ from[row * stride + column] * factors[column]`, along the columns in order and with the bits of a sum of
/// transposed lines; returns false, and does nothing, where the machine cannot transpose in registers.
pub(crate) fn add_products(from: &[f32], stride: usize, factors: &[f32], sums: &mut [f32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if Level::current() >= Level::Avx512 {
        assert!(sums.is_empty() || (sums.len() - 1) * stride + factors.len() <= from.len());
        // SAFETY: the level has every feature that is enabled there, and the matrix lies inside its slice (asserted).
        unsafe { x86::add_products(from.as_ptr(), stride, factors, sums) };
        return true;
    }
    let _ = (from, stride, factors, sums);
    false
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
        if size_of::<[T; G]>() == 64 {
            // SAFETY: as above, with 64 bytes.
            return unsafe { x86::of_lines(from.cast(), stride, size, to.cast(), to_stride) };
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
