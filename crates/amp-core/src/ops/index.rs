//! Selecting, gathering and adding by index.

use super::kernel::{compare, select, zeros};
use super::matmul::with_axis;
use super::operand::{Operand, Term};
use crate::autograd::{Pass, Rows, Which, record};
use crate::precision::{Element, Float, I64, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};
use amp_cpu::{Compare, Dims};

/// Slices of `x` at positions `index` `[K]` of `axis`; their gradients are added up in F32, apart from that of row `frozen`
/// of a table.
#[track_caller]
fn index_select(
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
fn without(frozen: Option<usize>, index: &RawTensor, grad: &RawTensor) -> Result<RawTensor> {
    let Some(row) = frozen else { return Ok(grad.clone()) };
    let row = RawTensor::full(index.device(), row as f64, Dims::default(), index.logical)?;
    let learns = compare("embedding", Compare::Ne, index, &row)?;
    let learns = learns.with_layout(with_axis(&learns.layout, 1)?).broadcast_to("embedding", grad.shape())?;
    select("embedding", &learns, grad, &zeros(grad, grad.logical)?, grad.logical)
}

/// Rows `index` `[K]` of a table; the gradient of an F32 leaf holds those rows only.
#[track_caller]
fn sparse_rows(table: &RawTensor, index: &RawTensor, frozen: Option<usize>) -> Result<RawTensor> {
    const OP: &str = "embedding";
    table.device().check_same(index.device(), OP)?;
    table.backend().check_indices(OP, index.operand()?, table.shape()[0], None)?;
    let buffer = table.backend().index_select(table.operand()?, 0, index.operand()?)?;
    let mut shape = *table.shape();
    shape[0] = index.layout.count();
    let which = Which { index: index.detached(), table: *table.shape() };
    record(OP, &[table], RawTensor::new(table.device(), buffer, shape), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let values = without(frozen, &which.index, pass.grad())?;
            pass.give_rows(0, Rows { which: which.clone(), values })
        }))
    })
}

/// Elements of `x` at `index` along `axis`.
#[track_caller]
fn gather(x: &RawTensor, axis: usize, index: &RawTensor) -> Result<RawTensor> {
    check_index("gather", x, axis, index)?;
    let buffer = x.backend().gather(x.stored().operand()?, axis, index.operand()?)?;
    let (from, index) = (*x.shape(), index.clone());
    record("gather", &[x], RawTensor::written(x.device(), buffer, *index.shape(), x.logical), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let zero = RawTensor::full(index.device(), 0.0, from, pass.dtype(0))?;
            let grad = pass.grad().operand()?;
            let buffer = index.backend().scatter_add(zero.operand()?, axis, index.operand()?, grad, pass.dtype(0))?;
            pass.give(0, RawTensor::new(index.device(), buffer, from))
        }))
    })
}

#[track_caller]
fn scatter_add(base: &RawTensor, axis: usize, index: &RawTensor, src: &RawTensor) -> Result<RawTensor> {
    check_source("scatter_add", base, axis, index, src)?;
    let (b, i, s) = (base.operand()?, index.operand()?, src.operand()?);
    let buffer = base.backend().scatter_add(b, axis, i, s, base.logical)?;
    let index = index.clone();
    record("scatter_add", &[base, src], RawTensor::new(base.device(), buffer, *base.shape()), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().clone();
            if pass.wants(1) {
                let buffer = grad.backend().gather(grad.operand()?, axis, index.operand()?)?;
                pass.give(1, RawTensor::new(grad.device(), buffer, *index.shape()))?;
            }
            pass.give(0, grad)
        }))
    })
}

#[track_caller]
fn scatter(base: &RawTensor, axis: usize, index: &RawTensor, src: &RawTensor) -> Result<RawTensor> {
    check_source("scatter", base, axis, index, src)?;
    let (b, i, s) = (base.operand()?, index.operand()?, src.operand()?);
    let buffer = base.backend().scatter(b, axis, i, s, base.logical)?;
    let index = index.clone();
    record("scatter", &[base, src], RawTensor::new(base.device(), buffer, *base.shape()), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (backend, grad, at) = (index.backend(), pass.grad().operand()?, index.operand()?);
            let shares = if pass.wants(1) { Some(backend.gather(grad, axis, at)?) } else { None };
            if pass.wants(0) {
                let none = zeros(&index, pass.dtype(0))?.broadcast_to("scatter", index.shape())?;
                let rest = backend.scatter(grad, axis, at, none.operand()?, pass.dtype(0))?;
                pass.give(0, RawTensor::new(index.device(), rest, *pass.grad().shape()))?;
            }
            let give =
                |shares| pass.give(1, RawTensor::written(index.device(), shares, *index.shape(), pass.grad().logical));
            shares.map_or(Ok(()), give)
        }))
    })
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
    let (b, i, s) = (base.operand()?, index.operand()?, src.operand()?);
    let buffer = base.backend().index_add(Some(b), size, axis, i, s, base.logical)?;
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

/// As [`check_index`], and a source for each index.
fn check_source(op: &'static str, base: &RawTensor, axis: usize, index: &RawTensor, src: &RawTensor) -> Result<()> {
    check_index(op, base, axis, index)?;
    base.device().check_same(src.device(), op)?;
    if src.shape() != index.shape() {
        let (what, expected) = ("the source", format!("{:?}, that of the index", index.shape()));
        return Err(Error::Shape { op, what, expected, found: src.shape().into() });
    }
    Ok(())
}

/// Same rank, no other dimension longer than that of `x`, every index within `axis`.
fn check_index(op: &'static str, x: &RawTensor, axis: usize, index: &RawTensor) -> Result<()> {
    x.device().check_same(index.device(), op)?;
    let (limit, found) = (*x.shape(), *index.shape());
    let fits = limit.len() == found.len() && (0..limit.len()).all(|a| a == axis || found[a] <= limit[a]);
    if !fits {
        let expected = match limit.len() == found.len() {
            true => format!("{limit:?} or less in every dimension but axis {axis}"),
            false => format!("as many dimensions as the input, {limit:?}; `unsqueeze` gives it one more"),
        };
        return Err(Error::Shape { op, what: "the index", expected, found: found.into() });
    }
    x.backend().check_indices(op, index.operand()?, limit[axis], None)
}

/// A single value as a line of one element, as PyTorch takes it beside an index; other tensors as they are.
#[track_caller]
fn lined<P: Element>(x: &Tensor<P>) -> Result<Tensor<P>> {
    if x.rank() == 0 { x.unsqueeze(0) } else { Ok(x.clone()) }
}

impl<P: Element> Tensor<P> {
    /// Slices at the positions `index` `[K]` of `axis` (`torch.index_select`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a negative index or one past the end.
    #[track_caller]
    pub fn index_select(&self, axis: isize, index: &Tensor<I64>) -> Result<Self> {
        if let Some(line) = self.line(axis)? {
            return line.index_select(0, index)?.reshape(());
        }
        let axis = shape::axis("index_select", axis, self.rank())?;
        if index.rank() != 1 {
            let (expected, found) = ("1 dimension", *index.raw.shape());
            return Err(Error::Rank { op: "index_select", what: "the index", expected, found: found.into() });
        }
        Ok(Self::from_raw(index_select("index_select", &self.raw, axis, &index.raw, None)?))
    }

    /// Rows of this table `[V, D]` at `indices` of any shape, which the result has before D
    /// (`torch.nn.functional.embedding`).
    ///
    /// The gradient of a row is added up in F32, in the order of the indices.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside `0..V`.
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor<I64>) -> Result<Self> {
        self.looked_up(indices, false, None)
    }

    /// As [`embedding`](Self::embedding), with a sparse gradient: where the table is a parameter that is used in no other
    /// way, only the rows that were looked up are stored (`sparse=True`).
    ///
    /// The gradient of a row is added up in F32; the backward pass waits for the device.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside `0..V`.
    #[track_caller]
    pub fn embedding_sparse(&self, indices: &Tensor<I64>) -> Result<Self> {
        self.looked_up(indices, true, None)
    }

    /// [`embedding`](Self::embedding) or [`embedding_sparse`](Self::embedding_sparse); row `frozen` gets no gradient.
    #[track_caller]
    pub(crate) fn looked_up(&self, indices: &Tensor<I64>, sparse: bool, frozen: Option<usize>) -> Result<Self> {
        if self.rank() != 2 {
            let found = *self.raw.shape();
            return Err(Error::Rank {
                op: "embedding",
                what: "the table",
                expected: "2 dimensions",
                found: found.into(),
            });
        }
        let mut shape = indices.dims().to_vec();
        shape.push(self.dims()[1]);
        let shape = shape.into_shape("embedding")?;
        let flat = indices.reshape([indices.count()])?;
        let rows = match sparse {
            true => sparse_rows(&self.raw, &flat.raw, frozen)?,
            false => index_select("embedding", &self.raw, 0, &flat.raw, frozen)?,
        };
        Self::from_raw(rows).reshape(shape)
    }

    /// `out[i][j] = self[i][index[i][j]]` for axis 1, and likewise for others (`torch.gather`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis.
    #[track_caller]
    pub fn gather(&self, axis: isize, index: &Tensor<I64>) -> Result<Self> {
        if self.rank() == 0 || index.rank() == 0 {
            return lined(self)?.gather(axis, &lined(index)?)?.reshape(index.dims());
        }
        let axis = shape::axis("gather", axis, self.rank())?;
        Ok(Self::from_raw(gather(&self.raw, axis, &index.raw)?))
    }

    /// This tensor with `src[i][j]` added at `[i][index[i][j]]` for axis 1, and likewise for others
    /// (`torch.scatter_add`).
    ///
    /// # Precision
    /// Sums run in F32 (F64 for F64), in the order of `src`, and are rounded once.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis.
    #[track_caller]
    pub fn scatter_add<Q: Element>(&self, axis: isize, index: &Tensor<I64>, src: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        if self.rank() == 0 || index.rank() == 0 {
            return lined(self)?.scatter_add(axis, &lined(index)?, &lined(src)?)?.reshape(self.dims());
        }
        let axis = shape::axis("scatter_add", axis, self.rank())?;
        Ok(Self::from_raw(scatter_add(&self.raw, axis, &index.raw, &src.raw)?))
    }

    /// This tensor with `src[i][j]` in the place of `[i][index[i][j]]` for axis 1, and likewise for others; a number as the
    /// source goes to all of them (`torch.scatter`).
    ///
    /// Of several elements for one place, the last in row-major order stays. Gradients go to each of them, as in PyTorch.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis, [`Error::Argument`] for a finite number that is not finite in this
    /// precision.
    #[track_caller]
    pub fn scatter<R: Operand<P>>(&self, axis: isize, index: &Tensor<I64>, src: R) -> Result<Self> {
        let src = match src.term() {
            Term::Tensor(src) => src,
            number => number
                .written("scatter", P::DTYPE)?
                .beside(&self.raw)?
                .cast_view(P::DTYPE)?
                .broadcast_to("scatter", index.raw.shape())?,
        };
        let (base, index, src) = (lined(self)?, lined(index)?, lined(&Self::from_raw(src))?);
        let axis = shape::axis("scatter", axis, base.rank())?;
        let y = Self::from_raw(scatter(&base.raw, axis, &index.raw, &src.raw)?);
        if self.rank() == 0 { y.reshape(()) } else { Ok(y) }
    }
}

impl<P: Float> Tensor<P> {
    /// This tensor with the slices of `src` added at the positions `index` `[K]` of `axis` (`torch.index_add`).
    ///
    /// # Precision
    /// Sums run in F32 (F64 for F64), in the order of `src`, and are rounded once.
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

impl Tensor<I64> {
    /// 1 at each label, 0 elsewhere, along a new last dimension of size `classes` (`torch.nn.functional.one_hot`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a label outside `0..classes`.
    pub fn one_hot(&self, classes: usize) -> Result<Tensor<I64>> {
        [self.dims(), &[classes]].concat().into_shape("one_hot")?;
        self.raw.backend().check_indices("one_hot", self.raw.operand()?, classes, None)?;
        let labels = self.detach().unsqueeze(-1)?;
        let numbers = Self::arange(0, classes as i64, self.device())?;
        let same = compare("one_hot", Compare::Eq, &labels.raw, &numbers.raw)?;
        Ok(Tensor::from_raw(same.cast_view(amp_cpu::DType::I64)?))
    }
}

/// The labels with every `ignored` one replaced by 0, which is a valid index, and which labels count.
pub(super) fn valid_labels(op: &'static str, labels: &RawTensor, ignored: i64) -> Result<(RawTensor, RawTensor)> {
    let ignored = RawTensor::new(
        labels.device(),
        labels.backend().upload(amp_cpu::Storage::I64(vec![ignored].into()))?,
        Dims::default(),
    );
    let counts = compare(op, Compare::Ne, labels, &ignored)?;
    let valid = select(op, &counts, labels, &zeros(labels, labels.logical)?, labels.logical)?;
    Ok((valid, counts))
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F32, F64, I64, Parameter, Tensor, gradcheck};

    fn index(data: &[i64], shape: &[usize]) -> Tensor<I64> {
        Tensor::from_slice(data, shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let src = Tensor::<F64>::from_vec(vec![1.5, 0.4, -0.9, 2.2], [2, 2], &Device::cpu()).unwrap();
        let (k, at) = (index(&[2, 0, 2], &[3]), index(&[1, 1, 0, 2], &[2, 2]));
        // Of two for one place, both get the gradient though one has no effect.
        let apart = index(&[1, 2, 0, 2], &[2, 2]);
        let one = std::slice::from_ref(&x);
        for (name, worst) in [
            ("index_select", gradcheck(|t| t[0].index_select(1, &k), one)),
            ("embedding", gradcheck(|t| t[0].embedding(&index(&[1, 1, 0, 1], &[2, 2])), one)),
            ("gather", gradcheck(|t| t[0].gather(1, &at), one)),
            ("gather, strided", gradcheck(|t| t[0].t()?.gather(0, &at.t()?), one)),
            ("index_add", gradcheck(|t| t[0].index_add(1, &k, &t[1])?.sqr(), &[x.clone(), x.neg().unwrap()])),
            ("scatter_add", gradcheck(|t| t[0].scatter_add(1, &at, &t[1]), &[x.clone(), src.clone()])),
            ("scatter", gradcheck(|t| t[0].scatter(1, &apart, &t[1])?.sqr(), &[x.clone(), src])),
            ("scatter, a number", gradcheck(|t| t[0].scatter(-1, &at, 0.5)?.sqr(), one)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn embedding_gradients_accumulate_in_f32() {
        let table = Parameter::new(&Tensor::<F32>::zeros([3, 1], &Device::cpu()).unwrap()).unwrap();
        let rows = table.to::<BF16>().unwrap().embedding(&index(&[1; 3000], &[3000])).unwrap();
        let loss = rows.to::<F32>().unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        assert_eq!(grads.get(&table).unwrap().unwrap().to_vec().unwrap(), [0.0, 3000.0, 0.0]);
    }

    #[test]
    fn a_number_is_scattered_in_every_precision() {
        let (x, at) = (Tensor::<BF16>::zeros([3], &Device::cpu()).unwrap(), index(&[2, 0], &[2]));
        let tracked = x.tracked();
        let y = tracked.scatter(0, &at, 0.3).unwrap();
        let rounded = half::bf16::from_f32(0.3);
        assert_eq!(y.to_vec().unwrap(), [rounded, half::bf16::ZERO, rounded]);
        let grads = y.to::<F32>().unwrap().sum_all().unwrap().backward().unwrap();
        let slope = grads.get(&tracked).unwrap().unwrap().to::<F32>().unwrap();
        assert_eq!(slope.to_vec().unwrap(), [0.0, 1.0, 0.0]);
        let large = i64::MAX - 1;
        assert_eq!(index(&[7, 8], &[2]).scatter(0, &index(&[1], &[1]), large).unwrap().to_vec().unwrap(), [7, large]);
    }

    #[test]
    fn indices_outside_are_errors() {
        let x = Tensor::<F32>::zeros([2, 3], &Device::cpu()).unwrap();
        let error = x.index_select(1, &index(&[0, 3], &[2])).unwrap_err();
        assert_eq!(error.to_string(), "index_select: index 3 is out of range for size 3");
        assert!(x.gather(0, &index(&[-1], &[1, 1])).is_err());
        let error = x.index_add(1, &index(&[0], &[1]), &x).unwrap_err();
        assert_eq!(error.to_string(), "index_add: the source must have shape [2, 1], found [2, 3]");
        assert!(x.index_add(1, &index(&[0, 3, 0], &[3]), &x).is_err());
        assert!(x.index_add(1, &index(&[0, 1, 0], &[1, 3]), &x).is_err());
        assert!(x.gather(0, &index(&[0; 4], &[1, 4])).is_err());
        assert!(x.embedding(&index(&[2], &[1])).is_err());
        assert!(index(&[4], &[1]).one_hot(4).is_err());
        assert_eq!(index(&[2, 0], &[2]).one_hot(3).unwrap().to_vec().unwrap(), [0, 0, 1, 1, 0, 0]);
    }

    /// As `torch.gather` and `torch.scatter_add` take tensors without dimensions.
    #[test]
    fn single_values_are_lines_of_one_element() {
        let device = Device::cpu();
        let (one, line) = (Tensor::<F32>::full((), 5.0, &device).unwrap(), index(&[0, 0], &[2]));
        let single = index(&[0], &[]);
        for (found, shape) in [
            (one.gather(0, &single), &[][..]),
            (one.gather(-1, &line), &[2]),
            (one.reshape([1]).unwrap().gather(0, &single), &[]),
            (one.scatter_add(0, &single, &one.zeros_like().unwrap()), &[]),
            (one.zeros_like().unwrap().scatter(-1, &single, 5.0), &[]),
            (one.zeros_like().unwrap().scatter(0, &line, 5.0), &[]),
            (one.scatter_add(0, &line, &Tensor::<F32>::zeros([2], &device).unwrap()), &[]),
        ] {
            let found = found.unwrap();
            assert_eq!((found.dims(), found.to_vec().unwrap()), (shape, vec![5.0; shape.iter().product()]));
        }
        assert!(one.gather(1, &single).is_err() && one.gather(0, &index(&[1], &[])).is_err());
        let tracked = one.tracked();
        let grads = tracked.gather(0, &line).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&tracked).unwrap().unwrap().item().unwrap(), 2.0);
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
