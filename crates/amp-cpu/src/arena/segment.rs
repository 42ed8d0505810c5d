//! Memory as the system gives it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Segments are huge pages of the system, if it has them: fewer faults and fewer misses of the TLB.
const HUGE: usize = 2 << 20;

/// Least size of a segment, where the system gives that much. Only what is touched costs memory, and what is free in two
/// segments is no room for one buffer: with segments of 64 MiB, a step of ResNet-18 whose buffers have 33 MiB needed 70 MiB
/// more than it held at any time. Elsewhere than on Linux a part of a segment cannot be returned.
const SEGMENT: usize = if cfg!(all(target_os = "linux", target_pointer_width = "64")) { 1 << 30 } else { 64 << 20 };

/// What the system gave.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub bytes: usize,
    /// What was asked for, of which the segment is the part from a huge page's boundary on.
    whole: (NonNull<u8>, Layout),
}

// SAFETY: it says where memory lies that belongs to no thread; an arena, of which only one thread at a time has hold, frees it.
unsafe impl Send for Segment {}

impl Segment {
    /// Zeros from the system, untouched, and where they begin; just as many as are needed where it does not give more.
    pub fn new(bytes: usize) -> (usize, Self) {
        // With no more than the usual alignment the system's zeros are fresh pages; others would be written.
        let layout =
            |bytes| Layout::from_size_align(bytes + HUGE, 16).expect("callers ask for what a machine may have");
        // SAFETY: the layout is not empty.
        let of_system = |bytes| NonNull::new(unsafe { alloc_zeroed(layout(bytes)) });
        let needed = bytes.next_multiple_of(HUGE);
        let generous = needed.max(SEGMENT);
        let (bytes, whole) = match of_system(generous) {
            Some(whole) => (generous, whole),
            None => (needed, of_system(needed).unwrap_or_else(|| handle_alloc_error(layout(needed)))),
        };
        let layout = layout(bytes);
        let start = whole.as_ptr().expose_provenance().next_multiple_of(HUGE);
        system::prefer_huge(start, bytes);
        (start, Self { bytes, whole: (whole, layout) })
    }

    /// Returns it to the system.
    ///
    /// # Safety
    /// Nothing of it may be lent.
    pub unsafe fn free(self) {
        // SAFETY: this is what `new` got; the caller's duty.
        unsafe { dealloc(self.whole.0.as_ptr(), self.whole.1) };
    }
}

#[cfg(target_os = "linux")]
pub(super) mod system {
    use std::ffi::{c_int, c_void};
    use std::ptr::with_exposed_provenance_mut;

    const DONTNEED: c_int = 4;
    const HUGEPAGE: c_int = 14;
    /// The largest page that systems are built with. Where they are larger than one thinks, they are returned whole, with what
    /// is lent behind the end of the range.
    const PAGE: usize = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { 4 << 10 } else { 64 << 10 };

    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }

    /// Asks for huge pages, which the system may not have.
    pub fn prefer_huge(start: usize, bytes: usize) {
        // SAFETY: the advice changes no content.
        unsafe { madvise(with_exposed_provenance_mut(start), bytes, HUGEPAGE) };
    }

    /// Returns the pages inside to the system: they read as zeros from now on.
    pub fn give_up(start: usize, bytes: usize) -> bool {
        let first = start.next_multiple_of(PAGE);
        let whole = (start + bytes).saturating_sub(first) / PAGE * PAGE;
        // SAFETY: nobody holds these bytes, whole pages of any size that the system may have, and zeros are as good as any
        // content.
        whole == 0 || unsafe { madvise(with_exposed_provenance_mut(first), whole, DONTNEED) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) mod system {
    pub fn prefer_huge(_: usize, _: usize) {}

    /// Elsewhere only whole segments can be returned.
    pub fn give_up(_: usize, _: usize) -> bool {
        false
    }
}
