//! A cache of buffers: in steady state a training step touches no new page.
//!
//! A fresh 4 KiB page costs about 0.8 µs, as much as moving 10-30 KB through memory, so buffers of a page and more are
//! kept by size class when they are dropped and handed out again. Contents of a reused buffer are those of its last
//! user: [`take`] is for outputs that a kernel overwrites in full, [`zeroed`] for accumulators.

use crate::Storage;
use half::{bf16, f16};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Below this many bytes the allocator's own caches are faster.
const LEAST_BYTES: usize = 4096;

static LIMIT: AtomicUsize = AtomicUsize::new(4 << 30);
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Sets how many bytes of unused buffers are kept (4 GiB by default), and frees the kept ones if they are more.
pub fn set_cache_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
    if HELD.load(Ordering::Relaxed) > bytes {
        empty_cache();
    }
}

/// Frees every unused buffer (`torch.cuda.empty_cache`).
pub fn empty_cache() {
    f16::pool().clear();
    bf16::pool().clear();
    f32::pool().clear();
    f64::pool().clear();
    i64::pool().clear();
    u8::pool().clear();
    bool::pool().clear();
}

/// Bytes of unused buffers that are kept.
pub fn cached_bytes() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Whether a buffer of `bytes` bytes could be had now; unused buffers are given up for it where they must be.
pub fn has_room(bytes: usize) -> bool {
    // Smaller ones are not worth asking the system twice.
    const LARGE: usize = 1 << 28;
    if bytes > isize::MAX as usize {
        return false;
    }
    let wanted = class(bytes);
    let fits = || Vec::<u8>::new().try_reserve_exact(wanted).is_ok();
    bytes < LARGE || fits() || {
        empty_cache();
        fits()
    }
}

/// A buffer of `len` elements with arbitrary contents.
pub(crate) fn take<T: Pooled>(len: usize) -> Vec<T> {
    reuse(len).unwrap_or_else(|| fresh(len))
}

/// A buffer of `len` zeros.
pub(crate) fn zeroed<T: Pooled>(len: usize) -> Vec<T> {
    let Some(mut buffer) = reuse(len) else { return fresh(len) };
    buffer.fill(T::default());
    buffer
}

fn reuse<T: Pooled>(len: usize) -> Option<Vec<T>> {
    if len * size_of::<T>() < LEAST_BYTES {
        return None;
    }
    let mut buffer = T::pool().pop(class(len))?;
    buffer.resize(len, T::default());
    Some(buffer)
}

fn fresh<T: Pooled>(len: usize) -> Vec<T> {
    if len * size_of::<T>() < LEAST_BYTES {
        return vec![T::default(); len];
    }
    let mut buffer = vec![T::default(); class(len)];
    buffer.truncate(len);
    buffer
}

impl Storage {
    /// Hands the memory back for reuse and leaves no elements; dropping a storage instead frees it.
    pub fn recycle(&mut self) {
        match self {
            Self::F16(v) => put(std::mem::take(v)),
            Self::BF16(v) => put(std::mem::take(v)),
            Self::F32(v) => put(std::mem::take(v)),
            Self::F64(v) => put(std::mem::take(v)),
            Self::I64(v) => put(std::mem::take(v)),
            Self::U8(v) => put(std::mem::take(v)),
            Self::Bool(v) => put(std::mem::take(v)),
        }
    }
}

/// Keeps a buffer for the next [`take`] of its class, unless the pool is full.
pub(crate) fn put<T: Pooled>(buffer: Vec<T>) {
    let capacity = buffer.capacity();
    let bytes = capacity * size_of::<T>();
    if bytes < LEAST_BYTES || HELD.load(Ordering::Relaxed) + bytes > LIMIT.load(Ordering::Relaxed) {
        return;
    }
    // A buffer that came from outside the pool serves the class below its capacity.
    let class = if class(capacity) == capacity { capacity } else { class_below(capacity) };
    T::pool().push(class, buffer);
}

/// The least class that holds `len` elements: four classes for each doubling, so that at most a fifth is wasted.
fn class(len: usize) -> usize {
    let step = (len.next_power_of_two() / 8).max(1);
    len.div_ceil(step) * step
}

fn class_below(len: usize) -> usize {
    let step = ((len + 1).next_power_of_two() / 8).max(1);
    len / step * step
}

/// Element types with a pool of their own.
pub(crate) trait Pooled: Clone + Default + 'static {
    fn pool() -> &'static Pool<Self>;
}

/// Unused buffers of one element type, by size class.
pub(crate) struct Pool<T>(Mutex<Option<HashMap<usize, Vec<Vec<T>>>>>);

impl<T> Pool<T> {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn pop(&self, class: usize) -> Option<Vec<T>> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.get_mut(&class)?.pop()?;
        HELD.fetch_sub(buffer.capacity() * size_of::<T>(), Ordering::Relaxed);
        Some(buffer)
    }

    fn push(&self, class: usize, buffer: Vec<T>) {
        HELD.fetch_add(buffer.capacity() * size_of::<T>(), Ordering::Relaxed);
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert_default().entry(class).or_default().push(buffer);
    }

    fn clear(&self) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bytes: usize = kept.iter().flat_map(HashMap::values).flatten().map(|b| b.capacity() * size_of::<T>()).sum();
        HELD.fetch_sub(bytes, Ordering::Relaxed);
    }
}

macro_rules! pooled {
    ($($type:ty),*) => { $(impl Pooled for $type {
        fn pool() -> &'static Pool<Self> {
            static POOL: Pool<$type> = Pool::new();
            &POOL
        }
    })* };
}
pooled!(f16, bf16, f32, f64, i64, u8, bool);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_and_waste_at_most_a_fifth() {
        for len in (1..5000).chain([1 << 20, (1 << 20) + 1, 12_345_678]) {
            let class = class(len);
            assert!(class >= len && class <= len + len / 4 + 1, "{len} → {class}");
            assert_eq!(super::class(class), class, "a class is its own");
            assert!(class_below(len) <= len && super::class(class_below(len)) == class_below(len), "{len}");
        }
    }

    #[test]
    fn more_than_any_machine_has_is_refused() {
        assert!(has_room(1 << 20) && has_room(1 << 29));
        assert!(!has_room(1 << 47) && !has_room(isize::MAX as usize));
    }

    #[test]
    fn buffers_come_back_with_the_right_length_and_zeros_when_asked() {
        let mut first: Vec<f64> = take(10_001);
        first.fill(7.0);
        let place = first.as_ptr();
        Storage::F64(first).recycle();
        let again: Vec<f64> = zeroed(10_000);
        assert!(again.len() == 10_000 && again.iter().all(|&v| v == 0.0));
        assert_eq!(again.as_ptr(), place, "the same memory");
        let foreign: Vec<i64> = vec![1; 7001];
        Storage::I64(foreign).recycle();
        assert_eq!(take::<i64>(6000).len(), 6000);
    }
}
