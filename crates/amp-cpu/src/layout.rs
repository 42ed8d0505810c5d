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

    /// Moves dimension `from` to where `to` is; those between them move up.
    pub fn moved(mut self, from: usize, to: usize) -> Self {
        if from < to {
            self[from..=to].rotate_left(1);
        } else {
            self[to..=from].rotate_right(1);
        }
        self
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

/// Errors keep shapes behind pointers.
impl From<&Dims> for Box<Dims> {
    fn from(dims: &Dims) -> Self {
        Self::new(*dims)
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The order in which the elements of `[N, C, ..]` follow one another in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryOrder {
    /// Neighbours along the last dimension are neighbours: `[N, C, ..]`.
    #[default]
    RowMajor,
    /// The channels of a pixel are neighbours: `[N, .., C]`.
    ChannelsLast,
}

impl MemoryOrder {
    /// That of the first layout whose elements follow one another, in either order; row-major where none does.
    ///
    /// Sizes of 1 make both orders the same: these count as row-major.
    pub fn of(layouts: &[&Layout]) -> Self {
        let of_one = |layout: &&Layout| match layout {
            layout if layout.is_contiguous() => Some(Self::RowMajor),
            layout if layout.is_channels_last() => Some(Self::ChannelsLast),
            _ => None,
        };
        layouts.iter().find_map(of_one).unwrap_or_default()
    }

    /// `shape` from the start of a buffer.
    pub fn layout(self, shape: Dims) -> Layout {
        match self {
            Self::RowMajor => Layout::contiguous(shape),
            Self::ChannelsLast => Layout::channels_last(shape),
        }
    }

    /// Where axis `axis` of `rank` is in [`walked`](Self::walked).
    pub fn axis(self, axis: usize, rank: usize) -> usize {
        match self {
            Self::ChannelsLast if axis == 1 => rank - 1,
            Self::ChannelsLast if axis > 1 => axis - 1,
            _ => axis,
        }
    }

    /// The same elements, row-major if they follow one another in this order.
    pub fn walked(self, layout: &Layout) -> Layout {
        match self {
            Self::RowMajor => *layout,
            Self::ChannelsLast => layout.with_channels_last(),
        }
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

    /// The same elements, in row-major order, as those of another shape; `None` where that takes a copy.
    pub fn reshaped(&self, shape: Dims) -> Option<Self> {
        debug_assert_eq!(self.count(), shape.count());
        if self.is_contiguous() {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        let (mut strides, mut axis) = (shape.contiguous_strides(), 0);
        let sizes: Vec<(usize, usize)> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|&(size, _)| size != 1).collect();
        let mut rest = &sizes[..];
        while let Some((&(first, _), _)) = rest.split_first() {
            // As few dimensions as have the same number of elements on both sides.
            let (mut old, mut taken, mut new, start) = (first, 1, 1, axis);
            while new != old {
                if new < old {
                    new *= *shape.get(axis)?;
                    axis += 1;
                } else {
                    old *= rest.get(taken)?.0;
                    taken += 1;
                }
            }
            let (block, later) = rest.split_at(taken);
            if block.windows(2).any(|pair| pair[0].1 != pair[1].0 * pair[1].1) {
                return None;
            }
            let mut step = block[taken - 1].1;
            for i in (start..axis).rev() {
                strides[i] = step;
                step *= shape[i];
            }
            rest = later;
        }
        Some(Self { shape, strides, offset: self.offset })
    }

    /// Layout of `shape` `[N, C, ..]` from the start of a buffer in which the channels of a pixel lie together: `[N, .., C]`.
    pub fn channels_last(shape: Dims) -> Self {
        let stored = Self::contiguous(shape.moved(1, shape.len() - 1));
        Self { shape, strides: stored.strides.moved(shape.len() - 1, 1), offset: 0 }
    }

    /// The same elements with the channels of `[N, C, ..]` as the last dimension.
    pub fn with_channels_last(&self) -> Self {
        self.moved(1, self.shape.len() - 1)
    }

    /// The same elements with dimension `from` where `to` is; those between them move up.
    pub fn moved(&self, from: usize, to: usize) -> Self {
        Self { shape: self.shape.moved(from, to), strides: self.strides.moved(from, to), offset: self.offset }
    }

    /// Whether the elements of images `[N, C, H, W]` or volumes `[N, C, D, H, W]` follow one another with the channels of a pixel
    /// together, and not in row-major order too.
    ///
    /// Of these alone: a transposed matrix, or a batch of them, is not what convolutions make, and what takes rows of it
    /// wants them row-major.
    pub fn is_channels_last(&self) -> bool {
        matches!(self.shape.len(), 4 | 5) && !self.is_contiguous() && self.with_channels_last().is_contiguous()
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

#[cfg(test)]
mod tests {
    use super::{Dims, Layout};

    #[test]
    fn channels_last_is_row_major_with_the_channels_moved_to_the_end() {
        let layout = Layout::channels_last(Dims::new(&[2, 3, 4, 5]).expect("four dimensions"));
        assert_eq!(*layout.strides, [60, 1, 15, 3]);
        assert!(layout.is_channels_last() && !layout.is_contiguous());
        assert_eq!(layout.with_channels_last(), Layout::contiguous(Dims::new(&[2, 4, 5, 3]).expect("four dimensions")));
        let lines = Layout::channels_last(Dims::new(&[2, 3, 4]).expect("three dimensions"));
        assert_eq!(*lines.strides, [12, 1, 3]);
        assert!(!lines.is_channels_last());
    }

    #[test]
    fn dimensions_that_follow_one_another_are_joined_and_parted_without_a_copy() {
        let dims = |sizes: &[usize]| Dims::new(sizes).expect("few dimensions");
        let images = Layout { offset: 7, ..Layout::channels_last(dims(&[2, 3, 4, 5])) };
        let lines = images.reshaped(dims(&[2, 3, 20])).expect("rows follow one another");
        assert_eq!((&*lines.strides, lines.offset), (&[60, 1, 3][..], 7));
        assert_eq!(lines.reshaped(dims(&[2, 3, 4, 5])), Some(images));
        assert_eq!(
            images.reshaped(dims(&[2, 1, 3, 2, 2, 5])).map(|l| l.strides[2..].to_vec()),
            Some(vec![1, 30, 15, 3])
        );
        assert_eq!(images.reshaped(dims(&[2, 60])), None);
        assert_eq!(images.reshaped(dims(&[6, 20])), None);
        let repeated = Layout { shape: dims(&[3, 4]), strides: dims(&[0, 1]), offset: 0 };
        assert_eq!(repeated.reshaped(dims(&[12])), None);
        assert_eq!(repeated.reshaped(dims(&[3, 2, 2])).map(|l| l.strides.to_vec()), Some(vec![0, 2, 1]));
        let one = Layout { shape: dims(&[1, 1]), strides: dims(&[0, 9]), offset: 4 };
        assert_eq!(one.reshaped(dims(&[])).map(|l| l.offset), Some(4));
    }

    #[test]
    fn what_is_both_counts_as_row_major() {
        for shape in [&[2, 1, 4, 5][..], &[2, 3, 1, 1], &[0, 3, 4, 5], &[2, 3, 0, 5], &[1, 1, 1]] {
            let layout = Layout::channels_last(Dims::new(shape).expect("few dimensions"));
            assert!(layout.is_contiguous() && !layout.is_channels_last(), "{shape:?}");
        }
        let one = Layout::channels_last(Dims::new(&[1, 3, 4, 5]).expect("four dimensions"));
        assert!(one.is_channels_last());
        let matrix = Dims::new(&[3, 4]).expect("two dimensions");
        let turned = Layout { shape: matrix, strides: Dims::new(&[1, 3]).expect("two dimensions"), offset: 0 };
        assert!(!turned.is_channels_last());
    }
}
