//! The memory of one buffer.

use crate::arena::Span;
use crate::cache::Pooled;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Elements in a row: in memory of the pool, to which it returns when they are dropped, or in a vector of the caller's.
pub struct Block<T>(Home<T>);

enum Home<T> {
    Vector(Vec<T>),
    /// The first so many elements of the span are values, and lie inside.
    Pool(Span, usize, PhantomData<T>),
}

impl<T: Pooled> Block<T> {
    /// The first `len` elements of `span`, with arbitrary values.
    pub(crate) fn in_span(span: Span, len: usize) -> Self {
        assert!(len <= span.bytes() / size_of::<T>(), "the span holds the elements");
        if !T::ANY_BITS {
            // SAFETY: they lie inside (checked above) and are the span's alone.
            unsafe { span.start().cast::<T>().write_bytes(0, len) };
        }
        Self(Home::Pool(span, len, PhantomData))
    }
}

impl<T> Block<T> {
    /// All elements, borrowed.
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// All elements, mutably borrowed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }

    /// Forgets all elements but the first `len`.
    pub(crate) fn shorten(&mut self, len: usize) {
        match &mut self.0 {
            Home::Vector(vector) => vector.truncate(len),
            Home::Pool(_, all, _) => *all = len.min(*all),
        }
    }
}

impl<T: Clone> Block<T> {
    /// The elements as a vector, without a copy if they came as one.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Home::Vector(vector) => vector,
            Home::Pool(..) => self.to_vec(),
        }
    }
}

impl<T> Deref for Block<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Home::Vector(vector) => vector,
            // SAFETY: the elements are values inside the span (see `Home`), aligned, and borrowed with it.
            Home::Pool(span, len, _) => unsafe { std::slice::from_raw_parts(span.start().cast().as_ptr(), *len) },
        }
    }
}

impl<T> DerefMut for Block<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Home::Vector(vector) => vector,
            // SAFETY: as above, and the span is the only way to its bytes.
            Home::Pool(span, len, _) => unsafe { std::slice::from_raw_parts_mut(span.start().cast().as_ptr(), *len) },
        }
    }
}

impl<T> From<Vec<T>> for Block<T> {
    fn from(vector: Vec<T>) -> Self {
        Self(Home::Vector(vector))
    }
}

impl<T> FromIterator<T> for Block<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl<'a, T> IntoIterator for &'a Block<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The copy is a vector: copies are made for the host.
impl<T: Clone> Clone for Block<T> {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl<T: PartialEq> PartialEq for Block<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: PartialEq> PartialEq<Vec<T>> for Block<T> {
    fn eq(&self, other: &Vec<T>) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
