use super::{CpuBackend, room, view};
use crate::Result;
use crate::backend::{Buffer, Operand, Reduction};
use amp_cpu::{DType, Reduce, Scan};

impl Reduction for CpuBackend {
    fn reduce(&self, op: Reduce, x: Operand<'_>, axes: &[usize], out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::reduce(op, &view("reduce", x)?, axes, out)))
    }

    fn variance(&self, x: Operand<'_>, axes: &[usize], correction: f64, out: DType) -> Result<(Buffer, Buffer)> {
        let (mean, var) = amp_cpu::variance(&view("var", x)?, axes, correction, out);
        Ok((Buffer::new(mean), Buffer::new(var)))
    }

    fn arg_reduce(&self, max: bool, x: Operand<'_>, axis: usize) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::arg_reduce(max, &view("arg_reduce", x)?, axis)))
    }

    fn scan(&self, op: Scan, x: Operand<'_>, axis: usize, reverse: bool, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::scan(op, &view("scan", x)?, axis, reverse, out)))
    }

    fn cumprod_grad(&self, x: Operand<'_>, grad: Operand<'_>, axis: usize, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::cumprod_grad(&view("cumprod", x)?, &view("cumprod", grad)?, axis, out)))
    }

    fn sort(&self, x: Operand<'_>, axis: usize, descending: bool) -> Result<(Buffer, Buffer)> {
        let (values, positions) = amp_cpu::sort(&view("sort", x)?, axis, descending);
        Ok((Buffer::new(values), Buffer::new(positions)))
    }

    fn topk(&self, x: Operand<'_>, axis: usize, count: usize, descending: bool) -> Result<Option<(Buffer, Buffer)>> {
        let (values, positions) = amp_cpu::topk(&view("topk", x)?, axis, count, descending);
        Ok(Some((Buffer::new(values), Buffer::new(positions))))
    }

    fn median(&self, x: Operand<'_>, axis: usize, left_out: bool) -> Result<Option<Buffer>> {
        Ok(Some(Buffer::new(amp_cpu::median(&view("median", x)?, axis, left_out))))
    }

    fn running_extreme(&self, max: bool, x: Operand<'_>, axis: usize) -> Result<Option<(Buffer, Buffer)>> {
        let (values, places) = amp_cpu::running_extreme(max, &view("running extreme", x)?, axis);
        Ok(Some((Buffer::new(values), Buffer::new(places))))
    }

    fn distances(&self, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<Option<Buffer>> {
        let (a, b) = (view("cdist", a)?, view("cdist", b)?);
        room("cdist", a.layout.count() / a.layout.shape[2] * b.layout.shape[1], out)?;
        Ok(Some(Buffer::new(amp_cpu::distances(&a, &b, out))))
    }

    fn distances_grad(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        y: Operand<'_>,
        grad: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let (a, b, y, grad) = (view("cdist", a)?, view("cdist", b)?, view("cdist", y)?, view("cdist", grad)?);
        Ok(Buffer::new(amp_cpu::distances_grad(&a, &b, &y, &grad, out)))
    }
}
