//! One kernel body, compiled once per instruction set and chosen at run time.
//!
//! A kernel is a struct that holds its arguments and implements `Kernel`; `dispatch` runs its body inside a
//! function that may use the best instruction set of this machine. Bodies are plain loops that LLVM vectorises, so
//! `run` and everything it calls per element must be `#[inline(always)]`.
//!
//! `AMP_CPU=portable|avx2|avx512|avx512bf16|amx` forces a level. One that the machine lacks is replaced by the best it has, and
//! an unknown name is ignored; either is reported once on the standard error stream.

mod lanes;
mod level;
mod processor;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use half::{bf16, f16};
pub(crate) use lanes::{Array, LANES, Lanes};
pub use level::Level;
#[cfg(target_arch = "x86_64")]
pub(crate) use processor::l2_bytes;

/// The operations whose best form depends on the level; all else is left to LLVM.
pub(crate) trait Simd: Copy + 'static {
    /// The least level that has these operations.
    const LEVEL: Level;

    /// Sixteen F32 in registers.
    type F32: Lanes<f32>;

    /// `a * b + c`, fused where that is one instruction.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;

    /// `a * b + c` in F64, fused where that is one instruction.
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64;

    /// Widens whole vectors from the front with the level's own instruction; returns how many elements that were.
    fn widen_f16(src: &[f16], dst: &mut [f32]) -> usize;

    /// Rounds whole vectors from the front with the level's own instruction; returns how many elements that were.
    fn narrow_f16(src: &[f32], dst: &mut [f16]) -> usize;

    /// Fewer than sixteen elements of 16 bits, then `rest`.
    #[inline(always)]
    fn some_of_16(from: &[u16], rest: u16) -> [u16; LANES] {
        let mut all = [rest; LANES];
        all[..from.len()].copy_from_slice(from);
        all
    }

    /// Writes the first elements of `all`, of which there are more.
    #[inline(always)]
    fn store_some(all: &[u16; 2 * LANES], to: &mut [u16]) {
        to.copy_from_slice(&all[..to.len()]);
    }

    /// As [`Self::narrow_f16`], for BF16, where that is better than LLVM's vectors.
    #[inline(always)]
    fn narrow_bf16(_: &[f32], _: &mut [bf16]) -> usize {
        0
    }
}

/// Whether the target's baseline multiplies and adds in one instruction: elsewhere that is a call for each number.
const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// The body as the target's baseline compiles it.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

/// The body inside a function with AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// The body inside a function with AVX-512.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Simd for Portable {
    const LEVEL: Level = Level::Portable;

    type F32 = Array<f32, Self>;

    #[inline(always)]
    fn widen_f16(_: &[f16], _: &mut [f32]) -> usize {
        0
    }

    #[inline(always)]
    fn narrow_f16(_: &[f32], _: &mut [f16]) -> usize {
        0
    }

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        if FUSED { a.mul_add(b, c) } else { a * b + c }
    }

    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        if FUSED { a.mul_add(b, c) } else { a * b + c }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! fused {
    ($level:ident, $vector:ty, $lanes:literal, $widen:ident, $narrow:ident, $($own:item)*) => {
        impl Simd for $level {
            const LEVEL: Level = Level::$level;

            type F32 = $vector;

            #[inline(always)]
            fn mul_add(a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, c)
            }

            #[inline(always)]
            fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
                a.mul_add(b, c)
            }

            #[inline(always)]
            fn widen_f16(src: &[f16], dst: &mut [f32]) -> usize {
                let vectors = src.chunks_exact($lanes).zip(dst.chunks_exact_mut($lanes));
                // SAFETY: code with this level only runs inside `dispatch_at`, which found the features; chunks are
                // exactly one vector long.
                vectors.map(|(s, d)| unsafe { x86::$widen(s, d) }).count() * $lanes
            }

            #[inline(always)]
            fn narrow_f16(src: &[f32], dst: &mut [f16]) -> usize {
                let vectors = src.chunks_exact($lanes).zip(dst.chunks_exact_mut($lanes));
                // SAFETY: as above.
                vectors.map(|(s, d)| unsafe { x86::$narrow(s, d) }).count() * $lanes
            }

            $($own)*
        }
    };
}

#[cfg(target_arch = "x86_64")]
fused! { Avx2, lanes::Wide256, 8, widen_8, narrow_8, }
#[cfg(target_arch = "x86_64")]
fused! { Avx512, lanes::Wide512, 16, widen_16, narrow_16,
    #[inline(always)]
    fn narrow_bf16(src: &[f32], dst: &mut [bf16]) -> usize {
        let ((src, _), (dst, _)) = (src.as_chunks(), dst.as_chunks_mut());
        // SAFETY: code with this level only runs inside `dispatch_at`, which found the features.
        src.iter().zip(dst).map(|(s, d)| unsafe { x86::round_32(s, d) }).count() * 32
    }

    #[inline(always)]
    fn some_of_16(from: &[u16], rest: u16) -> [u16; LANES] {
        // SAFETY: as above.
        unsafe { x86::some_of_16(from, rest) }
    }

    #[inline(always)]
    fn store_some(all: &[u16; 2 * LANES], to: &mut [u16]) {
        // SAFETY: as above.
        unsafe { x86::store_some(all, to) }
    }
}

/// A loop with its arguments; see the module's documentation.
pub(crate) trait Kernel {
    /// What the loop returns.
    type Output;
    /// No instruction set above this one is worth a copy of the body: see [`Compute::WIDEST`](crate::convert::Compute::WIDEST).
    const WIDEST: Level = Level::Amx;

    /// The body: must be `#[inline(always)]`, or it is compiled without the level's instructions.
    fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `kernel` with the instruction set of [`Level::current`].
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_at(Level::current(), kernel)
}

/// Runs `kernel` with the instruction set of `level`, or with the best of this machine if that is less.
#[inline]
pub(crate) fn dispatch_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        // Constants decide first, so that a body is not compiled for what `WIDEST` leaves out.
        let level = level.min(Level::best());
        if const { K::WIDEST.reaches(Level::Avx512) } && level.reaches(Level::Avx512) {
            // SAFETY: `Level::best()` found every feature that `run_avx512` enables.
            return unsafe { run_avx512(kernel) };
        }
        if const { K::WIDEST.reaches(Level::Avx2) } && level.reaches(Level::Avx2) {
            // SAFETY: `Level::best()` found every feature that `run_avx2` enables.
            return unsafe { run_avx2(kernel) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    run_portable(kernel)
}

/// As the others a function of its own, or every place that dispatches would hold a copy of the body.
#[inline(never)]
pub(crate) fn run_portable<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Portable>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}
