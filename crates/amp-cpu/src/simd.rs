//! One kernel body, compiled once per instruction set and chosen at run time.
//!
//! A kernel is a struct that holds its arguments and implements [`Kernel`]; [`dispatch`] runs its body inside a
//! function that may use the best instruction set of this machine. Bodies are plain loops that LLVM vectorises, so
//! `run` and everything it calls per element must be `#[inline(always)]`.
//!
//! `AMP_CPU=portable|avx2|avx512` forces a lower level; a level that the machine lacks is replaced by the best it has.

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
}

impl Level {
    /// All levels, from the least to the most.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The level that kernels of this process use.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| Self::forced().map_or(Self::best(), |level| level.min(Self::best())))
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
            true if avx512 => Self::Avx512,
            true => Self::Avx2,
            false => Self::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::Portable
    }

    fn forced() -> Option<Self> {
        match std::env::var("AMP_CPU").ok()?.as_str() {
            "portable" => Some(Self::Portable),
            "avx2" => Some(Self::Avx2),
            "avx512" => Some(Self::Avx512),
            _ => None,
        }
    }
}

/// The operations whose best form depends on the level; all else is left to LLVM.
pub trait Simd: Copy + 'static {
    /// `a * b + c`, fused where that is one instruction.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;

    /// `a * b + c` in F64, fused where that is one instruction.
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64;
}

/// Plain Rust.
#[derive(Clone, Copy)]
pub struct Portable;

/// Anything with fused multiply-add.
#[derive(Clone, Copy)]
pub struct Fused;

impl Simd for Portable {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }

    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
}

impl Simd for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

/// A loop with its arguments; see the module's documentation.
pub trait Kernel {
    /// What the loop returns.
    type Output;

    /// The body: must be `#[inline(always)]`, or it is compiled without the level's instructions.
    fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `kernel` with the instruction set of [`Level::current`].
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_at(Level::current(), kernel)
}

/// Runs `kernel` with the instruction set of `level`, or with the best of this machine if that is less.
#[inline]
pub fn dispatch_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match level.min(Level::best()) {
        // SAFETY: `Level::best()` found every feature that `run_avx512` enables.
        Level::Avx512 => return unsafe { run_avx512(kernel) },
        // SAFETY: `Level::best()` found every feature that `run_avx2` enables.
        Level::Avx2 => return unsafe { run_avx2(kernel) },
        Level::Portable => {}
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    kernel.run::<Portable>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}
