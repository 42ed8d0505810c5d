//! Whether this process may use AMX, and whether it computes what it should.

use super::super::dot;
use super::super::kernel::MicroKernel;
use super::kernel;
use crate::gemm::product::tiles;
use half::bf16;
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

/// The state component of the tile registers' contents.
const TILE_DATA: u32 = 18;

/// Whether the processor has AMX for BF16, the system lets this process use it, and a small product comes out right.
///
/// A first call asks the system to permit it; the answer holds for all threads of the process.
pub(crate) fn is_usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| {
        let available = is_available() || is_emulated();
        let usable = available && computes_right();
        if available && !usable {
            eprintln!("amp: AMX gives wrong results on this machine and is not used");
        }
        usable
    })
}

/// Whether the processor has AMX for BF16 and the system lets this process use it.
pub(super) fn is_available() -> bool {
    has_instructions() && system_saves_tiles() && has_full_tiles() && is_permitted()
}

/// Tests that ask for AMX get it on every processor.
#[cfg(test)]
fn is_emulated() -> bool {
    let asked = std::env::var_os("AMP_CPU").is_some_and(|level| level == "amx");
    if asked {
        super::emulator::install();
    }
    asked
}

#[cfg(not(test))]
fn is_emulated() -> bool {
    false
}

/// AMX-TILE and AMX-BF16, and `xgetbv` for what the system saves.
fn has_instructions() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    // The highest leaf; the palette's is 0x1d.
    if __cpuid(0).eax < 0x1d || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    features & AMX_BF16 != 0 && features & AMX_TILE != 0
}

/// Whether the system saves the tile registers when it switches threads; only called where there is `xgetbv`.
fn system_saves_tiles() -> bool {
    const TILE_CONFIG: u32 = 17;
    let saved: u32;
    // SAFETY: the processor has the instruction (OSXSAVE, checked by `has_instructions`); register 0 always exists.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nostack, nomem, preserves_flags)) };
    let tiles = 1 << TILE_CONFIG | 1 << TILE_DATA;
    saved & tiles == tiles
}

/// Whether palette 1 has eight registers of 16 rows of 64 bytes.
fn has_full_tiles() -> bool {
    if __cpuid_count(0x1d, 0).eax < 1 {
        return false;
    }
    let palette = __cpuid_count(0x1d, 1);
    let (row_bytes, registers, rows) = (palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff);
    (row_bytes as usize, registers, rows as usize) == (super::ROW, 8, super::ROWS)
}

/// Asks Linux for the tile registers: it gives each thread room to save them when it first uses them.
fn is_permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    let result: isize;
    // SAFETY: the system call takes two numbers, touches no memory of this process, and changes only what is saved on a
    // switch of threads; `syscall` overwrites `rcx` and `r11`.
    unsafe {
        asm!(
            "syscall",
            inout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") TILE_DATA as usize,
            out("rcx") _,
            out("r11") _,
            options(nostack, nomem),
        );
    }
    result == 0
}

/// Compares a product of small integers, which is exact in every order, with the portable tile's.
pub(super) fn computes_right() -> bool {
    const DEPTH: usize = 96;
    const START: f32 = 5.0;
    let left = |row: usize, d: usize| ((row * 7 + d * 5) % 33) as f32 - 16.0;
    let right = |column: usize, d: usize| ((column * 11 + d * 3) % 29) as f32 - 14.0;
    let product = |kernel: MicroKernel<bf16>, accumulate: bool| {
        let side = super::SIDE;
        let pack = |panel: super::Panel, value: &dyn Fn(usize, usize) -> f32| {
            let mut packed = vec![bf16::ZERO; panel.len(side, DEPTH)];
            for row in 0..side {
                for d in 0..DEPTH {
                    let at = row / panel.width * panel.width * DEPTH
                        + (d / panel.group * panel.width + row % panel.width) * panel.group
                        + d % panel.group;
                    packed[at] = bf16::from_f32(value(row, d));
                }
            }
            packed
        };
        let (a, b) = (pack(kernel.left, &left), pack(kernel.right, &right));
        let mut sums = vec![START; side * side];
        tiles(&kernel, &a, &b, DEPTH, &mut sums, side, accumulate);
        sums
    };
    [false, true].into_iter().all(|accumulate| product(kernel(), accumulate) == product(dot::portable(), accumulate))
}
