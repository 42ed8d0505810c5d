//! Splitting an output over threads, and the chunks that kernels work through.

use crate::SliceMut;
use crate::threads::{self, num_threads};
use std::sync::{Mutex, PoisonError};

/// Elements that a kernel works on at a time: operands widened to F32 stay in the first-level cache.
pub(crate) const CHUNK: usize = 1024;

/// How expensive an element is: from how many elements on a second thread pays.
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
/// Parts other than the last are multiples of [`CHUNK`] long, none is empty; what `f` writes must not depend on the split.
pub(crate) fn for_each_part(out: SliceMut<'_>, cost: Cost, f: &(dyn Fn(usize, SliceMut<'_>) + Sync)) {
    if out.is_empty() {
        return;
    }
    let parts = (out.len() / cost.grain()).min(PARTS * num_threads());
    if parts <= 1 || num_threads() == 1 {
        return f(0, out);
    }
    let size = out.len().div_ceil(parts).next_multiple_of(CHUNK);
    let (mut cut, mut rest, mut start) = (Vec::with_capacity(parts), out, 0);
    while rest.len() > size {
        let (part, after) = rest.split_at(size);
        cut.push((start, part));
        (rest, start) = (after, start + size);
    }
    cut.push((start, rest));
    distribute(cut, &|_, (start, part)| f(start, part));
}

/// Calls `f(start, chunk)` for the [`CHUNK`]s of a part that begins at element `start`.
pub(crate) fn for_each_chunk(start: usize, part: SliceMut<'_>, f: &mut dyn FnMut(usize, &mut SliceMut<'_>)) {
    for_each_chunk_of(CHUNK, start, part, f);
}

/// [`for_each_chunk`] with chunks of another size.
pub(crate) fn for_each_chunk_of(
    size: usize,
    start: usize,
    mut part: SliceMut<'_>,
    f: &mut dyn FnMut(usize, &mut SliceMut<'_>),
) {
    let mut at = start;
    while !part.is_empty() {
        let n = part.len().min(size);
        let (mut chunk, rest) = part.split_at(n);
        f(at, &mut chunk);
        (part, at) = (rest, at + n);
    }
}

/// Operations (roughly: multiply-adds or loads) below which waking the thread pool costs more than it saves.
pub(crate) const WORTH_A_THREAD: usize = 1 << 17;

/// How many pieces work is cut into at most: enough for threads to even out.
pub(crate) fn most_pieces() -> usize {
    num_threads().saturating_mul(PARTS).max(64)
}

/// Parts for each thread: enough that the others can take over from one that was held up.
const PARTS: usize = 4;

/// Runs `task(0)` to `task(count - 1)`, on several threads where `work` operations in total are worth it.
///
/// Tasks are chosen from the shape alone, so results are bit-identical for every number of threads.
pub(crate) fn for_each(count: usize, work: usize, task: impl Fn(usize) + Sync + Send) {
    if count <= 1 || work < WORTH_A_THREAD || num_threads() == 1 {
        return (0..count).for_each(task);
    }
    threads::run(count, &task);
}

/// `f(i, item)` of every item, in parallel.
///
/// Closures come as `dyn` here and below: one copy of this code serves the hundred kernels that use it.
pub(crate) fn distribute<T: Send>(items: Vec<T>, f: &(dyn Fn(usize, T) + Sync)) {
    if items.len() <= 1 || num_threads() == 1 {
        return items.into_iter().enumerate().for_each(|(i, item)| f(i, item));
    }
    let (count, items) = (items.len(), Mutex::new(items.into_iter().enumerate()));
    threads::run(count, &|_| {
        let next = items.lock().unwrap_or_else(PoisonError::into_inner).next();
        let (i, item) = next.expect("as many tasks as items");
        f(i, item);
    });
}

/// Runs both closures, on two threads where one is free.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut left, mut right) = (None, None);
    let (mut a, mut b) = (Some(a), Some(b));
    let mut first = || left = a.take().map(|a| a());
    let mut second = || right = b.take().map(|b| b());
    both(&mut first, &mut second);
    (left.expect("join runs both"), right.expect("join runs both"))
}

/// What [`join`] does for every pair of types.
fn both<'a>(first: &'a mut (dyn FnMut() + Send), second: &'a mut (dyn FnMut() + Send)) {
    distribute(vec![first, second], &|_, half| half());
}

/// `f(i, chunk)` of the pieces of `chunk` elements that `out` consists of, in parallel.
pub(crate) fn for_each_chunk_mut<T: Send>(out: &mut [T], chunk: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let grain = out.len().div_ceil(chunk).div_ceil(most_pieces()).max(1);
    let groups = out.chunks_mut(grain * chunk).collect();
    distribute(groups, &|group, chunks: &mut [T]| {
        chunks.chunks_mut(chunk).enumerate().for_each(|(i, c)| f(group * grain + i, c));
    });
}

/// `f(i, item)` of every item, in parallel.
pub(crate) fn for_each_mut<T: Send>(items: &mut [T], f: &(dyn Fn(usize, &mut T) + Sync)) {
    for_each_chunk_mut(items, 1, &|i, item| f(i, &mut item[0]));
}
