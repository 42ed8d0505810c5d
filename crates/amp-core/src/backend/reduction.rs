//! Folding along axes.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{DType, Reduce};

/// Reductions. They accumulate in F32 (F64 for F64) and give the same bits for any number of threads.
pub trait Reduction {
    /// Folds the given axes away; the remaining ones keep their order.
    fn reduce(&self, op: Reduce, x: Operand<'_>, axes: &[usize], out: DType) -> Result<Buffer>;
}
