//! Reading the same memory through another shape: nothing is copied, gradients go back through the inverse view.

use super::Tensor;
use crate::autograd::{Edge, Pass, Turn, record_turn};
use crate::precision::Element;
use crate::raw::RawTensor;
use crate::shape::{self, Axes, IntoReshape, IntoShape};
use crate::{Error, Result};
use amp_cpu::{Dims, Layout};

impl<P: Element> Tensor<P> {
    /// The same elements in row-major order under another shape (`torch.reshape`); copies only strided tensors.
    ///
    /// In a tuple, `..` is the size that is left (PyTorch's `-1`): `x.reshape((n, heads, ..))`; alone it is one dimension of all.
    #[doc(alias("view", "view_as", "reshape_as"))]
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoReshape) -> Result<Self> {
        self.shaped("reshape", shape.into_reshape("reshape", self.count())?)
    }

    /// [`reshape`](Self::reshape) under the name that the user called.
    #[track_caller]
    fn shaped(&self, op: &'static str, shape: impl IntoShape) -> Result<Self> {
        let shape = shape.into_shape(op)?;
        let (expected, found) = (shape.count(), self.count());
        if expected != found {
            return Err(Error::ElementCount { op, shape: shape.into(), expected, found });
        }
        let from = *self.raw.shape();
        self.viewed(op, reshaped(&self.raw, shape)?, move |grad| reshaped(grad, from))
    }

    /// Merges the axes from `start` to `end`, both included, into one (`torch.flatten`).
    #[track_caller]
    pub fn flatten(&self, start: isize, end: isize) -> Result<Self> {
        if let (Some(line), true) = (self.line(start)?, shape::is_line(end, self.rank())) {
            return Ok(line);
        }
        let start = shape::axis("flatten", start, self.rank())?;
        let end = shape::axis("flatten", end, self.rank())?;
        if start > end {
            return Err(Error::argument("flatten", "end", format!("at least start = {start}"), end));
        }
        let mut dims = self.dims()[..start].to_vec();
        dims.push(self.dims()[start..=end].iter().product());
        dims.extend(&self.dims()[end + 1..]);
        self.shaped("flatten", dims)
    }

    /// Makes several axes of `axis`, of these sizes (`torch.unflatten`); in a tuple, `..` is the size that is left.
    ///
    /// # Errors
    /// [`Error::ElementCount`] unless the product of the sizes is that of the axis.
    #[track_caller]
    pub fn unflatten(&self, axis: isize, sizes: impl IntoReshape) -> Result<Self> {
        let at = shape::axis("unflatten", axis, self.rank())?;
        let (found, sizes) = (self.dims()[at], sizes.into_reshape("unflatten", self.dims()[at])?);
        if sizes.count() != found {
            let (expected, shape) = (sizes.count(), sizes.into());
            return Err(Error::ElementCount { op: "unflatten", shape, expected, found });
        }
        self.shaped("unflatten", [&self.dims()[..at], &sizes, &self.dims()[at + 1..]].concat())
    }

    /// Axes in another order (`torch.permute`).
    #[track_caller]
    pub fn permute(&self, order: impl Axes) -> Result<Self> {
        let order = order.as_axes();
        if order.len() != self.rank() {
            let expected = format!("one axis for each of the {} dimensions", self.rank());
            return Err(Error::argument("permute", "order", expected, format!("{order:?}")));
        }
        let mut inverse = vec![usize::MAX; order.len()];
        let mut axes = Vec::with_capacity(order.len());
        for (to, &a) in order.iter().enumerate() {
            let from = shape::axis("permute", a, self.rank())?;
            if inverse[from] != usize::MAX {
                return Err(Error::RepeatedAxis { op: "permute", axis: a, axes: order.to_vec() });
            }
            inverse[from] = to;
            axes.push(from);
        }
        let view = permuted(&self.raw, &axes);
        self.viewed("permute", view, move |grad| Ok(permuted(grad, &inverse)))
    }

    /// Moves axes to other places; the others keep their order (`torch.movedim`): `x.movedim(-1, 1)`, `x.movedim([0, 1], [2, 0])`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless there is a place for each axis, [`Error::RepeatedAxis`] when one is given twice.
    #[doc(alias = "moveaxis")]
    #[track_caller]
    pub fn movedim(&self, from: impl Axes, to: impl Axes) -> Result<Self> {
        const OP: &str = "movedim";
        let (from, to) = (from.as_axes(), to.as_axes());
        if from.len() != to.len() {
            let expected = format!("one for each of the axes {from:?}");
            return Err(Error::argument(OP, "the places", expected, format!("{to:?}")));
        }
        let rank = self.rank();
        let [moved, _] = [shape::axes(OP, &from, rank)?, shape::axes(OP, &to, rank)?];
        if rank == 0 || from.is_empty() {
            return Ok(self.unchanged());
        }
        let front = |axis: &isize| axis.rem_euclid(rank as isize);
        let mut places: Vec<_> = to.iter().map(front).zip(from.iter().map(front)).collect();
        places.sort_unstable();
        let mut order: Vec<isize> = (0..rank).filter(|axis| !moved.contains(axis)).map(|axis| axis as isize).collect();
        for (place, axis) in places {
            order.insert(place as usize, axis);
        }
        self.permute(order)
    }

    #[track_caller]
    fn swapped(&self, op: &'static str, a: usize, b: usize) -> Result<Self> {
        let mut axes: Vec<usize> = (0..self.rank()).collect();
        axes.swap(a, b);
        self.viewed(op, permuted(&self.raw, &axes), move |grad| Ok(permuted(grad, &axes)))
    }

    /// Swaps two axes (`torch.transpose`).
    #[doc(alias("swapaxes", "swapdims"))]
    #[track_caller]
    pub fn transpose(&self, a: isize, b: isize) -> Result<Self> {
        if shape::is_line(a, self.rank()) && shape::is_line(b, self.rank()) {
            return Ok(self.unchanged());
        }
        let (a, b) = (shape::axis("transpose", a, self.rank())?, shape::axis("transpose", b, self.rank())?);
        self.swapped("transpose", a, b)
    }

    /// Transposes a matrix; on more dimensions, each of the matrices in the last two.
    #[doc(alias = "mT")]
    #[track_caller]
    pub fn t(&self) -> Result<Self> {
        let (rank, expected) = (self.rank(), "at least 2 dimensions");
        if rank < 2 {
            return Err(Error::Rank { op: "t", what: "the tensor", expected, found: self.raw.shape().into() });
        }
        self.swapped("t", rank - 2, rank - 1)
    }

    /// Inserts a dimension of size 1 before `axis`; negative axes count from the end of the result (`torch.unsqueeze`).
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> Result<Self> {
        let at = shape::axis("unsqueeze", axis, self.rank() + 1)?;
        let too_many = || Error::TooManyDimensions { op: "unsqueeze", rank: self.rank() + 1 };
        let view = with_axis(&self.raw, at).ok_or_else(too_many)?;
        self.viewed("unsqueeze", view, move |grad| Ok(without_axis(grad, at)))
    }

    /// Drops a dimension of size 1, or several (`torch.squeeze`; a dimension of another size is an error here).
    #[track_caller]
    pub fn squeeze(&self, axes: impl Axes) -> Result<Self> {
        let given = axes.as_axes();
        let axes = shape::axes("squeeze", &given, self.rank())?;
        if given.is_empty() || axes.is_empty() {
            return Ok(self.unchanged());
        }
        if let Some(at) = axes.iter().find(|&&at| self.dims()[at] != 1) {
            let (expected, found) = (format!("size 1 along axis {at}"), *self.raw.shape());
            return Err(Error::Shape { op: "squeeze", what: "the tensor", expected, found: found.into() });
        }
        self.squeezed("squeeze", &axes)
    }

    /// Without `axes` of size 1, which are in ascending order.
    #[track_caller]
    pub(super) fn squeezed(&self, op: &'static str, axes: &[usize]) -> Result<Self> {
        let axes = Dims::new(axes).expect("axes of a tensor");
        let view = axes.iter().rev().fold(self.raw.detached(), |x, &at| without_axis(&x, at));
        let back = move |grad: &RawTensor| {
            let rank = grad.shape().len() + axes.len();
            let grad = axes.iter().try_fold(grad.clone(), |x, &at| with_axis(&x, at));
            grad.ok_or(Error::TooManyDimensions { op, rank })
        };
        self.viewed(op, view, back)
    }

    /// A single value as a line of one element, for operations along its `axis` 0 or -1, which PyTorch lets it have.
    #[track_caller]
    pub(crate) fn line(&self, axis: isize) -> Result<Option<Self>> {
        shape::is_line(axis, self.rank()).then(|| self.unsqueeze(0)).transpose()
    }

    /// Repeats dimensions of size 1 to `shape` without copying (`torch.expand`).
    #[track_caller]
    pub fn expand(&self, shape: impl IntoShape) -> Result<Self> {
        let shape = shape.into_shape("expand")?;
        let view = self.raw.broadcast_to("expand", &shape)?;
        self.viewed("expand", view, |grad| Ok(grad.clone()))
    }

    /// As [`expand`](Self::expand), to the shape of `other`, whatever its precision (`torch.Tensor.expand_as`).
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor<impl Element>) -> Result<Self> {
        let shape = *other.raw.shape();
        let view = self.raw.broadcast_to("expand_as", &shape)?;
        self.viewed("expand_as", view, |grad| Ok(grad.clone()))
    }

    /// The elements in row-major order in memory; shares the memory where they already are. A pending narrowing is made.
    #[track_caller]
    pub fn contiguous(&self) -> Result<Self> {
        let copy = self.raw.packed()?;
        self.viewed("contiguous", copy, |grad| Ok(grad.clone()))
    }

    /// Whether the elements follow one another in row-major order.
    #[track_caller]
    pub fn is_contiguous(&self) -> bool {
        self.raw.layout.is_contiguous()
    }

    /// Removes axes of size 1, given in ascending order, unless they are to stay: how reductions end.
    #[track_caller]
    pub(crate) fn drop_axes(self, axes: &[usize], keep: bool) -> Result<Self> {
        if keep || axes.is_empty() {
            return Ok(self);
        }
        // Whoever meets this end of a reduction has called the reduction.
        let op = self.raw.edge.as_ref().and_then(Edge::op).unwrap_or("squeeze");
        let view = axes.iter().rev().fold(self.raw.detached(), |x, &a| without_axis(&x, a));
        let kept = *self.raw.shape();
        self.viewed(op, view, move |grad| {
            let grad = grad.contiguous()?;
            Ok(grad.with_layout(Layout { offset: grad.layout.offset, ..Layout::contiguous(kept) }))
        })
    }

    /// Puts a view of this tensor into the graph; `back` maps a gradient of the view to one of this tensor's shape.
    #[track_caller]
    pub(crate) fn viewed(
        &self,
        op: &'static str,
        view: RawTensor,
        back: impl Fn(&RawTensor) -> Result<RawTensor> + Send + Sync + 'static,
    ) -> Result<Self> {
        let out = record_turn(op, &[&self.raw], view, |_| {
            Ok(Turn::Sizes(Box::new(move |pass: &mut Pass<'_>| {
                let grad = back(pass.grad())?;
                pass.give(0, grad)
            })))
        })?;
        Ok(Self::from_raw(out))
    }
}

/// The elements in another shape of as many: a view of what is row-major or all of its memory, if that can be; out of the
/// graph.
fn reshaped(x: &RawTensor, shape: Dims) -> Result<RawTensor> {
    let views = x.layout.is_contiguous() || x.layout.count() == x.value.buffer.len();
    if let Some(layout) = x.layout.reshaped(shape).filter(|_| views) {
        return Ok(x.with_layout(layout));
    }
    let copy = x.packed()?;
    let layout = Layout { offset: copy.layout.offset, ..Layout::contiguous(shape) };
    Ok(copy.with_layout(layout))
}

fn permuted(x: &RawTensor, axes: &[usize]) -> RawTensor {
    let mut layout = x.layout;
    for (to, &from) in axes.iter().enumerate() {
        layout.shape[to] = x.layout.shape[from];
        layout.strides[to] = x.layout.strides[from];
    }
    x.with_layout(layout)
}

fn with_axis(x: &RawTensor, at: usize) -> Option<RawTensor> {
    let (shape, strides) = (x.layout.shape.inserted(at, 1)?, x.layout.strides.inserted(at, 0)?);
    Some(x.with_layout(Layout { shape, strides, offset: x.layout.offset }))
}

fn without_axis(x: &RawTensor, at: usize) -> RawTensor {
    let (shape, strides) = (x.layout.shape.removed(at), x.layout.strides.removed(at));
    x.with_layout(Layout { shape, strides, offset: x.layout.offset })
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn axes_are_written_as_in_pytorch() {
        let x = Tensor::<F32>::from_fn([2, 3, 4, 5], |i| i.iter().sum::<usize>() as f32, &Device::cpu()).unwrap();
        assert_eq!(x.permute((0, 2, 3, -3)).unwrap().dims(), [2, 4, 5, 3]);
        let (tuple, array) = (x.mean((2, 3), false).unwrap(), x.mean([2, 3], false).unwrap());
        assert_eq!((tuple.dims(), tuple.to_vec().unwrap()), ([2, 3].as_slice(), array.to_vec().unwrap()));
        assert_eq!(x.sum([], false).unwrap().rank(), 0);
        assert_eq!(x.flip((0, 1)).unwrap().to_vec().unwrap(), x.flip([0, 1]).unwrap().to_vec().unwrap());
        assert_eq!(x.movedim((0, 1), (2, 0)).unwrap().dims(), [3, 4, 2, 5]);
    }

    #[test]
    fn one_axis_becomes_several() {
        let x = Tensor::<F64>::from_fn([2, 6], |i| (i[0] * 6 + i[1]) as f64, &Device::cpu()).unwrap();
        assert_eq!(x.unflatten(1, [3, 2]).unwrap().dims(), [2, 3, 2]);
        assert_eq!(x.unflatten(-2, (1, ..)).unwrap().dims(), [1, 2, 6]);
        let turned = x.t().unwrap().unflatten(0, (2, ..)).unwrap();
        assert_eq!((turned.dims(), &turned.to_vec().unwrap()[..4]), ([2, 3, 2].as_slice(), &[0.0, 6.0, 1.0, 7.0][..]));
        let worst = gradcheck(|x| x[0].unflatten(1, [2, 3])?.sqr(), std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
        let error = x.unflatten(1, [4, 2]).unwrap_err().to_string();
        assert_eq!(error, "unflatten: shape [4, 2] has 8 elements, found 6");
        assert!(x.unflatten(2, [1]).is_err() && x.unflatten(0, [1; 8]).is_err());
    }

    #[test]
    fn axes_are_moved_and_the_others_keep_their_order() {
        let x = Tensor::<F64>::from_fn([2, 3, 4], |i| (i[0] * 12 + i[1] * 4 + i[2]) as f64, &Device::cpu()).unwrap();
        assert_eq!(x.movedim(-1, 0).unwrap().dims(), [4, 2, 3]);
        assert_eq!(x.movedim([0, 1], [2, 0]).unwrap().dims(), [3, 4, 2]);
        assert!(x.movedim(0, 2).unwrap().equal(&x.permute([1, 2, 0]).unwrap()).unwrap());
        assert!(x.movedim([], []).unwrap().equal(&x).unwrap());
        assert_eq!(x.sum_all().unwrap().movedim(-1, 0).unwrap().rank(), 0);
        let worst = gradcheck(|x| x[0].movedim([2, 0], [0, 1])?.sqr(), std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
        let error = x.movedim([0, 1], 2).unwrap_err().to_string();
        assert_eq!(error, "movedim: the places must be one for each of the axes [0, 1], found [2]");
        assert!(x.movedim(3, 0).is_err() && x.movedim(0, 3).is_err());
        assert!(x.movedim([0, -3], [0, 1]).is_err() && x.movedim([0, 1], [2, -1]).is_err());
    }

    #[test]
    fn another_tensor_says_the_shape() {
        let x = Tensor::<F64>::from_fn([3, 1], |i| i[0] as f64, &Device::cpu()).unwrap();
        let other = Tensor::<crate::I64>::zeros([2, 3, 2], &Device::cpu()).unwrap();
        assert_eq!(x.expand_as(&other).unwrap().dims(), [2, 3, 2]);
        let worst = gradcheck(|x| x[0].expand_as(&other)?.sqr(), std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
        assert!(x.expand_as(&x.t().unwrap()).unwrap_err().to_string().starts_with("expand_as: "));
    }

    #[test]
    fn a_single_value_is_a_line_along_its_first_and_last_axis() -> crate::Result<()> {
        let x = Tensor::<F64>::scalar(3.0, &Device::cpu())?.tracked();
        let other = Tensor::<F64>::scalar(-2.0, &Device::cpu())?;
        for axis in [0, -1] {
            let (sorted, at) = x.sort(axis, true)?;
            let (best, place) = x.topk(1, axis, true)?;
            for (name, y, value) in [
                ("sum", x.sum(axis, false)?, 3.0),
                ("mean", x.mean(axis, true)?, 3.0),
                ("max", x.max([axis], false)?, 3.0),
                ("prod", x.prod(axis, false)?, 3.0),
                ("var", x.var_with(axis, 0.0, false)?, 0.0),
                ("norm", other.norm(2.0, axis, false)?, 2.0),
                ("softmax", x.softmax(axis)?, 1.0),
                ("log_softmax", x.log_softmax(axis)?, 0.0),
                ("logsumexp", x.logsumexp(axis, true)?, 3.0),
                ("cumsum", x.cumsum(axis)?, 3.0),
                ("cumprod", x.cumprod(axis)?, 3.0),
                ("normalize", x.normalize(2.0, axis, 1e-12)?, 1.0),
                ("cosine_similarity", x.cosine_similarity(&other, axis, 1e-8)?, -1.0),
                ("flip", x.flip(axis)?, 3.0),
                ("sort", sorted, 3.0),
                ("topk", best, 3.0),
                ("squeeze", x.squeeze(axis)?, 3.0),
                ("transpose", x.transpose(axis, 0)?, 3.0),
            ] {
                assert_eq!((y.rank(), y.item()?), (0, value), "{name}");
            }
            for position in [at, place, x.argmax(axis, true)?, x.argmin(axis, false)?] {
                assert_eq!((position.rank(), position.item()?), (0, 0));
            }
            assert!(x.std(axis, false)?.item()?.is_nan());
            assert_eq!(x.flatten(0, axis)?.dims(), [1]);
            assert_eq!(x.logsumexp(axis, false)?.backward()?.get(&x)?.expect("its gradient").item()?, 1.0);
            assert!(
                Tensor::cat(&[&x, &x], axis).is_err() && x.select(axis, 0).is_err() && x.topk(2, axis, true).is_err()
            );
        }
        let error = x.softmax(1).unwrap_err().to_string();
        assert_eq!(error, "softmax: axis 1 does not exist in a tensor of 0 dimensions");
        Ok(())
    }

    #[test]
    fn several_axes_are_squeezed_at_once() -> crate::Result<()> {
        let x = wave(&[1, 2, 1, 3]);
        assert_eq!(x.squeeze([0, -2])?.dims(), [2, 3]);
        assert_eq!(x.squeeze([])?.dims(), x.dims());
        let worst = gradcheck(|x| x[0].squeeze([2, 0])?.t()?.sqr(), std::slice::from_ref(&x))?;
        assert!(worst.agrees(), "{worst:?}");
        let error = x.squeeze([0, 1]).unwrap_err().to_string();
        assert_eq!(error, "squeeze: the tensor must have shape size 1 along axis 1, found [1, 2, 1, 3]");
        assert!(x.squeeze([0, 0]).is_err());
        Ok(())
    }
}
