//! Kernels of a convolution as panels.

use super::lattice::Phase;
use super::tile::Kernel;
use crate::gemm::kernel::Multiply;
use crate::transpose::transpose;
use crate::{parallel, scratch};

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

impl<E: Multiply> Weights<'_, E> {
    /// Writes panels of the kernel's columns, outputs padded with zeros: `[outputs / columns][taps][inputs][columns]`,
    /// inputs padded to groups, all of a panel to steps.
    pub(super) fn pack(&self, kernel: &Kernel<E>, phase: &Phase, out: &mut [E]) {
        let depth = self.inputs[0].next_multiple_of(kernel.group);
        let used = phase.taps.len() * depth * kernel.columns;
        if used == 0 {
            return;
        }
        let panel = kernel.columns * (phase.taps.len() * depth).next_multiple_of(kernel.step);
        parallel::for_each_chunk_mut(out, panel, &|index, out| {
            let first = index * kernel.columns;
            out[used..].fill(E::default());
            let count = kernel.columns.min(self.outputs[0] - first);
            let block = (TURNED / (self.taps * kernel.columns)).next_multiple_of(kernel.group);
            scratch::with(block * self.taps * kernel.columns, |turned: &mut [E]| {
                for start in (0..self.inputs[0]).step_by(block) {
                    let inputs = block.min(self.inputs[0] - start);
                    turned.fill(E::default());
                    self.turn([first, count], [start, inputs], kernel.columns, turned);
                    for (t, tap) in phase.taps.iter().enumerate() {
                        let to = &mut out[(t * depth + start) * kernel.columns..];
                        self.weave(kernel, turned, inputs.next_multiple_of(kernel.group), tap.at, to);
                    }
                }
            });
        });
    }

    /// Writes `[inputs][taps][columns]`.
    fn turn(&self, outputs: [usize; 2], inputs: [usize; 2], columns: usize, to: &mut [E]) {
        let from = &self.data[outputs[0] * self.outputs[1] + inputs[0] * self.inputs[1]..];
        if self.inputs[1] == self.taps {
            return transpose(from, self.outputs[1], [outputs[1], inputs[1] * self.taps], to, columns);
        }
        for input in 0..inputs[1] {
            let from = &from[input * self.inputs[1]..];
            transpose(from, self.outputs[1], [outputs[1], self.taps], &mut to[input * self.taps * columns..], columns);
        }
    }

    /// Groups the rows of one tap.
    fn weave(&self, kernel: &Kernel<E>, turned: &[E], inputs: usize, at: usize, to: &mut [E]) {
        let Kernel { columns, group, .. } = *kernel;
        let row = |input: usize| &turned[(input * self.taps + at) * columns..][..columns];
        for (input, to) in (0..inputs).step_by(group).zip(to.chunks_exact_mut(group * columns)) {
            if group == 1 {
                to.copy_from_slice(row(input));
                continue;
            }
            let (even, odd) = (row(input), row(input + 1));
            for ((to, &even), &odd) in to.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
                *to = [even, odd];
            }
        }
    }
}
