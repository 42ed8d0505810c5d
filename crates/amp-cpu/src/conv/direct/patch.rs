//! What a pixel reads, ordered so that neighbouring rows share what they load.

use super::super::lattice::Phase;
use super::super::pack::Weights;
use super::planes::Planes;
use crate::gemm::kernel::Full;

/// Lines that lie below each other: rows of pixels that are summed together load them once.
pub(super) const TRIPLE: usize = 3;

/// The places of a phase's patch, as offsets of the first pixel's.
pub(super) struct Patch {
    /// Places of which the two below follow.
    pub triples: Vec<usize>,
    /// All others.
    pub singles: Vec<usize>,
    /// The greatest offset.
    pub last: usize,
    /// The (channel, place in the kernel) of each: of the triples, then of the singles.
    pub elements: Vec<(usize, usize)>,
}

impl Patch {
    /// The places of some channels.
    pub(super) fn new(planes: &Planes, phase: &Phase, channels: usize) -> Self {
        let taps = (0..channels).flat_map(|channel| phase.taps.iter().map(move |tap| (channel, tap)));
        let mut places: Vec<(usize, (usize, usize))> =
            taps.map(|(channel, tap)| (planes.offset(channel, tap), (channel, tap.at))).collect();
        places.sort_unstable();
        let mut used = vec![false; places.len()];
        let last = places.last().map_or(0, |place| place.0);
        let mut patch = Self { triples: Vec::new(), singles: Vec::new(), last, elements: Vec::new() };
        let mut rest = Vec::new();
        for (i, &(offset, element)) in places.iter().enumerate() {
            let find = |offset: usize| places.binary_search_by_key(&offset, |place| place.0).ok();
            let below = (find(offset + planes.line), find(offset + 2 * planes.line));
            match below {
                _ if used[i] => {}
                (Some(second), Some(third)) if !used[second] && !used[third] => {
                    (used[second], used[third]) = (true, true);
                    patch.triples.push(offset);
                    patch.elements.extend([element, places[second].1, places[third].1]);
                }
                _ => {
                    patch.singles.push(offset);
                    rest.push(element);
                }
            }
        }
        patch.elements.append(&mut rest);
        patch
    }

    /// The offsets of all places in this order.
    pub(super) fn offsets(&self, line: usize) -> Vec<usize> {
        let triples = self.triples.iter().flat_map(|&first| (0..TRIPLE).map(move |i| first + i * line));
        triples.chain(self.singles.iter().copied()).collect()
    }

    /// The kernel of one output in this order.
    pub(super) fn weights<'a, T: Full>(&'a self, from: &Weights<'a, T>, output: usize) -> impl Iterator<Item = T> + 'a {
        let (from, next) = (&from.data[output * from.outputs[1]..], from.inputs[1]);
        self.elements.iter().map(move |&(channel, at)| from[channel * next + at])
    }
}
