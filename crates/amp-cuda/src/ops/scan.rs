use super::Cut;
use crate::args::{CumprodGradArgs, ScanArgs};
use crate::device::{Gpu, THREADS};
use crate::module::Family::Scan as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Operand as CoreOperand, Scan};

impl Gpu {
    pub(super) fn running(
        &self,
        op: Scan,
        x: CoreOperand<'_>,
        axis: usize,
        reverse: bool,
        out: DType,
    ) -> Result<Buffer> {
        let cut = Cut::new(&x.layout.shape, axis);
        let y = self.memory("scan", x.layout.count(), out)?;
        let args = ScanArgs {
            x: Operand::new(self, "scan", x)?,
            y: y.address(),
            len: cut.len as i64,
            inner: cut.inner as i64,
            op: i32::from(op == Scan::Prod),
            reverse: i32::from(reverse),
            out: tag(out),
        };
        let grid = ([if cut.len == 0 { 0 } else { cut.lines() as u64 }, 1, 1], THREADS);
        self.launch(FAMILY, "scan", Some(Compute::of(&[x.logical])), grid, args)?;
        Ok(y.into_buffer())
    }

    pub(super) fn running_product_grad(
        &self,
        x: CoreOperand<'_>,
        grad: CoreOperand<'_>,
        axis: usize,
        out: DType,
    ) -> Result<Buffer> {
        let (cut, n) = (Cut::new(&x.layout.shape, axis), x.layout.count());
        let compute = Compute::real(&[x.logical]);
        let (scratch, dx) = (self.memory("cumprod", n, compute.dtype())?, self.memory("cumprod", n, out)?);
        let args = CumprodGradArgs {
            x: Operand::new(self, "cumprod", x)?,
            grad: Operand::new(self, "cumprod", grad)?,
            scratch: scratch.address(),
            dx: dx.address(),
            lines: cut.lines() as i64,
            len: cut.len as i64,
            inner: cut.inner as i64,
            out: tag(out),
        };
        self.launch(FAMILY, "cumprod_grad", Some(compute), self.spread(cut.lines()), args)?;
        Ok(dx.into_buffer())
    }
}
