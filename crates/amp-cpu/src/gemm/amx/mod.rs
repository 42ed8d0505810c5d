//! Products of BF16 panels by AMX: 16 by 16 sums with 32 terms each in one instruction.
//!
//! A tile register holds 16 rows of 64 bytes. `tdpbf16ps` multiplies a tile of the left side (16 rows of 32 elements) by
//! one of the right side (16 pairs of rows, the pair's elements of a column side by side) and adds to 16 by 16 F32 sums;
//! a kernel's tile is 2 by 2 of these, so every tile that is loaded is used twice. All sizes are multiples of that: the
//! panels are padded with zeros.
//!
//! **Arithmetic.** Products of two BF16 numbers are exact in F32. Of each 32 terms, the even and the odd ones are summed
//! in F32, the two sums are added, then added to the result: no term goes through more additions with something other
//! than zero than there are other terms, so an element is as exact as with F32 arithmetic. The instruction takes
//! subnormal numbers as zero and rounds subnormal results to zero, whatever the processor's mode: for a sum of `n` terms,
//! which has at most `2n` results, that is another error of at most `n * 2^-126 * (2 + max|a| + max|b|)`.
//!
//! **State.** The registers are a thread's own and exist while its tiles are configured, from the first [`enter`] to the last
//! [`leave`], for pairs of them may be nested: configuring takes as long as three steps of the depth. [`MicroKernel::prepared`] is
//! the only way to either, and nothing in between calls foreign code.
//!
//! **Speed.** `tdpbf16ps` starts every 16 cycles; two tile loads for two of them, a block of some terms at a time, leave the
//! left side in the L2 cache and the right side's panel in L1. On a Xeon a core reaches 3.74 TFLOP/s like that, of
//! 3.85 in registers. Writing a tile's sums to L2 and reading them again brings it down to 2.1, so a right side stays in L2
//! ([`super::resident`]), or the sums do ([`super::deep`]). More in `benches/record/findings.md`.

mod detect;
#[cfg(test)]
pub(crate) mod emulator;
pub(crate) mod halves;
#[cfg(test)]
mod tests;

use super::cut::Cut;
use super::kernel::{MicroKernel, Rows};
use super::panel::Panel;
use super::product::PER_CYCLE;
pub(crate) use detect::is_usable;
use half::bf16;
use std::arch::asm;
use std::cell::Cell;

/// Rows of a tile register.
const ROWS: usize = 16;
/// Bytes in one row.
const ROW: usize = 64;
/// Elements along the depth that one instruction multiplies.
const STEP: usize = ROW / size_of::<bf16>();
/// Rows and columns of a kernel's tile.
const SIDE: usize = 2 * ROWS;

/// Bytes of the right side that stay in an L2 cache of 2 MiB. 768 × 768 as one block: 2048 rows take a tenth less than in two of
/// 384 columns.
const RESIDENT: usize = 5 << 18;

/// The kernel, for machines where [`is_usable`].
pub(crate) fn kernel() -> MicroKernel<bf16> {
    let panels = [STEP, 2].map(|group| Panel { width: SIDE, group, step: STEP });
    let depth = Cut { usual: 384, longest: 512, step: STEP };
    MicroKernel {
        pace: 2 * PER_CYCLE,
        depth,
        enter,
        direct: Some(direct::<false>),
        ahead: Some(direct::<true>),
        scattered: Some(scattered),
        streamed: Some(streamed),
        leave,
        resident: Some(RESIDENT),
        round: Some(super::dot::x86::rounded),
        ..MicroKernel::of_panels(panels, depth.usual, tile)
    }
}

/// What `ldtilecfg` reads: the form of each tile register.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight registers in full size.
static FULL: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: first_eight(ROW as u16),
    rows: {
        let rows = first_eight(ROWS as u16);
        let mut bytes = [0; 16];
        let mut i = 0;
        while i < bytes.len() {
            bytes[i] = rows[i] as u8;
            i += 1;
        }
        bytes
    },
};

const fn first_eight(value: u16) -> [u16; 16] {
    let mut values = [0; 16];
    let mut i = 0;
    while i < 8 {
        values[i] = value;
        i += 1;
    }
    values
}

thread_local! {
    /// How often this thread has entered without leaving.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
}

/// Configures this thread's tile registers, unless they are.
///
/// # Safety
/// The machine must have AMX and the system must have permitted it ([`is_usable`]).
unsafe fn enter() {
    if ENTERED.replace(ENTERED.get() + 1) > 0 {
        return;
    }
    // SAFETY: the instruction exists (caller) and reads the 64 bytes of `FULL`, a valid configuration of palette 1: at most
    // 16 rows of at most 64 bytes for eight registers, zeros elsewhere. It changes the tile registers alone.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const FULL, options(nostack, readonly, preserves_flags));
    }
}

/// Gives the tile registers up after the last of nested pairs, so that switching threads need not save them.
///
/// # Safety
/// As [`enter`].
unsafe fn leave() {
    ENTERED.set(ENTERED.get() - 1);
    if ENTERED.get() > 0 {
        return;
    }
    // SAFETY: the instruction exists (caller) and changes the tile registers alone.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// The sums that a tile begins with, at label 3: those in memory if `accumulate` is not 0, or zeros.
macro_rules! begin {
    () => {
        "test {accumulate:l}, {accumulate:l}
        jz 2f
        tileloadd tmm0, [{c} + {stride}]
        tileloadd tmm1, [{c} + {stride} + 64]
        tileloadd tmm2, [{c_lower} + {stride}]
        tileloadd tmm3, [{c_lower} + {stride} + 64]
        jmp 3f
        2:
        tilezero tmm0
        tilezero tmm1
        tilezero tmm2
        tilezero tmm3
        3:"
    };
}
use begin;

/// Writes a tile's sums.
macro_rules! end {
    () => {
        "tilestored [{c} + {stride}], tmm0
        tilestored [{c} + {stride} + 64], tmm1
        tilestored [{c_lower} + {stride}], tmm2
        tilestored [{c_lower} + {stride} + 64], tmm3"
    };
}
use end;

/// Prefetches a line of what is next, between two tiles: many at once would be waited for.
macro_rules! prefetch {
    ($at:literal) => {
        concat!("prefetcht0 [{next} + ", $at, "]")
    };
}
use prefetch;

/// In its place where nothing is prefetched.
macro_rules! nothing {
    ($at:literal) => {
        ""
    };
}
use nothing;

/// A tile, step by step: the code of a step, what it starts from, and constants that it names, of which two say how far it is to
/// the next step on either side.
macro_rules! steps {
    (
        [$($step:expr),* $(,)?], $count:expr,
        [$a:expr, $between:expr, $next:expr], $b:expr, [$c:expr, $stride:expr], $accumulate:expr,
        $($name:ident = $value:expr),*
    ) => {
        asm!(
            begin!(),
            $($step,)*
            "add {a}, {onward}",
            "add {a_lower}, {onward}",
            "add {b}, {onward_right}",
            "add {next}, {prefetched}",
            "dec {steps}",
            "jnz 3b",
            end!(),
            $($name = const $value,)*
            accumulate = in(reg) usize::from($accumulate),
            stride = in(reg) $stride,
            row = in(reg) ROW,
            between = in(reg) $between,
            c = in(reg) $c,
            c_lower = in(reg) $c.wrapping_byte_add(ROWS * $stride),
            a = inout(reg) $a => _,
            a_lower = inout(reg) $a.wrapping_byte_add(ROWS * $between) => _,
            b = inout(reg) $b => _,
            next = inout(reg) $next => _,
            steps = inout(reg) $count => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}
use steps;

/// A tile of 32 rows and columns.
///
/// # Safety
/// As [`super::kernel::Tile`]; the thread must be between [`enter`] and [`leave`], and `depth` a multiple of 32 above 0.
unsafe fn tile(depth: usize, a: *const bf16, b: *const bf16, c: *mut f32, stride: usize, accumulate: bool) {
    // SAFETY: for each 32 along the depth, a panel of the left side has 32 rows of 64 bytes, one after the other; the rest is
    // the caller's duty.
    unsafe { multiply::<{ SIDE * ROW }, false>(depth, [a, a], ROW, b, c, stride, accumulate) }
}

/// The same from 32 lines; those of another tile are prefetched if `AHEAD`.
///
/// # Safety
/// As [`super::kernel::Direct`], and as [`tile`].
unsafe fn direct<const AHEAD: bool>(
    depth: usize,
    a: Rows<bf16>,
    b: *const bf16,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: for each 32 along the depth, each of 32 lines has 64 bytes, which follow one another; the rest is the caller's
    // duty.
    unsafe { multiply::<ROW, AHEAD>(depth, [a.start, a.next], a.stride * size_of::<bf16>(), b, c, stride, accumulate) }
}

/// A tile whose steps lie anywhere; the instruction that loads the left side's.
///
/// `tileloaddt1` leaves nothing in the L1 cache. Right sides come from L2 so, and what the next panel needs again of the left side
/// stays: 3 x 3 over 128 channels of 16 by 16 takes 5 to 8 % less, one that loads its left side so, too, 25 % more. Where both sides
/// are read once, as in gradients of kernels, it is 3 to 5 % less.
macro_rules! anywhere {
    ($name:ident, $left:literal) => {
        /// The same from steps that lie anywhere.
        ///
        /// # Safety
        /// As [`super::kernel::Scattered`], and as [`tile`].
        unsafe fn $name(
            steps: &[[usize; 2]],
            halves: [*const bf16; 2],
            between: usize,
            b: *const bf16,
            c: *mut f32,
            accumulate: bool,
        ) {
            assert!(!steps.is_empty());
            // SAFETY: for each step, each half of the left side has 16 rows of 64 bytes, `between` elements apart, and the right side
            // 16 rows of 128 bytes, which are two tiles, at 64 bytes for each of its depth (caller). `c` has 32 rows of 128 bytes,
            // read only if `accumulate`, then written. There is one step at least (asserted). All registers are configured
            // (caller) as 16 rows of 64 bytes, so shapes agree in every product.
            unsafe {
                asm!(
                    begin!(),
                    "mov {at}, [{steps}]",
                    "mov {right}, [{steps} + 8]",
                    "lea {accumulate}, [{upper} + {at} * 2]",
                    "shl {right}, 6",
                    "add {right}, {b}",
                    concat!($left, " tmm4, [{accumulate} + {between}]"),
                    "tileloaddt1 tmm6, [{right} + {stride}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloaddt1 tmm7, [{right} + {stride} + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "lea {accumulate}, [{lower} + {at} * 2]",
                    concat!($left, " tmm5, [{accumulate} + {between}]"),
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "add {steps}, 16",
                    "cmp {steps}, {end}",
                    "jne 3b",
                    end!(),
                    // Its register holds addresses of the left side once the sums are there.
                    accumulate = inout(reg) usize::from(accumulate) => _,
                    at = out(reg) _,
                    right = out(reg) _,
                    // From row to row of the sums, and of the right side.
                    stride = in(reg) SIDE * size_of::<f32>(),
                    between = in(reg) between * size_of::<bf16>(),
                    upper = in(reg) halves[0],
                    lower = in(reg) halves[1],
                    b = in(reg) b,
                    c = in(reg) c,
                    c_lower = in(reg) c.wrapping_add(ROWS * SIDE),
                    steps = inout(reg) steps.as_ptr() => _,
                    end = in(reg) steps.as_ptr_range().end,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

anywhere!(scattered, "tileloadd");
anywhere!(streamed, "tileloaddt1");

/// A tile from a left side whose rows are `between` bytes apart, and those of the next 32 along the depth `ONWARD` from them.
///
/// # Safety
/// As [`tile`], with such a left side.
#[inline(always)]
unsafe fn multiply<const ONWARD: usize, const AHEAD: bool>(
    depth: usize,
    [a, next]: [*const bf16; 2],
    between: usize,
    b: *const bf16,
    c: *mut f32,
    stride: usize,
    accumulate: bool,
) {
    let stride = stride * size_of::<f32>();
    macro_rules! multiply {
        ($prefetch:ident) => {
            steps!(
                [
                    "tileloadd tmm4, [{a} + {between}]",
                    $prefetch!("0"),
                    "tileloaddt1 tmm6, [{b} + {row} * 2]",
                    $prefetch!("64"),
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloaddt1 tmm7, [{b} + {row} * 2 + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    $prefetch!("128"),
                    "tileloadd tmm5, [{a_lower} + {between}]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    $prefetch!("192"),
                    "tdpbf16ps tmm3, tmm5, tmm7",
                ],
                depth / STEP,
                [a, between, next],
                b,
                [c, stride],
                accumulate,
                prefetched = 4 * ROW,
                onward = ONWARD,
                onward_right = SIDE * ROW
            )
        };
    }
    // SAFETY: for each 32 along the depth, the left side has 32 rows of 64 bytes and a panel of the right side 16 rows of 128
    // bytes, which the loop reads as two tiles each, `depth / 32` times (at least once). `c` has 32 rows of 128 bytes
    // `stride` apart, `c_lower` is its 17th; they are read only if `accumulate`, then written. All registers are configured
    // (caller) as 16 rows of 64 bytes, so shapes agree in every product.
    unsafe {
        if AHEAD {
            multiply!(prefetch);
        } else {
            multiply!(nothing);
        }
    }
}
