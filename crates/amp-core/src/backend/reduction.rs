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

    /// The first `count` elements of each line of [`sort`](Self::sort); `None` where `sort` is as fast.
    fn topk(&self, x: Operand<'_>, axis: usize, count: usize, descending: bool) -> Result<Option<(Buffer, Buffer)>> {
        let _ = (x, axis, count, descending);
        Ok(None)
    }

    /// Position (I64) of the middle element along an axis, which stays with size 1: of the lower of two, or of a NaN unless these
    /// are `left_out`; `None` where [`sort`](Self::sort) is as fast.
    fn median(&self, x: Operand<'_>, axis: usize, left_out: bool) -> Result<Option<Buffer>> {
        let _ = (x, axis, left_out);
        Ok(None)
    }

    /// The largest or least elements so far along an axis and their positions (I64): the later of equals, NaN once it has come;
    /// `None` where element-wise operations are to find them.
    fn running_extreme(&self, max: bool, x: Operand<'_>, axis: usize) -> Result<Option<(Buffer, Buffer)>> {
        let _ = (max, x, axis);
        Ok(None)
    }

    /// Euclidean distances of each row of `a` `[B, P, M]` from each of `b` `[B, R, M]`, as `[B, P, R]`; `None` where
    /// element-wise operations are to find them.
    fn distances(&self, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<Option<Buffer>> {
        let _ = (a, b, out);
        Ok(None)
    }

    /// Gradient with respect to `a` of the [`distances`](Self::distances) `y`, 0 where a distance is 0. Only called on devices that
    /// find distances.
    fn distances_grad(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        y: Operand<'_>,
        grad: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let _ = (a, b, y, grad, out);
        unreachable!("a device that finds distances has their gradient")
    }
}
