//! Factors of square matrices, and systems of equations by triangles.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::Triangle;

/// Kernels of dense linear algebra on the last two dimensions, in F32 (F64 for F64), which is what they give.
pub trait Factorization {
    /// Lower triangles `L` with `x = L · Lᵀ` for `[.., N, N]`, of which only the lower triangles are read; zeros above them. From
    /// the first pivot on that is not above 0, the diagonal is NaN.
    fn cholesky(&self, x: Operand<'_>) -> Result<Buffer>;

    /// Triangles `L` and `U` whose products are the matrices `[.., N, N]` with their rows exchanged, in one matrix without the
    /// diagonal of `L`, which is 1; where each row was, I64 `[.., N]`; and 1 or -1 for an even or odd number of exchanges, `[..]`.
    fn lu(&self, x: Operand<'_>) -> Result<[Buffer; 3]>;

    /// `x` in `a · x = b` for the triangles of `a` `[.., N, N]` and `b` `[.., N, K]`, which have the same batch.
    fn solve_triangular(&self, a: Operand<'_>, b: Operand<'_>, triangle: Triangle) -> Result<Buffer>;
}
