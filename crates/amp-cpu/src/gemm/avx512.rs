//! Tiles of F32 with AVX-512, 12 rows by 32 columns.
//!
//! Rows are read where they lie, or from panels: a step takes an element of each of twelve addresses, which three pointers and two
//! distances name, so that four steps cost four additions beside their 96 multiplications. Compilers add for every address, where
//! multiplications wait: hence assembly.
//!
//! On a Xeon a core reaches 205 GFLOP/s in tiles, of 228 in registers; on Zen 5 two threads reach 470 of 512 in products.
//! Packed left sides and a block's sums in memory, part after part of the depth, were what stood in the way: hence lines, and a
//! right side that stays in L2 ([`super::resident`]). More in `benches/record/findings.md`.

use super::kernel::{Finish, MicroKernel};
use crate::simd::l2_bytes;
use std::arch::{asm, x86_64::*};

/// Rows and columns of a tile.
const ROWS: usize = 12;
const COLUMNS: usize = 32;
/// Steps that the loop takes at a time.
const STEPS: usize = 4;
/// Bytes of an element.
const SIZE: usize = size_of::<f32>();

/// The kernel, for machines with AVX-512.
pub(super) fn kernel() -> MicroKernel<f32> {
    MicroKernel {
        direct: Some(direct),
        resident: Some(l2_bytes() / 2),
        round: Some(rounded),
        ..MicroKernel::single(ROWS, COLUMNS, tile)
    }
}

/// One instruction or more for each of twelve rows: `$row` takes the two registers of its sums.
macro_rules! rows {
    ($row:ident) => {
        concat!(
            $row!("zmm0", "zmm1"),
            $row!("zmm2", "zmm3"),
            $row!("zmm4", "zmm5"),
            $row!("zmm6", "zmm7"),
            $row!("zmm8", "zmm9"),
            $row!("zmm10", "zmm11"),
            $row!("zmm12", "zmm13"),
            $row!("zmm14", "zmm15"),
            $row!("zmm16", "zmm17"),
            $row!("zmm18", "zmm19"),
            $row!("zmm20", "zmm21"),
            $row!("zmm22", "zmm23"),
        )
    };
}

/// Reads the sums of a row.
macro_rules! read {
    ($left:literal, $right:literal) => {
        concat!("vmovups ", $left, ", [{from}]\n", "vmovups ", $right, ", [{from} + 64]\n", "add {from}, {stride}\n",)
    };
}

/// Begins the sums of a row with zeros.
macro_rules! clear {
    ($left:literal, $right:literal) => {
        concat!("vpxord ", $left, ", ", $left, ", ", $left, "\nvpxord ", $right, ", ", $right, ", ", $right, "\n")
    };
}

/// Writes the sums of a row.
macro_rules! write {
    ($left:literal, $right:literal) => {
        concat!("vmovups [{to}], ", $left, "\n", "vmovups [{to} + 64], ", $right, "\n", "add {to}, {stride}\n",)
    };
}

/// Adds a row's element at `$at` times two vectors of the right side to its sums.
macro_rules! multiply {
    ($at:expr, $left:literal, $right:literal) => {
        concat!(
            "vbroadcastss zmm26, [",
            $at,
            "]\n",
            "vfmadd231ps ",
            $left,
            ", zmm26, zmm24\n",
            "vfmadd231ps ",
            $right,
            ", zmm26, zmm25\n",
        )
    };
}

/// One step: `$step` is how far its elements lie from the first step's in bytes, `$vectors` how far its vectors of the right side.
///
/// Those of sixteen steps later are prefetched: they come from the L2 cache.
macro_rules! step {
    ($step:literal, $vectors:literal) => {
        concat!(
            "vmovups zmm24, [{b} + ",
            $vectors,
            "]\n",
            "vmovups zmm25, [{b} + ",
            $vectors,
            " + 64]\n",
            "prefetcht0 [{b} + ",
            $vectors,
            " + 2048]\n",
            "prefetcht0 [{b} + ",
            $vectors,
            " + 2112]\n",
            multiply!(concat!("{upper} + ", $step), "zmm0", "zmm1"),
            multiply!(concat!("{upper} + {apart} + ", $step), "zmm2", "zmm3"),
            multiply!(concat!("{upper} + 2 * {apart} + ", $step), "zmm4", "zmm5"),
            multiply!(concat!("{upper} + {thrice} + ", $step), "zmm6", "zmm7"),
            multiply!(concat!("{middle} + ", $step), "zmm8", "zmm9"),
            multiply!(concat!("{middle} + {apart} + ", $step), "zmm10", "zmm11"),
            multiply!(concat!("{middle} + 2 * {apart} + ", $step), "zmm12", "zmm13"),
            multiply!(concat!("{middle} + {thrice} + ", $step), "zmm14", "zmm15"),
            multiply!(concat!("{lower} + ", $step), "zmm16", "zmm17"),
            multiply!(concat!("{lower} + {apart} + ", $step), "zmm18", "zmm19"),
            multiply!(concat!("{lower} + 2 * {apart} + ", $step), "zmm20", "zmm21"),
            multiply!(concat!("{lower} + {thrice} + ", $step), "zmm22", "zmm23"),
        )
    };
}

/// Goes on by so many steps, of which `$from` and `$vectors` say the bytes.
macro_rules! onward {
    ($from:literal, $vectors:literal) => {
        concat!(
            "add {upper}, ",
            $from,
            "\n",
            "add {middle}, ",
            $from,
            "\n",
            "add {lower}, ",
            $from,
            "\n",
            "add {b}, ",
            $vectors,
            "\n",
            "dec {steps}\n",
        )
    };
}

/// A tile from rows that are `apart` bytes apart, their elements `STEP`.
///
/// # Safety
/// As [`super::kernel::Tile`], with such a left side.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn multiply<const STEP: usize>(
    depth: usize,
    a: *const f32,
    apart: usize,
    b: *const f32,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: each of `depth` steps reads an element of twelve rows, which the three pointers and `apart` name, and two vectors of the
    // right side, four steps at a time and then those that are left. `c` has twelve rows of two vectors, `stride` elements apart,
    // which are read only if `accumulate`, then written. What is prefetched need not be readable. Upper halves are cleared as
    // compiled code expects them, or its older instructions would wait for them.
    unsafe {
        asm!(
            "test {accumulate:l}, {accumulate:l}",
            "jz 2f",
            rows!(read),
            "jmp 3f",
            "2:",
            rows!(clear),
            "3:",
            "test {steps}, {steps}",
            "jz 5f",
            ".p2align 5",
            "4:",
            step!("0", "0"),
            step!("{one}", "128"),
            step!("{two}", "256"),
            step!("{three}", "384"),
            onward!("{four}", "512"),
            "jnz 4b",
            "5:",
            "mov {steps}, {rest}",
            "test {steps}, {steps}",
            "jz 7f",
            "6:",
            step!("0", "0"),
            onward!("{one}", "128"),
            "jnz 6b",
            "7:",
            rows!(write),
            "vzeroupper",
            one = const STEP,
            two = const 2 * STEP,
            three = const 3 * STEP,
            four = const STEPS * STEP,
            accumulate = in(reg) usize::from(accumulate),
            upper = inout(reg) a => _,
            middle = inout(reg) a.wrapping_byte_add(4 * apart) => _,
            lower = inout(reg) a.wrapping_byte_add(8 * apart) => _,
            apart = in(reg) apart,
            thrice = in(reg) 3 * apart,
            b = inout(reg) b => _,
            from = inout(reg) c => _,
            to = inout(reg) c => _,
            stride = in(reg) stride * SIZE,
            steps = inout(reg) depth / STEPS => _,
            rest = in(reg) depth % STEPS,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _, out("zmm6") _,
            out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _, out("zmm12") _, out("zmm13") _,
            out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _,
            out("zmm21") _, out("zmm22") _, out("zmm23") _, out("zmm24") _, out("zmm25") _, out("zmm26") _,
            options(nostack),
        );
    }
}

/// A tile from panels.
///
/// # Safety
/// As [`super::kernel::Tile`].
#[target_feature(enable = "avx512f")]
unsafe fn tile(depth: usize, a: *const f32, b: *const f32, c: *mut f32, stride: usize, accumulate: bool) {
    // SAFETY: a step's elements follow one another in a panel, one of each row; the rest is the caller's duty.
    unsafe { multiply::<{ ROWS * SIZE }>(depth, a, SIZE, b, c, stride, accumulate) }
}

/// The same from lines.
///
/// # Safety
/// As [`super::kernel::Direct`].
#[target_feature(enable = "avx512f")]
unsafe fn direct(
    depth: usize,
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: the elements of a line follow one another; the rest is the caller's duty.
    unsafe { multiply::<SIZE>(depth, a, a_stride * SIZE, b, c, stride, accumulate) }
}

/// Writes the rows of tiles, with the bias, where they belong: F32 as it is.
///
/// # Safety
/// As [`super::kernel::Round`].
#[target_feature(enable = "avx512f")]
unsafe fn rounded(sums: *const f32, apart: usize, [rows, tiles]: [usize; 2], finish: Finish<'_, f32>) {
    for row in 0..rows {
        for column in (0..tiles * COLUMNS).step_by(16) {
            let (tile, within) = (column / COLUMNS, column % COLUMNS);
            // SAFETY: so many rows of sums are readable and as many of the result writable (caller).
            unsafe {
                let mut sum = _mm512_loadu_ps(sums.add(tile * apart + row * COLUMNS + within));
                if let Some(bias) = finish.bias.get(column..).and_then(|bias| bias.first_chunk::<16>()) {
                    sum = _mm512_add_ps(sum, _mm512_loadu_ps(bias.as_ptr()));
                }
                _mm512_storeu_ps(finish.to.add(row * finish.stride + column), sum);
            }
        }
    }
}
