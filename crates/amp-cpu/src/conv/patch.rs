//! Patches: what a pixel is computed from, cut into blocks of the depth.

use crate::gemm::cut::Cut;

/// A phase's patches.
pub(super) struct Patch {
    /// Number of elements.
    pub depth: usize,
    /// What is summed in one go.
    pub blocks: Vec<Block>,
    /// The pixels, by the taps that read something.
    pub classes: Vec<Class>,
    /// The greatest place, and the greatest index, of each class's pixels.
    pub last: Vec<Pixel>,
    /// The way from one pixel of half a tile to the next, where it is the same everywhere and taps are whole steps: tiles that
    /// want rows at even distances then take them where they lie.
    pub even: Option<usize>,
}

/// Pixels for which the same taps lie inside of the image: the others read zeros, which need not be multiplied.
pub(super) struct Class {
    /// Whether each tap lies inside.
    pub inside: Vec<bool>,
    pub pixels: Vec<Pixel>,
}

/// A pixel that is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pixel {
    /// Where it lies in the scratch plane.
    pub at: usize,
    /// Which one of the band's it is, or [`Self::NONE`].
    pub index: usize,
}

impl Pixel {
    /// The index of a place that is computed with others and belongs to no pixel.
    pub(super) const NONE: usize = usize::MAX;
}

/// A part of the depth.
pub(super) struct Block {
    /// Elements before it.
    pub start: usize,
    /// Number of elements.
    pub depth: usize,
    /// What the pixels of each class read.
    pub runs: Vec<Vec<Run>>,
}

/// Elements that are neighbours in the scratch plane: a part of a patch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// Distance from the pixel.
    pub at: usize,
    /// Number of elements.
    pub len: usize,
    /// Elements of the block before it.
    pub start: usize,
}

impl Patch {
    /// Cuts patches of taps, given as distances from the pixel, into blocks; a tap has `len` elements.
    pub(super) fn new(taps: &[usize], len: usize, classes: Vec<Class>, cut: Cut) -> Self {
        let whole = taps.len() * len;
        let depth = cut.block(whole);
        let block = |start: usize| {
            let end = whole.min(start + depth);
            let runs = classes.iter().map(|class| runs(taps, len, class, start..end)).collect();
            Block { start, depth: end - start, runs }
        };
        let last = |class: &Class| {
            let greatest = |of: fn(&Pixel) -> usize| class.pixels.iter().map(of).max().unwrap_or(0);
            Pixel { at: greatest(|pixel| pixel.at), index: greatest(|pixel| pixel.index) }
        };
        let last = classes.iter().map(last).collect();
        // Patches of nothing are one block, too.
        Self { depth: whole, blocks: (0..whole.max(1)).step_by(depth).map(block).collect(), classes, last, even: None }
    }
}

/// The distance of neighbours among pixels of which `half` a tile at a time lie as far apart, all of them alike.
pub(super) fn evenly(classes: &[Class], half: usize) -> Option<usize> {
    let mut pixels = classes.iter().filter_map(|class| class.pixels.first_chunk::<2>());
    let [first, second] = pixels.next()?;
    let between = second.at.checked_sub(first.at)?;
    let even = |half: &[Pixel]| half.windows(2).all(|pair| pair[1].at == pair[0].at + between);
    let all = |class: &Class| class.pixels.len().is_multiple_of(half) && class.pixels.chunks(half).all(even);
    classes.iter().all(all).then_some(between)
}

/// What the pixels of a class read in a block, joined where it is neighbours.
fn runs(taps: &[usize], len: usize, class: &Class, block: std::ops::Range<usize>) -> Vec<Run> {
    let (mut runs, len): (Vec<Run>, _) = (Vec::new(), len.max(1));
    for tap in (block.start / len..block.end.div_ceil(len)).filter(|&tap| class.inside[tap]) {
        let (first, end) = (block.start.max(tap * len), block.end.min((tap + 1) * len));
        let run = Run { at: taps[tap] + first - tap * len, len: end - first, start: first - block.start };
        match runs.last_mut() {
            Some(last) if last.at + last.len == run.at && last.start + last.len == run.start => last.len += run.len,
            _ => runs.push(run),
        }
    }
    runs
}

impl Block {
    /// Where the steps of a class's pixels lie, from the pixel and along the whole depth.
    pub(super) fn steps(&self, class: usize, step: usize) -> Vec<[usize; 2]> {
        let steps = |run: &Run| {
            let (at, start) = (run.at, self.start + run.start);
            (0..run.len).step_by(step).map(move |i| [at + i, start + i])
        };
        self.runs[class].iter().flat_map(steps).collect()
    }
}
