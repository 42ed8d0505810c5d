use super::line_team;
use crate::args::{PoolArgs, PoolAxis, UpsampleArgs};
use crate::device::{Gpu, Memory};
use crate::error::foreign;
use crate::module::Family::Pool as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Interpolation, MemoryOrder, Operand as CoreOperand, Pool2d, Pooling};

/// Planes of a tensor, and their height and width.
fn planes(x: &CoreOperand<'_>) -> (usize, [usize; 2]) {
    let (outer, size) = x.layout.shape.split_at(2);
    (outer.iter().product(), [size[0], size[1]])
}

/// The windows of a pooling: fixed ones, or as many as divide the plane.
#[derive(Clone, Copy)]
enum Windows<'a> {
    Fixed(&'a Pool2d),
    Dividing([usize; 2]),
}

impl Windows<'_> {
    fn output(self, input: [usize; 2]) -> [usize; 2] {
        match self {
            Self::Fixed(spec) => spec.output_size(input).unwrap_or_default(),
            Self::Dividing(size) => size,
        }
    }

    fn axes(self, input: [usize; 2]) -> [PoolAxis; 2] {
        let output = self.output(input);
        std::array::from_fn(|i| {
            let sizes = PoolAxis { input: input[i] as i64, output: output[i] as i64, ..PoolAxis::default() };
            match self {
                Self::Dividing(_) => sizes,
                Self::Fixed(spec) => PoolAxis {
                    kernel: spec.kernel[i] as i64,
                    stride: spec.stride[i] as i64,
                    padding: spec.padding[i] as i64,
                    dilation: spec.dilation[i] as i64,
                    ..sizes
                },
            }
        })
    }

    fn args(self, count: usize, input: [usize; 2], x: Operand, y: &Memory) -> PoolArgs {
        PoolArgs {
            x,
            y: y.address(),
            indices: 0,
            axis: self.axes(input),
            planes: count as i64,
            adaptive: i32::from(matches!(self, Self::Dividing(_))),
            count_padding: 0,
            out: tag(y.dtype()),
        }
    }
}

impl Gpu {
    fn maxima(&self, x: CoreOperand<'_>, windows: Windows<'_>) -> Result<(Buffer, Buffer)> {
        let (count, input) = planes(&x);
        let n = count * windows.output(input).iter().product::<usize>();
        let (y, indices) = (self.memory("max_pool2d", n, x.logical)?, self.memory("max_pool2d", n, DType::I64)?);
        let x_operand = Operand::new(self, "max_pool2d", x)?;
        let args = PoolArgs { indices: indices.address(), ..windows.args(count, input, x_operand, &y) };
        self.launch(FAMILY, "max_pool", Some(Compute::real(&[x.logical])), self.spread(n), args)?;
        Ok((y.into_buffer(), indices.into_buffer()))
    }

    fn means(&self, x: CoreOperand<'_>, windows: Windows<'_>, count_padding: bool) -> Result<Buffer> {
        let (count, input) = planes(&x);
        let n = count * windows.output(input).iter().product::<usize>();
        let y = self.memory("avg_pool2d", n, x.logical)?;
        let x_operand = Operand::new(self, "avg_pool2d", x)?;
        let args = PoolArgs { count_padding: i32::from(count_padding), ..windows.args(count, input, x_operand, &y) };
        self.launch(FAMILY, "avg_pool", Some(Compute::real(&[x.logical])), self.spread(n), args)?;
        Ok(y.into_buffer())
    }

    fn means_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        windows: Windows<'_>,
        count_padding: bool,
        out: DType,
    ) -> Result<Buffer> {
        let (count, _) = planes(&grad);
        let n = count * input[0] * input[1];
        let dx = self.memory("avg_pool2d", n, out)?;
        let operand = Operand::new(self, "avg_pool2d", grad)?;
        let args = PoolArgs { count_padding: i32::from(count_padding), ..windows.args(count, input, operand, &dx) };
        self.launch(FAMILY, "avg_pool_grad", Some(Compute::real(&[grad.logical])), self.spread(n), args)?;
        Ok(dx.into_buffer())
    }

    fn resample(
        &self,
        stem: &'static str,
        x: CoreOperand<'_>,
        (input, output): ([usize; 2], [usize; 2]),
        how: Interpolation,
        y: Memory,
    ) -> Result<Buffer> {
        let args = UpsampleArgs {
            x: Operand::new(self, "upsample2d", x)?,
            y: y.address(),
            input: input.map(|n| n as i64),
            output: output.map(|n| n as i64),
            planes: planes(&x).0 as i64,
            how: match how {
                Interpolation::Nearest => 0,
                Interpolation::Bilinear { align_corners: false } => 1,
                Interpolation::Bilinear { align_corners: true } => 2,
            },
            out: tag(y.dtype()),
        };
        self.launch(FAMILY, stem, Some(Compute::real(&[x.logical])), self.spread(y.len()), args)?;
        Ok(y.into_buffer())
    }
}

impl Pooling for Gpu {
    fn max_pool2d(&self, x: CoreOperand<'_>, spec: &Pool2d, _: MemoryOrder) -> Result<(Buffer, Buffer)> {
        self.maxima(x, Windows::Fixed(spec))
    }

    fn adaptive_max_pool2d(&self, x: CoreOperand<'_>, size: [usize; 2], _: MemoryOrder) -> Result<(Buffer, Buffer)> {
        self.maxima(x, Windows::Dividing(size))
    }

    fn max_pool2d_grad(
        &self,
        grad: CoreOperand<'_>,
        indices: &Buffer,
        input: [usize; 2],
        spec: Option<&Pool2d>,
        (out, _): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let (count, size) = planes(&grad);
        let windows = spec.map_or(Windows::Dividing(size), Windows::Fixed);
        let dx = self.memory("max_pool2d", count * input[0] * input[1], out)?;
        let indices = indices.downcast::<Memory>().ok_or_else(|| foreign(self, "max_pool2d"))?;
        let operand = Operand::new(self, "max_pool2d", grad)?;
        let args = PoolArgs { indices: indices.address(), ..windows.args(count, input, operand, &dx) };
        let compute = Compute::real(&[grad.logical, out]);
        self.launch(FAMILY, "max_pool_grad", Some(compute), line_team(count, input[0] * input[1], 1), args)?;
        Ok(dx.into_buffer())
    }

    fn avg_pool2d(&self, x: CoreOperand<'_>, spec: &Pool2d, count_include_pad: bool, _: MemoryOrder) -> Result<Buffer> {
        self.means(x, Windows::Fixed(spec), count_include_pad)
    }

    fn avg_pool2d_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        spec: &Pool2d,
        count_include_pad: bool,
        (out, _): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        self.means_grad(grad, input, Windows::Fixed(spec), count_include_pad, out)
    }

    fn adaptive_avg_pool2d(&self, x: CoreOperand<'_>, size: [usize; 2], _: MemoryOrder) -> Result<Buffer> {
        self.means(x, Windows::Dividing(size), false)
    }

    fn adaptive_avg_pool2d_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        (out, _): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        self.means_grad(grad, input, Windows::Dividing(planes(&grad).1), false, out)
    }

    fn upsample2d(
        &self,
        x: CoreOperand<'_>,
        size: [usize; 2],
        how: Interpolation,
        (out, _): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let (count, input) = planes(&x);
        let y = self.memory("upsample2d", count * size[0] * size[1], out)?;
        self.resample("upsample", x, (input, size), how, y)
    }

    fn upsample2d_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        how: Interpolation,
        (out, _): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let (count, size) = planes(&grad);
        let dx = self.memory("upsample2d", count * input[0] * input[1], out)?;
        self.resample("upsample_grad", grad, (input, size), how, dx)
    }
}
