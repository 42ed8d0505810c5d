//! Stack memory for one chunk of one operand.

use crate::parallel::CHUNK;
use std::mem::MaybeUninit;

/// Memory for [`Buffer`]s, in whole cache lines: as the stack has it, every vector of 64 bytes would lie across two, and
/// functions of BF16 would take 5 to 14 % longer.
#[repr(align(64))]
pub(crate) struct Memory<T>([MaybeUninit<T>; CHUNK]);

/// Memory that costs nothing to make.
pub(crate) const fn memory<T: Copy>() -> Memory<T> {
    Memory([MaybeUninit::uninit(); CHUNK])
}

/// Room for [`CHUNK`] elements, of which only those that were asked for are ever touched.
///
/// A small tensor must not pay for clearing a whole chunk: in folds that did it was a tenth of the instructions of a step of
/// one small layer.
pub(crate) struct Buffer<'a, T> {
    elements: &'a mut Memory<T>,
    /// The first `ready` elements are initialised.
    ready: usize,
}

impl<'a, T: Copy + Default> Buffer<'a, T> {
    pub fn new(elements: &'a mut Memory<T>) -> Self {
        Self { elements, ready: 0 }
    }

    /// The first `len` elements, with unspecified values.
    pub fn first(&mut self, len: usize) -> &mut [T] {
        if self.ready < len {
            self.elements.0[self.ready..len].fill(MaybeUninit::new(T::default()));
            self.ready = len;
        }
        let elements = &mut self.elements.0[..len];
        // SAFETY: `MaybeUninit<T>` has the layout of `T`, and the first `ready >= len` elements are initialised.
        unsafe { &mut *(std::ptr::from_mut(elements) as *mut [T]) }
    }
}
