//! Single elements taken, added and replaced by index along an axis.

use super::kernel::zeros;
use super::operand::{Operand, Term};
use crate::autograd::{Pass, record};
use crate::precision::{Element, I64, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

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
pub(super) fn lined<P: Element>(x: &Tensor<P>) -> Result<Tensor<P>> {
    if x.rank() == 0 { x.unsqueeze(0) } else { Ok(x.clone()) }
}

impl<P: Element> Tensor<P> {
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

#[cfg(test)]
mod tests {
    use crate::testing::indices as index;
    use crate::{BF16, Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let src = Tensor::<F64>::from_vec(vec![1.5, 0.4, -0.9, 2.2], [2, 2], &Device::cpu()).unwrap();
        let at = index(&[1, 1, 0, 2], &[2, 2]);
        // Of two for one place, both get the gradient though one has no effect.
        let apart = index(&[1, 2, 0, 2], &[2, 2]);
        let one = std::slice::from_ref(&x);
        for (name, worst) in [
            ("gather", gradcheck(|t| t[0].gather(1, &at), one)),
            ("gather, strided", gradcheck(|t| t[0].t()?.gather(0, &at.t()?), one)),
            ("scatter_add", gradcheck(|t| t[0].scatter_add(1, &at, &t[1]), &[x.clone(), src.clone()])),
            ("scatter", gradcheck(|t| t[0].scatter(1, &apart, &t[1])?.sqr(), &[x.clone(), src])),
            ("scatter, a number", gradcheck(|t| t[0].scatter(-1, &at, 0.5)?.sqr(), one)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
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
        assert!(x.gather(0, &index(&[-1], &[1, 1])).is_err());
        assert!(x.gather(0, &index(&[0; 4], &[1, 4])).is_err());
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
}
