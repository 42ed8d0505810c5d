//! Outputs cut into pieces that are written in parallel.

use crate::parallel;
use crate::{SliceMut, Storage};

/// Fewer elements than this are not worth a second thread.
pub(crate) const PARALLEL: usize = 1 << 15;

/// `f(i, piece)` of the pieces of `chunk` elements that `storage` consists of, on all threads when it is large.
pub(crate) fn for_chunks<R: Send>(
    storage: &mut Storage,
    chunk: usize,
    f: &(dyn Fn(usize, SliceMut) -> R + Sync),
) -> Vec<R> {
    let elements = storage.len();
    for_chunks_of(storage, chunk, elements, f)
}

/// [`for_chunks`] of results that are made of so many elements.
pub(crate) fn for_chunks_of<R: Send>(
    storage: &mut Storage,
    chunk: usize,
    elements: usize,
    f: &(dyn Fn(usize, SliceMut) -> R + Sync),
) -> Vec<R> {
    let chunk = chunk.max(1);
    let count = storage.len().div_ceil(chunk);
    let mut results: Vec<Option<R>> = (0..count).map(|_| None).collect();
    let grain = if elements < PARALLEL { count } else { count.div_ceil(parallel::most_pieces()) }.max(1);
    let (mut groups, mut rest) = (Vec::with_capacity(count.div_ceil(grain)), storage.as_mut_slice());
    for results in results.chunks_mut(grain) {
        let n = rest.len().min(results.len() * chunk);
        let (group, after) = rest.split_at(n);
        groups.push((group, results));
        rest = after;
    }
    parallel::distribute(groups, &|group, (mut rest, results)| {
        for (i, result) in results.iter_mut().enumerate() {
            let n = rest.len().min(chunk);
            let (piece, after) = rest.split_at(n);
            *result = Some(f(group * grain + i, piece));
            rest = after;
        }
    });
    results.into_iter().flatten().collect()
}

/// `f` of every item, in order, on all threads when they stand for many `elements`.
pub(crate) fn map_all<T: Sync, R: Send>(items: &[T], elements: usize, f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    if elements < PARALLEL {
        return items.iter().map(f).collect();
    }
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    parallel::for_each_mut(&mut results, &|i, result| *result = Some(f(&items[i])));
    results.into_iter().flatten().collect()
}
