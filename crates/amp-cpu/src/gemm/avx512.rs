//! Tiles of F32 with AVX-512, 12 rows by 32 columns or 6 by 64.
//!
//! Rows are read where they lie, or from panels: a step takes an element of each of a tile's rows, whose addresses a few pointers
//! and two distances name, so that four steps cost a few additions beside their 96 multiplications. Compilers add for every
//! address, where multiplications wait: hence assembly.
//!
//! On a Xeon a core reaches 205 GFLOP/s in tiles, of 228 in registers; on Zen 5 two threads reach 470 of 512 in products.
//! Packed left sides and a block's sums in memory, part after part of the depth, were what stood in the way: hence lines, and a
//! right side that stays in L2 ([`super::resident`]). More in `benches/record/findings.md`.
//!
//! For 24 multiplications a high tile loads 14 times and prefetches twice, a wide one loads 10 times. A core of Ice Lake reaches 178
//! GFLOP/s in registers, 157 in high tiles (163 without prefetching) and 175 in wide ones, with right sides in L2 too; while its
//! other thread is busy 149, 108, 114 and 126. Both give the same bits.

use super::kernel::{Finish, MicroKernel, Rows, Tile};
use crate::simd::l2_bytes;
use std::arch::{asm, x86_64::*};

/// Steps that the loop takes at a time.
const STEPS: usize = 4;
/// Bytes of an element.
const SIZE: usize = size_of::<f32>();
/// Lanes of a vector.
const LANES: usize = 16;

/// The kernel, for machines with AVX-512.
pub(super) fn kernel() -> MicroKernel<f32> {
    MicroKernel { direct: Some(high::direct), ..of_tiles::<{ high::COLUMNS }>(high::ROWS, high::tile) }
}

/// The kernel for products of so many columns. On Zen 5, whose cores load twice a cycle beside two multiplications, both kinds
/// of tile take the same time (256³ to 1024³ and flat products, within 3 %).
pub(super) fn kernel_across(columns: usize) -> MicroKernel<f32> {
    let few_are_padding = 9 * columns.next_multiple_of(wide::COLUMNS) <= 10 * columns.next_multiple_of(high::COLUMNS);
    if few_are_padding { wide_kernel() } else { kernel() }
}

pub(super) fn wide_kernel() -> MicroKernel<f32> {
    MicroKernel { direct: Some(wide::direct), ..of_tiles::<{ wide::COLUMNS }>(wide::ROWS, wide::tile) }
}

fn of_tiles<const COLUMNS: usize>(rows: usize, tile: Tile<f32>) -> MicroKernel<f32> {
    MicroKernel {
        resident: Some(l2_bytes() / 2),
        round: Some(rounded::<COLUMNS>),
        ..MicroKernel::single(rows, COLUMNS, tile)
    }
}

/// Reads the sums of a row: registers and where their vectors lie in it.
macro_rules! read {
    ($($sum:literal $at:literal),*) => {
        concat!($("vmovups ", $sum, ", [{from} + ", $at, "]\n",)* "add {from}, {stride}\n")
    };
}

/// Begins the sums of a row with zeros.
macro_rules! clear {
    ($($sum:literal $at:literal),*) => {
        concat!($("vpxord ", $sum, ", ", $sum, ", ", $sum, "\n",)*)
    };
}

/// Writes the sums of a row.
macro_rules! write {
    ($($sum:literal $at:literal),*) => {
        concat!($("vmovups [{to} + ", $at, "], ", $sum, "\n",)* "add {to}, {stride}\n")
    };
}

/// Adds a row's element at `$at`, which goes to `$element`, times the step's vectors to the row's sums.
macro_rules! multiply {
    ($at:expr, $element:literal, $($sum:literal $vector:literal),*) => {
        concat!(
            "vbroadcastss ", $element, ", [", $at, "]\n",
            $("vfmadd231ps ", $sum, ", ", $element, ", ", $vector, "\n",)*
        )
    };
}

/// Tiles of one size, from panels and from lines, in a module of their own.
///
/// `$rows` names the registers of every row's sums, `$step` is one step: how far its elements and its vectors of the right side lie
/// from the first step's, in bytes. `$pointer` names rows that the others are near.
macro_rules! tiles {
    ($name:ident: $height:literal by $width:literal, $rows:ident, $step:ident, $($pointer:ident at $row:literal),*) => {
        mod $name {
            use super::{Rows, SIZE, STEPS, asm};

            pub(super) const ROWS: usize = $height;
            pub(super) const COLUMNS: usize = $width;
            /// Bytes of a step's vectors.
            const VECTORS: usize = COLUMNS * SIZE;

            /// Goes on by so many bytes of the left side and of the right one.
            macro_rules! onward {
                ($from:literal, $vectors:literal) => {
                    concat!(
                        $("add {", stringify!($pointer), "}, ", $from, "\n",)*
                        "add {b}, ", $vectors, "\n",
                        "dec {steps}\n",
                    )
                };
            }

            /// A tile from rows that are `apart` bytes apart, their elements `STEP`.
            ///
            /// # Safety
            /// As [`Tile`](super::Tile), with such a left side.
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
                // SAFETY: each of `depth` steps reads an element of every row, which the pointers and `apart` name, and a row of
                // vectors of the right side, four steps at a time and then those that are left. `c` has `ROWS` rows of `COLUMNS`,
                // `stride` elements apart, which are read only if `accumulate`, then written. What is prefetched need not be
                // readable. Upper halves are cleared as compiled code expects them, or its older instructions would wait for them.
                unsafe {
                    asm!(
                        "test {accumulate:l}, {accumulate:l}",
                        "jz 2f",
                        $rows!(read),
                        "jmp 3f",
                        "2:",
                        $rows!(clear),
                        "3:",
                        "test {steps}, {steps}",
                        "jz 5f",
                        ".p2align 5",
                        "4:",
                        $step!("0", "0"),
                        $step!("{one}", "{vectors}"),
                        $step!("{two}", "2 * {vectors}"),
                        $step!("{three}", "3 * {vectors}"),
                        onward!("{four}", "4 * {vectors}"),
                        "jnz 4b",
                        "5:",
                        "mov {steps}, {rest}",
                        "test {steps}, {steps}",
                        "jz 7f",
                        "6:",
                        $step!("0", "0"),
                        onward!("{one}", "{vectors}"),
                        "jnz 6b",
                        "7:",
                        $rows!(write),
                        "vzeroupper",
                        one = const STEP,
                        two = const 2 * STEP,
                        three = const 3 * STEP,
                        four = const STEPS * STEP,
                        vectors = const VECTORS,
                        accumulate = in(reg) usize::from(accumulate),
                        $($pointer = inout(reg) a.wrapping_byte_add($row * apart) => _,)*
                        apart = in(reg) apart,
                        thrice = in(reg) 3 * apart,
                        b = inout(reg) b => _,
                        from = inout(reg) c => _,
                        to = inout(reg) c => _,
                        stride = in(reg) stride * SIZE,
                        steps = inout(reg) depth / STEPS => _,
                        rest = in(reg) depth % STEPS,
                        out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                        out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                        out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm17") _,
                        out("zmm18") _, out("zmm19") _, out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                        out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _, out("zmm28") _, out("zmm29") _,
                        out("zmm30") _,
                        options(nostack),
                    );
                }
            }

            /// A tile from panels.
            ///
            /// # Safety
            /// As [`Tile`](super::Tile).
            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn tile(
                depth: usize,
                a: *const f32,
                b: *const f32,
                c: *mut f32,
                stride: usize,
                accumulate: bool,
            ) {
                // SAFETY: a step's elements follow one another in a panel, one of each row; the rest is the caller's duty.
                unsafe { multiply::<{ ROWS * SIZE }>(depth, a, SIZE, b, c, stride, accumulate) }
            }

            /// The same from lines.
            ///
            /// # Safety
            /// As [`Direct`](crate::gemm::kernel::Direct).
            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn direct(
                depth: usize,
                a: Rows<f32>,
                b: *const f32,
                c: *mut f32,
                stride: usize,
                accumulate: bool,
            ) {
                // SAFETY: the elements of a line follow one another; the rest is the caller's duty.
                unsafe { multiply::<SIZE>(depth, a.start, a.stride * SIZE, b, c, stride, accumulate) }
            }
        }
    };
}

macro_rules! high_rows {
    ($row:ident) => {
        concat!(
            $row!("zmm0" "0", "zmm1" "64"),
            $row!("zmm2" "0", "zmm3" "64"),
            $row!("zmm4" "0", "zmm5" "64"),
            $row!("zmm6" "0", "zmm7" "64"),
            $row!("zmm8" "0", "zmm9" "64"),
            $row!("zmm10" "0", "zmm11" "64"),
            $row!("zmm12" "0", "zmm13" "64"),
            $row!("zmm14" "0", "zmm15" "64"),
            $row!("zmm16" "0", "zmm17" "64"),
            $row!("zmm18" "0", "zmm19" "64"),
            $row!("zmm20" "0", "zmm21" "64"),
            $row!("zmm22" "0", "zmm23" "64"),
        )
    };
}

/// Vectors of sixteen steps later are prefetched: they come from the L2 cache.
macro_rules! high_step {
    ($step:literal, $vectors:literal) => {
        concat!(
            "vmovups zmm24, [{b} + ", $vectors, "]\n",
            "vmovups zmm25, [{b} + ", $vectors, " + 64]\n",
            "prefetcht0 [{b} + ", $vectors, " + 2048]\n",
            "prefetcht0 [{b} + ", $vectors, " + 2112]\n",
            multiply!(concat!("{upper} + ", $step), "zmm26", "zmm0" "zmm24", "zmm1" "zmm25"),
            multiply!(concat!("{upper} + {apart} + ", $step), "zmm26", "zmm2" "zmm24", "zmm3" "zmm25"),
            multiply!(concat!("{upper} + 2 * {apart} + ", $step), "zmm26", "zmm4" "zmm24", "zmm5" "zmm25"),
            multiply!(concat!("{upper} + {thrice} + ", $step), "zmm26", "zmm6" "zmm24", "zmm7" "zmm25"),
            multiply!(concat!("{middle} + ", $step), "zmm26", "zmm8" "zmm24", "zmm9" "zmm25"),
            multiply!(concat!("{middle} + {apart} + ", $step), "zmm26", "zmm10" "zmm24", "zmm11" "zmm25"),
            multiply!(concat!("{middle} + 2 * {apart} + ", $step), "zmm26", "zmm12" "zmm24", "zmm13" "zmm25"),
            multiply!(concat!("{middle} + {thrice} + ", $step), "zmm26", "zmm14" "zmm24", "zmm15" "zmm25"),
            multiply!(concat!("{lower} + ", $step), "zmm26", "zmm16" "zmm24", "zmm17" "zmm25"),
            multiply!(concat!("{lower} + {apart} + ", $step), "zmm26", "zmm18" "zmm24", "zmm19" "zmm25"),
            multiply!(concat!("{lower} + 2 * {apart} + ", $step), "zmm26", "zmm20" "zmm24", "zmm21" "zmm25"),
            multiply!(concat!("{lower} + {thrice} + ", $step), "zmm26", "zmm22" "zmm24", "zmm23" "zmm25"),
        )
    };
}

macro_rules! wide_rows {
    ($row:ident) => {
        concat!(
            $row!("zmm0" "0", "zmm1" "64", "zmm2" "128", "zmm3" "192"),
            $row!("zmm4" "0", "zmm5" "64", "zmm6" "128", "zmm7" "192"),
            $row!("zmm8" "0", "zmm9" "64", "zmm10" "128", "zmm11" "192"),
            $row!("zmm12" "0", "zmm13" "64", "zmm14" "128", "zmm15" "192"),
            $row!("zmm16" "0", "zmm17" "64", "zmm18" "128", "zmm19" "192"),
            $row!("zmm20" "0", "zmm21" "64", "zmm22" "128", "zmm23" "192"),
        )
    };
}

/// Adds a row's element times the four vectors of a step to its sums.
macro_rules! wide_row {
    ($at:expr, $element:literal, $first:literal, $second:literal, $third:literal, $fourth:literal) => {
        multiply!($at, $element, $first "zmm24", $second "zmm25", $third "zmm26", $fourth "zmm27")
    };
}

macro_rules! wide_step {
    ($step:literal, $vectors:literal) => {
        concat!(
            "vmovups zmm24, [{b} + ",
            $vectors,
            "]\n",
            "vmovups zmm25, [{b} + ",
            $vectors,
            " + 64]\n",
            "vmovups zmm26, [{b} + ",
            $vectors,
            " + 128]\n",
            "vmovups zmm27, [{b} + ",
            $vectors,
            " + 192]\n",
            wide_row!(concat!("{upper} + ", $step), "zmm28", "zmm0", "zmm1", "zmm2", "zmm3"),
            wide_row!(concat!("{upper} + {apart} + ", $step), "zmm29", "zmm4", "zmm5", "zmm6", "zmm7"),
            wide_row!(concat!("{upper} + 2 * {apart} + ", $step), "zmm30", "zmm8", "zmm9", "zmm10", "zmm11"),
            wide_row!(concat!("{upper} + {thrice} + ", $step), "zmm28", "zmm12", "zmm13", "zmm14", "zmm15"),
            wide_row!(concat!("{lower} + ", $step), "zmm29", "zmm16", "zmm17", "zmm18", "zmm19"),
            wide_row!(concat!("{lower} + {apart} + ", $step), "zmm30", "zmm20", "zmm21", "zmm22", "zmm23"),
        )
    };
}

tiles!(high: 12 by 32, high_rows, high_step, upper at 0, middle at 4, lower at 8);
tiles!(wide: 6 by 64, wide_rows, wide_step, upper at 0, lower at 4);

/// Writes the rows of tiles, with the bias, where they belong: F32 as it is.
///
/// # Safety
/// As [`super::kernel::Round`].
#[target_feature(enable = "avx512f")]
unsafe fn rounded<const COLUMNS: usize>(
    sums: *const f32,
    apart: usize,
    [rows, tiles]: [usize; 2],
    finish: Finish<'_, f32>,
) {
    for row in 0..rows {
        for column in (0..tiles * COLUMNS).step_by(LANES) {
            let (tile, within) = (column / COLUMNS, column % COLUMNS);
            // SAFETY: so many rows of sums are readable and as many of the result writable (caller).
            unsafe {
                let mut sum = _mm512_loadu_ps(sums.add(tile * apart + row * COLUMNS + within));
                if let Some(bias) = finish.bias.get(column..).and_then(|bias| bias.first_chunk::<LANES>()) {
                    sum = _mm512_add_ps(sum, _mm512_loadu_ps(bias.as_ptr()));
                }
                _mm512_storeu_ps(finish.to.add(row * finish.stride + column), sum);
            }
        }
    }
}
