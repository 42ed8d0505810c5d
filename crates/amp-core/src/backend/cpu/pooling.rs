use super::{CpuBackend, foreign, room, view};
use crate::Result;
use crate::backend::{Buffer, Operand, Pooling};
use amp_cpu::{DType, Interpolation, Layout, MemoryOrder, Pool2d, Sampling, Slice, Storage, View};

impl Pooling for CpuBackend {
    fn pooling_order(&self, x: &Layout) -> MemoryOrder {
        MemoryOrder::of(&[x])
    }

    fn max_pool2d(&self, x: Operand<'_>, spec: &Pool2d, order: MemoryOrder) -> Result<(Buffer, Buffer)> {
        let (y, indices) = amp_cpu::max_pool2d(&view("max_pool2d", x)?, spec, order);
        Ok((Buffer::new(y), Buffer::new(indices)))
    }

    fn adaptive_max_pool2d(&self, x: Operand<'_>, size: [usize; 2], order: MemoryOrder) -> Result<(Buffer, Buffer)> {
        let x = resized("adaptive_max_pool2d", x, size)?;
        let (y, indices) = amp_cpu::adaptive_max_pool2d(&x, size, order);
        Ok((Buffer::new(y), Buffer::new(indices)))
    }

    fn max_pool2d_values(
        &self,
        x: Operand<'_>,
        spec: Option<&Pool2d>,
        size: [usize; 2],
        order: MemoryOrder,
    ) -> Result<Buffer> {
        let x = resized(if spec.is_some() { "max_pool2d" } else { "adaptive_max_pool2d" }, x, size)?;
        Ok(Buffer::new(amp_cpu::max_pool2d_values(&x, spec, size, order)))
    }

    fn max_pool2d_grad(
        &self,
        grad: Operand<'_>,
        indices: &Buffer,
        input: [usize; 2],
        spec: Option<&Pool2d>,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let storage = indices.downcast::<Storage>().ok_or_else(|| foreign("max_pool2d"))?;
        let Slice::I64(places) = storage.as_slice() else { return Err(foreign("max_pool2d")) };
        Ok(Buffer::new(amp_cpu::max_pool2d_grad(&view("max_pool2d", grad)?, places, input, spec, out)))
    }

    fn avg_pool2d(&self, x: Operand<'_>, spec: &Pool2d, count_include_pad: bool, order: MemoryOrder) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::avg_pool2d(&view("avg_pool2d", x)?, spec, count_include_pad, order)))
    }

    fn avg_pool2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        spec: &Pool2d,
        count_include_pad: bool,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let grad = view("avg_pool2d", grad)?;
        Ok(Buffer::new(amp_cpu::avg_pool2d_grad(&grad, input, spec, count_include_pad, out)))
    }

    fn adaptive_avg_pool2d(&self, x: Operand<'_>, size: [usize; 2], order: MemoryOrder) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::adaptive_avg_pool2d(&resized("adaptive_avg_pool2d", x, size)?, size, order)))
    }

    fn adaptive_avg_pool2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::adaptive_avg_pool2d_grad(&view("adaptive_avg_pool2d", grad)?, input, out)))
    }

    fn upsample2d(
        &self,
        x: Operand<'_>,
        size: [usize; 2],
        how: Interpolation,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::upsample2d(&resized("upsample", x, size)?, size, how, out)))
    }

    fn upsample2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        how: Interpolation,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::upsample2d_grad(&view("upsample", grad)?, input, how, out)))
    }

    fn grid_sample(
        &self,
        x: Operand<'_>,
        grid: Operand<'_>,
        how: Sampling,
        out: (DType, MemoryOrder),
    ) -> Result<Option<Buffer>> {
        let grid = view("grid_sample", grid)?;
        let x = resized("grid_sample", x, [grid.layout.shape[1], grid.layout.shape[2]])?;
        Ok(Some(Buffer::new(amp_cpu::grid_sample(&x, &grid, how, out))))
    }

    fn grid_sample_grad(
        &self,
        grad: Operand<'_>,
        grid: Operand<'_>,
        input: [usize; 2],
        how: Sampling,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let (grad, grid) = (view("grid_sample", grad)?, view("grid_sample", grid)?);
        Ok(Buffer::new(amp_cpu::grid_sample_grad(&grad, &grid, input, how, out)))
    }

    fn grid_sample_grad_grid(
        &self,
        x: Operand<'_>,
        grid: Operand<'_>,
        grad: Operand<'_>,
        how: Sampling,
        out: DType,
    ) -> Result<Buffer> {
        let (x, grid, grad) = (view("grid_sample", x)?, view("grid_sample", grid)?, view("grid_sample", grad)?);
        Ok(Buffer::new(amp_cpu::grid_sample_grad_grid(&x, &grid, &grad, how, out)))
    }
}

/// Images `[N, C, ..]` for whose result of another size there is memory, and for the numbers that say where each of its rows and
/// columns comes from, at most four.
fn resized<'a>(op: &'static str, x: Operand<'a>, size: [usize; 2]) -> Result<View<'a>> {
    let x = view(op, x)?;
    let planes = x.layout.shape[0] * x.layout.shape[1];
    room(op, planes.saturating_mul(size[0]).saturating_mul(size[1]), x.logical)?;
    room(op, size[0].saturating_add(size[1]).saturating_mul(4), DType::F64)?;
    Ok(x)
}
