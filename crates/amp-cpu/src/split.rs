//! Outputs cut into pieces that are written in parallel.

use crate::{SliceMut, Storage};
use rayon::prelude::*;

/// Fewer elements than this are not worth a second thread.
pub(crate) const PARALLEL: usize = 1 << 15;

macro_rules! each_chunk {
    ($storage:expr, $chunk:expr, $f:expr; $($tag:ident),*) => {
        match $storage.as_mut_slice() {
            $(SliceMut::$tag(v) => {
                if v.len() < PARALLEL {
                    v.chunks_mut($chunk).enumerate().map(|(i, c)| $f(i, SliceMut::$tag(c))).collect()
                } else {
                    v.par_chunks_mut($chunk).enumerate().map(|(i, c)| $f(i, SliceMut::$tag(c))).collect()
                }
            })*
        }
    };
}

/// `f(i, piece)` of the pieces of `chunk` elements that `storage` consists of, on all threads when it is large.
pub(crate) fn for_chunks<R: Send>(
    storage: &mut Storage,
    chunk: usize,
    f: impl Fn(usize, SliceMut) -> R + Sync,
) -> Vec<R> {
    each_chunk!(storage, chunk.max(1), f; F16, BF16, F32, F64, I64, U8, Bool)
}

/// `f` of every item, in order, on all threads when they stand for many `elements`.
pub(crate) fn map_all<T: Sync, R: Send>(items: &[T], elements: usize, f: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    if elements < PARALLEL { items.iter().map(f).collect() } else { items.par_iter().map(f).collect() }
}
