//! One kernel body, compiled once per instruction set and chosen at run time.
//!
//! A kernel is a struct that holds its arguments and implements `Kernel`; `dispatch` runs its body inside a
//! function that may use the best instruction set of this machine. Bodies are plain loops that LLVM vectorises, so
//! `run` and everything it calls per element must be `#[inline(always)]`.
//!
//! `AMP_CPU=portable|avx2|avx512|avx512bf16|amx` forces a level; one that the machine lacks is replaced by the best it
//! has, and a name that is none is left out of account: both are said once on the standard error stream.

mod lanes;

use half::{bf16, f16};
pub(crate) use lanes::{Array, LANES, Lanes};
use std::sync::OnceLock;

/// Instruction sets that kernels are compiled for, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the target guarantees (SSE2 on x86-64, NEON on AArch64).
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VL.
    Avx512,
    /// The same with AVX512-BF16, which products of BF16 use; other kernels run as with [`Self::Avx512`].
    Avx512Bf16,
    /// The same with AMX for BF16, which products of BF16 use; other kernels run as with [`Self::Avx512`].
    Amx,
}

impl Level {
    /// All levels, from the least to the most.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// The level that kernels of this process use: the fastest, or the one that `AMP_CPU` names.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| Self::choose(Self::forced(), Self::best()))
    }

    /// Whether this is `other` or more.
    pub(crate) const fn reaches(self, other: Self) -> bool {
        self as u8 >= other as u8
    }

    /// This or `other`, whichever is more.
    pub(crate) const fn or(self, other: Self) -> Self {
        if self.reaches(other) { self } else { other }
    }

    fn choose(forced: Option<&Result<Self, String>>, best: Self) -> Self {
        match forced {
            None => Self::fastest(best, is_amd()),
            Some(Ok(level)) if *level <= best => *level,
            Some(Ok(level)) => {
                eprintln!("amp: AMP_CPU={}: this machine has no more than {}", level.name(), best.name());
                best
            }
            Some(Err(name)) => {
                let names = Self::ALL.map(Self::name).join(", ");
                eprintln!("amp: AMP_CPU={name}: not one of {names}; the fastest level of this machine is used");
                Self::fastest(best, is_amd())
            }
        }
    }

    /// The level that is fastest where `best` is the highest: not always that one.
    fn fastest(best: Self, amd: bool) -> Self {
        // On AMD's cores the dot product of BF16 doubles the rate of F32 multiply-adds; on Intel's it was measured slower
        // than converting to F32 first.
        if best == Self::Avx512Bf16 && !amd { Self::Avx512 } else { best }
    }

    /// The highest level of this machine.
    pub fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(Self::detect)
    }

    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match avx2 && is_x86_feature_detected!("f16c") {
            true if avx512 && is_x86_feature_detected!("avx512bf16") => {
                if Self::has_amx() {
                    Self::Amx
                } else {
                    Self::Avx512Bf16
                }
            }
            true if avx512 => Self::Avx512,
            true => Self::Avx2,
            false => Self::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::Portable
    }

    /// A process that is told to do with less neither asks the system for AMX nor tries it.
    #[cfg(target_arch = "x86_64")]
    fn has_amx() -> bool {
        #[cfg(target_os = "linux")]
        return !matches!(Self::forced(), Some(Ok(level)) if *level < Self::Amx) && crate::gemm::amx::is_usable();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// The level that `AMP_CPU` names, or what it says instead.
    fn forced() -> Option<&'static Result<Self, String>> {
        static FORCED: OnceLock<Option<Result<Level, String>>> = OnceLock::new();
        let asked = || std::env::var_os("AMP_CPU").filter(|name| !name.is_empty());
        FORCED.get_or_init(|| Some(Self::named(&asked()?.to_string_lossy()))).as_ref()
    }

    fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| name.into())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn is_amd() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
fn is_amd() -> bool {
    false
}

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

    /// As [`Self::narrow_f16`], for BF16, where that is better than LLVM's vectors.
    #[inline(always)]
    fn narrow_bf16(_: &[f32], _: &mut [bf16]) -> usize {
        0
    }
}

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
        a * b + c
    }

    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
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
fused!(Avx2, lanes::Wide256, 8, widen_8, narrow_8,);
#[cfg(target_arch = "x86_64")]
fused!(
    Avx512,
    lanes::Wide512,
    16,
    widen_16,
    narrow_16,
    #[inline(always)]
    fn narrow_bf16(src: &[f32], dst: &mut [bf16]) -> usize {
        let ((src, _), (dst, _)) = (src.as_chunks(), dst.as_chunks_mut());
        // SAFETY: code with this level only runs inside `dispatch_at`, which found the features.
        src.iter().zip(dst).map(|(s, d)| unsafe { x86::round_32(s, d) }).count() * 32
    }
);

/// One vector of half conversions; callers have checked the features and the length.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU has `avx,f16c`, and both slices hold 8 elements.
    #[inline]
    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn widen_8(src: &[f16], dst: &mut [f32]) {
        // SAFETY: both slices hold 8 elements, and `f16` is 16 bits.
        unsafe { _mm256_storeu_ps(dst.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(src.as_ptr().cast()))) }
    }

    /// # Safety
    /// The CPU has `avx,f16c`, and both slices hold 8 elements.
    #[inline]
    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn narrow_8(src: &[f32], dst: &mut [f16]) {
        // SAFETY: both slices hold 8 elements, and `f16` is 16 bits.
        unsafe {
            let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.as_ptr()));
            _mm_storeu_si128(dst.as_mut_ptr().cast(), rounded);
        }
    }

    /// # Safety
    /// The CPU has `avx512f`, and both slices hold 16 elements.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub unsafe fn widen_16(src: &[f16], dst: &mut [f32]) {
        // SAFETY: both slices hold 16 elements, and `f16` is 16 bits.
        unsafe { _mm512_storeu_ps(dst.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(src.as_ptr().cast()))) }
    }

    /// # Safety
    /// The CPU has `avx512f`, and both slices hold 16 elements.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub unsafe fn narrow_16(src: &[f32], dst: &mut [f16]) {
        // SAFETY: both slices hold 16 elements, and `f16` is 16 bits.
        unsafe {
            let rounded = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(src.as_ptr()));
            _mm256_storeu_si256(dst.as_mut_ptr().cast(), rounded);
        }
    }

    /// Rounds to nearest even by adding, and takes the upper halves of both vectors at once: 7 instructions for 16 elements,
    /// where LLVM's narrowing took 10. A NaN keeps its upper bits and is made a quiet one.
    ///
    /// # Safety
    /// The CPU has `avx512f,avx512bw`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn round_32(src: &[f32; 32], dst: &mut [bf16; 32]) {
        // SAFETY: loads and stores go through references to as many elements, and `bf16` is 16 bits.
        unsafe {
            let [low, high] = [_mm512_loadu_ps(src.as_ptr()), _mm512_loadu_ps(src[16..].as_ptr())].map(|x| {
                let bits = _mm512_castps_si512(x);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
                let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000))
            });
            let upper = _mm512_load_si512(UPPER.0.as_ptr().cast());
            _mm512_storeu_si512(dst.as_mut_ptr().cast(), _mm512_permutex2var_epi16(low, upper, high));
        }
    }

    #[repr(align(64))]
    struct Places([u16; 32]);

    /// Where the upper halves of two vectors of 32-bit elements lie.
    static UPPER: Places = Places({
        let (mut places, mut i) = ([0; 32], 0);
        while i < 32 {
            places[i as usize] = 2 * i + 1;
            i += 1;
        }
        places
    });
}

/// A loop with its arguments; see the module's documentation.
pub(crate) trait Kernel {
    /// What the loop returns.
    type Output;
    /// No instruction set above this one is worth a copy of the body: see [`Compute::WIDEST`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_its_name() {
        for level in Level::ALL {
            assert_eq!(Level::named(level.name()), Ok(level));
        }
        for name in ["AVX2", "avx", "fastest", "avx2 "] {
            assert_eq!(Level::named(name), Err(name.into()));
        }
    }

    #[test]
    fn the_fastest_level_is_chosen_unless_a_lower_one_is_forced() {
        let choose = |forced: &str, best| Level::choose(Some(&Level::named(forced)), best);
        assert_eq!(choose("avx2", Level::Amx), Level::Avx2);
        assert_eq!(choose("amx", Level::Avx512), Level::Avx512);
        assert_eq!(choose("avx512bf16", Level::Avx512Bf16), Level::Avx512Bf16);
        assert_eq!(choose("sse", Level::Avx2), Level::Avx2);
        for best in Level::ALL {
            assert_eq!(Level::fastest(best, true), best);
            let intel = if best == Level::Avx512Bf16 { Level::Avx512 } else { best };
            assert_eq!(Level::fastest(best, false), intel);
        }
    }

    #[test]
    fn a_level_that_cannot_be_had_is_said_once() {
        if std::env::var_os("AMP_CPU").is_some() {
            assert!(Level::current() <= Level::best());
            return;
        }
        let program = std::env::current_exe().expect("the test binary has a path");
        let said = |level: &str| {
            let mut again = std::process::Command::new(&program);
            again.args(["--nocapture", "a_level_that_cannot_be_had_is_said_once"]).env("AMP_CPU", level);
            String::from_utf8(again.output().expect("the test binary starts").stderr).expect("text")
        };
        let unknown = said("fast");
        assert_eq!(unknown.matches("amp: AMP_CPU=fast: not one of portable, avx2,").count(), 1, "{unknown}");
        for level in Level::ALL.into_iter().filter(|level| *level > Level::best() && *level != Level::Amx) {
            assert_eq!(said(level.name()).matches("this machine has no more than").count(), 1);
        }
        assert_eq!(said("portable"), "");
        assert_eq!(said(""), "");
    }
}
