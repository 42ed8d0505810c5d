//! Result buffers that several threads fill at once.

use crate::num::Real;
use crate::{SliceMut, Storage};
use half::{bf16, f16};
use std::marker::PhantomData;

#[derive(Clone, Copy)]
enum Pointer {
    F16(*mut f16),
    BF16(*mut bf16),
    F32(*mut f32),
    F64(*mut f64),
}

/// A float buffer that tasks write disjoint parts of.
#[derive(Clone, Copy)]
pub(crate) struct Output<'a> {
    pointer: Pointer,
    len: usize,
    buffer: PhantomData<&'a mut [u8]>,
}

// SAFETY: the pointer comes from a unique borrow of plain numbers, and every method that goes through it is `unsafe`
// with the duty that no two threads touch the same elements.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// Borrows the whole of a float buffer.
    pub(crate) fn new(storage: &'a mut Storage) -> Self {
        let len = storage.len();
        let pointer = match storage.as_mut_slice() {
            SliceMut::F16(s) => Pointer::F16(s.as_mut_ptr()),
            SliceMut::BF16(s) => Pointer::BF16(s.as_mut_ptr()),
            SliceMut::F32(s) => Pointer::F32(s.as_mut_ptr()),
            SliceMut::F64(s) => Pointer::F64(s.as_mut_ptr()),
            SliceMut::I64(_) | SliceMut::U8(_) | SliceMut::Bool(_) => unreachable!("float kernels write float buffers"),
        };
        Self { pointer, len, buffer: PhantomData }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Rounds `values` once and writes them `stride` apart from `offset` on.
    ///
    /// # Safety
    /// No other thread may touch these elements meanwhile.
    pub(crate) unsafe fn store<T: Real>(&self, offset: usize, stride: usize, values: &[T]) {
        if values.is_empty() {
            return;
        }
        assert!(offset + (values.len() - 1) * stride < self.len);
        // SAFETY: the elements lie inside the buffer (checked above) and are this thread's alone (caller).
        unsafe {
            match self.pointer {
                Pointer::F16(p) => scatter(p.add(offset), stride, values, |s| SliceMut::F16(s)),
                Pointer::BF16(p) => scatter(p.add(offset), stride, values, |s| SliceMut::BF16(s)),
                Pointer::F32(p) => scatter(p.add(offset), stride, values, |s| SliceMut::F32(s)),
                Pointer::F64(p) => scatter(p.add(offset), stride, values, |s| SliceMut::F64(s)),
            }
        }
    }

    /// Adds `values` to the elements that lie `stride` apart from `offset` on, in the type of `values`.
    ///
    /// # Safety
    /// No other thread may touch these elements meanwhile.
    pub(crate) unsafe fn accumulate<T: Real>(&self, offset: usize, stride: usize, values: &[T]) {
        let Some(last) = values.len().checked_sub(1) else { return };
        assert!(offset + last * stride < self.len);
        let pointer: *mut T = match self.pointer {
            Pointer::F32(p) if T::DTYPE == crate::DType::F32 => p.cast(),
            Pointer::F64(p) if T::DTYPE == crate::DType::F64 => p.cast(),
            _ => unreachable!("accumulators have the type that is computed in"),
        };
        if stride == 1 {
            // SAFETY: `pointer` is a buffer of `T` (matched above) of which these elements are inside (checked) and this
            // thread's alone (caller).
            let into = unsafe { std::slice::from_raw_parts_mut(pointer.add(offset), values.len()) };
            into.iter_mut().zip(values).for_each(|(into, &value)| *into += value);
            return;
        }
        for (i, &value) in values.iter().enumerate() {
            // SAFETY: as above.
            unsafe { *pointer.add(offset + i * stride) += value };
        }
    }
}

/// # Safety
/// `to` must be valid for writes of `values.len()` elements `stride` apart, by this thread alone.
unsafe fn scatter<S: Copy + Default, T: Real>(
    to: *mut S,
    stride: usize,
    values: &[T],
    tagged: fn(&mut [S]) -> SliceMut<'_>,
) {
    if stride == 1 {
        // SAFETY: the caller's duty with a stride of 1.
        let to = unsafe { std::slice::from_raw_parts_mut(to, values.len()) };
        return T::narrow(values, &mut tagged(to));
    }
    const CHUNK: usize = 256;
    let mut narrow = [S::default(); CHUNK];
    for (i, chunk) in values.chunks(CHUNK).enumerate() {
        T::narrow(chunk, &mut tagged(&mut narrow[..chunk.len()]));
        for (j, &value) in narrow[..chunk.len()].iter().enumerate() {
            // SAFETY: element `i * CHUNK + j` of the caller's range.
            unsafe { *to.add((i * CHUNK + j) * stride) = value };
        }
    }
}
