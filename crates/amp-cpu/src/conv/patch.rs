//! Patches: what a pixel is computed from, cut into blocks of the depth.

use super::tile::Run;
use crate::gemm::kernel::Multiply;
use crate::gemm::panel::Panel;

/// The elements of a phase's patch, relative to the pixel.
pub(super) struct Patch {
    /// Number of elements.
    pub depth: usize,
    /// What is summed in one go.
    pub blocks: Vec<Block>,
}

/// A part of the depth.
pub(super) struct Block {
    /// Elements before it.
    pub start: usize,
    /// Number of elements.
    pub depth: usize,
    pub runs: Vec<Run>,
}

impl Patch {
    /// Cuts a patch into blocks of `depth` elements.
    pub(super) fn new(runs: &[Run], depth: usize) -> Self {
        let mut patch = Self { depth: 0, blocks: Vec::new() };
        for run in runs {
            let (mut at, end) = (run.at, run.at + run.len);
            while at < end {
                if patch.depth.is_multiple_of(depth) {
                    patch.blocks.push(Block { start: patch.depth, depth: 0, runs: Vec::new() });
                }
                let block = patch.blocks.last_mut().expect("pushed above");
                let len = (depth - block.depth).min(end - at);
                block.runs.push(Run { at, len });
                block.depth += len;
                patch.depth += len;
                at += len;
            }
        }
        patch
    }
}

impl Block {
    /// Writes the patches of a panel's pixels.
    pub(super) fn pack<E: Multiply>(&self, panel: Panel, data: &[E], pixels: &[usize], out: &mut [E]) {
        let Panel { width, group, step } = panel;
        if !self.depth.is_multiple_of(step) {
            out.fill(E::default());
        }
        let mut depth = 0;
        for run in &self.runs {
            let (mut at, end) = (run.at, run.at + run.len);
            while at < end {
                let (place, within) = (depth / group * width * group, depth % group);
                let len = (group - within).min(end - at);
                for (row, pixel) in pixels.iter().enumerate() {
                    let from = &data[pixel + at..][..len];
                    out[place + row * group + within..][..len].copy_from_slice(from);
                }
                at += len;
                depth += len;
            }
        }
    }
}
