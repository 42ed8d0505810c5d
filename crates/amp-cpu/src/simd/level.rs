//! Which instruction set kernels use.

use super::processor::is_amd;
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
    /// The same with AMX for BF16, which products of BF16 use, and matrix products of F16 as sums of such; other kernels run as
    /// with [`Self::Avx512`].
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

    /// As `AMP_CPU` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }
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
