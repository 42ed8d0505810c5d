//! Convolutions in 16 bits of images whose channels lie together, `[N, H, W, C]`. Seen as matrices of pixels and channels, images
//! and gradients are what products read and write as they lie: for kernels of one pixel they are the factors themselves, for
//! larger ones the pixels that each result sums up are laid side by side.

use super::matmul::replaced;
use super::normalization::address;
use super::unfold::{Laid, Matrices, backwards, parts, pixelwise, products, shape};
use super::{PACK, line_team};
use crate::args::{ConvArgs, CopyArgs, MatmulArgs};
use crate::convolve::{ALIGNMENT, Pass, lies};
use crate::device::{Gpu, Memory};
use crate::module::Family::PixelConv as FAMILY;
use crate::operand::{Compute, Operand, size, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, Conv2d, DType, Layout, Memory as _, MemoryOrder, Operand as CoreOperand};

const LAST: MemoryOrder = MemoryOrder::ChannelsLast;

impl Gpu {
    /// The order of what comes from `x` and `w`, where `whole` are the numbers of channels that have to be whole packs.
    ///
    /// Libraries multiply images with the tensor cores in this order alone, and turn others there and back: two fifths of the time
    /// of ResNet-50's convolutions on an H200.
    pub(super) fn conv_order([x, w]: [&CoreOperand<'_>; 2], whole: &[usize], spec: &Conv2d) -> MemoryOrder {
        let halves = x.logical.is_half() && x.logical == w.logical;
        let lines = [x, w].iter().all(|x| x.layout.shape[2] == 1);
        let packs = whole.iter().all(|n| n.is_multiple_of(PACK));
        if halves && packs && !lines && spec.groups == 1 { LAST } else { MemoryOrder::RowMajor }
    }

    /// Whether elements lie with the channels last, in the precision that they count as, from where libraries read on.
    fn lies_together(&self, x: &CoreOperand<'_>) -> Result<bool> {
        let aligned = Operand::new(self, "conv2d", *x)?.data.is_multiple_of(ALIGNMENT);
        Ok(aligned && x.layout.with_channels_last().is_contiguous() && x.buffer.dtype() == x.logical)
    }

    /// Whether products can read 16-bit elements with the channels last as they lie.
    pub(super) fn is_read_together(&self, x: &CoreOperand<'_>) -> Result<bool> {
        Ok(x.logical.is_half() && self.products()?.is_some() && self.lies_together(x)?)
    }

    /// A copy with the channels last, in the precision that the elements count as, if they lie otherwise.
    fn pixels_of(&self, x: &CoreOperand<'_>) -> Result<Option<(Buffer, Layout)>> {
        if self.lies_together(x)? {
            return Ok(None);
        }
        let layout = x.layout.with_channels_last();
        let turned = CoreOperand { layout: &layout, ..*x };
        Ok(Some((self.copy(turned, x.logical)?, LAST.layout(x.layout.shape))))
    }

    /// An operand whose channels lie last, as they lie.
    pub(super) fn pixels(&self, x: CoreOperand<'_>) -> Result<Operand> {
        Operand::with_layout(self, "conv2d", x, &x.layout.with_channels_last())
    }

    /// [`conv2d`](amp_core::backend::Convolution::conv2d) in this order; `args` has sizes and result.
    pub(super) fn pixel_conv(
        &self,
        [x, w]: [CoreOperand<'_>; 2],
        bias: Option<CoreOperand<'_>>,
        args: ConvArgs,
    ) -> Result<()> {
        let dtype = x.logical;
        let copies = [self.pixels_of(&x)?, self.pixels_of(&w)?];
        let (x, w) = (self.pixels(replaced(x, &copies[0]))?, self.pixels(replaced(w, &copies[1]))?);
        let args = ConvArgs { x, w, bias: Operand::optional(self, "conv2d", bias)?, ..args };
        if args.out == tag(dtype) && self.convolve("conv2d", Pass::Forward { bias: bias.is_some() }, LAST, &args)? {
            return Ok(());
        }
        let right = Matrices { data: w.data, dtype, strides: [1, shape(&args)[0] as i64], next: 0 };
        self.pixel_products(&args, right)
    }

    /// [`conv_transpose2d`](amp_core::backend::Convolution::conv_transpose2d) in this order, added to what is there if `args`,
    /// which has sizes and result, says so. Libraries do only what `is_gradient` of a convolution.
    pub(super) fn pixel_conv_transpose(
        &self,
        [grad, w]: [CoreOperand<'_>; 2],
        bias: Option<CoreOperand<'_>>,
        args: ConvArgs,
        is_gradient: bool,
    ) -> Result<()> {
        const OP: &str = "conv_transpose2d";
        let dtype = grad.logical;
        let copy = self.pixels_of(&grad)?;
        let grad = self.pixels(replaced(grad, &copy))?;
        let args = ConvArgs { grad, bias: Operand::optional(self, OP, bias)?, ..args };
        let library = is_gradient && args.out == tag(dtype) && bias.is_none() && args.accumulate == 0;
        let right = |data, strides| Matrices { data, dtype, strides, next: 0 };
        if args.stride == [1, 1] && !pixelwise(&args) && !library {
            let (back, layout) = (backwards(&args), w.layout.moved(0, 3));
            let turned = self.copy(CoreOperand { layout: &layout, ..w }, dtype)?;
            return self.pixel_products(&back, right(address(&turned), [1, shape(&back)[0] as i64]));
        }
        let copy = self.pixels_of(&w)?;
        let args = ConvArgs { w: self.pixels(replaced(w, &copy))?, ..args };
        if library && self.convolve(OP, Pass::Data, LAST, &args)? {
            return Ok(());
        }
        if pixelwise(&args) {
            return self.pixel_products(&backwards(&args), right(args.w.data, [args.channels, 1]));
        }
        self.folded_pixels(&args, dtype)
    }

    /// As [`pixel_conv_transpose`](Self::pixel_conv_transpose), for kernels that move by more than a pixel: what each pixel of the
    /// result gives is added up in F32.
    fn folded_pixels(&self, args: &ConvArgs, dtype: DType) -> Result<()> {
        let ([terms, pixels], filters) = (shape(args).map(|n| n as i64), args.filters);
        for (first, samples) in parts(args, DType::F32.size()) {
            let sums = self.memory("conv2d", (samples * pixels * terms) as usize, DType::F32)?;
            let data = args.grad.data + (first * pixels * filters) as u64 * dtype.size() as u64;
            let left = Matrices { data, dtype, strides: [filters, 1], next: 0 };
            let right = Matrices { data: args.w.data, dtype, strides: [terms, 1], next: 0 };
            let product = products(1, [samples * pixels, terms, filters], left, right);
            self.multiply(MatmulArgs { y: sums.address(), out: tag(DType::F32), ..product }, Compute::F32)?;
            self.fold_pixels(args, &sums, first, samples)?;
        }
        Ok(())
    }

    /// Adds up what `sums` has for each pixel of some images, and a bias.
    fn fold_pixels(&self, args: &ConvArgs, sums: &Memory, first: i64, samples: i64) -> Result<()> {
        let fold = ConvArgs { x: Operand::whole(sums), first, samples, ..*args };
        let grid = line_team((samples * args.height) as usize, (args.width * args.channels) as usize, 1);
        self.launch(FAMILY, "pixel_fold", Some(Compute::F32), grid, fold)
    }

    /// The gradient of a kernel in F32 memory, from images that both have whole packs of channels, added to what is there if `args`,
    /// which has the sizes, says so. Without images nothing is written.
    pub(super) fn pixel_grad_weight(
        &self,
        [grad, x]: [CoreOperand<'_>; 2],
        args: ConvArgs,
        into: &Memory,
    ) -> Result<()> {
        let dtype = grad.logical;
        let copies = [self.pixels_of(&grad)?, self.pixels_of(&x)?];
        let (grad, x) = (self.pixels(replaced(grad, &copies[0]))?, self.pixels(replaced(x, &copies[1]))?);
        let args = ConvArgs { grad, x, ..args };
        let taps = (args.kh * args.kw) as usize;
        if taps == 1 || args.batch == 0 {
            return self.grad_of_taps(&args, dtype, into);
        }
        // Products have the taps of a channel apart.
        let apart = self.memory("conv2d", into.len(), DType::F32)?;
        self.grad_of_taps(&ConvArgs { accumulate: 0, ..args }, dtype, &apart)?;
        let [o, c] = [args.filters, args.channels].map(|n| n as usize);
        let together = Operand::whole(&apart).laid_out(&[o, c, taps], &[taps * c, 1, c]);
        if args.accumulate != 0 {
            return self.add(together, into, Compute::F32);
        }
        self.copy_elements(CopyArgs { x: together, y: into.address(), n: into.len() as i64, out: tag(DType::F32) })
    }

    /// `[O, kh, kw, C]` of the gradient of a kernel.
    fn grad_of_taps(&self, args: &ConvArgs, dtype: DType, into: &Memory) -> Result<()> {
        let ([terms, pixels], filters) = (shape(args).map(|n| n as i64), args.filters);
        for (first, samples) in parts(args, dtype.size()) {
            let taken = self.taken_pixels(args, dtype, first, samples)?;
            let data = args.grad.data + (first * pixels * filters) as u64 * dtype.size() as u64;
            let left = Matrices { data, dtype, strides: [1, filters], next: 0 };
            let product = products(1, [filters, terms, samples * pixels], left, taken.of);
            let (y, accumulate) = (into.address(), i32::from(first > 0 || args.accumulate != 0));
            self.multiply(MatmulArgs { y, out: tag(DType::F32), accumulate, ..product }, Compute::F32)?;
        }
        Ok(())
    }

    /// Products of the pixels that each result sums up, in parts, with the kernel that is `right`. A bias of another type than the
    /// result's, which the library does not take, is added to F32 results.
    fn pixel_products(&self, args: &ConvArgs, right: Matrices) -> Result<()> {
        let [terms, pixels] = shape(args).map(|n| n as i64);
        let adds = args.bias.data == 0 || (lies(&args.bias, args.out) && args.bias.data.is_multiple_of(ALIGNMENT));
        for (first, samples) in parts(args, right.dtype.size()) {
            let taken = self.taken_pixels(args, right.dtype, first, samples)?;
            let product = products(1, [samples * pixels, args.filters, terms], taken.of, right);
            if adds {
                let y = args.y + (first * pixels * args.filters) as u64 * size(args.out);
                let (bias, out, accumulate) = (args.bias, args.out, args.accumulate);
                self.multiply(MatmulArgs { bias, y, out, accumulate, ..product }, Compute::F32)?;
            } else {
                let sums = self.memory("conv2d", (samples * pixels * args.filters) as usize, DType::F32)?;
                self.multiply(MatmulArgs { y: sums.address(), out: tag(DType::F32), ..product }, Compute::F32)?;
                self.fold_pixels(&in_place(args), &sums, first, samples)?;
            }
        }
        Ok(())
    }

    /// The pixels of some images that each result sums up, as rows of a matrix.
    fn taken_pixels(&self, args: &ConvArgs, dtype: DType, first: i64, samples: i64) -> Result<Laid> {
        let [terms, pixels] = shape(args);
        let matrix = |data| Matrices { data, dtype, strides: [terms as i64, 1], next: 0 };
        if pixelwise(args) {
            let data = args.x.data + (first as usize * pixels * terms * dtype.size()) as u64;
            return Ok(Laid { of: matrix(data), _memory: None });
        }
        let copy = self.memory("conv2d", samples as usize * pixels * terms, dtype)?;
        let unfold = ConvArgs { y: copy.address(), first, samples, ..*args };
        let grid = line_team((samples * args.oh) as usize, (args.ow * args.channels) as usize, 1);
        self.launch(FAMILY, "pixel_unfold", Some(Compute::F32), grid, unfold)?;
        Ok(Laid { of: matrix(copy.address()), _memory: Some(copy) })
    }
}

/// Folding that adds nothing but a bias to the results of a convolution.
fn in_place(args: &ConvArgs) -> ConvArgs {
    let (channels, height, width) = (args.filters, args.oh, args.ow);
    let (kh, kw, stride, padding) = (1, 1, [1, 1], [0, 0]);
    ConvArgs { channels, height, width, kh, kw, stride, padding, ..*args }
}
