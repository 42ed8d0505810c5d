//! Slices selected and added by index along an axis.

use super::kernel::{compare, select, zeros};
use super::matmul::with_axis;
use crate::autograd::{Pass, record};
use crate::precision::{Element, I64, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Compare, Dims, Layout};

/// Slices of `x` at positions `index` `[K]` of `axis`; their gradients are added up in F32, apart from that of row `frozen`
/// of a table.
#[track_caller]
pub(super) fn index_select(
    name: &'static str,
    x: &RawTensor,
    axis: usize,
    index: &RawTensor,
    frozen: Option<usize>,
) -> Result<RawTensor> {
    x.device().check_same(index.device(), name)?;
    x.backend().check_indices(name, index.operand()?, x.shape()[axis], None)?;
    let buffer = x.backend().index_select(x.stored().operand()?, axis, index.operand()?)?;
    let (from, mut shape) = (*x.shape(), *x.shape());
    shape[axis] = index.layout.count();
    let index = index.clone();
    record(name, &[x], RawTensor::written(x.device(), buffer, shape, x.logical), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = &without(frozen, &index, pass.grad())?;
            let buffer =
                grad.backend().index_add(None, from[axis], axis, index.operand()?, grad.operand()?, pass.dtype(0))?;
            pass.give(0, RawTensor::new(grad.device(), buffer, from))
        }))
    })
}

/// The gradient of rows `index` `[K]` `[K, D]`, with 0 for every `frozen` one.
pub(super) fn without(frozen: Option<usize>, index: &RawTensor, grad: &RawTensor) -> Result<RawTensor> {
    let Some(row) = frozen else { return Ok(grad.clone()) };
    let row = RawTensor::full(index.device(), row as f64, Dims::default(), index.logical)?;
    let learns = compare("embedding", Compare::Ne, index, &row)?;
    let learns = learns.with_layout(with_axis(&learns.layout, 1)?).broadcast_to("embedding", grad.shape())?;
    select("embedding", &learns, grad, &zeros(grad, grad.logical)?, grad.logical)
}

/// Slices of `src` added to `base` at the positions `index` `[K]` of `axis`.
#[track_caller]
fn index_add(base: &RawTensor, axis: usize, index: &RawTensor, src: &RawTensor) -> Result<RawTensor> {
    const OP: &str = "index_add";
    base.device().check_same(index.device(), OP)?;
    base.device().check_same(src.device(), OP)?;
    let mut expected = *base.shape();
    expected[axis] = index.layout.count();
    shape::check_same(OP, "the source", &expected, src.shape())?;
    let size = base.shape()[axis];
    base.backend().check_indices(OP, index.operand()?, size, None)?;
    let (b, s) = (base.operand()?, src.operand()?);
    let buffer = match base.logical.is_float() {
        true => base.backend().index_add(Some(b), size, axis, index.operand()?, s, base.logical)?,
        // Kernels for sums of integers take an index for each element.
        false => {
            let mut layout = Layout::contiguous(expected);
            layout.strides.fill(0);
            (layout.strides[axis], layout.offset) = (index.layout.strides[0], index.layout.offset);
            let index = index.with_layout(layout);
            base.backend().scatter_add(b, axis, index.operand()?, s, base.logical)?
        }
    };
    let index = index.clone();
    record(OP, &[base, src], RawTensor::new(base.device(), buffer, *base.shape()), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().clone();
            if pass.wants(1) {
                let buffer = grad.backend().index_select(grad.operand()?, axis, index.operand()?)?;
                let mut shape = *grad.shape();
                shape[axis] = index.layout.count();
                pass.give(1, RawTensor::new(grad.device(), buffer, shape))?;
            }
            pass.give(0, grad)
        }))
    })
}

impl<P: Element> Tensor<P> {
    /// Slices at the positions `index` `[K]` of `axis` (`torch.index_select`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a negative index or one past the end.
    #[track_caller]
    pub fn index_select(&self, axis: isize, index: &Tensor<I64>) -> Result<Self> {
        if let Some(line) = self.line(axis)? {
            return line.index_select(0, index)?.reshape(()).map_err(|error| error.named("index_select"));
        }
        let axis = shape::axis("index_select", axis, self.rank())?;
        if index.rank() != 1 {
            let (expected, found) = ("1 dimension", *index.raw.shape());
            return Err(Error::Rank { op: "index_select", what: "the index", expected, found: found.into() });
        }
        Ok(Self::from_raw(index_select("index_select", &self.raw, axis, &index.raw, None)?))
    }
}

impl<P: Element> Tensor<P> {
    /// This tensor with the slices of `src` added at the positions `index` `[K]` of `axis` (`torch.index_add`).
    ///
    /// # Precision
    /// Sums run in F32 (F64 for F64), in the order of `src`, and are rounded once; those of integers are exact.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis, [`Error::Shape`] unless `src` has this tensor's shape with
    /// K along `axis`.
    #[track_caller]
    pub fn index_add<Q: Element>(&self, axis: isize, index: &Tensor<I64>, src: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let axis = shape::axis("index_add", axis, self.rank())?;
        if index.rank() != 1 {
            let (expected, found) = ("1 dimension", *index.raw.shape());
            return Err(Error::Rank { op: "index_add", what: "the index", expected, found: found.into() });
        }
        Ok(Self::from_raw(index_add(&self.raw, axis, &index.raw, &src.raw)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::indices as index;
    use crate::{Device, F32, F64, I64, Result, Tensor, gradcheck};

    #[test]
    fn integers_are_added_exactly() -> Result<()> {
        let degrees = Tensor::<I64>::zeros([3, 2], &Device::cpu())?;
        let edges = index(&[2, 7, 0, 7, 2, 7, 1, 7], &[4, 2]).select(1, 0)?;
        let counts = degrees.index_add(0, &edges, &index(&[1, 10, 2, 20, (1 << 60) + 1, 30, 4, 40], &[4, 2]))?;
        assert_eq!(counts.to_vec()?, [2, 20, 4, 40, (1 << 60) + 2, 40]);
        assert_eq!(counts.t()?.index_add(1, &index(&[1], &[1]), &index(&[5, 6], &[2, 1]))?.to_vec()?[1], 9);
        let table = Tensor::<I64>::zeros([2, 2], &Device::cpu())?;
        let (truth, found) = (index(&[0, 1, 1, 1], &[4]), index(&[0, 0, 1, 1], &[4]));
        let confusion = table.index_put_add(&[truth, found], &index(&[1], &[1]))?;
        assert_eq!(confusion.to_vec()?, [1, 0, 1, 2]);
        let error = degrees.index_add(0, &index(&[3], &[1]), &index(&[1, 1], &[1, 2])).unwrap_err().to_string();
        assert!(error.starts_with("index_add") && error.contains('3'), "{error}");
        Ok(())
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let k = index(&[2, 0, 2], &[3]);
        for (name, worst) in [
            ("index_select", gradcheck(|t| t[0].index_select(1, &k), std::slice::from_ref(&x))),
            ("index_add", gradcheck(|t| t[0].index_add(1, &k, &t[1])?.sqr(), &[x.clone(), x.neg().unwrap()])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn indices_outside_are_errors() {
        let x = Tensor::<F32>::zeros([2, 3], &Device::cpu()).unwrap();
        let error = x.index_select(1, &index(&[0, 3], &[2])).unwrap_err();
        assert_eq!(error.to_string(), "index_select: index 3 is out of range for size 3");
        let error = x.index_add(1, &index(&[0], &[1]), &x).unwrap_err();
        assert_eq!(error.to_string(), "index_add: the source must have shape [2, 1], found [2, 3]");
        assert!(x.index_add(1, &index(&[0, 3, 0], &[3]), &x).is_err());
        assert!(x.index_add(1, &index(&[0, 1, 0], &[1, 3]), &x).is_err());
    }

    #[test]
    fn empty_views_index_nothing() {
        let none = index(&[], &[0, 3]).select(1, 0).unwrap();
        let x = Tensor::<F32>::ones([1, 5], &Device::cpu()).unwrap();
        assert_eq!(x.index_select(1, &none).unwrap().dims(), [1, 0]);
        assert_eq!(x.embedding(&none).unwrap().dims(), [0, 5]);
        assert_eq!(none.to::<F32>().unwrap().contiguous().unwrap().dims(), [0]);
    }
}
