//! Shapes and strides of up to [`MAX_RANK`] dimensions, without allocation.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Largest number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Sizes (or strides, or axes), one per dimension; dereferences to a slice.
#[derive(Clone, Copy, Default)]
pub struct Dims {
    len: u8,
    sizes: [usize; MAX_RANK],
}

impl Dims {
    /// Copies `sizes`, or returns `None` when there are more than [`MAX_RANK`].
    pub fn new(sizes: &[usize]) -> Option<Self> {
        let mut dims = Self { len: u8::try_from(sizes.len()).ok()?, sizes: [0; MAX_RANK] };
        dims.sizes.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(dims)
    }

    /// Number of elements, or `None` when it overflows `usize`.
    pub fn checked_count(&self) -> Option<usize> {
        self.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// Number of elements of this shape.
    pub fn count(&self) -> usize {
        self.iter().product()
    }

    /// Row-major strides of this shape, in elements.
    pub fn contiguous_strides(&self) -> Self {
        let mut strides = *self;
        let mut step = 1;
        for i in (0..self.len()).rev() {
            strides[i] = step;
            step *= self[i];
        }
        strides
    }

    /// Appends a dimension; `None` when there are already [`MAX_RANK`].
    pub fn pushed(mut self, size: usize) -> Option<Self> {
        *self.sizes.get_mut(self.len as usize)? = size;
        self.len += 1;
        Some(self)
    }

    /// Inserts a dimension before `axis`; `None` when there are already [`MAX_RANK`] or `axis` is past the end.
    pub fn inserted(&self, axis: usize, size: usize) -> Option<Self> {
        let mut sizes = self.to_vec();
        if axis > sizes.len() {
            return None;
        }
        sizes.insert(axis, size);
        Self::new(&sizes)
    }

    /// Drops dimension `axis`.
    pub fn removed(&self, axis: usize) -> Self {
        let mut dims = *self;
        dims.sizes.copy_within(axis + 1.., axis);
        dims.len -= 1;
        dims
    }
}

impl Deref for Dims {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[..self.len as usize]
    }
}

impl DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.sizes[..self.len as usize]
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Dims {}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Where the elements of a tensor lie in its buffer: shape, strides and offset, all in elements.
///
/// A stride of 0 repeats an element (broadcasting).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Size of each dimension.
    pub shape: Dims,
    /// Distance between neighbours along each dimension, in elements.
    pub strides: Dims,
    /// Position of the first element in the buffer.
    pub offset: usize,
}

impl Layout {
    /// Row-major layout of `shape` from the start of a buffer.
    pub fn contiguous(shape: Dims) -> Self {
        Self { shape, strides: shape.contiguous_strides(), offset: 0 }
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// Whether the elements follow one another in row-major order (size-1 dimensions may have any stride).
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()).rev() {
            if size != 1 && stride != step {
                return self.count() == 0;
            }
            step *= size;
        }
        true
    }
}
