//! Putting tensors together and taking them apart.

use super::choice::written;
use super::kernel::zeros;
use crate::autograd::{Pass, Turn, record, record_turn};
use crate::backend::Operand;
use crate::order::tensor;
use crate::precision::Element;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};
use amp_cpu::{Layout, MemoryOrder};
use std::ops::Deref;

/// A tensor, or a reference to one: what a list holds that [`Tensor::cat`] and [`Tensor::stack`] join.
#[diagnostic::on_unimplemented(
    message = "`cat` and `stack` join tensors, not `{Self}`",
    label = "neither tensors nor references to tensors",
    note = "a `Result` holds a tensor once it is unwrapped: put `?` behind it"
)]
pub trait Part<P: Element> {
    /// The tensor.
    fn tensor(&self) -> &Tensor<P>;
}

impl<P: Element> Part<P> for Tensor<P> {
    fn tensor(&self) -> &Self {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<P: Element, R: Deref<Target: Part<P>>> Part<P> for R {
    fn tensor(&self) -> &Tensor<P> {
        (**self).tensor()
    }
}

/// What [`Tensor::split`] cuts an axis into: parts of one size, or of several, `3`, `[2, 5, 1]`, `vec![..]`.
pub trait Sections {
    /// The sizes of the parts of an axis of size `len`.
    ///
    /// # Errors
    /// [`Error::Argument`] when no such parts make it up.
    fn sizes(&self, len: usize) -> Result<Vec<usize>>;
}

impl Sections for usize {
    fn sizes(&self, len: usize) -> Result<Vec<usize>> {
        match *self {
            0 => Err(Error::argument("split", "size", "at least 1", self)),
            size => Ok((0..len.max(1)).step_by(size).map(|start| size.min(len - start)).collect()),
        }
    }
}

impl Sections for [usize] {
    fn sizes(&self, len: usize) -> Result<Vec<usize>> {
        if self.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size)) != Some(len) {
            return Err(Error::argument("split", "size", format!("{len} elements in all"), format!("{self:?}")));
        }
        Ok(self.to_vec())
    }
}

impl<const N: usize> Sections for [usize; N] {
    fn sizes(&self, len: usize) -> Result<Vec<usize>> {
        self[..].sizes(len)
    }
}

impl Sections for Vec<usize> {
    fn sizes(&self, len: usize) -> Result<Vec<usize>> {
        self[..].sizes(len)
    }
}

impl<T: Sections + ?Sized> Sections for &T {
    fn sizes(&self, len: usize) -> Result<Vec<usize>> {
        (**self).sizes(len)
    }
}

/// Elements `start..start + length` of `axis`.
pub(super) fn part(x: &RawTensor, axis: usize, start: usize, length: usize) -> RawTensor {
    let mut layout = x.layout;
    layout.shape[axis] = length;
    layout.offset = if layout.count() == 0 { 0 } else { layout.offset + start * layout.strides[axis] };
    x.with_layout(layout)
}

/// The tensors one after the other along `axis`, and where each of them begins and how long it is; recorded nowhere.
pub(super) fn joined(op: &'static str, parts: &[&RawTensor], axis: usize) -> Result<(RawTensor, Vec<(usize, usize)>)> {
    let first = parts[0];
    let mut shape = *first.shape();
    shape[axis] = 0;
    let mut starts = Vec::with_capacity(parts.len());
    for x in parts {
        first.device().check_same(x.device(), op)?;
        let mut rest = *x.shape();
        if rest.len() != shape.len()
            || !rest.iter().zip(shape.iter()).enumerate().all(|(a, (x, y))| a == axis || x == y)
        {
            let expected = format!("{:?} in every dimension but axis {axis}", first.shape());
            return Err(Error::Shape { op, what: "each tensor", expected, found: rest.into() });
        }
        starts.push((shape[axis], rest[axis]));
        rest[axis] += shape[axis];
        shape = shape::IntoShape::into_shape(rest, op)?;
    }
    // If all are widened views of one 16-bit precision, so is the result: nothing is rounded.
    let stored = first.stored().logical;
    let out = if parts.iter().all(|x| x.stored().logical == stored) { stored } else { first.logical };
    // The first part whose elements follow one another says how the result lies.
    let order = MemoryOrder::of(&parts.iter().map(|x| &x.layout).collect::<Vec<_>>());
    let layouts: Vec<Layout> = parts.iter().map(|x| order.walked(&x.layout)).collect();
    let operands = parts.iter().zip(&layouts).map(|(x, layout)| Ok(Operand { layout, ..x.operand()? }));
    let buffer =
        first.backend().join(op, &operands.collect::<Result<Vec<_>>>()?, order.axis(axis, shape.len()), out)?;
    Ok((tensor(order, first.device(), buffer, shape).counted(first.logical), starts))
}

#[track_caller]
pub(super) fn cat(op: &'static str, parts: &[&RawTensor], axis: usize) -> Result<RawTensor> {
    let (y, starts) = joined(op, parts, axis)?;
    record_turn(op, parts, y, |_| {
        Ok(Turn::Sizes(Box::new(move |pass: &mut Pass<'_>| {
            for (i, &(start, length)) in starts.iter().enumerate() {
                let grad = part(pass.grad(), axis, start, length);
                pass.give(i, grad)?;
            }
            Ok(())
        })))
    })
}

impl<P: Element> Tensor<P> {
    /// The tensors, or what references there are to them, one after the other along `axis` (`torch.cat`). A line of no elements is
    /// left out, whatever dimensions the others have.
    ///
    /// # Errors
    /// [`Error::Shape`] when another dimension differs, [`Error::Argument`] when there are no tensors.
    #[track_caller]
    pub fn cat(tensors: &[impl Part<P>], axis: isize) -> Result<Self> {
        let mut tensors: Vec<&Self> = tensors.iter().map(Part::tensor).collect();
        if tensors.iter().any(|t| t.dims() != [0]) {
            tensors.retain(|t| t.dims() != [0]);
        }
        let Some(first) = tensors.first() else {
            return Err(Error::argument("cat", "tensors", "one or more", "none"));
        };
        let axis = shape::axis("cat", axis, first.rank())?;
        let parts: Vec<&RawTensor> = tensors.iter().map(|t| &t.raw).collect();
        Ok(Self::from_raw(cat("cat", &parts, axis)?))
    }

    /// The tensors, or what references there are to them, all of one shape, along a new dimension before `axis`
    /// (`torch.stack`).
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes differ, [`Error::Argument`] when there are no tensors.
    #[track_caller]
    pub fn stack(tensors: &[impl Part<P>], axis: isize) -> Result<Self> {
        let tensors: Vec<&Self> = tensors.iter().map(Part::tensor).collect();
        let Some(first) = tensors.first() else {
            return Err(Error::argument("stack", "tensors", "one or more", "none"));
        };
        tensors.iter().try_for_each(|t| shape::check_same("stack", "each tensor", first.dims(), t.dims()))?;
        let axis = shape::axis("stack", axis, first.rank() + 1)?;
        [first.dims(), &[1]].concat().into_shape("stack")?;
        let parts = tensors.iter().map(|t| t.unsqueeze(axis as isize)).collect::<Result<Vec<_>>>()?;
        let parts: Vec<&RawTensor> = parts.iter().map(|t| &t.raw).collect();
        Ok(Self::from_raw(cat("stack", &parts, axis)?))
    }

    /// Views of the elements of `axis`: of one size each, the last one possibly shorter, or of these sizes (`torch.split`).
    ///
    /// # Errors
    /// [`Error::Argument`] when the size is 0, or when the sizes are not as many elements as there are.
    #[doc(alias = "split_with_sizes")]
    #[track_caller]
    pub fn split(&self, size: impl Sections, axis: isize) -> Result<Vec<Self>> {
        let sizes = size.sizes(self.dims()[shape::axis("split", axis, self.rank())?])?;
        let starts = sizes.iter().scan(0, |end, size| Some(std::mem::replace(end, *end + size)));
        starts.zip(&sizes).map(|(start, &size)| self.narrow(axis, start, size)).collect()
    }

    /// At most `count` views of equal size along `axis`, the last one possibly shorter; `count` empty ones of an axis without
    /// elements (`torch.chunk`).
    ///
    /// # Errors
    /// [`Error::Argument`] when `count` is 0, [`Error::OutOfMemory`] for more empty views than there is memory for.
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: isize) -> Result<Vec<Self>> {
        let len = self.dims()[shape::axis("chunk", axis, self.rank())?];
        if count == 0 {
            return Err(Error::argument("chunk", "count", "at least 1", count));
        }
        match len {
            0 => self.tensor_split(count, axis).map_err(|error| error.named("chunk")),
            _ => self.split(len.div_ceil(count), axis),
        }
    }

    /// The tensor `times[i]` times along dimension `i`; new dimensions come first (`torch.Tensor.repeat`).
    ///
    /// # Errors
    /// [`Error::Argument`] when there are fewer numbers than dimensions.
    #[doc(alias = "tile")]
    #[track_caller]
    pub fn repeat(&self, times: impl AsRef<[usize]>) -> Result<Self> {
        let times = times.as_ref();
        if times.len() < self.rank() {
            let expected = format!("a number for each of the {} dimensions", self.rank());
            return Err(Error::argument("repeat", "times", expected, format!("{times:?}")));
        }
        let mut x = self.unchanged();
        for _ in self.rank()..times.len() {
            x = x.unsqueeze(0)?;
        }
        let sizes: Vec<usize> = x.dims().iter().zip(times).map(|(&size, &n)| size.saturating_mul(n)).collect();
        sizes.into_shape("repeat")?;
        // The last axis first: then copies are made of the smaller tensors.
        for (axis, &n) in times.iter().enumerate().rev().filter(|&(_, &n)| n != 1) {
            let mut shape = x.dims().to_vec();
            shape[axis] *= n;
            x = if n == 0 {
                x.narrow(axis as isize, 0, 0)?
            } else if x.count() == 0 {
                shape[axis] -= x.dims()[axis];
                Self::cat(&[&x, &Self::zeros(shape, x.device())?], axis as isize)?
            } else {
                let (outer, line) = (x.dims()[..axis].iter().product(), x.dims()[axis..].iter().product());
                x.reshape([outer, 1, line])?.expand([outer, n, line])?.reshape(shape)?
            };
        }
        Ok(x)
    }

    /// Adds `value` around the tensor; `padding` holds a count before and one after for each dimension, the last
    /// dimension first: `[left, right, top, bottom]` (`torch.nn.functional.pad`).
    ///
    /// # Errors
    /// [`Error::Argument`] unless there are two counts for each of at most all dimensions, and when a finite value is not finite in
    /// this precision.
    #[track_caller]
    pub fn pad(&self, padding: impl AsRef<[usize]>, value: f64) -> Result<Self> {
        let padding = padding.as_ref();
        if !padding.len().is_multiple_of(2) || padding.len() / 2 > self.rank() {
            let expected = format!("two counts for each of at most {} dimensions", self.rank());
            return Err(Error::argument("pad", "padding", expected, format!("{padding:?}")));
        }
        Ok(Self::from_raw(pad(&self.raw, padding, written("pad", value, P::DTYPE)?)?))
    }
}

#[track_caller]
fn pad(x: &RawTensor, padding: &[usize], value: f64) -> Result<RawTensor> {
    let (from, mut shape, mut starts) = (*x.shape(), *x.shape(), *x.shape());
    starts.fill(0);
    let mut around = vec![[0; 2]; from.len()];
    for (i, pair) in padding.chunks(2).enumerate() {
        let axis = from.len() - 1 - i;
        (around[axis], starts[axis]) = ([pair[0], pair[1]], pair[0]);
        shape[axis] = shape[axis].saturating_add(pair[0]).saturating_add(pair[1]);
    }
    let shape = shape::IntoShape::into_shape(shape, "pad")?;
    let buffer = x.backend().pad(x.operand()?, &around, value, shape)?;
    record("pad", &[x], RawTensor::new(x.device(), buffer, shape), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = (0..from.len()).fold(pass.grad().clone(), |g, axis| part(&g, axis, starts[axis], from[axis]));
            pass.give(0, if from.count() == 0 { zeros(&grad, pass.dtype(0))? } else { grad })
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F64, I64, Tensor, gradcheck};

    fn x() -> Tensor<F64> {
        Tensor::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap()
    }

    fn counted(shape: &[usize]) -> Tensor<I64> {
        let count: usize = shape.iter().product();
        Tensor::<I64>::arange(0, count, &Device::cpu()).unwrap().reshape(shape).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let both = [x(), x().t().unwrap().contiguous().unwrap()];
        for (name, worst) in [
            ("cat", gradcheck(|x| Tensor::cat(&[&x[0], &x[1].t()?, &x[0]], 1), &both)),
            ("stack", gradcheck(|x| Tensor::stack(&[&x[0], &x[1].t()?], -1), &both)),
            ("split", gradcheck(|x| Ok(x[0].split(2, 1)?.remove(1)), &both[..1])),
            ("sizes", gradcheck(|x| Ok(x[0].split([1, 2], 1)?.remove(1)), &both[..1])),
            ("repeat", gradcheck(|x| x[0].repeat([2, 1, 3]), &both[..1])),
            ("pad", gradcheck(|x| x[0].pad([1, 0, 2, 1], 0.5), &both[..1])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn parts_lie_where_they_should() {
        let (a, b) = (counted(&[2, 2]), counted(&[2, 1]));
        assert_eq!(Tensor::cat(&[&a, &b], -1).unwrap().to_vec().unwrap(), [0, 1, 0, 2, 3, 1]);
        assert_eq!(Tensor::stack(&[&b, &b], 0).unwrap().dims(), [2, 2, 1]);
        let (owned, shared, borrowed) = (vec![b.clone(), b.clone()], [std::sync::Arc::new(b.clone())], &b);
        assert_eq!(Tensor::cat(&owned, 0).unwrap().to_vec().unwrap(), [0, 1, 0, 1]);
        assert_eq!(Tensor::stack(&[b.clone(), b.clone()], 0).unwrap().dims(), [2, 2, 1]);
        assert_eq!(Tensor::stack(&shared, 0).unwrap().dims(), [1, 2, 1]);
        assert_eq!(Tensor::cat(&[&borrowed, &borrowed], 0).unwrap().dims(), [4, 1]);
        assert_eq!(Tensor::cat(&[borrowed, &b], 0).unwrap().dims(), [4, 1]);
        let none = x().narrow(0, 0, 0).unwrap();
        assert_eq!(
            none.repeat(vec![usize::MAX; none.rank()]).unwrap_err().to_string().split(':').next(),
            Some("repeat")
        );
        assert_eq!(counted(&[0]).repeat([usize::MAX]).unwrap().dims(), [0]);
        assert_eq!(counted(&[1, 2]).repeat([2, 2]).unwrap().to_vec().unwrap(), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(counted(&[2]).pad([1, 2], 7.0).unwrap().to_vec().unwrap(), [7, 0, 1, 7, 7]);
        let sizes: Vec<usize> = counted(&[7]).chunk(3, 0).unwrap().iter().map(Tensor::count).collect();
        assert_eq!(sizes, [3, 3, 1]);
        let parts = counted(&[7]).split([1, 0, 4, 2], 0).unwrap();
        let values: Vec<Vec<i64>> = parts.iter().map(|part| part.to_vec().unwrap()).collect();
        assert_eq!(values, [vec![0], vec![], vec![1, 2, 3, 4], vec![5, 6]]);
        assert_eq!(counted(&[2, 3]).split(vec![2, 1], -1).unwrap()[1].to_vec().unwrap(), [2, 5]);
        let empty = Tensor::<F16>::zeros([0, 3], &Device::cpu()).unwrap();
        assert_eq!(Tensor::cat(&[&empty, &empty], 0).unwrap().dims(), [0, 3]);
        assert_eq!(empty.split(2, 0).unwrap().len(), 1);
        assert_eq!(empty.chunk(3, 0).unwrap().iter().map(Tensor::dims).collect::<Vec<_>>(), [[0, 3]; 3]);
        assert_eq!(empty.chunk(2, 1).unwrap().iter().map(Tensor::dims).collect::<Vec<_>>(), [[0, 2], [0, 1]]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let error = Tensor::cat(&[&x(), &x().t().unwrap()], 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cat: each tensor must have shape [2, 3] in every dimension but axis 0, found [3, 2]"
        );
        assert!(Tensor::cat(&Vec::<Tensor<F64>>::new(), 0).is_err());
        assert!(Tensor::stack(&[&x(), &x().t().unwrap()], 0).is_err());
        assert!(x().split(0, 0).is_err());
        assert_eq!(
            x().split([1, 1], 1).unwrap_err().to_string(),
            "split: size must be 3 elements in all, found [1, 1]"
        );
        assert!(x().split([usize::MAX, 4], 1).is_err());
        assert!(x().repeat([2]).is_err());
        assert!(x().pad([1], 0.0).is_err());
        assert!(x().pad([usize::MAX, 1], 0.0).is_err());
        let deep = Tensor::<F64>::zeros([1; 8], &Device::cpu()).unwrap();
        let ninth = "9 dimensions, but a tensor has at most 8";
        assert_eq!(Tensor::stack(&[&deep], 0).unwrap_err().to_string(), format!("stack: {ninth}"));
        let rows = x().embedding(&Tensor::<I64>::zeros([1; 8], &Device::cpu()).unwrap());
        assert_eq!(rows.unwrap_err().to_string(), format!("embedding: {ninth}"));
        let outer = Tensor::<F64>::zeros([1; 5], &Device::cpu()).unwrap();
        let outer = outer.einsum("abcde,fghij->abcdefghij", &outer);
        assert_eq!(outer.unwrap_err().to_string(), "einsum: 10 dimensions, but a tensor has at most 8");
    }

    #[test]
    fn lines_of_nothing_are_left_out() {
        let x = Tensor::<F64>::ones([2, 3], &Device::cpu()).unwrap();
        let none = Tensor::<F64>::zeros([0], &Device::cpu()).unwrap();
        assert_eq!(Tensor::cat(&[&none, &x, &none, &x], -1).unwrap().dims(), [2, 6]);
        assert_eq!(Tensor::cat(&[&none, &none], 0).unwrap().dims(), [0]);
        assert!(Tensor::cat(&[&none.unsqueeze(0).unwrap(), &x], 0).is_err());
    }
}
