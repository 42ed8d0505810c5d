//! Folding, scanning and sorting along axes.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{DType, Reduce, Scan};

/// Reductions. They accumulate in F32 (F64 for F64) and give the same bits for any number of threads.
pub trait Reduction {
    /// Folds the given axes away; the remaining ones keep their order.
    fn reduce(&self, op: Reduce, x: Operand<'_>, axes: &[usize], out: DType) -> Result<Buffer>;

    /// Mean and variance over the given axes; the variance divides by `count - correction`.
    fn variance(&self, x: Operand<'_>, axes: &[usize], correction: f64, out: DType) -> Result<(Buffer, Buffer)>;

    /// Position (I64) of the largest or least element along an axis: the first of equals, NaN before all numbers.
    fn arg_reduce(&self, max: bool, x: Operand<'_>, axis: usize) -> Result<Buffer>;

    /// Running fold along an axis, from the end when `reverse`.
    fn scan(&self, op: Scan, x: Operand<'_>, axis: usize, reverse: bool, out: DType) -> Result<Buffer>;

    /// Gradient of a running product along an axis, exact at zeros.
    fn cumprod_grad(&self, x: Operand<'_>, grad: Operand<'_>, axis: usize, out: DType) -> Result<Buffer>;

    /// Values sorted along an axis and the positions (I64) they came from; stable, NaN counts as largest.
    fn sort(&self, x: Operand<'_>, axis: usize, descending: bool) -> Result<(Buffer, Buffer)>;

    /// The first `count` elements of each line of [`sort`](Self::sort); nothing where that does as well.
    fn topk(
        &self,
        _x: Operand<'_>,
        _axis: usize,
        _count: usize,
        _descending: bool,
    ) -> Result<Option<(Buffer, Buffer)>> {
        Ok(None)
    }

    /// Position (I64) of the middle element along an axis, which stays with size 1: of the lower of two, or of a NaN unless these
    /// are `left_out`; nothing where [`sort`](Self::sort) finds it as well.
    fn median(&self, _x: Operand<'_>, _axis: usize, _left_out: bool) -> Result<Option<Buffer>> {
        Ok(None)
    }

    /// The largest or least elements so far along an axis and their positions (I64): the later of equals, NaN once it has come;
    /// nothing where element-wise operations find them as well.
    fn running_extreme(&self, _max: bool, _x: Operand<'_>, _axis: usize) -> Result<Option<(Buffer, Buffer)>> {
        Ok(None)
    }

    /// Euclidean distances of each row of `a` `[B, P, M]` from each of `b` `[B, R, M]`, as `[B, P, R]`; nothing where element-wise
    /// operations find them as well.
    fn distances(&self, _a: Operand<'_>, _b: Operand<'_>, _out: DType) -> Result<Option<Buffer>> {
        Ok(None)
    }

    /// Gradient with respect to `a` of [`distances`](Self::distances) `y`, where these are found; 0 where a distance is.
    fn distances_grad(
        &self,
        _a: Operand<'_>,
        _b: Operand<'_>,
        _y: Operand<'_>,
        _grad: Operand<'_>,
        _out: DType,
    ) -> Result<Buffer> {
        unreachable!("a device that finds distances has their gradient")
    }
}
