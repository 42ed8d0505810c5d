//! Outputs cut into pieces that are written in parallel.

use crate::parallel;
use crate::{SliceMut, Storage};

/// Fewer elements than this are not worth a second thread.
pub(crate) const PARALLEL: usize = 1 << 15;

/// `f(i, piece)` of the pieces of `chunk` elements that `storage` consists of, on all threads when it is large.
pub(crate) fn for_chunks<R: Send>(
    storage: &mut Storage,
    chunk: usize,
    f: impl Fn(usize, SliceMut) -> R + Sync,
) -> Vec<R> {
    let (len, chunk) = (storage.len(), chunk.max(1));
    let mut results: Vec<Option<R>> = (0..len.div_ceil(chunk)).map(|_| None).collect();
    let grain = if len < PARALLEL { results.len() } else { results.len().div_ceil(64) };
    halve(storage.as_mut_slice(), &mut results, 0, chunk, grain, &|i, piece, result| *result = Some(f(i, piece)));
    results.into_iter().flatten().collect()
}

type Piece<'f, R> = &'f (dyn Fn(usize, SliceMut, &mut Option<R>) + Sync);

fn halve<R: Send>(out: SliceMut, results: &mut [Option<R>], first: usize, chunk: usize, grain: usize, f: Piece<'_, R>) {
    if results.len() <= grain {
        let mut rest = out;
        for (i, result) in results.iter_mut().enumerate() {
            let n = rest.len().min(chunk);
            let (piece, after) = rest.split_at(n);
            f(first + i, piece, result);
            rest = after;
        }
        return;
    }
    let middle = results.len() / 2;
    let (left, right) = out.split_at(middle * chunk);
    let (left_results, right_results) = results.split_at_mut(middle);
    parallel::join(
        || halve(left, left_results, first, chunk, grain, f),
        || halve(right, right_results, first + middle, chunk, grain, f),
    );
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
