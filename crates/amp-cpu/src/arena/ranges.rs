//! Which bytes of the segments are free.

use super::segment::{Segment, system};
use std::collections::{BTreeMap, BTreeSet};

/// Requests of this many bytes and more take the first free range with room: the activations of a step then lie in the order of
/// their layers and come back as one range. Smaller requests take the range that fits best. A step of ResNet-18 in BF16 at batch
/// 32 holds 112 MiB and spans 116 of them; with the best fit for requests of up to 4 MiB it spanned 121.
const LARGE: usize = 1 << 20;

/// Free bytes in a row.
#[derive(Clone, Copy)]
pub(super) struct Free {
    pub bytes: usize,
    /// Whether the system holds pages for them; otherwise they are as good as new.
    pub kept: bool,
}

/// Segments of which some ranges are lent and the others free.
pub(super) struct Arena {
    /// By where they begin.
    pub segments: BTreeMap<usize, Segment>,
    /// Free ranges by where they begin. Neighbours differ in `kept`.
    pub free: BTreeMap<usize, Free>,
    /// The kept ones again, by size.
    pub sizes: BTreeSet<(usize, usize)>,
    pub kept: usize,
}

impl Arena {
    pub const fn new() -> Self {
        Self { segments: BTreeMap::new(), free: BTreeMap::new(), sizes: BTreeSet::new(), kept: 0 }
    }

    /// Where `bytes` bytes begin that are nobody else's until they are joined again; `None` if the system has no more.
    pub fn lend(&mut self, bytes: usize) -> Option<usize> {
        let kept = if bytes >= LARGE { self.first_fit(bytes) } else { self.best_fit(bytes) };
        let start = kept.or_else(|| self.run(bytes)).or_else(|| self.grow(bytes))?;
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
        Some(start)
    }

    /// The first kept range with room for `bytes` bytes.
    fn first_fit(&self, bytes: usize) -> Option<usize> {
        self.free.iter().find(|(_, range)| range.kept && range.bytes >= bytes).map(|(&start, _)| start)
    }

    /// The smallest kept range with room for `bytes` bytes; of several the last one, which left 32 MiB less of a step of
    /// ResNet-18 unused between spans than the first one did.
    fn best_fit(&self, bytes: usize) -> Option<usize> {
        let &(least, _) = self.sizes.range((bytes, 0)..).next()?;
        self.sizes.range((least, 0)..=(least, usize::MAX)).next_back().map(|&(_, start)| start)
    }

    /// The start of `bytes` free bytes in a row, chosen so that as few fresh pages as possible are touched.
    fn run(&self, bytes: usize) -> Option<usize> {
        let starts = self.free.keys().filter_map(|&start| Some((self.fresh(start, bytes)?, start)));
        starts.min().map(|(_, start)| start)
    }

    /// How many of the `bytes` bytes from `start` on are fresh pages; `None` unless all of them are free.
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
    fn grow(&mut self, bytes: usize) -> Option<usize> {
        let (start, segment) = Segment::new(bytes)?;
        self.segments.insert(start, segment);
        self.insert(start, Free { bytes: segment.bytes, kept: false });
        Some(start)
    }

    /// Makes bytes free that were not, together with neighbours of their kind.
    pub fn join(&mut self, mut start: usize, mut bytes: usize, kept: bool) {
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
    pub fn give_up(&mut self) {
        let kept: Vec<(usize, usize)> = self.sizes.iter().copied().collect();
        for (bytes, start) in kept {
            self.remove(start);
            // SAFETY: a free range lies in one segment (`join` stops at their ends), and nobody holds it.
            let kept = !unsafe { system::release_pages(start, bytes) };
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
            // SAFETY: all of it was free, and its ranges were removed above, so that none of it can be lent any more.
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
