//! Memory as the system gives it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Size of a huge page. Segments consist of them where the system has them: fewer page faults and fewer misses of the TLB.
const HUGE: usize = 2 << 20;

/// Least size of a segment, where the system gives that much. A buffer cannot span two segments: with segments of 64 MiB, a
/// step of ResNet-18, whose buffers have 33 MiB, needed 70 MiB more than it held at any time. Pages cost nothing until they are
/// touched. Only on Linux can parts of a segment be returned, so segments are smaller elsewhere.
const SEGMENT: usize = if cfg!(all(target_os = "linux", target_pointer_width = "64")) { 1 << 30 } else { 64 << 20 };

/// Memory that the system gave in one piece.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub bytes: usize,
    /// The allocation; the segment is the part of it from a huge page's boundary on.
    whole: (NonNull<u8>, Layout),
}

// SAFETY: the pointer names an allocation that is tied to no thread, and is only used to free it.
unsafe impl Send for Segment {}

impl Segment {
    /// At least `bytes` bytes of zeros from the system and where they begin: a [`SEGMENT`] if it gives that much, otherwise no
    /// more than needed; `None` if it has not got these either.
    pub fn new(bytes: usize) -> Option<(usize, Self)> {
        // Allocators zero memory of a larger alignment by writing to it; that of the usual alignment is fresh pages.
        const USUAL: usize = 2 * size_of::<usize>();
        let layout =
            |bytes| Layout::from_size_align(bytes + HUGE, USUAL).expect("callers ask for what a machine may have");
        // SAFETY: the layout is not empty.
        let of_system = |bytes| NonNull::new(unsafe { alloc_zeroed(layout(bytes)) });
        let needed = bytes.next_multiple_of(HUGE);
        let generous = needed.max(SEGMENT);
        let (bytes, whole) = match of_system(generous) {
            Some(whole) => (generous, whole),
            None => (needed, of_system(needed)?),
        };
        let layout = layout(bytes);
        let start = whole.as_ptr().expose_provenance().next_multiple_of(HUGE);
        system::prefer_huge(start, bytes);
        Some((start, Self { bytes, whole: (whole, layout) }))
    }

    /// Returns it to the system.
    ///
    /// # Safety
    /// Nothing of it may be lent.
    pub unsafe fn free(self) {
        // SAFETY: `new` got it with this layout, and nobody holds any of it (caller).
        unsafe { dealloc(self.whole.0.as_ptr(), self.whole.1) };
    }
}

#[cfg(target_os = "linux")]
pub(super) mod system {
    use std::ffi::{c_int, c_void};
    use std::ptr::with_exposed_provenance_mut;

    const DONTNEED: c_int = 4;
    const HUGEPAGE: c_int = 14;
    /// The largest page size that systems are built with. The system returns whole pages: with a smaller size here, pages that
    /// also hold lent bytes behind the end of a range would be lost.
    const PAGE: usize = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { 4 << 10 } else { 64 << 10 };

    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }

    /// Asks for huge pages, which the system may not have.
    pub fn prefer_huge(start: usize, bytes: usize) {
        // SAFETY: this advice changes no content, whatever the address.
        unsafe { madvise(with_exposed_provenance_mut(start), bytes, HUGEPAGE) };
    }

    /// Returns the whole pages among these bytes to the system, which read as zeros from now on; returns whether it did.
    ///
    /// # Safety
    /// The bytes must lie in one [`Segment`](super::Segment), and nobody may hold any of them.
    pub unsafe fn release_pages(start: usize, bytes: usize) -> bool {
        let first = start.next_multiple_of(PAGE);
        let whole = (start + bytes).saturating_sub(first) / PAGE * PAGE;
        // SAFETY: the pages lie inside of the range, which is mapped memory that nobody holds (caller), so nobody sees that its
        // content becomes zeros.
        whole == 0 || unsafe { madvise(with_exposed_provenance_mut(first), whole, DONTNEED) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) mod system {
    pub fn prefer_huge(_: usize, _: usize) {}

    /// Elsewhere only whole segments can be returned.
    ///
    /// # Safety
    /// None is needed here: it does nothing.
    pub unsafe fn release_pages(_: usize, _: usize) -> bool {
        false
    }
}
