use crate::args::{CholeskyArgs, LuArgs, SolveTriangularArgs};
use crate::device::{Gpu, Memory, THREADS};
use crate::module::Family::Factor as FAMILY;
use crate::operand::{Compute, Operand};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Factorization, Layout, Operand as CoreOperand, Triangle};

/// Columns of a right side that a block has; `COLUMNS` of `factor.cu`.
const COLUMNS: usize = 32;

/// How many matrices there are, and their sizes.
fn matrices(layout: &Layout) -> (usize, [usize; 2]) {
    let (outer, size) = layout.shape.split_at(layout.shape.len() - 2);
    (outer.iter().product(), [size[0], size[1]])
}

impl Factorization for Gpu {
    fn cholesky(&self, x: CoreOperand<'_>) -> Result<Buffer> {
        const OP: &str = "cholesky";
        let (count, [n, _]) = matrices(x.layout);
        let y = self.memory(OP, x.layout.count(), x.logical)?;
        let args = CholeskyArgs { x: Operand::new(self, OP, x)?, y: y.address(), n: n as i64 };
        let blocks = if n == 0 { 0 } else { count };
        self.launch(FAMILY, OP, Some(Compute::of(&[x.logical])), ([blocks as u64, 1, 1], THREADS), args)?;
        Ok(y.into_buffer())
    }

    fn lu(&self, x: CoreOperand<'_>) -> Result<[Buffer; 3]> {
        const OP: &str = "lu";
        let (count, [n, _]) = matrices(x.layout);
        let (y, rows) = (self.memory(OP, x.layout.count(), x.logical)?, self.memory(OP, count * n, DType::I64)?);
        let signs = self.memory(OP, count, x.logical)?;
        let args = LuArgs {
            x: Operand::new(self, OP, x)?,
            y: y.address(),
            rows: rows.address(),
            signs: signs.address(),
            n: n as i64,
        };
        self.launch(FAMILY, OP, Some(Compute::of(&[x.logical])), ([count as u64, 1, 1], THREADS), args)?;
        Ok([y, rows, signs].map(Memory::into_buffer))
    }

    fn solve_triangular(&self, a: CoreOperand<'_>, b: CoreOperand<'_>, triangle: Triangle) -> Result<Buffer> {
        const OP: &str = "solve_triangular";
        let (count, [n, columns]) = matrices(b.layout);
        let (x, tiles) = (self.memory(OP, b.layout.count(), b.logical)?, columns.div_ceil(COLUMNS));
        let args = SolveTriangularArgs {
            a: Operand::new(self, OP, a)?,
            b: Operand::new(self, OP, b)?,
            x: x.address(),
            n: n as i64,
            columns: columns as i64,
            tiles: tiles as i64,
            upper: i32::from(triangle.upper),
            unit: i32::from(triangle.unit),
        };
        let blocks = ([(count * tiles) as u64, 1, 1], THREADS);
        self.launch(FAMILY, OP, Some(Compute::of(&[b.logical])), blocks, args)?;
        Ok(x.into_buffer())
    }
}
