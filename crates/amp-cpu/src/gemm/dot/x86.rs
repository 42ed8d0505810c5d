//! Tiles of BF16 by `vdpbf16ps`, which adds two terms to each of 16 sums.

use super::super::kernel::{Finish, Rows};
use crate::convert::Cast;
use half::bf16;
use std::arch::x86_64::*;

const MR: usize = 12;

/// A tile of 12 rows and two vectors of columns: 24 sums stay in registers.
///
/// # Safety
/// As [`super::super::kernel::Tile`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn tile(depth: usize, a: *const bf16, b: *const bf16, c: *mut f32, stride: usize, accumulate: bool) {
    // SAFETY: pairs of a panel's 12 vectors follow each other, `depth / 2` times; the rest is the caller's duty.
    unsafe {
        let sums = multiply::<MR>(depth, |step, i| a.cast::<i32>().add(step * MR + i), b, c, stride, accumulate);
        store(sums, c, stride);
    }
}

/// The same from 12 lines, or 8: packing them would take as long for 50 columns.
///
/// # Safety
/// As [`super::super::kernel::Direct`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn direct<const MR: usize>(
    depth: usize,
    a: Rows<bf16>,
    b: *const bf16,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: the caller's duty.
    unsafe { store(of_lines::<MR>(depth, a, b, c, stride, accumulate), c, stride) }
}

/// The same, rounded where it belongs.
///
/// # Safety
/// As [`super::super::kernel::Finishing`].
#[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
pub(super) unsafe fn finishing<const MR: usize>(
    depth: usize,
    a: Rows<bf16>,
    b: *const bf16,
    c: *const f32,
    stride: usize,
    accumulate: bool,
    finish: Finish<'_, bf16>,
) {
    // SAFETY: each row has 32 elements from `i * finish.stride` on; the rest is the caller's duty.
    unsafe { end(of_lines::<MR>(depth, a, b, c, stride, accumulate), finish) }
}

/// The rows of tiles whose sums are in memory, 32 each.
///
/// # Safety
/// As [`super::super::kernel::Round`].
#[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
pub(in super::super) unsafe fn rounded(
    sums: *const f32,
    apart: usize,
    [rows, tiles]: [usize; 2],
    finish: Finish<'_, bf16>,
) {
    for row in 0..rows {
        for tile in 0..tiles {
            // SAFETY: so many rows of sums are readable and as many of the result writable (caller).
            unsafe {
                let sums = sums.add(tile * apart + 32 * row);
                let to = finish.to.add(row * finish.stride + 32 * tile);
                let bias = finish.bias.get(32 * tile..).unwrap_or_default();
                end([[_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(16))]], Finish { to, bias, ..finish });
            }
        }
    }
}

/// Rounds sums, with the bias, to where they belong.
///
/// # Safety
/// Row `i` of the result must have 32 writable elements from `i * finish.stride` on.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
unsafe fn end<const MR: usize>(mut sums: [[__m512; 2]; MR], finish: Finish<'_, bf16>) {
    // SAFETY: the caller's duty; a bias has the tile's columns at least.
    unsafe {
        let mut denormal = 0;
        if let Some(bias) = finish.bias.first_chunk::<32>() {
            let bias = [_mm512_loadu_ps(bias.as_ptr()), _mm512_loadu_ps(bias.as_ptr().add(16))];
            for sum in &mut sums {
                *sum = [_mm512_add_ps(sum[0], bias[0]), _mm512_add_ps(sum[1], bias[1])];
                denormal |= denormals(sum[0]) | denormals(sum[1]);
            }
        }
        for (i, sum) in sums.iter().enumerate() {
            round(*sum, finish.to.add(i * finish.stride));
        }
        if denormal != 0 {
            round_denormals(sums, finish);
        }
    }
}

/// Rounds sums: this instruction takes denormal numbers for zeros, and sums of the other one are none.
///
/// # Safety
/// 32 elements must be writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn round([first, second]: [__m512; 2], to: *mut bf16) {
    // SAFETY: writable (caller), and both vector types are 64 bytes of plain bits.
    unsafe {
        let rounded = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first));
        _mm512_storeu_si512(to.cast(), rounded);
    }
}

/// Which numbers are denormal.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn denormals(values: __m512) -> __mmask16 {
    const DENORMAL: i32 = 0x20;
    _mm512_fpclass_ps_mask::<DENORMAL>(values)
}

/// Rounds numbers of which some are denormal, as sums with a bias may be.
///
/// # Safety
/// Each row must have 32 writable elements.
#[cold]
unsafe fn round_denormals<const MR: usize>(sums: [[__m512; 2]; MR], finish: Finish<'_, bf16>) {
    for (i, sums) in sums.into_iter().enumerate() {
        // SAFETY: two vectors are 32 numbers, each of which has its place in the row (caller).
        unsafe {
            let values: [f32; 32] = std::mem::transmute(sums);
            finish.to.add(i * finish.stride).cast::<[bf16; 32]>().write_unaligned(values.map(Cast::converted));
        }
    }
}

/// [`multiply`] from lines.
///
/// # Safety
/// As [`super::super::kernel::Direct`], but for writes.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn of_lines<const MR: usize>(
    depth: usize,
    a: Rows<bf16>,
    b: *const bf16,
    c: *const f32,
    stride: usize,
    accumulate: bool,
) -> [[__m512; 2]; MR] {
    // Three lines, from each of which one addressing mode reaches the next three.
    let lines: [*const bf16; 3] = std::array::from_fn(|i| a.start.wrapping_add(4 * i * a.stride));
    // SAFETY: each of `MR` lines has `depth / 2` pairs (caller), which need not be aligned; the rest is the caller's duty.
    unsafe {
        let pair = |step: usize, i: usize| lines[i / 4].add(i % 4 * a.stride + 2 * step).cast();
        multiply::<MR>(depth, pair, b, c, stride, accumulate)
    }
}

/// # Safety
/// Row `i` of `c` must have 32 writable elements from `i * stride` on.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const MR: usize>(sums: [[__m512; 2]; MR], c: *mut f32, stride: usize) {
    for (i, sum) in sums.iter().enumerate() {
        // SAFETY: the caller's duty.
        unsafe {
            _mm512_storeu_ps(c.add(i * stride), sum[0]);
            _mm512_storeu_ps(c.add(i * stride + 16), sum[1]);
        }
    }
}

/// # Safety
/// As [`super::super::kernel::Tile`], but for writes; `pair(step, row)` is readable for `step` below `depth / 2` and `row`
/// below `MR`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn multiply<const MR: usize>(
    depth: usize,
    pair: impl Fn(usize, usize) -> *const i32,
    b: *const bf16,
    c: *const f32,
    stride: usize,
    accumulate: bool,
) -> [[__m512; 2]; MR] {
    // SAFETY: `pair` is readable, `b` has `depth * 32` elements, row `i` of `c` has 32 from `i * stride` on (caller);
    // `depth` is even (a panel's step), so pairs are whole. Both vector types are 64 bytes of plain bits.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); 2]; MR];
        if accumulate {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = [_mm512_loadu_ps(c.add(i * stride)), _mm512_loadu_ps(c.add(i * stride + 16))];
            }
        }
        let b = b.cast::<i32>();
        for step in 0..depth / 2 {
            let columns = [load(b.add(32 * step)), load(b.add(32 * step + 16))];
            for (i, sum) in sums.iter_mut().enumerate() {
                let row = pairs(_mm512_set1_epi32(pair(step, i).read_unaligned()));
                sum[0] = _mm512_dpbf16_ps(sum[0], row, columns[0]);
                sum[1] = _mm512_dpbf16_ps(sum[1], row, columns[1]);
            }
        }
        sums
    }
}

/// # Safety
/// 16 pairs must be readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn load(from: *const i32) -> __m512bh {
    // SAFETY: the caller's duty.
    pairs(unsafe { _mm512_loadu_si512(from.cast()) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes of plain bits.
    unsafe { std::mem::transmute(bits) }
}
