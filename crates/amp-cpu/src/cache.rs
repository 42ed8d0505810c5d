//! A cache of buffers: in steady state a training step touches no new page.
//!
//! A fresh 4 KiB page costs about 0.8 µs, as much as moving 10-30 KB through memory, so buffers of a page and more are
//! kept when they are dropped and handed out again. Contents of a reused buffer are those of its last user: [`take`] is
//! for outputs that a kernel overwrites in full, [`zeroed`] for accumulators.

use crate::arena::{self, Span};
use crate::block::Block;
use half::{bf16, f16};

/// Below this many bytes the allocator's own caches are faster.
const LEAST_BYTES: usize = 4096;

/// Sets how many bytes of unused buffers are kept (4 GiB by default), and frees the kept ones if they are more.
pub fn set_cache_limit(bytes: usize) {
    arena::set_limit(bytes);
}

/// Frees every unused buffer (`torch.cuda.empty_cache`).
pub fn empty_cache() {
    arena::empty();
}

/// Bytes of unused buffers that are kept.
pub fn cached_bytes() -> usize {
    arena::kept()
}

/// Whether a buffer of `bytes` bytes could be had now; unused buffers are given up for it where they must be.
pub fn has_room(bytes: usize) -> bool {
    // Smaller ones are not worth asking the system twice.
    const LARGE: usize = 1 << 28;
    if bytes > isize::MAX as usize {
        return false;
    }
    let fits = || Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    bytes < LARGE || fits() || {
        empty_cache();
        fits()
    }
}

/// A buffer of `len` elements with arbitrary contents.
pub(crate) fn take<T: Pooled>(len: usize) -> Block<T> {
    let bytes = len * size_of::<T>();
    if bytes >= LEAST_BYTES {
        return Block::in_span(Span::lend(bytes), len);
    }
    // Not `vec!`, which asks for zeros: those of glibc do not come from a thread's own cache.
    let mut small = Vec::with_capacity(len);
    small.resize(len, T::default());
    small.into()
}

/// A buffer of `len` zeros.
pub(crate) fn zeroed<T: Pooled>(len: usize) -> Block<T> {
    let mut block = take(len);
    block.fill(T::default());
    block
}

/// What the pool's memory can hold.
///
/// # Safety
/// Zero bits must be a value, any bits where `ANY_BITS` says so; the alignment is 64 at most.
pub unsafe trait Pooled: Clone + Default + 'static {
    /// Whether every pattern of bits is a value.
    const ANY_BITS: bool = true;
}

// SAFETY: numbers have no invalid bits.
unsafe impl Pooled for f16 {}
// SAFETY: as above.
unsafe impl Pooled for bf16 {}
// SAFETY: as above.
unsafe impl Pooled for f32 {}
// SAFETY: as above.
unsafe impl Pooled for f64 {}
// SAFETY: as above.
unsafe impl Pooled for i64 {}
// SAFETY: as above.
unsafe impl Pooled for u8 {}
// SAFETY: 0 is `false`.
unsafe impl Pooled for bool {
    const ANY_BITS: bool = false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Storage};

    #[test]
    fn more_than_any_machine_has_is_refused() {
        assert!(has_room(1 << 20) && has_room(1 << 29));
        assert!(!has_room(1 << 47) && !has_room(isize::MAX as usize));
    }

    #[test]
    fn buffers_come_back_with_the_right_length_and_zeros_when_asked() {
        for len in [0, 1, 511, 512, 10_001] {
            let mut first = take::<f64>(len);
            first.fill(7.0);
            drop(first);
            assert_eq!(*zeroed::<f64>(len), *vec![0.0; len]);
            let bytes = zeroed::<u8>(8 * len);
            assert!(bytes.len() == 8 * len && bytes.iter().all(|&v| v == 0));
            assert_eq!(Storage::unwritten(DType::Bool, 8 * len).len(), 8 * len);
        }
        assert_eq!(take::<f32>(5000).as_ptr() as usize % 64, 0);
    }
}
