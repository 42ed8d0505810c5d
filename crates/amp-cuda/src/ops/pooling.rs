use super::{PACK, line_team};
use crate::args::{PoolArgs, PoolAxis, UpsampleArgs};
use crate::device::{Gpu, Memory};
use crate::error::foreign;
use crate::module::Family::Pool as FAMILY;
use crate::operand::{Compute, Operand, in_packs, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Interpolation, Layout, MemoryOrder, Operand as CoreOperand, Pool2d, Pooling};

/// Images of pixels whose channels lie together; planes that follow one another are images of one channel.
#[derive(Clone, Copy)]
struct Images {
    count: usize,
    channels: usize,
    size: [usize; 2],
}

impl Images {
    /// Images `[N, C, H, W]` that lie in that order.
    fn new(x: &CoreOperand<'_>, order: MemoryOrder) -> Self {
        let (outer, size) = x.layout.shape.split_at(2);
        let (count, channels) = match order {
            MemoryOrder::RowMajor => (outer[0] * outer[1], 1),
            MemoryOrder::ChannelsLast => (outer[0], outer[1]),
        };
        Self { count, channels, size: [size[0], size[1]] }
    }

    /// The number of elements if the images had that size.
    fn elements(self, size: [usize; 2]) -> usize {
        self.count * self.channels * size[0] * size[1]
    }
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

    /// `x` are images of that number, or the gradient of their result.
    fn args(self, images: Images, input: [usize; 2], x: Operand, y: &Memory) -> PoolArgs {
        PoolArgs {
            x,
            y: y.address(),
            indices: 0,
            axis: self.axes(input),
            images: images.count as i64,
            channels: images.channels as i64,
            adaptive: i32::from(matches!(self, Self::Dividing(_))),
            count_padding: 0,
            out: tag(y.dtype()),
        }
    }
}

/// The one of two kernels that runs, for single channels and for packs of them, and how many parts its threads have.
fn kernel([single, packs]: [&'static str; 2], compute: Compute, args: &PoolArgs, n: usize) -> (&'static str, usize) {
    let whole = args.channels % PACK as i64 == 0 && args.x.packed != 0;
    if whole && in_packs(args.out) && compute == Compute::F32 { (packs, n / PACK) } else { (single, n) }
}

/// Blocks that stay within an image each, and no more of them than have work.
fn image_team(images: usize, parts: usize) -> ([u64; 3], u32) {
    let ([blocks, ..], threads) = line_team(images, parts, 1);
    let splits = parts.div_ceil(PACK * threads as usize).min(usize::from(u16::MAX));
    ([blocks, splits as u64, 1], threads)
}

impl Gpu {
    /// Images, and their elements numbered in that order.
    fn images(&self, op: &'static str, x: CoreOperand<'_>, order: MemoryOrder) -> Result<(Images, Operand)> {
        Ok((Images::new(&x, order), Operand::with_layout(self, op, x, &order.walked(x.layout))?))
    }

    fn pool(&self, stems: [&'static str; 2], compute: Compute, args: PoolArgs, n: usize) -> Result<()> {
        let (stem, parts) = kernel(stems, compute, &args, n);
        self.launch(FAMILY, stem, Some(compute), self.spread(parts), args)
    }

    fn maxima(&self, x: CoreOperand<'_>, windows: Windows<'_>, order: MemoryOrder) -> Result<(Buffer, Buffer)> {
        let (images, operand) = self.images("max_pool2d", x, order)?;
        let n = images.elements(windows.output(images.size));
        let (y, indices) = (self.memory("max_pool2d", n, x.logical)?, self.memory("max_pool2d", n, DType::I64)?);
        let args = PoolArgs { indices: indices.address(), ..windows.args(images, images.size, operand, &y) };
        self.pool(["max_pool", "max_pool_packs"], Compute::real(&[x.logical]), args, n)?;
        Ok((y.into_buffer(), indices.into_buffer()))
    }

    fn means(
        &self,
        x: CoreOperand<'_>,
        windows: Windows<'_>,
        count_padding: bool,
        order: MemoryOrder,
    ) -> Result<Buffer> {
        let (images, operand) = self.images("avg_pool2d", x, order)?;
        let n = images.elements(windows.output(images.size));
        let y = self.memory("avg_pool2d", n, x.logical)?;
        let args =
            PoolArgs { count_padding: i32::from(count_padding), ..windows.args(images, images.size, operand, &y) };
        self.pool(["avg_pool", "avg_pool_packs"], Compute::real(&[x.logical]), args, n)?;
        Ok(y.into_buffer())
    }

    fn means_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        windows: Windows<'_>,
        count_padding: bool,
        (out, order): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let (images, operand) = self.images("avg_pool2d", grad, order)?;
        let n = images.elements(input);
        let dx = self.memory("avg_pool2d", n, out)?;
        let args = PoolArgs { count_padding: i32::from(count_padding), ..windows.args(images, input, operand, &dx) };
        self.pool(["avg_pool_grad", "avg_pool_grad_packs"], Compute::real(&[grad.logical]), args, n)?;
        Ok(dx.into_buffer())
    }

    fn resample(
        &self,
        stem: &'static str,
        x: CoreOperand<'_>,
        (input, output): ([usize; 2], [usize; 2]),
        how: Interpolation,
        (y, order): (Memory, MemoryOrder),
    ) -> Result<Buffer> {
        let (images, operand) = self.images("upsample2d", x, order)?;
        let args = UpsampleArgs {
            x: operand,
            y: y.address(),
            input: input.map(|n| n as i64),
            output: output.map(|n| n as i64),
            images: images.count as i64,
            channels: images.channels as i64,
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
    fn pooling_order(&self, x: &Layout) -> MemoryOrder {
        MemoryOrder::of(&[x])
    }

    fn max_pool2d(&self, x: CoreOperand<'_>, spec: &Pool2d, order: MemoryOrder) -> Result<(Buffer, Buffer)> {
        self.maxima(x, Windows::Fixed(spec), order)
    }

    fn adaptive_max_pool2d(
        &self,
        x: CoreOperand<'_>,
        size: [usize; 2],
        order: MemoryOrder,
    ) -> Result<(Buffer, Buffer)> {
        self.maxima(x, Windows::Dividing(size), order)
    }

    fn max_pool2d_grad(
        &self,
        grad: CoreOperand<'_>,
        indices: &Buffer,
        input: [usize; 2],
        spec: Option<&Pool2d>,
        (out, order): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let (images, operand) = self.images("max_pool2d", grad, order)?;
        let windows = spec.map_or(Windows::Dividing(images.size), Windows::Fixed);
        let n = images.elements(input);
        let dx = self.memory("max_pool2d", n, out)?;
        let indices = indices.downcast::<Memory>().ok_or_else(|| foreign(self, "max_pool2d"))?;
        let args = PoolArgs { indices: indices.address(), ..windows.args(images, input, operand, &dx) };
        let compute = Compute::real(&[grad.logical, out]);
        let (stem, parts) = kernel(["max_pool_grad", "max_pool_grad_packs"], compute, &args, n);
        self.launch(FAMILY, stem, Some(compute), image_team(images.count, parts / images.count.max(1)), args)?;
        Ok(dx.into_buffer())
    }

    fn avg_pool2d(
        &self,
        x: CoreOperand<'_>,
        spec: &Pool2d,
        count_include_pad: bool,
        order: MemoryOrder,
    ) -> Result<Buffer> {
        self.means(x, Windows::Fixed(spec), count_include_pad, order)
    }

    fn avg_pool2d_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        spec: &Pool2d,
        count_include_pad: bool,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        self.means_grad(grad, input, Windows::Fixed(spec), count_include_pad, out)
    }

    fn adaptive_avg_pool2d(&self, x: CoreOperand<'_>, size: [usize; 2], order: MemoryOrder) -> Result<Buffer> {
        self.means(x, Windows::Dividing(size), false, order)
    }

    fn adaptive_avg_pool2d_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let size = Images::new(&grad, out.1).size;
        self.means_grad(grad, input, Windows::Dividing(size), false, out)
    }

    fn upsample2d(
        &self,
        x: CoreOperand<'_>,
        size: [usize; 2],
        how: Interpolation,
        (out, order): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let images = Images::new(&x, order);
        let y = self.memory("upsample2d", images.elements(size), out)?;
        self.resample("upsample", x, (images.size, size), how, (y, order))
    }

    fn upsample2d_grad(
        &self,
        grad: CoreOperand<'_>,
        input: [usize; 2],
        how: Interpolation,
        (out, order): (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let images = Images::new(&grad, order);
        let dx = self.memory("upsample2d", images.elements(input), out)?;
        self.resample("upsample_grad", grad, (input, images.size), how, (dx, order))
    }
}
