//! Memory from the system, lent out in spans: what the pool of buffers stands on.
//!
//! A span that comes back joins its free neighbours, and the smallest free range that is large enough serves the next
//! request, whatever its element type: a step needs hardly more memory than it holds at one time. What outlives a step
//! ([`lasting`]) lies apart, or it would stand between the buffers of every step: moments and 16-bit weights among the
//! activations cost a step of ResNet-18 at batch 128 60 MiB of 434, and one of GPT 20 of 251.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
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

/// Ranges of this many bytes and more are taken from the first free one with room, where the activations of a step then lie in
/// the order of their layers and come back in one piece; smaller ones fill what fits them best. At batch 128 of ResNet-18 a
/// step spans 346 MiB of the 322 that it holds, and 373 with the best fit for all.
const LARGE: usize = 4 << 20;

/// Spans of up to this many bytes are set aside as they come back, [`ASIDE`] of them at most, for requests of the same size: in
/// steps of small models finding and joining ranges was a tenth of the instructions beside the kernels'. A larger request has
/// them join first, so that they stand in nobody's way.
const SMALL: usize = 64 << 10;
const ASIDE: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

thread_local! {
    static LASTING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`; the buffers that this thread takes in it lie apart from those that come and go with every step.
pub fn lasting<R>(body: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            LASTING.set(self.0);
        }
    }
    let _before = Before(LASTING.replace(true));
    body()
}

/// Some initialised bytes of nobody else's, given back when dropped.
#[derive(Debug)]
pub(crate) struct Span {
    start: NonNull<u8>,
    bytes: usize,
    lasting: bool,
}

// SAFETY: a span is the only way to its bytes.
unsafe impl Send for Span {}
// SAFETY: as above; a shared span only tells where they are.
unsafe impl Sync for Span {}

impl Span {
    /// At least `bytes` bytes of arbitrary content, aligned to 64.
    pub(crate) fn lend(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(LINE);
        let lasting = LASTING.get();
        let start = std::ptr::with_exposed_provenance_mut(pool().lend(bytes, lasting));
        Self { start: NonNull::new(start).expect("no segment at 0"), bytes, lasting }
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
        pool().take_back(self.start.addr().get(), self.bytes, self.lasting);
    }
}

/// Sets how many free bytes are kept.
pub(crate) fn set_limit(bytes: usize) {
    let mut pool = pool();
    pool.limit = bytes;
    pool.obey_limit();
}

/// Returns all free memory to the system.
pub(crate) fn empty() {
    pool().give_up();
}

/// Free bytes that are kept.
pub(crate) fn kept() -> usize {
    pool().kept()
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The memory of a step's buffers, and that of lasting ones.
struct Pool {
    step: Arena,
    lasting: Arena,
    /// Spans of the step by where they begin and how long they are, the last one to come back at the end.
    aside: Vec<(usize, usize)>,
    limit: usize,
}

impl Pool {
    const fn new() -> Self {
        Self { step: Arena::new(), lasting: Arena::new(), aside: Vec::new(), limit: 4 << 30 }
    }

    fn arena(&mut self, lasting: bool) -> &mut Arena {
        if lasting { &mut self.lasting } else { &mut self.step }
    }

    fn kept(&self) -> usize {
        let aside: usize = self.aside.iter().map(|(_, bytes)| bytes).sum();
        self.step.kept + self.lasting.kept + aside
    }

    fn lend(&mut self, bytes: usize, lasting: bool) -> usize {
        if !lasting {
            match self.aside.iter().rposition(|&(_, size)| size == bytes) {
                Some(last) => return self.aside.swap_remove(last).0,
                None if bytes > SMALL => self.settle(),
                None => (),
            }
        }
        self.arena(lasting).lend(bytes)
    }

    fn take_back(&mut self, start: usize, bytes: usize, lasting: bool) {
        if lasting || bytes > SMALL {
            self.arena(lasting).join(start, bytes, true);
        } else {
            if self.aside.len() == ASIDE {
                self.settle();
            }
            self.aside.push((start, bytes));
        }
        self.obey_limit();
    }

    /// Has all that is set aside join its neighbours.
    fn settle(&mut self) {
        for (start, bytes) in self.aside.drain(..) {
            self.step.join(start, bytes, true);
        }
    }

    fn obey_limit(&mut self) {
        if self.kept() > self.limit {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.settle();
        self.step.give_up();
        self.lasting.give_up();
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
}

impl Arena {
    const fn new() -> Self {
        Self { segments: BTreeMap::new(), free: BTreeMap::new(), sizes: BTreeSet::new(), kept: 0 }
    }

    fn lend(&mut self, bytes: usize) -> usize {
        let kept = if bytes >= LARGE { self.first_fit(bytes) } else { self.best_fit(bytes) };
        let start = kept.or_else(|| self.run(bytes)).unwrap_or_else(|| self.grow(bytes));
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

    /// The first kept range with room for `bytes` bytes.
    fn first_fit(&self, bytes: usize) -> Option<usize> {
        self.free.iter().find(|(_, range)| range.kept && range.bytes >= bytes).map(|(&start, _)| start)
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
    use super::{Arena, LINE, Pool, lasting};

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
                    arena.join(start, bytes, true);
                }
            }
            if round % 16 == 0 {
                check(&arena, &lent);
            }
        }
        lent.drain(..).for_each(|(start, bytes)| arena.join(start, bytes, true));
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
        arena.join(spans[1], 1 << 16, true);
        assert_eq!(arena.lend(1 << 15), spans[1]);
        arena.join(spans[1], 1 << 15, true);
        arena.join(spans[2], 1 << 16, true);
        assert_eq!((arena.kept, arena.sizes.len()), (1 << 17, 1));
        assert_eq!(arena.lend(1 << 17), spans[1], "two that joined");
        arena.join(spans[3], 1 << 16, true);
        assert_eq!(arena.lend(1 << 17), spans[3], "the last and new pages behind it");
        arena.join(spans[0], 1 << 16, true);
        arena.join(spans[1], 1 << 17, true);
        arena.give_up();
        assert_eq!(arena.kept, 0);
        assert_eq!(arena.lend(3 << 16), spans[0]);
        arena.join(spans[0], 3 << 16, true);
        arena.join(spans[3], 1 << 17, true);
        arena.give_up();
        assert!(arena.segments.is_empty());
    }

    #[test]
    fn large_spans_take_the_first_range_with_room_and_small_ones_the_tightest() {
        let mut arena = Arena::new();
        let wide = arena.lend(16 << 20);
        let between = arena.lend(1 << 20);
        let tight = arena.lend(8 << 20);
        arena.lend(1 << 20);
        arena.join(wide, 16 << 20, true);
        arena.join(tight, 8 << 20, true);
        assert_eq!(arena.lend(8 << 20), wide);
        assert_eq!((arena.lend(1 << 20), between), (tight, wide + (16 << 20)));
    }

    #[test]
    fn no_more_than_the_limit_is_kept_of_both_kinds() {
        let mut pool = Pool::new();
        pool.limit = 3 << 16;
        let mut spans = [false, true, false, true].map(|lasting| (pool.lend(1 << 16, lasting), lasting));
        let keeps = [1 << 16, 2 << 16, 3 << 16, 0];
        for ((start, lasting), kept) in spans.into_iter().zip(keeps) {
            pool.take_back(start, 1 << 16, lasting);
            assert_eq!(pool.kept(), kept);
        }
        assert!(pool.step.segments.is_empty() && pool.lasting.segments.is_empty());
        spans = spans.map(|(_, lasting)| (pool.lend(1 << 16, lasting), lasting));
        pool.take_back(spans[0].0, 1 << 16, false);
        pool.limit = 0;
        pool.obey_limit();
        assert_eq!(pool.kept(), 0);
    }

    #[test]
    fn lasting_spans_lie_apart_and_the_rest_of_the_thread_does_not_notice() {
        let near = |a: &super::Span, b: &super::Span| a.lasting == b.lasting;
        let (before, inside) = (super::Span::lend(64), lasting(|| lasting(|| super::Span::lend(64))));
        assert!(!near(&before, &inside) && inside.lasting);
        assert!(std::panic::catch_unwind(|| lasting(|| panic!("on purpose"))).is_err());
        assert!(near(&before, &super::Span::lend(64)));
    }

    /// Steps of `layers` layers: what the forward pass keeps, gradients that take its place, and one lasting buffer each in the
    /// first step. Returns the most bytes that were lent at one time.
    fn step(pool: &mut Pool, layers: usize, rows: usize, first: bool) -> usize {
        let (mut kept, mut grads, mut lent, mut most) = (Vec::new(), Vec::new(), 0, 0);
        let mut lend = |pool: &mut Pool, bytes: usize, lent: &mut usize| {
            *lent += bytes;
            most = most.max(*lent);
            (pool.lend(bytes, false), bytes)
        };
        for layer in 0..layers {
            kept.push(lend(pool, rows * LINE * (1 + layer % 3), &mut lent));
            if first {
                pool.lend(1 << 20, true);
            }
        }
        while let Some((start, bytes)) = kept.pop() {
            let slope = lend(pool, 2 * bytes, &mut lent);
            grads.push(lend(pool, 1 << 20, &mut lent));
            for (start, bytes) in [slope, (start, bytes)] {
                pool.take_back(start, bytes, false);
                lent -= bytes;
            }
        }
        grads.into_iter().for_each(|(start, bytes)| pool.take_back(start, bytes, false));
        most
    }

    #[test]
    fn steps_of_any_size_need_little_more_than_the_largest() {
        let (mut pool, mut state, mut most) = (Pool::new(), 1_u64, 0);
        for number in 0..600 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rows = 1 + (state >> 33) as usize % 40_000;
            most = most.max(step(&mut pool, 24, rows, number == 0));
            // Between steps everything of theirs is free, in one piece.
            pool.settle();
            assert_eq!(pool.step.sizes.len(), 1);
            assert!(pool.kept() * 4 <= most * 5, "step {number}: {} bytes are kept, {most} were needed", pool.kept());
        }
        assert_eq!((pool.step.segments.len(), pool.lasting.segments.len()), (1, 1));
        pool.give_up();
        assert_eq!((pool.kept(), pool.step.segments.len()), (0, 0));
    }
}
