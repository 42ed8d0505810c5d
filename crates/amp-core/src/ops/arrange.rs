//! Reversing axes and cutting triangles.

use super::kernel::{select, zeros};
use crate::autograd::{Pass, record};
use crate::memory::filled;
use crate::order::{order_of, tensor, walk};
use crate::precision::Element;
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Dims, Storage, Stretch};
use std::ops::Range;

/// The elements at the positions that the stretches of each axis name, in the order in which `x` lies; out of the graph.
pub(super) fn assembled(op: &'static str, x: &RawTensor, axes: &[Vec<Stretch>]) -> Result<RawTensor> {
    let (order, rank) = (order_of([x]), axes.len());
    let mut shape = *x.shape();
    shape.iter_mut().zip(axes).for_each(|(size, axis)| *size = axis.iter().map(|s| s.len).sum());
    let mut walked = axes.to_vec();
    axes.iter().enumerate().for_each(|(axis, stretches)| walked[order.axis(axis, rank)].clone_from(stretches));
    let buffer = walk(order, [x], |backend, [x]| backend.assemble(op, x, &walked))?;
    Ok(tensor(order, x.device(), buffer, shape))
}

/// Reverses `axes`; its own inverse.
fn reversed(x: &RawTensor, axes: &[usize]) -> Result<RawTensor> {
    let along = |(axis, &size): (usize, &usize)| {
        vec![if axes.contains(&axis) { Stretch::backward(size) } else { Stretch::new(0, size) }]
    };
    assembled("flip", x, &x.shape().iter().enumerate().map(along).collect::<Vec<_>>())
}

/// Zeros out all but the columns `kept(row)` in each of the matrices in the last two dimensions.
#[track_caller]
fn triangle(op: &'static str, x: &RawTensor, kept: impl Fn(i64) -> Range<i64>) -> Result<RawTensor> {
    let found = *x.shape();
    let [.., rows, columns] = *found else {
        return Err(Error::Rank { op, what: "the input", expected: "at least 2 dimensions", found: found.into() });
    };
    let count = crate::shape::product(op, &[rows, columns])?;
    let mut mask = filled(op, count, false)?;
    for (i, row) in mask.chunks_mut(columns.max(1)).enumerate() {
        let Range { start, end } = kept(i as i64);
        let [start, end] = [start, end].map(|column| column.clamp(0, columns as i64) as usize);
        row[start..end.max(start)].fill(true);
    }
    let mask = x.backend().upload(Storage::from(mask))?;
    let mask = RawTensor::new(x.device(), mask, Dims::new(&[rows, columns]).expect("two dimensions"));
    let mask = mask.broadcast_to(op, &found)?;
    let stored = x.stored();
    let y = select(op, &mask, &stored, &zeros(x, stored.logical)?, stored.logical)?.counted(x.logical);
    record(op, &[x], y, |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let zero = zeros(&mask, pass.dtype(0))?;
            pass.give(0, select(op, &mask, pass.grad(), &zero, pass.dtype(0))?)
        }))
    })
}

impl<P: Element> Tensor<P> {
    /// The elements of `axes` (all when none are given) in reverse order (`torch.flip`).
    #[track_caller]
    pub fn flip(&self, axes: impl Axes) -> Result<Self> {
        let axes = Dims::new(&shape::axes("flip", &axes.as_axes(), self.rank())?).expect("axes of a tensor");
        let y = reversed(&self.raw.stored(), &axes)?.counted(self.raw.logical);
        Ok(Self::from_raw(record("flip", &[&self.raw], y, |_| {
            Ok(Box::new(move |pass: &mut Pass<'_>| pass.give(0, reversed(pass.grad(), &axes)?)))
        })?))
    }

    /// Keeps what lies on or below a diagonal of each matrix in the last two dimensions, zeros elsewhere; `diagonal`
    /// counts upwards from the main one (`torch.tril`).
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> Result<Self> {
        Ok(Self::from_raw(triangle("tril", &self.raw, |i| 0..i.saturating_add(diagonal).saturating_add(1))?))
    }

    /// Keeps what lies on or above a diagonal of each matrix in the last two dimensions, zeros elsewhere; `diagonal`
    /// counts upwards from the main one (`torch.triu`).
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> Result<Self> {
        Ok(Self::from_raw(triangle("triu", &self.raw, |i| i.saturating_add(diagonal)..i64::MAX)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let x = std::slice::from_ref(&x);
        for (name, worst) in [
            ("flip", gradcheck(|x| x[0].flip([1]), x)),
            ("flip of all", gradcheck(|x| x[0].flip([]), x)),
            ("tril", gradcheck(|x| x[0].tril(0), x)),
            ("triu", gradcheck(|x| x[0].unsqueeze(0)?.triu(-1), x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn elements_lie_where_they_should() {
        let x = Tensor::<I64>::arange(1, 7, &Device::cpu()).unwrap().reshape([2, 3]).unwrap();
        assert_eq!(x.flip([-1]).unwrap().to_vec().unwrap(), [3, 2, 1, 6, 5, 4]);
        assert_eq!(x.tril(0).unwrap().to_vec().unwrap(), [1, 0, 0, 4, 5, 0]);
        assert_eq!(x.triu(1).unwrap().to_vec().unwrap(), [0, 2, 3, 0, 0, 6]);
        assert_eq!(x.tril(i64::MAX).unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        assert_eq!(x.triu(i64::MIN).unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        assert_eq!(x.tril(i64::MIN).unwrap().to_vec().unwrap(), [0; 6]);
        assert_eq!(x.t().unwrap().tril(-1).unwrap().to_vec().unwrap(), [0, 0, 2, 0, 3, 6]);
        let empty = Tensor::<F64>::zeros([2, 0], &Device::cpu()).unwrap();
        assert_eq!(empty.tril(0).unwrap().dims(), [2, 0]);
        assert_eq!(empty.flip([]).unwrap().dims(), [2, 0]);
        let error = Tensor::<F64>::zeros([2], &Device::cpu()).unwrap().tril(0).unwrap_err();
        assert_eq!(error.to_string(), "tril: the input must have at least 2 dimensions, found shape [2]");
    }
}
