//! The CPU's buffers: what is kept for reuse, and how often precision was changed by a kernel of its own.
//!
//! Dropped buffers of a page and more are kept and handed out again, so that a training step in steady state touches no
//! fresh page. Up to 4 GiB are kept unless [`set_cache_limit`] says otherwise; [`empty_cache`] gives them back.

pub use crate::backend::cast_kernels;
pub use amp_cpu::{cached_bytes, empty_cache, set_cache_limit};

use crate::{Error, Result};

/// `count` values on the host, or an error where there is no memory for them.
pub(crate) fn on_host<T>(op: &'static str, count: usize, values: impl Iterator<Item = T>) -> Result<Vec<T>> {
    check_room::<T>(op, count)?;
    Ok(values.take(count).collect())
}

/// As [`on_host`], of equal values.
pub(crate) fn filled<T: Clone>(op: &'static str, count: usize, value: T) -> Result<Vec<T>> {
    check_room::<T>(op, count)?;
    Ok(vec![value; count])
}

fn check_room<T>(op: &'static str, count: usize) -> Result<()> {
    let bytes = count.saturating_mul(size_of::<T>());
    if amp_cpu::has_room(bytes) { Ok(()) } else { Err(Error::OutOfMemory { op, bytes }) }
}
