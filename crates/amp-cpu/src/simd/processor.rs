//! What the processor says of itself.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Whether AMD made it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_amd() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
}

/// Whether AMD made it.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_amd() -> bool {
    false
}

/// Bytes of a core's L2 cache; 1 MiB where it does not say.
#[cfg(target_arch = "x86_64")]
pub(crate) fn l2_bytes() -> usize {
    /// The extended functions there are, and that of the L2 cache, which has KiB in the upper half of `ecx`.
    const MOST: u32 = 0x8000_0000;
    const L2: u32 = 0x8000_0006;
    static BYTES: OnceLock<usize> = OnceLock::new();
    // Under a hypervisor the instruction takes microseconds.
    *BYTES.get_or_init(|| {
        let kib = if __cpuid(MOST).eax >= L2 { __cpuid(L2).ecx >> 16 } else { 0 };
        if kib == 0 { 1 << 20 } else { (kib as usize) << 10 }
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #[test]
    fn a_cache_is_no_smaller_than_any_ever_was() {
        let bytes = super::l2_bytes();
        assert!((1 << 16..1 << 26).contains(&bytes), "{bytes} bytes");
    }
}
