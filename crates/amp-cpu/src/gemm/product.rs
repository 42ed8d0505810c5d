//! The blocked product: packs both operands, multiplies tile by tile, hands finished rows to a sink.
//!
//! A task owns a block of the result and keeps it in F32 (F64) until the whole depth is summed, so accumulators are
//! never rounded. The depth is cut where the kernel says, whatever the threads do.
//!
//! Sinks add the bias and round. Activations and derivatives are passes of their own: inside a sink they were slower (product
//! and gelu in BF16 9.3 ms instead of 6.4), for two results at once push panels out of the L1 cache. A residual is read once
//! and writes nothing more, so it is added in the sink ([`super::Epilogue`]). Weights are not kept packed: a training step packs
//! each of them once in each of two forms, then the optimizer writes them anew. More in `benches/record/findings.md`.

use super::blocks::{Blocks, resident_columns};
use super::kernel::{Finish, MicroKernel, Multiply, Rows};
use super::operand::{Lines, Operand};
use super::packed::{Packed, Plan};
use super::task::Task;
use crate::num_threads;
use crate::output::{Finished, Output};
use crate::parallel::{self, WORTH_A_THREAD};
use crate::scratch::{self, Plain};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Multiply-adds that cost as much as one operation of other kernels.
pub(crate) const PER_CYCLE: usize = 32;

/// Where finished rows go: the epilogue of a product.
pub(crate) trait Sink<T: Plain>: Sync {
    /// Takes columns `column..column + values.len()` of a row; calls never overlap.
    fn store(&self, row: usize, column: usize, values: &mut [T]);

    /// Announces rows and columns that will be stored soon.
    fn prefetch(&self, _rows: Range<usize>, _columns: Range<usize>) {}

    /// Announces a tile that is about to be computed, or several side by side; `stores` says whether it writes its result
    /// at its [`place`](Self::place).
    fn tiled(&self, _rows: Range<usize>, _columns: Range<usize>, _stores: bool) {}

    /// Where the columns from `column` on of a row belong, if tiles may add the bias, round and write them instead of handing
    /// them over.
    fn place(&self, _row: usize, _column: usize) -> Option<Place<'_, T>> {
        None
    }

    /// Takes the columns from `column` on of some rows, one of each line of `columns` values.
    fn store_rows(&self, row: usize, column: usize, columns: usize, lines: Finished<'_, T>) {
        for (i, line) in lines.chunks().enumerate() {
            self.store(row + i, column, &mut line[..columns]);
        }
    }

    /// What is added to every row: for a product that adds it itself, and then calls [`write_rows`](Self::write_rows).
    fn bias(&self) -> &[T] {
        &[]
    }

    /// Takes some whole rows of `columns`, which `write` fills in with the bias: where they belong if nothing else is to be done
    /// to them.
    fn write_rows(&self, row: usize, rows: usize, columns: usize, write: &mut dyn FnMut(&mut [T])) {
        scratch::with(rows * columns, |values: &mut [T]| {
            write(values);
            self.store_rows(row, 0, columns, Finished { values, len: columns });
        });
    }
}

/// A sink that keeps rows of `columns` one after the other; of a `transposed` product, the rows that it has transposed.
pub(crate) struct Kept<'a, 'b, T> {
    pub values: &'a Mutex<&'b mut [T]>,
    pub columns: usize,
    pub transposed: bool,
}

impl<T: Plain> Sink<T> for Kept<'_, '_, T> {
    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        let mut all = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.transposed {
            return all[row * self.columns + column..][..values.len()].copy_from_slice(values);
        }
        for (i, value) in values.iter().enumerate() {
            all[(column + i) * self.columns + row] = *value;
        }
    }
}

/// A part of a result that tiles may write.
pub(crate) struct Place<'a, T> {
    pub output: &'a Output<'a>,
    /// The first element, and the way from row to row.
    pub at: usize,
    pub stride: usize,
    /// Added to every row, if it is not empty.
    pub bias: &'a [T],
}

impl<'a, T> Place<'a, T> {
    /// How tiles write so many rows and columns there, if the result is of the type that they round to.
    pub(super) fn finish<E: Multiply<Sum = T>>(self, rows: usize, columns: usize) -> Option<Finish<'a, E>> {
        let Self { output, at, stride, bias } = self;
        let to = output.rows(at, stride, rows, columns)?;
        let bias = if bias.is_empty() { bias } else { &bias[..columns] };
        Some(Finish { to, stride, bias })
    }
}

/// Bytes after which addresses share the sets of a first-level cache. Rows so far apart, as 2048 BF16 are, fill the ways of
/// sixteen sets: while others used the memory too, 2048³ took two threads of Zen 5 31 to 46 ms on rows as they lay and 22 ms
/// from F32 that was packed; alone, 21 ms either way. Strips that AMX multiplies by all of a right side are read where they lie: two
/// threads of a Xeon take 6.9 ms for 2048³ and 64 for 4096³, where packing each strip took 7.3 and 75, and all of them in
/// advance, so that tiles prefetch them, 7.1 and 60.
const PAGE: usize = 4096;
/// Lines of a tile that may share a set: the other ways are for the panel and the sums.
const WAYS: usize = 8;

/// Whether a product may use the thread pool.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Threads {
    /// The caller has split the work already.
    One,
    /// As many as the pool has.
    Many,
}

impl Threads {
    /// So much work to be shared out, or none.
    pub(crate) fn share(self, work: usize) -> usize {
        if self == Self::Many { work } else { 0 }
    }
}

/// Computes `a · bᵀ` row by row into `sink`, `a` and `b` being lists of vectors of the same length.
pub(crate) fn product_with<E: Multiply>(
    kernel: MicroKernel<E>,
    a: &dyn Operand<E>,
    b: &dyn Operand<E>,
    sink: &dyn Sink<E::Sum>,
    threads: Threads,
) {
    let (m, n, depth) = (a.rows(), b.rows(), a.depth());
    if m == 0 || n == 0 {
        return;
    }
    // Panels of a part of a long depth: short pieces of lines far apart took up to a third longer in F32, and 1.7 times as long as
    // sums that stay ([`super::deep`]) in BF16 (512 × 16384 by 16384 × 512).
    let fits = kernel.resident.is_none() || resident_columns(&kernel, depth).is_some();
    let by_lines = kernel.direct.is_some() && a.runs_along() && depth > 0 && fits;
    let left = if by_lines { kernel.left.lines() } else { kernel.left };
    let work = threads.share(m * n * depth / kernel.pace);
    let threads = if work < WORTH_A_THREAD { Threads::One } else { threads };
    let long = kernel.depth.block(depth);
    if !by_lines && kernel.resident.is_some() && deep_product(&kernel, [a, b], sink, threads, work) {
        return;
    }
    let blocks = Blocks::new(&kernel, by_lines, [m, n], depth, threads);
    // What has to be padded is packed, and what would lie in the same few sets of a cache while it is used again and again.
    let alike = |bytes: usize| kernel.left.width.div_ceil(PAGE >> bytes.trailing_zeros().min(PAGE.ilog2()));
    let again_and_again = !blocks.resident && blocks.across() > 1;
    let collide = |lines: &Lines<E>| again_and_again && alike(lines.stride * size_of::<E>()) > WAYS;
    let read_often = blocks.resident && !blocks.apart && blocks.across() > a.repeats();
    // Tiles can prefetch what is packed in one piece.
    let moved = read_often && kernel.ahead.is_some() && Plan::fits(a, left);
    let in_place = |lines: &Lines<E>| depth.is_multiple_of(left.step) && !collide(lines);
    let lines = if by_lines && !moved { a.lines().filter(in_place) } else { None };
    let uses = match blocks.resident {
        _ if blocks.apart || lines.is_some() => 1,
        // Panels of few rows would be packed from short runs of memory.
        true if !by_lines => 2,
        true if !read_often => 1,
        _ => blocks.across(),
    };
    let again = if blocks.apart { 1 } else { blocks.down() };
    // Strips that multiply one part of a line after the other find the next where the last one ended: 2048³ of F16 takes two threads
    // of Zen 5 0.87 of the time.
    let at_once = if by_lines && blocks.resident && left.step == 1 { depth } else { long };
    let plans = [Plan::new(a, left, at_once, uses), Plan::new(b, kernel.right, long, again)];
    let lens = plans.each_ref().map(|plan| plan.as_ref().map_or(0, Plan::len));
    // Apart, as large as what they are packed from: that has left room for each of them before.
    with_both(lens, |of_a: &mut [E], of_b: &mut [E]| {
        Plan::run([(plans[0].as_ref(), &mut *of_a), (plans[1].as_ref(), &mut *of_b)], work);
        let (of_a, of_b) = (&*of_a, &*of_b);
        let whole = |plan: &Option<Plan<E>>, packed| plan.as_ref().map(|_| packed);
        let of_whole = plans[0].is_some() && at_once > long;
        let lines = if of_whole { Some(Lines { elements: of_a, stride: depth }) } else { lines };
        let a = Packed { operand: a, panel: left, whole: whole(&plans[0], of_a), lines };
        let b = Packed { operand: b, panel: kernel.right, whole: whole(&plans[1], of_b), lines: None };
        parallel::for_each(blocks.across() * blocks.down(), work, |task| {
            let task = Task::new(&kernel, [&a, &b], blocks.get(task), depth, sink);
            if blocks.resident { task.run_resident() } else { task.run() }
        });
    });
}

/// [`product_with`] where few vectors are so long that sums stay while they are multiplied; returns whether they are.
fn deep_product<E: Multiply>(
    kernel: &MicroKernel<E>,
    [a, b]: [&dyn Operand<E>; 2],
    sink: &dyn Sink<E::Sum>,
    threads: Threads,
    work: usize,
) -> bool {
    let (depth, sizes, tile) = (a.depth(), [a.rows(), b.rows()], [kernel.left.width, kernel.right.width]);
    let threads = if threads == Threads::Many { num_threads() } else { 1 };
    let Some(blocks) = Blocks::deep(sizes, tile, [depth, kernel.depth.block(depth)], threads) else { return false };
    let unpacked = |operand, panel| Packed { operand, panel, whole: None, lines: None };
    let (a, b) = (unpacked(a, kernel.left), unpacked(b, kernel.right));
    parallel::for_each(blocks.across() * blocks.down(), work, |task| {
        Task::new(kernel, [&a, &b], blocks.get(task), depth, sink).run_deep();
    });
    true
}

/// Working memory of two lengths.
fn with_both<E: Plain>(lens: [usize; 2], body: impl FnOnce(&mut [E], &mut [E])) {
    scratch::with(lens[0], |a| scratch::with(lens[1], |b| body(a, b)));
}

/// Multiplies packed panels into a row-major block `stride` wide.
pub(crate) fn tiles<E: Multiply>(
    kernel: &MicroKernel<E>,
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
            // a `MicroKernel` is only made for levels the CPU has, and this thread is prepared for it.
            unsafe { (kernel.tile)(depth, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), stride, accumulate) }
        }
    }
}

/// Strips of rows and packed panels that are multiplied in part: where the rest is known to be zero, or is not wanted.
pub(crate) struct Strips<'a, E> {
    /// Panels of the left side, or as many lines one after the other, each `deep` elements long.
    pub left: &'a [E],
    /// Whether they are lines; only for kernels that multiply them so.
    pub lines: bool,
    /// Panels of the right side, as deep.
    pub right: &'a [E],
    /// Elements of a vector with its padding.
    pub deep: usize,
}

impl<E: Multiply> Strips<'_, E> {
    /// Multiplies each strip into a row-major block `stride` wide: those elements of its vectors, with their padding, and so
    /// many columns at least that `part` says, given the rows of the strip.
    pub(crate) fn multiply(
        &self,
        kernel: &MicroKernel<E>,
        sums: &mut [E::Sum],
        stride: usize,
        accumulate: bool,
        part: &dyn Fn(Range<usize>) -> (Range<usize>, usize),
    ) {
        let (deep, mr, nr, step) = (self.deep, kernel.left.width, kernel.right.width, kernel.left.step);
        if deep == 0 {
            return tiles(kernel, self.left, self.right, 0, sums, stride, accumulate);
        }
        let _prepared = kernel.prepared();
        for (i, left) in self.left.chunks_exact(mr * deep).enumerate() {
            let (depth, columns) = part(i * mr..(i + 1) * mr);
            let (start, end) = (depth.start / step * step, depth.end.next_multiple_of(step).min(deep));
            assert!(start <= end && deep.is_multiple_of(step));
            if accumulate && start == end {
                continue;
            }
            for (j, b) in self.right.chunks_exact(deep * nr).take(columns.div_ceil(nr)).enumerate() {
                let c = &mut sums[i * mr * stride + j * nr..];
                assert!(c.len() >= (mr - 1) * stride + nr);
                let (b, c) = (b[start * nr..].as_ptr(), c.as_mut_ptr());
                // SAFETY: `left` has `mr` lines or a panel, `b` one, each `deep` elements deep (`chunks_exact`), of which the
                // part lies inside and needs no padding (asserted: `deep` and both ends are multiples of the step); the
                // tile's last row ends inside `c` (asserted), a `MicroKernel` is only made for levels the CPU has, and this thread
                // is prepared for it.
                unsafe {
                    match kernel.direct.filter(|_| self.lines) {
                        Some(direct) => direct(end - start, Rows::of(&left[start..], deep), b, c, stride, accumulate),
                        None => (kernel.tile)(end - start, left[start * mr..].as_ptr(), b, c, stride, accumulate),
                    }
                }
            }
        }
    }
}
