use super::{CpuBackend, room, view};
use crate::Result;
use crate::backend::{Buffer, Factorization, Operand};
use amp_cpu::Triangle;

impl Factorization for CpuBackend {
    fn cholesky(&self, x: Operand<'_>) -> Result<Buffer> {
        const OP: &str = "cholesky";
        room(OP, x.layout.count(), x.logical)?;
        Ok(Buffer::new(amp_cpu::cholesky(&view(OP, x)?)))
    }

    fn lu(&self, x: Operand<'_>) -> Result<[Buffer; 3]> {
        const OP: &str = "lu";
        room(OP, x.layout.count(), x.logical)?;
        Ok(amp_cpu::lu(&view(OP, x)?).map(Buffer::new))
    }

    fn solve_triangular(&self, a: Operand<'_>, b: Operand<'_>, triangle: Triangle) -> Result<Buffer> {
        const OP: &str = "solve_triangular";
        room(OP, b.layout.count(), b.logical)?;
        Ok(Buffer::new(amp_cpu::solve_triangular(&view(OP, a)?, &view(OP, b)?, triangle)))
    }
}
