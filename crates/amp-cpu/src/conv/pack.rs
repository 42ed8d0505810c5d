//! Packs the kernels of a convolution into panels.

use super::lattice::Phase;
use super::tile::{Convolve, Kernel};
use crate::gemm::kernel::Multiply;
use crate::transpose::{transpose, transpose_groups};
use crate::{parallel, scratch};
use std::ops::Range;

/// Elements that are turned at a time: they stay in the L1 cache.
const TURNED: usize = 1 << 12;

/// The kernels of one group, seen from the side that gathers.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a, E> {
    /// All elements from the group's first on.
    pub data: &'a [E],
    /// Output channels of the gathering, and the distance between them.
    pub outputs: [usize; 2],
    /// Input channels of the gathering, and the distance between them.
    pub inputs: [usize; 2],
    /// Elements of one kernel, which lie together.
    pub taps: usize,
}

impl<E: Convolve> Weights<'_, E> {
    /// Writes panels of the kernel's columns, outputs padded with zeros: `[outputs / columns][taps][inputs][columns]`,
    /// inputs padded to groups, all of a panel to steps.
    pub(super) fn pack(&self, kernel: &Kernel<E>, phase: &Phase, out: &mut [E]) {
        let depth = self.inputs[0].next_multiple_of(kernel.padding());
        let used = phase.taps.len() * depth * kernel.columns;
        if used == 0 {
            return;
        }
        let panel = kernel.columns * (phase.taps.len() * depth).next_multiple_of(kernel.step);
        parallel::for_each_chunk_mut(out, panel, &|index, out| {
            let first = index * kernel.columns;
            out[used..].fill(E::default());
            let count = kernel.columns.min(self.outputs[0] - first);
            if !depth.is_multiple_of(kernel.group) {
                return self.pack_terms(kernel, phase, first..first + count, out);
            }
            let block = (TURNED / (self.taps * kernel.columns)).max(1).next_multiple_of(kernel.group);
            scratch::with(block * self.taps * kernel.columns, |turned: &mut [E]| {
                for start in (0..self.inputs[0]).step_by(block) {
                    let inputs = block.min(self.inputs[0] - start);
                    if count < kernel.columns || !inputs.is_multiple_of(kernel.group) {
                        turned.fill(E::default());
                    }
                    match kernel.group {
                        1 => self.turn::<1>([first, count], [start, inputs], kernel.columns, turned),
                        2 => self.turn::<2>([first, count], [start, inputs], kernel.columns, turned),
                        group => unreachable!("no kernel has groups of {group}"),
                    }
                    for (t, tap) in phase.taps.iter().enumerate() {
                        let to = &mut out[(t * depth + start) * kernel.columns..];
                        self.interleave(kernel, turned, inputs.next_multiple_of(kernel.group), tap.at, to);
                    }
                }
            });
        });
    }

    /// The panel of some outputs where groups are of neighbouring taps, too: an odd number of channels without padding.
    fn pack_terms(&self, kernel: &Kernel<E>, phase: &Phase, outputs: Range<usize>, out: &mut [E]) {
        let Kernel { columns, group, .. } = *kernel;
        out.fill(E::default());
        let terms = phase.taps.iter().flat_map(|tap| (0..self.inputs[0]).map(|input| input * self.inputs[1] + tap.at));
        for (term, place) in terms.enumerate() {
            for (column, output) in outputs.clone().enumerate() {
                out[(term / group * columns + column) * group + term % group] =
                    self.data[output * self.outputs[1] + place];
            }
        }
    }

    /// Writes `[inputs][taps][columns]`, or `[inputs / group][taps][columns][group]` where [`Self::joined`].
    fn turn<const GROUP: usize>(&self, outputs: [usize; 2], inputs: [usize; 2], columns: usize, to: &mut [E]) {
        let from = &self.data[outputs[0] * self.outputs[1] + inputs[0] * self.inputs[1]..];
        if !self.joined() {
            return transpose(from, self.outputs[1], [outputs[1], inputs[1] * self.taps], to, columns);
        }
        let len = outputs[1] * self.taps;
        scratch::with(GROUP * len, |lines: &mut [E]| {
            for (first, to) in (0..inputs[1]).step_by(GROUP).zip(to.chunks_exact_mut(GROUP * self.taps * columns)) {
                let line = |input: usize| &from[input * self.inputs[1]..][..len];
                if GROUP == 1 {
                    transpose(line(first), self.taps, [outputs[1], self.taps], to, columns);
                    continue;
                }
                if first + 1 < inputs[1] {
                    join(line(first), line(first + 1).iter().copied(), lines);
                } else {
                    join(line(first), std::iter::repeat(E::default()), lines);
                }
                transpose_groups::<E, GROUP>(lines, GROUP * self.taps, [outputs[1], self.taps], to, columns);
            }
        });
    }

    /// Whether the kernels of neighbouring outputs are neighbours, so that groups of inputs are joined before they are
    /// turned.
    fn joined(&self) -> bool {
        self.inputs[1] != self.taps
    }

    /// Groups the rows of one tap.
    fn interleave(&self, kernel: &Kernel<E>, turned: &[E], inputs: usize, at: usize, to: &mut [E]) {
        let Kernel { columns, group, .. } = *kernel;
        let row = |input: usize| &turned[(input * self.taps + at) * columns..][..columns];
        for (input, to) in (0..inputs).step_by(group).zip(to.chunks_exact_mut(group * columns)) {
            if group == 1 || self.joined() {
                to.copy_from_slice(&turned[(input * self.taps + group * at) * columns..][..group * columns]);
                continue;
            }
            join(row(input), row(input + 1).iter().copied(), to);
        }
    }
}

/// Writes elements of both sides in turn.
fn join<E: Multiply>(even: &[E], odd: impl Iterator<Item = E>, to: &mut [E]) {
    to.as_chunks_mut::<2>().0.iter_mut().zip(even.iter().zip(odd)).for_each(|(to, (&even, odd))| *to = [even, odd]);
}
