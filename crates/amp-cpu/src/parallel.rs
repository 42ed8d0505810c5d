//! Splitting an output over threads, and the chunks that kernels work through.

use crate::SliceMut;
use rayon::prelude::*;

/// Elements that a kernel works on at a time: operands widened to F32 stay in the first-level cache.
pub(crate) const CHUNK: usize = 1024;

/// How long an element takes, which decides from how many on a second thread pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Loads, a few instructions, a store.
    Light,
    /// An exponential or more.
    Heavy,
}

impl Cost {
    /// Elements that take about as long as waking a thread (10 µs).
    const fn grain(self) -> usize {
        match self {
            Self::Light => 96 * CHUNK,
            Self::Heavy => 24 * CHUNK,
        }
    }
}

/// Calls `f(start, part)` for disjoint parts of `out`, on several threads where there are enough elements.
///
/// Parts other than the last are multiples of [`CHUNK`] long; what `f` writes must not depend on the split.
pub(crate) fn for_each_part(out: SliceMut<'_>, cost: Cost, f: &(dyn Fn(usize, SliceMut<'_>) + Sync)) {
    split(0, out, cost.grain(), f);
}

fn split(start: usize, out: SliceMut<'_>, grain: usize, f: &(dyn Fn(usize, SliceMut<'_>) + Sync)) {
    if out.len() < 2 * grain {
        return f(start, out);
    }
    let middle = (out.len() / 2).next_multiple_of(CHUNK);
    let (left, right) = out.split_at(middle);
    join(|| split(start, left, grain, f), || split(start + middle, right, grain, f));
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

/// How many pieces work is cut into at most: enough for stealing to balance, whatever the number of threads.
const PIECES: usize = 64;

/// Runs `task(0)` to `task(count - 1)`, on several threads where `work` operations in total are worth it.
///
/// Tasks are chosen from the shape alone, so results are bit-identical for every number of threads.
pub(crate) fn for_each(count: usize, work: usize, task: impl Fn(usize) + Sync + Send) {
    if count <= 1 || work < WORTH_A_THREAD || rayon::current_num_threads() == 1 {
        return (0..count).for_each(task);
    }
    for_each_erased(count, &task);
}

/// rayon's machinery is compiled once, for this closure type, instead of once for every kernel.
fn for_each_erased(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(task);
}

/// Runs both closures, on two threads where one is free.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut left, mut right) = (None, None);
    join_erased(&mut || left = a.take().map(|a| a()), &mut || right = b.take().map(|b| b()));
    (left.expect("join runs both"), right.expect("join runs both"))
}

fn join_erased(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    rayon::join(a, b);
}

/// `f(i, chunk)` of the pieces of `chunk` elements that `out` consists of, in parallel.
pub(crate) fn for_each_chunk_mut<T: Send>(out: &mut [T], chunk: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let grain = out.len().div_ceil(chunk).div_ceil(PIECES);
    halve(out, 0, chunk, grain, f);
}

fn halve<T: Send>(out: &mut [T], first: usize, chunk: usize, grain: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let count = out.len().div_ceil(chunk);
    if count <= grain {
        return out.chunks_mut(chunk).enumerate().for_each(|(i, c)| f(first + i, c));
    }
    let middle = count / 2;
    let (left, right) = out.split_at_mut(middle * chunk);
    join(|| halve(left, first, chunk, grain, f), || halve(right, first + middle, chunk, grain, f));
}

/// `f(i, item)` of every item, in parallel.
pub(crate) fn for_each_mut<T: Send>(items: &mut [T], f: &(dyn Fn(usize, &mut T) + Sync)) {
    for_each_chunk_mut(items, 1, &|i, item| f(i, &mut item[0]));
}
