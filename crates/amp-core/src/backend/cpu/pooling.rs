use super::{CpuBackend, foreign, view};
use crate::Result;
use crate::backend::{Buffer, Operand, Pooling};
use amp_cpu::{DType, Interpolation, Pool2d, Slice, Storage};

impl Pooling for CpuBackend {
    fn max_pool2d(&self, x: Operand<'_>, spec: &Pool2d) -> Result<(Buffer, Buffer)> {
        let (y, indices) = amp_cpu::max_pool2d(&view("max_pool2d", x)?, spec);
        Ok((Buffer::new(y), Buffer::new(indices)))
    }

    fn adaptive_max_pool2d(&self, x: Operand<'_>, size: [usize; 2]) -> Result<(Buffer, Buffer)> {
        let (y, indices) = amp_cpu::adaptive_max_pool2d(&view("adaptive_max_pool2d", x)?, size);
        Ok((Buffer::new(y), Buffer::new(indices)))
    }

    fn max_pool2d_grad(&self, grad: Operand<'_>, indices: &Buffer, input: [usize; 2], out: DType) -> Result<Buffer> {
        let storage = indices.downcast::<Storage>().ok_or_else(|| foreign("max_pool2d"))?;
        let Slice::I64(places) = storage.as_slice() else { return Err(foreign("max_pool2d")) };
        Ok(Buffer::new(amp_cpu::max_pool2d_grad(&view("max_pool2d", grad)?, places, input, out)))
    }

    fn avg_pool2d(&self, x: Operand<'_>, spec: &Pool2d, count_include_pad: bool) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::avg_pool2d(&view("avg_pool2d", x)?, spec, count_include_pad)))
    }

    fn avg_pool2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        spec: &Pool2d,
        count_include_pad: bool,
        out: DType,
    ) -> Result<Buffer> {
        let grad = view("avg_pool2d", grad)?;
        Ok(Buffer::new(amp_cpu::avg_pool2d_grad(&grad, input, spec, count_include_pad, out)))
    }

    fn adaptive_avg_pool2d(&self, x: Operand<'_>, size: [usize; 2]) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::adaptive_avg_pool2d(&view("adaptive_avg_pool2d", x)?, size)))
    }

    fn adaptive_avg_pool2d_grad(&self, grad: Operand<'_>, input: [usize; 2], out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::adaptive_avg_pool2d_grad(&view("adaptive_avg_pool2d", grad)?, input, out)))
    }

    fn upsample2d(&self, x: Operand<'_>, size: [usize; 2], how: Interpolation, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::upsample2d(&view("upsample", x)?, size, how, out)))
    }

    fn upsample2d_grad(&self, grad: Operand<'_>, input: [usize; 2], how: Interpolation, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::upsample2d_grad(&view("upsample", grad)?, input, how, out)))
    }
}
