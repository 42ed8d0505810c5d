//! Shapes as users write them, axes from either end, and broadcasting.

use crate::{Error, Result};
use amp_cpu::Dims;
use std::borrow::Cow;
use std::ops::RangeFull;

/// Anything that names a shape: `[2, 3]`, `(2, 3)`, `&dims`, `vec![2, 3]`, `5` for a vector, `()` for a single value.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is not a shape",
    label = "sizes are of type `usize`",
    note = "write an array, a slice or a `Vec` of them: `[2, 3]`"
)]
pub trait IntoShape {
    /// The shape, or an error when it has too many dimensions or too many elements.
    fn into_shape(self, op: &'static str) -> Result<Dims>;
}

impl IntoShape for &[usize] {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        let dims = Dims::new(self).ok_or(Error::TooManyDimensions { op, rank: self.len() })?;
        // Bytes, not elements, must be addressable, and no intermediate product may overflow when a size is zero.
        let bytes = self.iter().filter(|&&d| d != 0).try_fold(8usize, |n, &d| n.checked_mul(d));
        if bytes.is_none_or(|n| n > isize::MAX as usize) {
            return Err(Error::TooLarge { op, shape: dims.into() });
        }
        Ok(dims)
    }
}

impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        self.as_slice().into_shape(op)
    }
}

impl<const N: usize> IntoShape for &[usize; N] {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        self.as_slice().into_shape(op)
    }
}

impl IntoShape for Vec<usize> {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        self.as_slice().into_shape(op)
    }
}

impl IntoShape for &Vec<usize> {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        self.as_slice().into_shape(op)
    }
}

impl IntoShape for Dims {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        (&*self).into_shape(op)
    }
}

/// One dimension.
impl IntoShape for usize {
    fn into_shape(self, op: &'static str) -> Result<Dims> {
        [self].into_shape(op)
    }
}

/// The type of a size that has a name.
macro_rules! sized {
    ($name:ident) => {
        usize
    };
}

/// Implements something for tuples of one element to as many as a tensor has dimensions.
macro_rules! tuples {
    ($implement:ident) => {
        $implement!(a);
        $implement!(a, b);
        $implement!(a, b, c);
        $implement!(a, b, c, d);
        $implement!(a, b, c, d, e);
        $implement!(a, b, c, d, e, f);
        $implement!(a, b, c, d, e, f, g);
        $implement!(a, b, c, d, e, f, g, h);
    };
}

macro_rules! tuple_of_sizes {
    ($($size:ident),*) => {
        impl IntoShape for ($(sized!($size),)*) {
            fn into_shape(self, op: &'static str) -> Result<Dims> {
                let ($($size,)*) = self;
                [$($size),*].into_shape(op)
            }
        }
    };
}
tuples!(tuple_of_sizes);

impl IntoShape for () {
    fn into_shape(self, _op: &'static str) -> Result<Dims> {
        Ok(Dims::default())
    }
}

/// A shape for as many elements as there are: what [`IntoShape`] takes, a tuple of sizes with one `..` for what is left:
/// `(n, ..)`, `(.., 3, 2)`, or `..` alone for one dimension.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is not a shape",
    label = "sizes are of type `usize`",
    note = "write an array of them: `[2, 3]`; for the size that is left (`-1` in PyTorch) `..`: `(2, ..)`, or alone"
)]
pub trait IntoReshape {
    /// The shape for `count` elements, or an error when there is none.
    fn into_reshape(self, op: &'static str, count: usize) -> Result<Dims>;
}

// Tuples, as sizes of another type in arrays (`-1`) would leave the type of `[n, iter.product()]` open.
impl<S: IntoShape> IntoReshape for S {
    fn into_reshape(self, op: &'static str, _count: usize) -> Result<Dims> {
        self.into_shape(op)
    }
}

macro_rules! with_rest {
    ($(($($before:ident),*) ($($after:ident),*);)*) => { $(
        impl IntoReshape for ($(sized!($before),)* RangeFull, $(sized!($after),)*) {
            fn into_reshape(self, op: &'static str, count: usize) -> Result<Dims> {
                let ($($before,)* _, $($after,)*) = self;
                rest(op, count, &[$($before),*], &[$($after),*])
            }
        }
    )* };
}
with_rest! {
    () ();
    (a) (); () (a);
    (a, b) (); (a) (b); () (a, b);
    (a, b, c) (); (a, b) (c); (a) (b, c); () (a, b, c);
    (a, b, c, d) (); (a, b, c) (d); (a, b) (c, d); (a) (b, c, d); () (a, b, c, d);
    (a, b, c, d, e) (); (a, b, c, d) (e); (a, b, c) (d, e); (a, b) (c, d, e); (a) (b, c, d, e); () (a, b, c, d, e);
    (a, b, c, d, e, f) (); (a, b, c, d, e) (f); (a, b, c, d) (e, f); (a, b, c) (d, e, f); (a, b) (c, d, e, f); (a) (b, c, d, e, f); () (a, b, c, d, e, f);
    (a, b, c, d, e, f, g) (); (a, b, c, d, e, f) (g); (a, b, c, d, e) (f, g); (a, b, c, d) (e, f, g); (a, b, c) (d, e, f, g); (a, b) (c, d, e, f, g); (a) (b, c, d, e, f, g); () (a, b, c, d, e, f, g);
}

/// All elements in one dimension, as `-1` alone in PyTorch.
impl IntoReshape for RangeFull {
    fn into_reshape(self, op: &'static str, count: usize) -> Result<Dims> {
        [count].into_shape(op)
    }
}

/// `before`, what is left of `count` elements, and `after`.
fn rest(op: &'static str, count: usize, before: &[usize], after: &[usize]) -> Result<Dims> {
    let given = [before, after].concat();
    let left = product(op, &given)?;
    if left == 0 || !count.is_multiple_of(left) {
        let expected = format!("sizes whose product divides the {count} elements");
        return Err(Error::argument(op, "shape", expected, format!("{given:?} beside `..`")));
    }
    [before, &[count / left], after].concat().into_shape(op)
}

/// `axis` counted from the front, where a negative one counts from the end.
pub(crate) fn axis(op: &'static str, axis: isize, rank: usize) -> Result<usize> {
    let from_front = if axis < 0 { axis.checked_add_unsigned(rank).unwrap_or(axis) } else { axis };
    usize::try_from(from_front).ok().filter(|&a| a < rank).ok_or(Error::Axis { op, axis, rank })
}

/// Whether `axis` takes a single value for a line of one element.
pub(crate) fn is_line(axis: isize, rank: usize) -> bool {
    rank == 0 && matches!(axis, 0 | -1)
}

/// An index of any signed or unsigned size; a negative one counts from the end.
pub trait Position {
    /// As it was given; what does not fit lies outside of every tensor.
    fn position(self) -> i64;
}

impl Position for usize {
    fn position(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Position for isize {
    fn position(self) -> i64 {
        self as i64
    }
}

impl Position for i64 {
    fn position(self) -> i64 {
        self
    }
}

/// What a literal is.
impl Position for i32 {
    fn position(self) -> i64 {
        self.into()
    }
}

/// `index` counted from the front.
pub(crate) fn position(op: &'static str, index: impl Position, size: usize) -> Result<usize> {
    let index = index.position();
    let from_front = if index < 0 { index.checked_add_unsigned(size as u64) } else { Some(index) };
    let found = from_front.and_then(|i| usize::try_from(i).ok()).filter(|&i| i < size);
    found.ok_or(Error::IndexOutOfRange { op, index, size })
}

/// One axis or several, each counted from the front or, where negative, from the end: `-1`, `[0, 2]`, `(0, 2)`, `vec![..]`.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` names no axes",
    label = "axes are of type `isize`",
    note = "write one, or an array, a tuple or a `Vec` of them: `-1`, `[0, 2]`, `(0, 2)`; of a `usize`, `axis as isize`"
)]
pub trait Axes {
    /// The axes as they were given.
    fn as_axes(&self) -> Cow<'_, [isize]>;
}

impl Axes for isize {
    fn as_axes(&self) -> Cow<'_, [isize]> {
        std::slice::from_ref(self).into()
    }
}

// Of one type of integer only, as others would leave the type of `[]` and of `[0, 2]` open.
impl<const N: usize> Axes for [isize; N] {
    fn as_axes(&self) -> Cow<'_, [isize]> {
        self.into()
    }
}

impl Axes for [isize] {
    fn as_axes(&self) -> Cow<'_, [isize]> {
        self.into()
    }
}

impl Axes for Vec<isize> {
    fn as_axes(&self) -> Cow<'_, [isize]> {
        self.into()
    }
}

impl<T: Axes + ?Sized> Axes for &T {
    fn as_axes(&self) -> Cow<'_, [isize]> {
        (**self).as_axes()
    }
}

macro_rules! tuple_of_axes {
    ($($axis:ident),*) => {
        impl Axes for ($(tuple_of_axes!(axis $axis),)*) {
            fn as_axes(&self) -> Cow<'_, [isize]> {
                let ($($axis,)*) = *self;
                vec![$($axis),*].into()
            }
        }
    };
    (axis $name:ident) => { isize };
}
tuples!(tuple_of_axes);

/// Axes counted from the front and sorted; each may be given once. None given means all. Of a single value, 0 and -1 are
/// taken too, as in PyTorch, and name nothing.
pub(crate) fn axes(op: &'static str, given: &[isize], rank: usize) -> Result<Vec<usize>> {
    if given.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut found = Vec::with_capacity(given.len());
    for &a in given {
        let front = if is_line(a, rank) { 0 } else { axis(op, a, rank)? };
        if found.contains(&front) {
            return Err(Error::RepeatedAxis { op, axis: a, axes: given.to_vec() });
        }
        found.push(front);
    }
    found.retain(|&front| front < rank);
    found.sort_unstable();
    Ok(found)
}

/// An error unless `found` is the shape `expected`.
pub(crate) fn check_same(op: &'static str, what: &'static str, expected: &[usize], found: &[usize]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let found = Dims::new(found).expect("the shape of a tensor");
    Err(Error::Shape { op, what, expected: format!("{expected:?}"), found: found.into() })
}

/// The product of sizes, or an error where no tensor could have it.
pub(crate) fn product(op: &'static str, sizes: &[usize]) -> Result<usize> {
    let shape = sizes.into_shape(op)?;
    Ok(shape.count())
}

/// The shape that `left` and `right` broadcast to, by NumPy's rule.
pub(crate) fn broadcast(op: &'static str, left: &Dims, right: &Dims) -> Result<Dims> {
    if left == right {
        return Ok(*left);
    }
    let (long, short) = if left.len() >= right.len() { (left, right) } else { (right, left) };
    let mut shape = *long;
    let lead = long.len() - short.len();
    for (size, &other) in shape[lead..].iter_mut().zip(short.iter()) {
        *size = match (*size, other) {
            (a, b) if a == b => a,
            (1, b) => b,
            (a, 1) => a,
            _ => return Err(Error::Broadcast { op, left: left.into(), right: right.into() }),
        };
    }
    (*shape).into_shape(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(sizes: &[usize]) -> Dims {
        Dims::new(sizes).unwrap()
    }

    #[test]
    fn broadcast_follows_numpy() {
        assert_eq!(broadcast("add", &dims(&[2, 1, 3]), &dims(&[4, 1])).unwrap(), dims(&[2, 4, 3]));
        assert_eq!(broadcast("add", &dims(&[]), &dims(&[5])).unwrap(), dims(&[5]));
        assert_eq!(broadcast("add", &dims(&[0]), &dims(&[1])).unwrap(), dims(&[0]));
        let error = broadcast("add", &dims(&[2, 3]), &dims(&[4])).unwrap_err();
        assert_eq!(error.to_string(), "add: shapes [2, 3] and [4] do not broadcast");
    }

    #[test]
    fn two_dots_are_what_is_left() {
        assert_eq!((2, ..).into_reshape("reshape", 12).unwrap(), dims(&[2, 6]));
        assert_eq!((.., 3, 1).into_reshape("reshape", 12).unwrap(), dims(&[4, 3, 1]));
        assert_eq!((..).into_reshape("reshape", 12).unwrap(), dims(&[12]));
        assert_eq!((..,).into_reshape("reshape", 0).unwrap(), dims(&[0]));
        assert_eq!((1, 2, .., 3, 2).into_reshape("reshape", 12).unwrap(), dims(&[1, 2, 1, 3, 2]));
        assert_eq!((1, 2, 1, 3, 2, 1, ..).into_reshape("reshape", 12).unwrap(), dims(&[1, 2, 1, 3, 2, 1, 1]));
        assert_eq!((.., 1, 2, 1, 3, 1, 1, 1).into_reshape("reshape", 12).unwrap(), dims(&[2, 1, 2, 1, 3, 1, 1, 1]));
        assert_eq!((4, 3).into_reshape("reshape", 12).unwrap(), dims(&[4, 3]));
        assert_eq!((4, ..).into_reshape("reshape", 0).unwrap(), dims(&[4, 0]));
        let error = (5, .., 2).into_reshape("reshape", 12).unwrap_err().to_string();
        let expected = "sizes whose product divides the 12 elements";
        assert_eq!(error, format!("reshape: shape must be {expected}, found [5, 2] beside `..`"));
        assert!((0, ..).into_reshape("reshape", 0).is_err(), "any size would do");
        assert!((usize::MAX, .., 2).into_reshape("reshape", 0).is_err());
    }

    #[test]
    fn axes_count_from_either_end() {
        assert_eq!(axis("sum", -1, 3).unwrap(), 2);
        assert!(axis("sum", 3, 3).is_err());
        assert!(axis("sum", isize::MIN, 3).is_err());
        assert_eq!(axes("sum", &[-1, 0], 3).unwrap(), [0, 2]);
        assert!(axes("sum", &[1, -2], 3).is_err());
        assert!(axes("sum", &[-1], 0).unwrap().is_empty());
        assert!(axes("sum", &[0, -1], 0).is_err());
        assert!(axes("sum", &[1], 0).is_err());
    }

    #[test]
    fn axes_stand_alone_in_lists_and_in_tuples() {
        assert_eq!(*(-1).as_axes(), [-1]);
        assert_eq!(*(2,).as_axes(), [2]);
        assert_eq!(*(0, -2, 1).as_axes(), *[0, -2, 1].as_axes());
        assert_eq!(*vec![3, 1].as_axes(), *(3, 1).as_axes());
        assert!([].as_axes().is_empty());
    }

    #[test]
    fn impossible_shapes_are_errors() {
        assert!([1usize; 9].into_shape("zeros").is_err());
        assert!([usize::MAX, 2].into_shape("zeros").is_err());
        assert!([usize::MAX, 0].into_shape("zeros").is_err());
        assert!([0, 5].into_shape("zeros").is_ok());
    }
}
