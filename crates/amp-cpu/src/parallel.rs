//! Splitting an output over threads, and the chunks that kernels work through.

use crate::SliceMut;
use rayon::prelude::*;

/// Elements that a kernel works on at a time: operands widened to F32 stay in the first-level cache.
pub(crate) const CHUNK: usize = 1024;

/// Elements below which another thread costs more than it brings, for cheap operations.
const GRAIN: usize = 32 * CHUNK;

/// Calls `f(start, part)` for disjoint parts of `out`, on several threads where there are enough elements.
///
/// Parts other than the last are multiples of [`CHUNK`] long; what `f` writes must not depend on the split.
pub(crate) fn for_each_part(out: SliceMut<'_>, f: &(dyn Fn(usize, SliceMut<'_>) + Sync)) {
    split(0, out, f);
}

fn split(start: usize, out: SliceMut<'_>, f: &(dyn Fn(usize, SliceMut<'_>) + Sync)) {
    if out.len() < 2 * GRAIN {
        return f(start, out);
    }
    let middle = (out.len() / 2).next_multiple_of(CHUNK);
    let (left, right) = out.split_at(middle);
    rayon::join(|| split(start, left, f), || split(start + middle, right, f));
}

/// Calls `f(start, chunk)` for the [`CHUNK`]s of a part that begins at element `start`.
pub(crate) fn for_each_chunk(start: usize, mut part: SliceMut<'_>, mut f: impl FnMut(usize, &mut SliceMut<'_>)) {
    let mut at = start;
    while !part.is_empty() {
        let n = part.len().min(CHUNK);
        let (mut chunk, rest) = part.split_at(n);
        f(at, &mut chunk);
        (part, at) = (rest, at + n);
    }
}

/// Operations (roughly: multiply-adds or loads) below which waking the thread pool costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 17;

/// Runs `task(0)` to `task(count - 1)`, on several threads where `work` operations in total are worth it.
///
/// Tasks are chosen from the shape alone, so results are bit-identical for every number of threads.
pub(crate) fn for_each(count: usize, work: usize, task: impl Fn(usize) + Sync + Send) {
    if count <= 1 || work < WORTH_A_THREAD {
        return (0..count).for_each(task);
    }
    (0..count).into_par_iter().for_each(task);
}
