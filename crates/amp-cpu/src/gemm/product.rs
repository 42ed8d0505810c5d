//! The blocked product: packs both operands, multiplies tile by tile, hands finished rows to a sink.
//!
//! A task owns a block of the result and keeps it in F32 (F64) until the whole depth is summed, so accumulators are
//! never rounded. The depth is cut where the kernel says, whatever the threads do.

use super::kernel::{Kernel, Multiply};
use super::operand::Operand;
use super::panel::Panel;
use crate::simd::Level;
use crate::{parallel, scratch};
use std::ops::Range;

/// Most rows and columns of a task's block: its packed operands and its result then fit the L2 cache.
const ROWS: usize = 384;
const COLUMNS: usize = 192;
/// Blocks wanted at least, so that a few threads have something to do.
const TASKS: usize = 8;
/// Multiply-adds that cost as much as one operation of other kernels.
pub(crate) const PER_CYCLE: usize = 32;
/// Most elements of an operand that is packed as a whole in advance.
const PREPACK: usize = 1 << 24;

/// Where finished rows go.
pub(crate) trait Sink<T>: Sync {
    /// Takes columns `column..column + values.len()` of a row; calls never overlap.
    fn store(&self, row: usize, column: usize, values: &mut [T]);
}

/// Whether a product may use the thread pool.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Threads {
    /// The caller has split the work already.
    One,
    /// As many as the pool has.
    Many,
}

/// Computes `a · bᵀ` row by row into `sink`, `a` and `b` being lists of vectors of the same length.
pub(crate) fn product<E: Multiply>(a: &dyn Operand<E>, b: &dyn Operand<E>, sink: &dyn Sink<E::Sum>, threads: Threads) {
    product_with(E::kernel(Level::current()), a, b, sink, threads);
}

/// [`product`] with a given kernel.
pub(crate) fn product_with<E: Multiply>(
    kernel: Kernel<E>,
    a: &dyn Operand<E>,
    b: &dyn Operand<E>,
    sink: &dyn Sink<E::Sum>,
    threads: Threads,
) {
    let (m, n, depth) = (a.rows(), b.rows(), a.depth());
    if m == 0 || n == 0 {
        return;
    }
    let blocks = Blocks::new(&kernel, m, n, threads);
    let work = if threads == Threads::Many { m * n * depth / PER_CYCLE } else { 0 };
    prepacked(a, kernel.left, kernel.depth, blocks.across(), work, |a| {
        prepacked(b, kernel.right, kernel.depth, blocks.down(), work, |b| {
            parallel::for_each(blocks.across() * blocks.down(), work, |task| {
                let (rows, columns) = blocks.get(task);
                block(&kernel, a, b, rows, columns, depth, sink);
            });
        });
    });
}

/// How the result is cut into tasks.
struct Blocks {
    m: usize,
    n: usize,
    rows: usize,
    columns: usize,
}

impl Blocks {
    fn new<E: Multiply>(kernel: &Kernel<E>, m: usize, n: usize, threads: Threads) -> Self {
        let (mr, nr) = (kernel.left.width, kernel.right.width);
        let mut blocks =
            Self { m, n, rows: ROWS.min(m).next_multiple_of(mr), columns: COLUMNS.min(n).next_multiple_of(nr) };
        if threads == Threads::One {
            return blocks;
        }
        while blocks.down() * blocks.across() < TASKS && blocks.rows > 4 * mr {
            blocks.rows = (blocks.rows / 2).next_multiple_of(mr);
        }
        while blocks.down() * blocks.across() < TASKS && blocks.columns > nr {
            blocks.columns = (blocks.columns / 2).next_multiple_of(nr);
        }
        blocks
    }

    fn down(&self) -> usize {
        self.m.div_ceil(self.rows)
    }

    fn across(&self) -> usize {
        self.n.div_ceil(self.columns)
    }

    fn get(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let row = task / self.across() * self.rows;
        let column = task % self.across() * self.columns;
        (row..self.m.min(row + self.rows), column..self.n.min(column + self.columns))
    }
}

/// An operand and, where it is used often enough, all of it in packed form.
pub(crate) struct Packed<'a, E> {
    operand: &'a dyn Operand<E>,
    panel: Panel,
    whole: Option<&'a [E]>,
}

impl<'a, E: Multiply> Packed<'a, E> {
    /// An operand that is packed block by block when it is needed.
    pub(crate) fn later(operand: &'a dyn Operand<E>, panel: Panel) -> Self {
        Self { operand, panel, whole: None }
    }

    /// The packed block, from `buffer` if it has to be packed now.
    fn block<'b>(&'b self, rows: Range<usize>, depth: Range<usize>, buffer: &'b mut [E]) -> &'b [E] {
        let len = self.panel.len(rows.len(), depth.len());
        match self.whole {
            Some(whole) => {
                let padded = self.panel.rows(self.operand.rows());
                &whole[padded * depth.start + rows.start * self.panel.depth(depth.len())..][..len]
            }
            None => {
                self.operand.pack(rows, depth, self.panel, &mut buffer[..len]);
                &buffer[..len]
            }
        }
    }
}

/// Packs an operand as a whole, in blocks of `block` along the depth, when it would otherwise be packed several times.
pub(crate) fn prepacked<E: Multiply>(
    operand: &dyn Operand<E>,
    panel: Panel,
    block: usize,
    uses: usize,
    work: usize,
    body: impl FnOnce(&Packed<E>),
) {
    let (padded, depth) = (panel.rows(operand.rows()), operand.depth());
    let len = panel.len(padded, depth);
    if uses < 2 || len > PREPACK {
        return body(&Packed::later(operand, panel));
    }
    scratch::with(len, |whole: &mut [E]| {
        let group = (64 * panel.width).min(padded);
        let groups = padded.div_ceil(group);
        let cuts = Cuts { start: whole.as_mut_ptr() };
        let work = if work == 0 { 0 } else { 4 * len };
        parallel::for_each(groups * depth.div_ceil(block), work, |task| {
            let d = task / groups * block;
            let depth = d..depth.min(d + block);
            let row = task % groups * group;
            let rows = row..operand.rows().min(row + group);
            let at = padded * depth.start + row * panel.depth(depth.len());
            // SAFETY: the pieces of different tasks are disjoint parts of `whole`: blocks of the depth follow one
            // another, `padded` times their padded depth each (only the last one is padded), and within one the groups
            // of rows do.
            let piece = unsafe { cuts.get(at, panel.len(rows.len(), depth.len())) };
            operand.pack(rows, depth, panel, piece);
        });
        body(&Packed { operand, panel, whole: Some(whole) });
    });
}

/// A buffer that tasks cut disjoint pieces from.
struct Cuts<T> {
    start: *mut T,
}

// SAFETY: `get` is the only access, and its caller promises disjoint pieces.
unsafe impl<T: Send> Sync for Cuts<T> {}

impl<T> Cuts<T> {
    /// # Safety
    /// The piece must lie inside the buffer, which must outlive it, and overlap no other piece in use.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, at: usize, len: usize) -> &mut [T] {
        // SAFETY: the caller's duty.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

/// Computes one block of the result and stores it.
fn block<E: Multiply>(
    kernel: &Kernel<E>,
    a: &Packed<E>,
    b: &Packed<E>,
    rows: Range<usize>,
    columns: Range<usize>,
    depth: usize,
    sink: &dyn Sink<E::Sum>,
) {
    let (height, stride) = (kernel.left.rows(rows.len()), kernel.right.rows(columns.len()));
    let longest = kernel.left.depth(depth.min(kernel.depth));
    scratch::with((height + stride) * longest, |packed: &mut [E]| {
        scratch::with(height * stride, |sums: &mut [E::Sum]| {
            let (left, right) = packed.split_at_mut(height * longest);
            if depth == 0 {
                sums.fill(E::Sum::default());
            }
            for start in (0..depth).step_by(kernel.depth) {
                let range = start..depth.min(start + kernel.depth);
                let left = a.block(rows.clone(), range.clone(), left);
                let right = b.block(columns.clone(), range.clone(), right);
                tiles(kernel, left, right, range.len(), sums, stride, start > 0);
            }
            for (i, row) in sums.chunks_exact_mut(stride).take(rows.len()).enumerate() {
                sink.store(rows.start + i, columns.start, &mut row[..columns.len()]);
            }
        });
    });
}

/// Multiplies packed panels into a row-major block `stride` wide.
pub(crate) fn tiles<E: Multiply>(
    kernel: &Kernel<E>,
    left: &[E],
    right: &[E],
    depth: usize,
    sums: &mut [E::Sum],
    stride: usize,
    accumulate: bool,
) {
    if depth == 0 {
        if !accumulate {
            sums.fill(E::Sum::default());
        }
        return;
    }
    let (depth, mr, nr) = (kernel.left.depth(depth), kernel.left.width, kernel.right.width);
    let _prepared = kernel.prepared();
    for (j, b) in right.chunks_exact(depth * nr).enumerate() {
        for (i, a) in left.chunks_exact(depth * mr).enumerate() {
            let c = &mut sums[i * mr * stride + j * nr..];
            assert!(c.len() >= (mr - 1) * stride + nr);
            // SAFETY: `a` and `b` are whole panels (`chunks_exact`), the tile's last row ends inside `c` (asserted),
            // a `Kernel` is only made for levels the CPU has, and this thread is prepared for it.
            unsafe { (kernel.tile)(depth, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), stride, accumulate) }
        }
    }
}
