//! Element-wise kernels and folds on erased tensors, out of the graph: what backward passes are made of.

use super::broadcast_pair;
use crate::Result;
use crate::order::elementwise;
pub(super) use crate::order::reduce;
use crate::raw::RawTensor;
use amp_cpu::{Binary, Compare, DType, Dims, Unary};

/// `op(x)` in precision `out`.
pub(super) fn unary(op: Unary, x: &RawTensor, out: DType) -> Result<RawTensor> {
    elementwise([x], |backend, [x]| backend.unary(op, x, out))
}

/// `factor * x` in the precision of `x`.
pub(super) fn scaled(x: &RawTensor, factor: f64) -> Result<RawTensor> {
    unary(Unary::Affine { mul: factor, add: 0.0 }, x, x.logical)
}

/// `op(a, b)` of operands that broadcast, in precision `out`.
pub(super) fn binary(name: &'static str, op: Binary, a: &RawTensor, b: &RawTensor, out: DType) -> Result<RawTensor> {
    let (a, b) = broadcast_pair(name, a, b)?;
    elementwise([&a, &b], |backend, [a, b]| backend.binary(op, a, b, out))
}

/// Truth values `op(a, b)` of operands that broadcast.
pub(super) fn compare(name: &'static str, op: Compare, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let (a, b) = broadcast_pair(name, a, b)?;
    elementwise([&a, &b], |backend, [a, b]| backend.compare(op, a, b))
}

/// `condition ? a : b` in the shape of `condition` and in precision `out`.
pub(super) fn select(
    name: &'static str,
    condition: &RawTensor,
    a: &RawTensor,
    b: &RawTensor,
    out: DType,
) -> Result<RawTensor> {
    let shape = *condition.shape();
    let (a, b) = (a.broadcast_to(name, &shape)?, b.broadcast_to(name, &shape)?);
    elementwise([condition, &a, &b], |backend, [condition, a, b]| backend.select(condition, a, b, out))
}

/// `shape` with size 1 along `axes`, as a fold leaves it.
pub(super) fn folded(shape: &Dims, axes: &[usize]) -> Dims {
    let mut shape = *shape;
    axes.iter().for_each(|&a| shape[a] = 1);
    shape
}

/// Number of elements that `axes` fold into one.
pub(super) fn folded_count(shape: &Dims, axes: &[usize]) -> usize {
    axes.iter().map(|&a| shape[a]).product()
}

/// Zeros with the shape and device of `x`, in precision `dtype`.
pub(super) fn zeros(x: &RawTensor, dtype: DType) -> Result<RawTensor> {
    RawTensor::full(x.device(), 0.0, *x.shape(), dtype)
}
