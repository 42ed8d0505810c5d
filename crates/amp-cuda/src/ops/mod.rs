//! The traits of the seam, one file per family. Every method makes the result's memory, fills in the kernel's argument
//! and launches. What waits for the device: `download` (`memory`), `magnitude` (`optimizer`), the first product with ReLU of
//! each algorithm, which is tried (`epilogue`), and uploads to a device that reads the host's memory itself.

mod attention;
mod batch_norm_relu;
mod convolution;
mod elementwise;
mod epilogue;
mod factorization;
mod flash_attention;
mod indexing;
mod matmul;
mod memory;
mod normalization;
mod optimizer;
mod pixel_conv;
mod pixel_norm;
mod pooling;
mod random;
mod recurrent;
mod reduction;
mod rule;
mod scan;
mod softmax;
mod sort;
pub(crate) mod unfold;

use crate::device::Gpu;
use amp_core::backend::{Backend, Layout, Replay};
use amp_core::{RandomState, Result};

impl Backend for Gpu {
    fn name(&self) -> String {
        Gpu::name(self)
    }

    fn recording(&self) -> u64 {
        self.recorder().number()
    }

    fn begin_recording(&self, start: RandomState) -> Result<()> {
        self.begin(start)
    }

    fn end_recording(&self) -> Result<Box<dyn Replay>> {
        Ok(Box::new(self.end()?))
    }
}

/// A tensor cut along one axis: `lines` lines of `len` elements that lie `inner` apart in row-major order.
#[derive(Clone, Copy, Debug)]
struct Cut {
    outer: usize,
    len: usize,
    inner: usize,
}

impl Cut {
    /// Without axes, one line of one element.
    fn new(shape: &[usize], axis: usize) -> Self {
        let Some(&len) = shape.get(axis) else { return Self { outer: 1, len: 1, inner: 1 } };
        Self { outer: shape[..axis].iter().product(), len, inner: shape[axis + 1..].iter().product() }
    }

    fn lines(&self) -> usize {
        self.outer * self.inner
    }
}

/// Blocks and name ending for lines: a block per line, or a thread where neighbouring lines lie side by side.
fn team(lines: usize, columns: bool) -> ([u64; 3], u32) {
    let threads = crate::device::THREADS;
    let blocks = if columns { lines.div_ceil(threads as usize) } else { lines };
    ([blocks as u64, 1, 1], threads)
}

/// Elements that a thread reads at once; `PACK` of `common.cuh`.
const PACK: usize = 8;
/// Threads that go together.
const WARP: usize = 32;

/// A block per line of `len` neighbours, no larger than it has work for threads that read `packs` packs of it.
fn line_team(lines: usize, len: usize, packs: usize) -> ([u64; 3], u32) {
    let threads = len.div_ceil(packs * PACK).next_multiple_of(WARP).clamp(WARP, crate::device::THREADS as usize);
    ([lines as u64, 1, 1], threads as u32)
}

/// A layout's kept axes, and the others, each as shape and strides.
fn split_axes(layout: &Layout, axes: &[usize]) -> [(Vec<usize>, Vec<usize>); 2] {
    let part = |chosen: bool| {
        let picked = (0..layout.shape.len()).filter(|i| axes.contains(i) == chosen);
        picked.map(|i| (layout.shape[i], layout.strides[i])).unzip()
    };
    [part(false), part(true)]
}
