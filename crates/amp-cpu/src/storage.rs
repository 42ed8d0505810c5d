//! Owned buffers and borrowed, strided, precision-tagged views of them.

use crate::{Block, DType, Layout, cache};
use half::{bf16, f16};

/// A type that buffers hold.
pub(crate) trait Element: Sized {
    /// The elements themselves, when they are stored in this type.
    fn same(slice: Slice<'_>) -> Option<&[Self]>;

    /// The elements themselves, when they are stored in this type.
    fn same_mut<'a>(slice: &'a mut SliceMut<'_>) -> Option<&'a mut [Self]>;
}

macro_rules! variants {
    ($($tag:ident: $type:ty),*) => {
        /// An owned buffer of one element type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Storage {
            $(#[doc = concat!("Elements of type ", stringify!($tag), ".")] $tag(Block<$type>),)*
        }

        /// Borrowed elements with their type as a tag.
        #[derive(Clone, Copy, Debug)]
        pub enum Slice<'a> {
            $(#[doc = concat!("Elements of type ", stringify!($tag), ".")] $tag(&'a [$type]),)*
        }

        /// Mutably borrowed elements with their type as a tag.
        #[derive(Debug)]
        pub enum SliceMut<'a> {
            $(#[doc = concat!("Elements of type ", stringify!($tag), ".")] $tag(&'a mut [$type]),)*
        }

        impl Storage {
            /// A buffer of `len` zeros.
            pub fn zeros(dtype: DType, len: usize) -> Self {
                match dtype { $(DType::$tag => Self::$tag(cache::zeroed(len)),)* }
            }

            /// A buffer of `len` elements with arbitrary contents, for a kernel that writes them all.
            pub(crate) fn unwritten(dtype: DType, len: usize) -> Self {
                match dtype { $(DType::$tag => Self::$tag(cache::take(len)),)* }
            }

            /// Element type.
            pub fn dtype(&self) -> DType {
                match self { $(Self::$tag(_) => DType::$tag,)* }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Self::$tag(v) => v.len(),)* }
            }

            /// All elements, borrowed.
            pub fn as_slice(&self) -> Slice<'_> {
                match self { $(Self::$tag(v) => Slice::$tag(v),)* }
            }

            /// All elements, mutably borrowed.
            pub fn as_mut_slice(&mut self) -> SliceMut<'_> {
                match self { $(Self::$tag(v) => SliceMut::$tag(v),)* }
            }
        }

        impl Slice<'_> {
            /// Element type.
            pub fn dtype(&self) -> DType {
                match self { $(Self::$tag(_) => DType::$tag,)* }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Self::$tag(v) => v.len(),)* }
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Address of the first element.
            pub(crate) fn start(&self) -> *const u8 {
                match self { $(Self::$tag(v) => v.as_ptr().cast(),)* }
            }
        }

        impl<'a> Slice<'a> {
            /// Elements `start..start + len`.
            pub fn range(self, start: usize, len: usize) -> Self {
                match self { $(Self::$tag(v) => Self::$tag(&v[start..][..len]),)* }
            }
        }

        impl<'a> SliceMut<'a> {
            /// The first `middle` elements and the rest.
            pub fn split_at(self, middle: usize) -> (Self, Self) {
                match self {
                    $(Self::$tag(v) => {
                        let (left, right) = v.split_at_mut(middle);
                        (Self::$tag(left), Self::$tag(right))
                    })*
                }
            }

            /// Elements `start..start + len`, for a shorter time.
            pub fn range(&mut self, start: usize, len: usize) -> SliceMut<'_> {
                match self { $(Self::$tag(v) => SliceMut::$tag(&mut v[start..][..len]),)* }
            }
        }

        impl SliceMut<'_> {
            /// Element type.
            pub fn dtype(&self) -> DType {
                match self { $(Self::$tag(_) => DType::$tag,)* }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Self::$tag(v) => v.len(),)* }
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        $(impl Element for $type {
            fn same(slice: Slice<'_>) -> Option<&[Self]> {
                if let Slice::$tag(v) = slice { Some(v) } else { None }
            }

            fn same_mut<'a>(slice: &'a mut SliceMut<'_>) -> Option<&'a mut [Self]> {
                if let SliceMut::$tag(v) = slice { Some(v) } else { None }
            }
        }

        impl From<Vec<$type>> for Storage {
            fn from(v: Vec<$type>) -> Self {
                Self::$tag(v.into())
            }
        }

        impl From<Block<$type>> for Storage {
            fn from(v: Block<$type>) -> Self {
                Self::$tag(v)
            }
        })*
    };
}

variants!(F16: f16, BF16: bf16, F32: f32, F64: f64, I64: i64, U8: u8, Bool: bool);

impl Storage {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A strided operand: elements stored in one precision and meant in the same or a narrower one.
///
/// Loading an element widens it from `data`'s type and, where `logical` has fewer bits, rounds it to nearest even.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The whole buffer.
    pub data: Slice<'a>,
    /// Which elements, in which order.
    pub layout: &'a Layout,
    /// The precision the values count as.
    pub logical: DType,
}

impl View<'_> {
    /// Whether a load has to round: the values are stored wider than they are meant.
    pub fn rounds_on_load(&self) -> bool {
        self.logical.is_half() && self.data.dtype() != self.logical
    }

    /// Panics unless all elements lie inside of the data.
    ///
    /// Proofs of kernels that multiply positions by strides rest on it: in release code such products would wrap around.
    pub(crate) fn assert_inside(&self) {
        let Layout { shape, strides, offset } = self.layout;
        let along = |at: usize, (&size, &stride): (&usize, &usize)| at.checked_add((size - 1).checked_mul(stride)?);
        let is_inside = shape.contains(&0)
            || shape.iter().zip(strides.iter()).try_fold(*offset, along).is_some_and(|last| last < self.data.len());
        assert!(is_inside, "{:?} reaches beyond {} elements", self.layout, self.data.len());
    }
}
