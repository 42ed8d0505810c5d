use super::{CpuBackend, room, view};
use crate::backend::{Buffer, Indexing, Operand};
use crate::{Error, Result};
use amp_cpu::DType;

impl Indexing for CpuBackend {
    fn check_indices(&self, op: &'static str, index: Operand<'_>, size: usize, ignored: Option<i64>) -> Result<()> {
        let valid = |&i: &i64| Some(i) == ignored || usize::try_from(i).is_ok_and(|i| i < size);
        match amp_cpu::indices(&view(op, index)?).into_iter().find(|i| !valid(i)) {
            Some(index) => Err(Error::IndexOutOfRange { op, index, size }),
            None => Ok(()),
        }
    }

    fn index_select(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer> {
        let (x, index) = (view("index_select", x)?, amp_cpu::indices(&view("index_select", index)?));
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

    fn index_add(&self, len: usize, axis: usize, index: Operand<'_>, src: Operand<'_>, out: DType) -> Result<Buffer> {
        let index = amp_cpu::indices(&view("index_add", index)?);
        Ok(Buffer::new(amp_cpu::index_add(len, axis, &index, &view("index_add", src)?, out)))
    }
}
