//! Panels: packed vectors, side by side, in the order in which a tile kernel reads them.

use super::kernel::Multiply;
use crate::load::prefetches_lines;
use crate::output::{prefetch, prefetch_at};
use crate::simd::{Kernel, Simd, dispatch};
use crate::transpose::{transpose, transpose_groups};

/// Form of a packed block.
///
/// A panel holds `width` vectors, `group` neighbours along the depth at a time: element `(r, d)` of a panel lies at
/// `(d / group * width + r) * group + d % group`. The depth is padded to a multiple of `step`, the vectors to a
/// multiple of `width`, both with zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel {
    /// Vectors of a panel.
    pub width: usize,
    /// Elements of one vector that lie together.
    pub group: usize,
    /// What the depth is padded to a multiple of; itself a multiple of `group`.
    pub step: usize,
}

impl Panel {
    /// Depth with its padding.
    pub(crate) fn depth(&self, depth: usize) -> usize {
        depth.next_multiple_of(self.step)
    }

    /// Vectors with their padding.
    pub(crate) fn rows(&self, rows: usize) -> usize {
        rows.next_multiple_of(self.width)
    }

    /// Vectors as lines, padded as in this form.
    pub(crate) fn lines(&self) -> Self {
        Self { width: 1, group: 1, step: self.step }
    }

    /// Elements of a packed block.
    pub(crate) fn len(&self, rows: usize, depth: usize) -> usize {
        self.rows(rows) * self.depth(depth)
    }

    /// Turns `width` lines of the padded depth, `stride` apart, into one panel.
    pub(crate) fn interleave<E: Multiply>(&self, lines: &[E], stride: usize, depth: usize, out: &mut [E]) {
        let Self { width, group, .. } = *self;
        match group {
            1 => transpose_groups::<E, 1>(lines, stride, [width, depth], out, width),
            2 => transpose_groups::<E, 2>(lines, stride, [width, depth / 2], out, width),
            32 => transpose_groups::<E, 32>(lines, stride, [width, depth / 32], out, width),
            _ => unreachable!("no kernel has groups of {group}"),
        }
    }

    /// [`Self::interleave`] for lines of any depth, whose padding is not there.
    pub(crate) fn interleave_whole<E: Multiply>(&self, lines: &[E], stride: usize, depth: usize, out: &mut [E]) {
        let Self { width, group, .. } = *self;
        let (groups, rest) = (depth / group, depth % group);
        let (out, padding) = out.split_at_mut(groups * group * width);
        self.interleave(lines, stride, groups * group, out);
        padding.fill(E::default());
        if rest > 0 {
            for (r, to) in padding[..group * width].chunks_exact_mut(group).enumerate() {
                to[..rest].copy_from_slice(&lines[r * stride + groups * group..][..rest]);
            }
        }
    }

    /// Turns lines of neighbouring depths, `stride` apart, into that part of some panels, which are `panel_len` apart.
    ///
    /// `lines` are whole groups, each line as long as the panels are wide together.
    pub(crate) fn interleave_across<E: Multiply>(
        &self,
        lines: &[E],
        stride: usize,
        [groups, panels]: [usize; 2],
        panel_len: usize,
        out: &mut [E],
    ) {
        let Self { width, group, .. } = *self;
        match (group, width) {
            (1 | 2, 32) => {
                dispatch(Across::<E, 32> { lines, stride, groups, panels, width, group, panel_len, out });
            }
            (1 | 2, 12) => {
                dispatch(Across::<E, 12> { lines, stride, groups, panels, width, group, panel_len, out });
            }
            (1 | 2, _) => dispatch(Across::<E, 0> { lines, stride, groups, panels, width, group, panel_len, out }),
            _ => {
                for g in 0..groups {
                    for p in 0..panels {
                        let line = &lines[g * group * stride + p * width..];
                        for next in group..2 * group {
                            prefetch_at(line.as_ptr().wrapping_add(next * stride), width);
                        }
                        let to = &mut out[p * panel_len + g * group * width..][..group * width];
                        transpose(line, stride, [group, width], to, group);
                    }
                }
            }
        }
    }
}

/// [`Panel::interleave_across`] for groups of one or two; `WIDTH` is the width where it is known, else 0.
///
/// The width is a constant where it is known: by a loop of unknown length, interleaving panels of 12 was a seventh of a weight
/// gradient. Panels begin pages apart, in the same sets of the cache: a group of each in turn lost lines before they were full,
/// so four groups of a panel are interleaved at a time. More in `benches/record/findings.md`.
struct Across<'a, E, const WIDTH: usize> {
    lines: &'a [E],
    stride: usize,
    groups: usize,
    panels: usize,
    width: usize,
    group: usize,
    panel_len: usize,
    out: &'a mut [E],
}

impl<E: Multiply, const WIDTH: usize> Kernel for Across<'_, E, WIDTH> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        /// Bytes that are prefetched, about, and groups at most that they may be.
        const AHEAD: usize = 8192;
        const MOST: usize = 16;
        /// Groups of a panel that are written at once: whole cache lines in panels of 12 and 32.
        const BLOCK: usize = 4;
        let width = if WIDTH == 0 { self.width } else { WIDTH };
        let ahead = (AHEAD / (self.group * self.panels * width * size_of::<E>()).max(1)).min(MOST);
        let prefetches = prefetches_lines();
        for first in (0..self.groups).step_by(BLOCK) {
            let block = first..self.groups.min(first + BLOCK);
            let next = self.lines.chunks(self.stride.max(1)).skip((first + ahead) * self.group);
            for line in next.take(block.len() * self.group).filter(|_| prefetches) {
                prefetch(&line[..line.len().min(self.panels * width)]);
            }
            for p in 0..self.panels {
                let to = &mut self.out[p * self.panel_len + first * self.group * width..];
                for (g, to) in block.clone().zip(to.chunks_exact_mut(self.group * width)) {
                    let line = |i: usize| &self.lines[(g * self.group + i) * self.stride + p * width..][..width];
                    if self.group == 1 {
                        to.copy_from_slice(line(0));
                        continue;
                    }
                    let to = to.as_chunks_mut::<2>().0;
                    if WIDTH == 0 {
                        pair(line(0), line(1), to);
                        continue;
                    }
                    // In registers first: stores in between might change what is read next, for all the compiler knows.
                    let mut pairs = [[E::default(); 2]; WIDTH];
                    pair(line(0), line(1), &mut pairs);
                    to.copy_from_slice(&pairs);
                }
            }
        }
    }
}

/// Elements of two lines in turn.
#[inline(always)]
pub(crate) fn pair<E: Copy>(even: &[E], odd: &[E], to: &mut [[E; 2]]) {
    for ((to, &even), &odd) in to.iter_mut().zip(even).zip(odd) {
        *to = [even, odd];
    }
}
