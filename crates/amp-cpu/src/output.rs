//! Result buffers that several threads fill at once.

use crate::convert::Cast;
use crate::num::Real;
use crate::scratch::Plain;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{SliceMut, Storage};
use half::{bf16, f16};
use std::any::Any;
use std::marker::PhantomData;
use std::slice::ChunksExactMut;

#[derive(Clone, Copy)]
enum Pointer {
    F16(*mut f16),
    BF16(*mut bf16),
    F32(*mut f32),
    F64(*mut f64),
    I64(*mut i64),
}

/// Finished values: lines of `len`, one below the other.
pub(crate) struct Finished<'a, T> {
    pub values: &'a mut [T],
    pub len: usize,
}

impl<'a, T> Finished<'a, T> {
    /// The lines.
    pub fn chunks(self) -> ChunksExactMut<'a, T> {
        self.values.chunks_exact_mut(self.len)
    }
}

/// A buffer that tasks write disjoint parts of.
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
    /// Borrows the whole of a buffer of floats or I64.
    pub(crate) fn new(storage: &'a mut Storage) -> Self {
        let len = storage.len();
        let pointer = match storage.as_mut_slice() {
            SliceMut::F16(s) => Pointer::F16(s.as_mut_ptr()),
            SliceMut::BF16(s) => Pointer::BF16(s.as_mut_ptr()),
            SliceMut::F32(s) => Pointer::F32(s.as_mut_ptr()),
            SliceMut::F64(s) => Pointer::F64(s.as_mut_ptr()),
            SliceMut::I64(s) => Pointer::I64(s.as_mut_ptr()),
            SliceMut::U8(_) | SliceMut::Bool(_) => unreachable!("nothing computes in bytes"),
        };
        Self { pointer, len, buffer: PhantomData }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether `rows` rows of `columns` elements, the first at `offset`, the others `stride` apart, end inside the buffer.
    ///
    /// The proofs below rest on it, so it is checked: release code would let sums and products wrap around.
    #[inline(always)]
    fn holds(&self, offset: usize, stride: usize, rows: usize, columns: usize) -> bool {
        let Some(last) = rows.checked_sub(1) else { return true };
        let start = last.checked_mul(stride).and_then(|distance| distance.checked_add(offset));
        start.and_then(|start| start.checked_add(columns)).is_some_and(|end| end <= self.len)
    }

    /// Elements `offset..offset + len`.
    ///
    /// # Safety
    /// Nothing else may touch these elements as long as the result lives.
    pub(crate) unsafe fn part(&self, offset: usize, len: usize) -> SliceMut<'a> {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: the elements lie inside the buffer (checked above), which outlives them, and are the caller's alone.
        unsafe {
            match self.pointer {
                Pointer::F16(p) => SliceMut::F16(std::slice::from_raw_parts_mut(p.add(offset), len)),
                Pointer::BF16(p) => SliceMut::BF16(std::slice::from_raw_parts_mut(p.add(offset), len)),
                Pointer::F32(p) => SliceMut::F32(std::slice::from_raw_parts_mut(p.add(offset), len)),
                Pointer::F64(p) => SliceMut::F64(std::slice::from_raw_parts_mut(p.add(offset), len)),
                Pointer::I64(p) => SliceMut::I64(std::slice::from_raw_parts_mut(p.add(offset), len)),
            }
        }
    }

    /// Rounds `values` once and writes them `stride` apart from `offset` on.
    ///
    /// # Safety
    /// No other thread may touch these elements meanwhile.
    pub(crate) unsafe fn store<T: Real>(&self, offset: usize, stride: usize, values: &[T]) {
        if values.is_empty() {
            return;
        }
        assert!(self.holds(offset, stride, values.len(), 1));
        // SAFETY: the elements lie inside the buffer (checked above) and are this thread's alone (caller).
        unsafe {
            match self.pointer {
                Pointer::F16(p) => scatter(p.add(offset), stride, values, |s| SliceMut::F16(s)),
                Pointer::BF16(p) => scatter(p.add(offset), stride, values, |s| SliceMut::BF16(s)),
                Pointer::F32(p) => scatter(p.add(offset), stride, values, |s| SliceMut::F32(s)),
                Pointer::F64(p) => scatter(p.add(offset), stride, values, |s| SliceMut::F64(s)),
                Pointer::I64(p) => scatter(p.add(offset), stride, values, |s| SliceMut::I64(s)),
            }
        }
    }

    /// Adds `bias`, if any, to the first `columns` values of each of `lines`, rounds once and writes them, each line in a
    /// row; the first row begins at `offset`, the others `stride` apart.
    ///
    /// # Safety
    /// No other thread may touch these elements meanwhile.
    pub(crate) unsafe fn store_rows<T: Real>(
        &self,
        offset: usize,
        stride: usize,
        columns: usize,
        bias: &[T],
        lines: Finished<'_, T>,
    ) {
        let count = lines.values.len().checked_div(lines.len).unwrap_or(0);
        let Some(last) = count.checked_sub(1) else { return };
        assert!(self.holds(offset, stride, count, columns) && (last == 0 || stride >= columns));
        if bias.len() <= 1 && columns == lines.len && columns == stride {
            // Setting up the loop of a short line takes as long as the line: without gaps, all lines are stored as one.
            let values = &mut lines.values[..(last + 1) * columns];
            bias.iter().for_each(|&bias| values.iter_mut().for_each(|value| *value += bias));
            // SAFETY: the rows follow each other, inside the buffer (checked above), this thread's alone (caller).
            return unsafe { self.store(offset, 1, values) };
        }
        // SAFETY: rows lie inside the buffer, do not overlap (both checked above) and are this thread's alone (caller).
        unsafe {
            match self.pointer {
                Pointer::F16(p) => dispatch(RowsOfF16(Rows { to: p.add(offset), stride, columns, bias, lines })),
                Pointer::BF16(p) => dispatch(Rows { to: p.add(offset), stride, columns, bias, lines }),
                Pointer::F32(p) => dispatch(Rows { to: p.add(offset), stride, columns, bias, lines }),
                Pointer::F64(p) => dispatch(Rows { to: p.add(offset), stride, columns, bias, lines }),
                Pointer::I64(_) => unreachable!("products are floats"),
            }
        }
    }

    /// The first of `rows` rows of `columns` elements, the others `stride` apart, if they are of this type.
    pub(crate) fn rows<T: Plain>(&self, offset: usize, stride: usize, rows: usize, columns: usize) -> Option<*mut T> {
        assert!(self.holds(offset, stride, rows, columns));
        let pointer: &dyn Any = match &self.pointer {
            Pointer::F16(p) => p,
            Pointer::BF16(p) => p,
            Pointer::F32(p) => p,
            Pointer::F64(p) => p,
            Pointer::I64(p) => p,
        };
        pointer.downcast_ref::<*mut T>().map(|p| p.wrapping_add(offset))
    }

    /// Prefetches `rows` rows of `columns` elements, the first at `offset`, the others `stride` apart.
    pub(crate) fn prefetch(&self, offset: usize, stride: usize, rows: usize, columns: usize) {
        let (start, size): (*const u8, usize) = match self.pointer {
            Pointer::F16(p) => (p.cast_const().cast(), size_of::<f16>()),
            Pointer::BF16(p) => (p.cast_const().cast(), size_of::<bf16>()),
            Pointer::F32(p) => (p.cast_const().cast(), size_of::<f32>()),
            Pointer::F64(p) => (p.cast_const().cast(), size_of::<f64>()),
            Pointer::I64(p) => (p.cast_const().cast(), size_of::<i64>()),
        };
        (0..rows).for_each(|row| prefetch_at(start.wrapping_add((offset + row * stride) * size), columns * size));
    }

    /// Adds `values` to the elements that lie `stride` apart from `offset` on, in the type of `values`.
    ///
    /// # Safety
    /// No other thread may touch these elements meanwhile.
    pub(crate) unsafe fn accumulate<T: Real>(&self, offset: usize, stride: usize, values: &[T]) {
        if values.is_empty() {
            return;
        }
        assert!(self.holds(offset, stride, values.len(), 1));
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

/// Prefetches elements that will be read soon.
pub(crate) fn prefetch<T>(elements: &[T]) {
    prefetch_at(elements.as_ptr(), elements.len());
}

/// [`prefetch`] of elements that may be another thread's.
#[inline(always)]
pub(crate) fn prefetch_at<T>(start: *const T, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for byte in (0..len * size_of::<T>()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction, which reads nothing whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_byte_add(byte).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
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

/// Rows of a result, and the sums that are rounded into them; only [`Output::store_rows`] makes one.
struct Rows<'a, S, T> {
    /// The first row: `columns` elements from here and from each `stride` on are writable by this thread alone.
    to: *mut S,
    stride: usize,
    columns: usize,
    bias: &'a [T],
    lines: Finished<'a, T>,
}

impl<S, T: Real + Cast<S>> Kernel for Rows<'_, S, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<L: Simd>(self) {
        for (i, line) in self.lines.chunks().enumerate() {
            // SAFETY: row `i` (see `to`).
            let to = unsafe { std::slice::from_raw_parts_mut(self.to.add(i * self.stride), self.columns) };
            if self.bias.is_empty() {
                to.iter_mut().zip(line).for_each(|(to, value)| *to = value.converted());
            } else {
                let values = line.iter_mut().zip(self.bias);
                to.iter_mut().zip(values).for_each(|(to, (value, &bias))| *to = (*value + bias).converted());
            }
        }
    }
}

/// [`Rows`] of F16: there is an instruction for rounding to it, which the compiler does not find by itself.
struct RowsOfF16<'a, T>(Rows<'a, f16, T>);

impl<T: Real> Kernel for RowsOfF16<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<L: Simd>(self) {
        let Rows { to, stride, columns, bias, lines } = self.0;
        for (i, line) in lines.chunks().enumerate() {
            let line = &mut line[..columns];
            line.iter_mut().zip(bias).for_each(|(value, &bias)| *value += bias);
            // SAFETY: row `i` (see `to`).
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(i * stride), columns) };
            T::narrow_within::<L>(line, &mut SliceMut::F16(to), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Output;
    use crate::{DType, Storage};

    #[test]
    fn rows_end_inside_whatever_their_distance() {
        let mut storage = Storage::zeros(DType::F32, 12);
        let output = Output::new(&mut storage);
        for inside in [[0, 4, 3, 4], [2, 5, 3, 0], [11, 0, 9, 1], [12, 1, 0, 7], [usize::MAX, usize::MAX, 0, 1]] {
            let [offset, stride, rows, columns] = inside;
            assert!(output.holds(offset, stride, rows, columns), "{inside:?}");
        }
        let half = 1 << (usize::BITS - 1);
        for beyond in
            [[0, 4, 3, 5], [1, 4, 3, 4], [13, 1, 1, 0], [0, half, 3, 1], [4, usize::MAX, 2, 1], [0, 1, 1, usize::MAX]]
        {
            let [offset, stride, rows, columns] = beyond;
            assert!(!output.holds(offset, stride, rows, columns), "{beyond:?}");
        }
    }

    #[test]
    #[should_panic(expected = "holds")]
    fn a_distance_that_wraps_around_is_no_place_inside() {
        let mut storage = Storage::zeros(DType::F32, 12);
        // SAFETY: no other thread knows of the buffer.
        unsafe { Output::new(&mut storage).store(1, usize::MAX, &[1.0_f32, 2.0]) };
    }
}
