//! Tiles of F16 split into halves: three or four products of each step while its panels are loaded.
//!
//! A step's high parts of the left side are multiplied by both parts of the right, so eight loads serve twelve products, where
//! panels with the high parts repeated took twelve. Right sides are loaded as [`super::super`] says: 0 to 3 % less.

use super::super::{ROW, ROWS, SIDE, begin, end, nothing, prefetch, steps};
use super::{PARTS, STEP};
use crate::gemm::kernel::Rows;
use half::bf16;
use std::arch::asm;

/// Bytes of one part of a step in a panel.
const PART: usize = SIDE * ROW;

/// A tile of panels, with `low·low` if `FOUR`.
///
/// # Safety
/// As [`super::super::tile`], each 32 of a panel being followed by their low parts and `depth` counting both.
pub(super) unsafe fn tile<const FOUR: bool>(
    depth: usize,
    a: *const bf16,
    b: *const bf16,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: a part of a step has 32 rows of 64 bytes, one after the other; the rest is the caller's duty.
    unsafe { multiply::<FOUR, PART, false>(depth, [a, a], ROW, b, c, stride, accumulate) }
}

/// The same from lines; those of another tile are prefetched if `AHEAD`, which few terms are not worth.
///
/// # Safety
/// As [`super::super::direct`], each 32 of a line or a panel being followed by their low parts and `depth` counting both.
pub(super) unsafe fn direct<const FOUR: bool, const AHEAD: bool>(
    depth: usize,
    a: Rows<bf16>,
    b: *const bf16,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: a part of a step is 64 bytes of each line; the rest is the caller's duty.
    unsafe {
        multiply::<FOUR, ROW, AHEAD>(depth, [a.start, a.next], a.stride * size_of::<bf16>(), b, c, stride, accumulate)
    }
}

/// A tile from a left side whose rows are `between` bytes apart, their low parts `LOW` after the high ones and the next step as
/// far after those.
///
/// # Safety
/// As [`tile`], with such a left side.
#[inline(always)]
unsafe fn multiply<const FOUR: bool, const LOW: usize, const AHEAD: bool>(
    depth: usize,
    [a, next]: [*const bf16; 2],
    between: usize,
    b: *const bf16,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    let stride = stride * size_of::<f32>();
    /// Code of a step, with what is done to the low rows of the left side first.
    macro_rules! multiply {
        ($prefetch:ident, $($first:literal),*) => {
            steps!(
                [
                    "tileloadd tmm4, [{a} + {between} + {low}]",
                    "tileloadd tmm5, [{a_lower} + {between} + {low}]",
                    $($first,)*
                    "tileloaddt1 tmm6, [{b} + {row} * 2]",
                    $prefetch!("0"),
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloaddt1 tmm7, [{b} + {row} * 2 + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    $prefetch!("64"),
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm4, [{a} + {between}]",
                    $prefetch!("128"),
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{a_lower} + {between}]",
                    $prefetch!("192"),
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloaddt1 tmm6, [{b} + {row} * 2 + {part}]",
                    $prefetch!("256"),
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloaddt1 tmm7, [{b} + {row} * 2 + {part} + 64]",
                    $prefetch!("320"),
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                ],
                depth / (PARTS * STEP),
                [a, between, next],
                b,
                [c, stride],
                accumulate,
                prefetched = 6 * ROW,
                low = LOW,
                part = PART,
                onward = PARTS * LOW,
                onward_right = PARTS * PART
            )
        };
    }
    // SAFETY: for each step, the left side has 32 rows of 64 bytes, as many again `LOW` bytes after them, and a panel of the
    // right side twice 16 rows of 128 bytes, all of which the loop reads as two tiles each, once for each pair of parts of the
    // depth (at least one). `c` has 32 rows of 128 bytes `stride` apart, `c_lower` is its 17th; they are read only if
    // `accumulate`, then written. All registers are configured (caller) as 16 rows of 64 bytes, so shapes agree in every product.
    unsafe {
        if FOUR {
            multiply!(
                nothing,
                "tileloaddt1 tmm6, [{b} + {row} * 2 + {part}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloaddt1 tmm7, [{b} + {row} * 2 + {part} + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7"
            );
        } else if AHEAD {
            multiply!(prefetch,);
        } else {
            multiply!(nothing,);
        }
    }
}
