//! Memory from the system, lent out in spans: what the pool of buffers stands on.
//!
//! A span that comes back joins its free neighbours, and the smallest free range that is large enough serves the next
//! request, whatever its element type: a step needs hardly more memory than it holds at one time.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cache line: spans begin at one, so that no vector that is loaded from a multiple of its size crosses two.
const LINE: usize = 64;

/// Segments are huge pages of the system, if it has them: fewer faults and fewer misses of the TLB.
const HUGE: usize = 2 << 20;

/// Least size of a segment, where the system gives that much. Only what is touched costs memory, and what is free in two
/// segments is no room for one buffer: with segments of 64 MiB, a step of ResNet-18 whose buffers have 33 MiB needed 70 MiB
/// more than it held at any time. Elsewhere than on Linux a part of a segment cannot be returned.
const SEGMENT: usize = if cfg!(all(target_os = "linux", target_pointer_width = "64")) { 1 << 30 } else { 64 << 20 };

static ARENA: Mutex<Arena> = Mutex::new(Arena::new());

/// Some initialised bytes of nobody else's, given back when dropped.
#[derive(Debug)]
pub(crate) struct Span {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a span is the only way to its bytes.
unsafe impl Send for Span {}
// SAFETY: as above; a shared span only tells where they are.
unsafe impl Sync for Span {}

impl Span {
    /// At least `bytes` bytes of arbitrary content, aligned to 64.
    pub(crate) fn lend(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(LINE);
        let start = arena().lend(bytes);
        Self { start: NonNull::new(std::ptr::with_exposed_provenance_mut(start)).expect("no segment at 0"), bytes }
    }

    /// Where they begin.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        arena().take_back(self.start.addr().get(), self.bytes);
    }
}

/// Sets how many free bytes are kept.
pub(crate) fn set_limit(bytes: usize) {
    let mut arena = arena();
    arena.limit = bytes;
    if arena.kept > bytes {
        arena.give_up();
    }
}

/// Returns all free memory to the system.
pub(crate) fn empty() {
    arena().give_up();
}

/// Free bytes that are kept.
pub(crate) fn kept() -> usize {
    arena().kept
}

fn arena() -> MutexGuard<'static, Arena> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Free bytes in a row.
#[derive(Clone, Copy)]
struct Free {
    bytes: usize,
    /// Whether the system holds pages for them; otherwise they are as good as new.
    kept: bool,
}

/// What the system gave.
#[derive(Clone, Copy)]
struct Segment {
    bytes: usize,
    /// What was asked for, of which the segment is the part from a huge page's boundary on.
    whole: (NonNull<u8>, Layout),
}

// SAFETY: as for a span.
unsafe impl Send for Segment {}

impl Segment {
    /// Zeros from the system, untouched, and where they begin; just as many as are needed where it does not give more.
    fn new(bytes: usize) -> (usize, Self) {
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
    unsafe fn free(self) {
        // SAFETY: this is what `new` got; the caller's duty.
        unsafe { dealloc(self.whole.0.as_ptr(), self.whole.1) };
    }
}

struct Arena {
    /// By where they begin.
    segments: BTreeMap<usize, Segment>,
    /// Free ranges by where they begin. Neighbours differ in `kept`.
    free: BTreeMap<usize, Free>,
    /// The kept ones again, by size.
    sizes: BTreeSet<(usize, usize)>,
    kept: usize,
    limit: usize,
}

impl Arena {
    const fn new() -> Self {
        Self { segments: BTreeMap::new(), free: BTreeMap::new(), sizes: BTreeSet::new(), kept: 0, limit: 4 << 30 }
    }

    fn lend(&mut self, bytes: usize) -> usize {
        let start = self.best_fit(bytes).or_else(|| self.run(bytes)).unwrap_or_else(|| self.grow(bytes));
        let (mut at, mut wanted) = (start, bytes);
        // A run is made of several ranges where only some are kept.
        while wanted > 0 {
            let Free { bytes: found, kept } = self.remove(at);
            let taken = found.min(wanted);
            if found > taken {
                self.insert(at + taken, Free { bytes: found - taken, kept });
            }
            (at, wanted) = (at + taken, wanted - taken);
        }
        start
    }

    /// The smallest kept range with room for `bytes` bytes; of several the one behind the others, which left 32 MiB less of a
    /// step of ResNet-18 between spans than the first one did.
    fn best_fit(&self, bytes: usize) -> Option<usize> {
        let &(least, _) = self.sizes.range((bytes, 0)..).next()?;
        self.sizes.range((least, 0)..=(least, usize::MAX)).next_back().map(|&(_, start)| start)
    }

    /// Where `bytes` bytes lie in a row, with as few as possible that would be touched anew.
    fn run(&self, bytes: usize) -> Option<usize> {
        let starts = self.free.keys().filter_map(|&start| Some((self.fresh(start, bytes)?, start)));
        starts.min().map(|(_, start)| start)
    }

    /// How many of the `bytes` bytes from `start` on would be touched anew, if all are free.
    fn fresh(&self, start: usize, bytes: usize) -> Option<usize> {
        let (mut end, mut fresh) = (start, 0);
        for (&at, range) in self.free.range(start..start + bytes) {
            if at != end || (at != start && self.segments.contains_key(&at)) {
                break;
            }
            end += range.bytes;
            fresh += if range.kept { 0 } else { range.bytes.min(start + bytes - at) };
        }
        (end >= start + bytes).then_some(fresh)
    }

    /// A new segment with room for `bytes` bytes.
    fn grow(&mut self, bytes: usize) -> usize {
        let (start, segment) = Segment::new(bytes);
        self.segments.insert(start, segment);
        self.insert(start, Free { bytes: segment.bytes, kept: false });
        start
    }

    fn take_back(&mut self, start: usize, bytes: usize) {
        let keep = self.kept + bytes <= self.limit;
        self.join(start, bytes, true);
        if !keep {
            self.give_up();
        }
    }

    /// Makes bytes free that were not, together with neighbours of their kind.
    fn join(&mut self, mut start: usize, mut bytes: usize, kept: bool) {
        if !self.segments.contains_key(&start)
            && let Some((&before, range)) = self.free.range(..start).next_back()
            && (before + range.bytes, range.kept) == (start, kept)
        {
            bytes += self.remove(before).bytes;
            start = before;
        }
        let end = start + bytes;
        if !self.segments.contains_key(&end) && self.free.get(&end).is_some_and(|range| range.kept == kept) {
            bytes += self.remove(end).bytes;
        }
        self.insert(start, Free { bytes, kept });
    }

    /// Returns the pages of all free ranges to the system, and whole segments where nothing is lent.
    fn give_up(&mut self) {
        let kept: Vec<(usize, usize)> = self.sizes.iter().copied().collect();
        for (bytes, start) in kept {
            self.remove(start);
            let kept = !system::give_up(start, bytes);
            self.join(start, bytes, kept);
        }
        let idle = |(&start, segment): (&usize, &Segment)| {
            let ranges = self.free.range(start..start + segment.bytes);
            (ranges.map(|(_, range)| range.bytes).sum::<usize>() == segment.bytes).then_some((start, *segment))
        };
        for (start, segment) in self.segments.iter().filter_map(idle).collect::<Vec<_>>() {
            let ranges: Vec<usize> = self.free.range(start..start + segment.bytes).map(|(&at, _)| at).collect();
            for at in ranges {
                self.remove(at);
            }
            self.segments.remove(&start);
            // SAFETY: all of it is free.
            unsafe { segment.free() };
        }
    }

    fn insert(&mut self, start: usize, range: Free) {
        self.free.insert(start, range);
        if range.kept {
            self.sizes.insert((range.bytes, start));
            self.kept += range.bytes;
        }
    }

    fn remove(&mut self, start: usize) -> Free {
        let range = self.free.remove(&start).expect("a free range begins here");
        if range.kept {
            self.sizes.remove(&(range.bytes, start));
            self.kept -= range.bytes;
        }
        range
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::{c_int, c_void};
    use std::ptr::with_exposed_provenance_mut;

    const DONTNEED: c_int = 4;
    const HUGEPAGE: c_int = 14;
    const PAGE: usize = 4096;

    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }

    /// Asks for huge pages, which the system may not have.
    pub(super) fn prefer_huge(start: usize, bytes: usize) {
        // SAFETY: the advice changes no content.
        unsafe { madvise(with_exposed_provenance_mut(start), bytes, HUGEPAGE) };
    }

    /// Returns the pages inside to the system: they read as zeros from now on.
    pub(super) fn give_up(start: usize, bytes: usize) -> bool {
        let first = start.next_multiple_of(PAGE);
        let whole = (start + bytes).saturating_sub(first) / PAGE * PAGE;
        // SAFETY: nobody holds these bytes, and zeros are as good as any content.
        whole == 0 || unsafe { madvise(with_exposed_provenance_mut(first), whole, DONTNEED) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn prefer_huge(_: usize, _: usize) {}

    /// Elsewhere only whole segments can be returned.
    pub(super) fn give_up(_: usize, _: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, LINE};

    /// Overlaps of ranges, sums and indices that do not agree.
    fn check(arena: &Arena, lent: &[(usize, usize)]) {
        let mut ranges: Vec<(usize, usize)> = arena.free.iter().map(|(&at, range)| (at, range.bytes)).collect();
        ranges.extend(lent);
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "overlap");
        let total: usize = ranges.iter().map(|range| range.1).sum();
        assert_eq!(total, arena.segments.values().map(|segment| segment.bytes).sum::<usize>(), "lost bytes");
        let kept: Vec<(usize, usize)> =
            arena.free.iter().filter(|(_, range)| range.kept).map(|(&at, range)| (range.bytes, at)).collect();
        assert_eq!(kept.iter().map(|range| range.0).sum::<usize>(), arena.kept);
        assert!(kept.len() == arena.sizes.len() && kept.iter().all(|range| arena.sizes.contains(range)));
    }

    #[test]
    fn spans_never_overlap_and_nothing_is_lost() {
        let (mut arena, mut lent, mut state) = (Arena::new(), Vec::<(usize, usize)>::new(), 7_u64);
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..3000 {
            match random(200) {
                0 => arena.give_up(),
                kind if kind < 110 || lent.is_empty() => {
                    let most = 1 << (4 + random(14));
                    let bytes = (1 + random(most)) * LINE;
                    lent.push((arena.lend(bytes), bytes));
                    assert_eq!(lent[lent.len() - 1].0 % LINE, 0);
                }
                _ => {
                    let (start, bytes) = lent.swap_remove(random(lent.len()));
                    arena.take_back(start, bytes);
                }
            }
            if round % 16 == 0 {
                check(&arena, &lent);
            }
        }
        lent.drain(..).for_each(|(start, bytes)| arena.take_back(start, bytes));
        check(&arena, &lent);
        assert!(arena.free.values().all(|range| range.bytes > 0));
        arena.give_up();
        assert!(arena.segments.is_empty() && arena.free.is_empty() && arena.kept == 0);
    }

    #[test]
    fn what_came_back_serves_first_and_neighbours_join() {
        let mut arena = Arena::new();
        let spans: Vec<usize> = (0..4).map(|_| arena.lend(1 << 16)).collect();
        assert_eq!(arena.kept, 0);
        arena.take_back(spans[1], 1 << 16);
        assert_eq!(arena.lend(1 << 15), spans[1]);
        arena.take_back(spans[1], 1 << 15);
        arena.take_back(spans[2], 1 << 16);
        assert_eq!((arena.kept, arena.sizes.len()), (1 << 17, 1));
        assert_eq!(arena.lend(1 << 17), spans[1], "two that joined");
        arena.take_back(spans[3], 1 << 16);
        assert_eq!(arena.lend(1 << 17), spans[3], "the last and new pages behind it");
        arena.take_back(spans[0], 1 << 16);
        arena.limit = 1 << 17;
        arena.take_back(spans[1], 1 << 17);
        assert_eq!(arena.kept, 0, "more than the limit");
        assert_eq!(arena.lend(3 << 16), spans[0]);
        arena.take_back(spans[0], 3 << 16);
        arena.take_back(spans[3], 1 << 17);
        arena.give_up();
        assert!(arena.segments.is_empty());
    }
}
