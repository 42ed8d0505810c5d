use super::matmul::replaced;
use crate::args::ConvArgs;
use crate::convolve::{ALIGNMENT, Convolved, Pass};
use crate::device::{Gpu, Memory, THREADS};
use crate::error::foreign;
use crate::module::Family::Conv as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, Conv2d, Convolution, DType, Layout, Memory as _, MemoryOrder, Operand as CoreOperand};

/// Rows and columns of the tile that one block computes; `TILE` of `gemm.cuh`.
const TILE: usize = 64;
/// Terms of a weight gradient that one block adds up.
const PER_SPLIT: usize = 4096;

/// Blocks for the tiles of `rows` x `columns` results of each group.
fn tiles(rows: usize, columns: usize, groups: usize, splits: usize) -> ([u64; 3], u32) {
    ([(rows.div_ceil(TILE) * columns.div_ceil(TILE) * groups) as u64, 1, splits as u64], THREADS)
}

fn sizes(x: &CoreOperand<'_>) -> [usize; 4] {
    std::array::from_fn(|i| x.layout.shape[i])
}

/// Everything that follows from the sizes of image, kernel and result.
fn shaped(image: [usize; 4], kernel: [usize; 4], result: [usize; 2], spec: &Conv2d) -> ConvArgs {
    let [batch, channels, height, width] = image.map(|n| n as i64);
    let [filters, _, kh, kw] = kernel.map(|n| n as i64);
    let pair = |p: [usize; 2]| p.map(|n| n as i64);
    ConvArgs {
        x: Operand::NONE,
        w: Operand::NONE,
        grad: Operand::NONE,
        bias: Operand::NONE,
        y: 0,
        batch,
        channels,
        height,
        width,
        filters,
        kh,
        kw,
        oh: result[0] as i64,
        ow: result[1] as i64,
        stride: pair(spec.stride),
        padding: pair(spec.padding),
        dilation: pair(spec.dilation),
        groups: spec.groups as i64,
        per_split: 0,
        first: 0,
        samples: 0,
        out: 0,
        accumulate: 0,
    }
}

impl Gpu {
    /// A copy in row-major order and in the precision that the elements count as, if they lie otherwise, or begin where cuDNN
    /// does not read, and a library of the vendor could use it.
    fn laid(&self, x: &CoreOperand<'_>) -> Result<Option<(Buffer, Layout)>> {
        let aligned = Operand::new(self, "conv2d", *x)?.data.is_multiple_of(ALIGNMENT);
        let lies = x.layout.is_contiguous() && x.buffer.dtype() == x.logical && aligned;
        let wanted = self.convolutions()?.is_some() || (x.logical.is_half() && self.products()?.is_some());
        if lies || !wanted {
            return Ok(None);
        }
        Ok(Some((self.copy(*x, x.logical)?, Layout::contiguous(x.layout.shape))))
    }

    /// Runs a convolution on cuDNN, if it can do it.
    pub(super) fn convolve(&self, op: &'static str, pass: Pass, order: MemoryOrder, args: &ConvArgs) -> Result<bool> {
        match (self.convolutions()?, Convolved::new(pass, order, args)) {
            (Some(library), Some((of, at))) => library.convolve(self, op, of, at, args.accumulate != 0),
            _ => Ok(false),
        }
    }

    /// Adds the gradient of the kernel to `into`, whose elements are of the type of computation.
    fn grad_weight(
        &self,
        grad: CoreOperand<'_>,
        x: CoreOperand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
        into: &Memory,
        compute: Compute,
    ) -> Result<()> {
        let [batch, _, oh, ow] = sizes(&grad);
        if into.dtype() == DType::F32 && Self::conv_order([&grad, &x], &weight[..2], spec) == MemoryOrder::ChannelsLast
        {
            let args = ConvArgs { accumulate: 1, ..shaped(sizes(&x), weight, [oh, ow], spec) };
            return self.pixel_grad_weight([grad, x], args, into);
        }
        let alike = grad.logical == x.logical && into.dtype() == DType::F32 && spec.groups == 1;
        let together = alike && self.is_read_together(&grad)?;
        let copies = [if together { None } else { self.laid(&grad)? }, self.laid(&x)?];
        let (grad, x) = (replaced(grad, &copies[0]), replaced(x, &copies[1]));
        let args = ConvArgs {
            x: Operand::new(self, "conv2d", x)?,
            grad: if together { self.pixels(grad)? } else { Operand::new(self, "conv2d", grad)? },
            y: into.address(),
            out: tag(compute.dtype()),
            accumulate: 1,
            ..shaped(sizes(&x), weight, [oh, ow], spec)
        };
        let library = !together && self.convolve("conv2d", Pass::Filter, MemoryOrder::RowMajor, &args)?;
        if library || self.unfolded_grad_weight(&args, together, into)? {
            return Ok(());
        }
        let (terms, count) = (batch * oh * ow, weight.iter().product::<usize>());
        let splits = terms.div_ceil(PER_SPLIT).clamp(1, usize::from(u16::MAX));
        let per_split = terms.div_ceil(splits).max(1);
        let splits = terms.div_ceil(per_split).max(1);
        let parts = if splits > 1 { Some(self.memory("conv2d", splits * count, compute.dtype())?) } else { None };
        let args = ConvArgs {
            y: parts.as_ref().unwrap_or(into).address(),
            per_split: per_split as i64,
            accumulate: i32::from(parts.is_none()),
            ..args
        };
        let grid = tiles(weight[0] / spec.groups, weight[1..].iter().product(), spec.groups, splits);
        self.launch(FAMILY, "conv_grad_weight", Some(compute), grid, args)?;
        match parts {
            Some(parts) => {
                let sum = self.sum_part(&parts, 0, splits, count, compute)?;
                self.add_into(&sum, into, compute)
            }
            None => Ok(()),
        }
    }
}

impl Convolution for Gpu {
    fn conv2d_order(&self, x: CoreOperand<'_>, w: CoreOperand<'_>, spec: &Conv2d) -> Result<MemoryOrder> {
        Ok(Self::conv_order([&x, &w], &w.layout.shape[..1], spec))
    }

    fn conv_transpose2d_order(&self, x: CoreOperand<'_>, w: CoreOperand<'_>, spec: &Conv2d) -> Result<MemoryOrder> {
        Ok(Self::conv_order([&x, &w], &w.layout.shape[..2], spec))
    }

    fn conv2d(
        &self,
        x: CoreOperand<'_>,
        w: CoreOperand<'_>,
        bias: Option<CoreOperand<'_>>,
        spec: &Conv2d,
        out: DType,
    ) -> Result<Buffer> {
        let (image, kernel) = (sizes(&x), sizes(&w));
        let result = spec.output_size([image[2], image[3]], [kernel[2], kernel[3]]).unwrap_or_default();
        let pixels = image[0] * result[0] * result[1];
        let y = self.memory("conv2d", kernel[0] * pixels, out)?;
        if self.conv2d_order(x, w, spec)? == MemoryOrder::ChannelsLast {
            let args = ConvArgs { y: y.address(), out: tag(out), ..shaped(image, kernel, result, spec) };
            let vector = bias.filter(|bias| bias.logical == out).map(|bias| self.laid(&bias)).transpose()?.flatten();
            self.pixel_conv([x, w], bias.map(|bias| replaced(bias, &vector)), args)?;
            return Ok(y.into_buffer());
        }
        let library = out == x.logical && out == w.logical;
        let copies = if library { [self.laid(&x)?, self.laid(&w)?] } else { [None, None] };
        let (x, w) = (replaced(x, &copies[0]), replaced(w, &copies[1]));
        let vector = match bias {
            Some(bias) if library && bias.logical == out => self.laid(&bias)?,
            _ => None,
        };
        let bias = bias.map(|bias| replaced(bias, &vector));
        let args = ConvArgs {
            x: Operand::new(self, "conv2d", x)?,
            w: Operand::new(self, "conv2d", w)?,
            bias: Operand::optional(self, "conv2d", bias)?,
            y: y.address(),
            out: tag(out),
            ..shaped(image, kernel, result, spec)
        };
        if self.convolve("conv2d", Pass::Forward { bias: bias.is_some() }, MemoryOrder::RowMajor, &args)? {
            return Ok(y.into_buffer());
        }
        let grid = tiles(kernel[0] / spec.groups, pixels, spec.groups, 1);
        self.launch(FAMILY, "conv", Some(Compute::real(&[x.logical])), grid, args)?;
        Ok(y.into_buffer())
    }

    fn conv_transpose2d(
        &self,
        x: CoreOperand<'_>,
        w: CoreOperand<'_>,
        bias: Option<CoreOperand<'_>>,
        output: [usize; 4],
        spec: &Conv2d,
        out: DType,
    ) -> Result<Buffer> {
        let (from, kernel) = (sizes(&x), sizes(&w));
        let y = self.memory("conv_transpose2d", output.iter().product(), out)?;
        let size = spec.output_size([output[2], output[3]], [kernel[2], kernel[3]]);
        let is_gradient = size == Some([from[2], from[3]]);
        if self.conv_transpose2d_order(x, w, spec)? == MemoryOrder::ChannelsLast {
            let args = ConvArgs { y: y.address(), out: tag(out), ..shaped(output, kernel, [from[2], from[3]], spec) };
            self.pixel_conv_transpose([x, w], bias, args, is_gradient)?;
            return Ok(y.into_buffer());
        }
        // The library has no bias there: it is added in the result, which in 16 bits would round twice.
        let library = out == x.logical && (bias.is_none() || !out.is_half()) && is_gradient;
        let alike = x.logical == w.logical && (library || x.logical.is_half());
        let copies = if alike { [self.laid(&x)?, self.laid(&w)?] } else { [None, None] };
        let (x, w) = (replaced(x, &copies[0]), replaced(w, &copies[1]));
        let args = ConvArgs {
            grad: Operand::new(self, "conv_transpose2d", x)?,
            w: Operand::new(self, "conv_transpose2d", w)?,
            bias: Operand::optional(self, "conv_transpose2d", bias)?,
            y: y.address(),
            out: tag(out),
            ..shaped(output, kernel, [from[2], from[3]], spec)
        };
        let plain = ConvArgs { bias: Operand::NONE, ..args };
        if library && self.convolve("conv_transpose2d", Pass::Data, MemoryOrder::RowMajor, &plain)? {
            if let Some(bias) = bias {
                self.add_bias(bias, &y, output)?;
            }
            return Ok(y.into_buffer());
        }
        if self.folded_grad_input(&args)? {
            return Ok(y.into_buffer());
        }
        let grid = tiles(output[1] / spec.groups, output[0] * output[2] * output[3], spec.groups, 1);
        self.launch(FAMILY, "conv_grad_input", Some(Compute::real(&[x.logical])), grid, args)?;
        Ok(y.into_buffer())
    }

    fn conv_transpose2d_accumulate(
        &self,
        x: CoreOperand<'_>,
        w: CoreOperand<'_>,
        output: [usize; 4],
        spec: &Conv2d,
        into: &mut Buffer,
    ) -> Result<bool> {
        let into = into.downcast_mut::<Memory>().ok_or_else(|| foreign(self, "conv_transpose2d"))?;
        if self.conv_transpose2d_order(x, w, spec)? != MemoryOrder::ChannelsLast || into.dtype() != DType::F32 {
            return Ok(false);
        }
        let [_, _, height, width] = sizes(&x);
        let args = shaped(output, sizes(&w), [height, width], spec);
        let args = ConvArgs { y: into.address(), out: tag(DType::F32), accumulate: 1, ..args };
        self.pixel_conv_transpose([x, w], None, args, true).map(|()| true)
    }

    fn conv2d_grad_weight(
        &self,
        grad: CoreOperand<'_>,
        x: CoreOperand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
    ) -> Result<Buffer> {
        let (compute, count) = (Compute::real(&[x.logical]), weight.iter().product());
        let [batch, _, oh, ow] = sizes(&grad);
        if batch > 0 && Self::conv_order([&grad, &x], &weight[..2], spec) == MemoryOrder::ChannelsLast {
            let into = self.memory("conv2d", count, DType::F32)?;
            self.pixel_grad_weight([grad, x], shaped(sizes(&x), weight, [oh, ow], spec), &into)?;
            return Ok(into.into_buffer());
        }
        let into = self.zeros("conv2d", count, compute.dtype())?;
        self.grad_weight(grad, x, weight, spec, &into, compute)?;
        Ok(into.into_buffer())
    }

    fn conv2d_grad_weight_accumulate(
        &self,
        grad: CoreOperand<'_>,
        x: CoreOperand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
        into: &mut Buffer,
    ) -> Result<()> {
        let into = into.downcast_mut::<Memory>().ok_or_else(|| foreign(self, "conv2d"))?;
        self.grad_weight(grad, x, weight, spec, into, Compute::real(&[into.dtype()]))
    }
}
