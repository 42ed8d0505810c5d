use super::{CpuBackend, room, view};
use crate::backend::{Buffer, Indexing, Operand};
use crate::{Error, Result};
use amp_cpu::{DType, Dims, Stretch};

impl Indexing for CpuBackend {
    fn check_indices(&self, op: &'static str, index: Operand<'_>, size: usize, ignored: Option<i64>) -> Result<()> {
        match amp_cpu::outside(&view(op, index)?, size, ignored) {
            Some(index) => Err(Error::IndexOutOfRange { op, index, size }),
            None => Ok(()),
        }
    }

    fn index_select(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer> {
        let (x, index) = (view("index_select", x)?, view("index_select", index)?);
        let index = amp_cpu::indices(&index);
        let others = x.layout.shape.removed(axis).count();
        room("index_select", others.saturating_mul(index.len()), x.logical)?;
        Ok(Buffer::new(amp_cpu::index_select(&x, axis, &index)))
    }

    fn gather(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::gather(&view("gather", x)?, axis, &view("gather", index)?)))
    }

    fn scatter_add(
        &self,
        base: Operand<'_>,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let (base, index, src) = (view("scatter_add", base)?, view("scatter_add", index)?, view("scatter_add", src)?);
        Ok(Buffer::new(amp_cpu::scatter_add(&base, axis, &index, &src, out)))
    }

    fn scatter(
        &self,
        base: Operand<'_>,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let (base, index, src) = (view("scatter", base)?, view("scatter", index)?, view("scatter", src)?);
        Ok(Buffer::new(amp_cpu::scatter(&base, axis, &index, &src, out)))
    }

    fn index_add(
        &self,
        base: Option<Operand<'_>>,
        len: usize,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        const OP: &str = "index_add";
        let (base, index, src) = (base.map(|base| view(OP, base)).transpose()?, view(OP, index)?, view(OP, src)?);
        Ok(Buffer::new(amp_cpu::index_add(base.as_ref(), len, axis, &amp_cpu::indices(&index), &src, out)))
    }

    fn pad(&self, x: Operand<'_>, around: &[[usize; 2]], value: f64, shape: Dims) -> Result<Buffer> {
        room("pad", shape.count(), x.logical)?;
        Ok(Buffer::new(amp_cpu::pad(&view("pad", x)?, around, value)))
    }

    fn assemble(&self, op: &'static str, x: Operand<'_>, axes: &[Vec<Stretch>]) -> Result<Buffer> {
        let x = view(op, x)?;
        room(op, axes.iter().map(|axis| axis.iter().map(|s| s.len).sum()).fold(1, usize::saturating_mul), x.logical)?;
        Ok(Buffer::new(amp_cpu::assemble(&x, axes)))
    }
}
