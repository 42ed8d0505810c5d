//! Gradients of convolutions in 16 bits as matrix products with F32 results, which cuBLASLt does and cuDNN does not: the
//! image is unfolded into the columns of a matrix, or such columns are folded into an image.

use super::matmul::padded;
use super::{PACK, line_team};
use crate::args::{ConvArgs, CopyArgs, MatmulArgs};
use crate::convolve::{ALIGNMENT, lies};
use crate::device::{Gpu, Memory};
use crate::module::Family;
use crate::operand::{Compute, Operand, size, tag};
use amp_core::Result;
use amp_core::backend::DType;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of columns that are made at once, unless one image needs more; tests have it lower.
pub(crate) static AT_ONCE: AtomicUsize = AtomicUsize::new(256 << 20);

/// The 16-bit type that both operands lie in side by side, if they do.
fn halves(operands: [&Operand; 2]) -> Option<DType> {
    [DType::F16, DType::BF16].into_iter().find(|&dtype| operands.iter().all(|x| lies(x, tag(dtype))))
}

/// Rows of the matrix of columns, and columns that one image makes.
pub(super) fn shape(args: &ConvArgs) -> [usize; 2] {
    [(args.channels * args.kh * args.kw) as usize, (args.oh * args.ow) as usize]
}

/// First image and number of images of each part whose columns, of `size` bytes an element, are made at once.
pub(super) fn parts(args: &ConvArgs, size: usize) -> impl Iterator<Item = (i64, i64)> {
    let [rows, columns] = shape(args);
    let samples = (AT_ONCE.load(Ordering::Relaxed) / (rows * columns * size).max(1)).max(1) as i64;
    let batch = args.batch;
    (0..batch).step_by(samples as usize).map(move |first| (first, samples.min(batch - first)))
}

/// Whether each result is about one pixel, at its place in the image, which then is the matrix of columns itself.
pub(super) fn pixelwise(args: &ConvArgs) -> bool {
    ([args.kh, args.kw], args.stride, args.padding) == ([1, 1], [1, 1], [0, 0])
}

/// The convolution of the result's gradient that gives the image's, for a kernel that moves by one pixel.
pub(super) fn backwards(args: &ConvArgs) -> ConvArgs {
    ConvArgs {
        x: args.grad,
        channels: args.filters,
        height: args.oh,
        width: args.ow,
        filters: args.channels,
        oh: args.height,
        ow: args.width,
        padding: args.padding.map(|n| -n),
        dilation: args.dilation.map(|n| -n),
        ..*args
    }
}

/// Matrices at one distance from each other, in memory of type `dtype` at `data`.
#[derive(Clone, Copy)]
pub(super) struct Matrices {
    pub data: u64,
    pub dtype: DType,
    /// Distance of neighbouring rows, and of neighbouring columns.
    pub strides: [i64; 2],
    /// Distance of neighbouring matrices.
    pub next: i64,
}

/// Matrices as they lie, or in memory that they were laid into.
pub(super) struct Laid {
    pub of: Matrices,
    pub _memory: Option<Memory>,
}

impl Matrices {
    fn transposed(self) -> Self {
        let [down, right] = self.strides;
        Self { strides: [right, down], ..self }
    }
}

impl Gpu {
    /// Adds the gradient of a 16-bit kernel to F32 memory; `false` where the library's own kernel has to. The result's gradient may
    /// have its channels `together`, if there is one group of them.
    pub(super) fn unfolded_grad_weight(&self, args: &ConvArgs, together: bool, into: &Memory) -> Result<bool> {
        let Some(dtype) = halves([&args.x, &args.grad]) else { return Ok(false) };
        if into.dtype() != DType::F32 || self.products()?.is_none() {
            return Ok(false);
        }
        let ([rows, columns], groups) = (shape(args), args.groups);
        for (first, samples) in parts(args, dtype.size()) {
            let terms = samples * columns as i64;
            let taken = self.taken(args, dtype, first, samples)?;
            let (height, width) = (args.filters / groups, rows as i64 / groups);
            let left = self.gradients(args, together, dtype, first, samples)?;
            let right = Matrices { data: taken.address(), dtype, strides: [1, terms], next: width * terms };
            self.add_products(groups, [height, width, terms], [left.of, right], into)?;
        }
        Ok(true)
    }

    /// `[O, samples, pixels]` of the result's gradient of some images, a matrix for each group.
    fn gradients(&self, args: &ConvArgs, together: bool, dtype: DType, first: i64, samples: i64) -> Result<Laid> {
        let (filters, pixels) = (args.filters, args.oh * args.ow);
        if together {
            let data = args.grad.data + (first * pixels * filters) as u64 * dtype.size() as u64;
            return Ok(Laid { of: Matrices { data, dtype, strides: [1, filters], next: 0 }, _memory: None });
        }
        let turned = self.turned(args.grad, [filters, pixels], dtype, first, samples)?;
        let (terms, next) = (samples * pixels, filters / args.groups * samples * pixels);
        let of = Matrices { data: turned.address(), dtype, strides: [terms, 1], next };
        Ok(Laid { of, _memory: Some(turned) })
    }

    /// Adds products to F32 memory. Rows that 16 bytes do not divide, as those of kernels for three colours, take cuBLASLt's
    /// slowest code (0.5 ms for the first of ResNet-50 on an H200): where the columns are better, the result is made transposed.
    fn add_products(
        &self,
        batch: i64,
        [rows, columns, terms]: [i64; 3],
        of: [Matrices; 2],
        into: &Memory,
    ) -> Result<()> {
        let ([left, right], out) = (of, tag(DType::F32));
        if batch != 1 || columns % 4 == 0 || rows % 4 != 0 {
            let product = products(batch, [rows, columns, terms], left, right);
            return self.multiply(MatmulArgs { y: into.address(), out, accumulate: 1, ..product }, Compute::F32);
        }
        let y = self.memory("conv2d", (rows * columns) as usize, DType::F32)?;
        let product = products(1, [columns, rows, terms], right.transposed(), left.transposed());
        self.multiply(MatmulArgs { y: y.address(), out, ..product }, Compute::F32)?;
        let sum = Operand::whole(&y).laid_out(&[rows as usize, columns as usize], &[1, rows as usize]);
        self.add(sum, into, Compute::F32)
    }

    /// The gradient of the image from a 16-bit kernel, rounded once; `false` where the library's own kernel has to.
    pub(super) fn folded_grad_input(&self, args: &ConvArgs) -> Result<bool> {
        let Some(dtype) = halves([&args.w, &args.grad]) else { return Ok(false) };
        if self.products()?.is_none() {
            return Ok(false);
        }
        if self.pixelwise_grad_input(args, dtype)? {
            return Ok(true);
        }
        if args.stride == [1, 1] {
            return self.unfolded_grad_input(args, dtype).map(|()| true);
        }
        let ([rows, columns], groups) = (shape(args), args.groups);
        for (first, samples) in parts(args, DType::F32.size()) {
            let width = samples as usize * columns;
            let (sums, width) = (self.memory("conv2d", rows * width, DType::F32)?, width as i64);
            let grad = self.turned(args.grad, [args.filters, args.oh * args.ow], dtype, first, samples)?;
            let (height, terms) = (rows as i64 / groups, args.filters / groups);
            let left = Matrices { data: args.w.data, dtype, strides: [1, height], next: terms * height };
            let right = Matrices { data: grad.address(), dtype, strides: [width, 1], next: terms * width };
            let product = products(groups, [height, width, terms], left, right);
            self.multiply(MatmulArgs { y: sums.address(), out: tag(DType::F32), ..product }, Compute::F32)?;
            self.fold_columns(args, &sums, first, samples)?;
        }
        Ok(true)
    }

    /// The gradient of the image where the kernel moves by one pixel: the result's gradient is unfolded, in half the bytes of what
    /// would be folded in F32.
    fn unfolded_grad_input(&self, args: &ConvArgs, dtype: DType) -> Result<()> {
        let back = backwards(args);
        let ([rows, columns], groups, kernel) = (shape(&back), args.groups, self.turned_kernel(args, dtype)?);
        let (height, terms) = (args.channels / groups, rows as i64 / groups);
        for (first, samples) in parts(&back, dtype.size()) {
            let (taken, width) = (self.taken(&back, dtype, first, samples)?, samples * columns as i64);
            let sums = self.memory("conv2d", (args.channels * width) as usize, DType::F32)?;
            let left = Matrices { data: kernel.address(), dtype, strides: [terms, 1], next: height * terms };
            let right = Matrices { data: taken.address(), dtype, strides: [width, 1], next: terms * width };
            let product = products(groups, [height, width, terms], left, right);
            self.multiply(MatmulArgs { y: sums.address(), out: tag(DType::F32), ..product }, Compute::F32)?;
            self.turn_back(args, &sums, first, samples)?;
        }
        Ok(())
    }

    /// Writes some images from `[C, samples, height, width]`, with a bias where there is one.
    fn turn_back(&self, args: &ConvArgs, sums: &Memory, first: i64, samples: i64) -> Result<()> {
        let y = args.y + (first * args.channels * args.height * args.width) as u64 * size(args.out);
        if args.bias.data != 0 || !y.is_multiple_of(ALIGNMENT) {
            let (kh, kw, oh, ow) = (1, 1, args.height, args.width);
            return self.fold_columns(&ConvArgs { kh, kw, oh, ow, padding: [0, 0], ..*args }, sums, first, samples);
        }
        let [channels, samples, pixels] = [args.channels, samples, args.height * args.width].map(|n| n as usize);
        let x = Operand::whole(sums).laid_out(&[samples, channels, pixels], &[pixels, samples * pixels, 1]);
        self.copy_elements(CopyArgs { x, y, n: sums.len() as i64, out: args.out })
    }

    /// Adds up the columns of some images, and a bias.
    fn fold_columns(&self, args: &ConvArgs, columns: &Memory, first: i64, samples: i64) -> Result<()> {
        let fold = ConvArgs { x: Operand::whole(columns), first, samples, ..*args };
        let (planes, pixels) = ((samples * args.channels) as usize, (args.height * args.width) as usize);
        self.launch(Family::Conv, "fold", Some(Compute::F32), line_team(planes, pixels, 1), fold)
    }

    /// `[groups, C, O, kh, kw]` of the kernel `[groups, O, C, kh, kw]`.
    fn turned_kernel(&self, args: &ConvArgs, dtype: DType) -> Result<Memory> {
        let [c, o] = [args.channels, args.filters].map(|n| (n / args.groups) as usize);
        let (groups, taps) = (args.groups as usize, (args.kh * args.kw) as usize);
        self.laid_anew(args.w, dtype, &[groups, c, o, taps], &[o * c * taps, taps, c * taps, 1])
    }

    /// The gradient of the image where it is one product for each image and these lie as cuBLASLt reads them fast.
    fn pixelwise_grad_input(&self, args: &ConvArgs, dtype: DType) -> Result<bool> {
        let [channels, filters, pixels] = [args.channels, args.filters, args.oh * args.ow];
        if !pixelwise(args) || args.groups != 1 || args.bias.data != 0 || pixels % 8 != 0 {
            return Ok(false);
        }
        let left = Matrices { data: args.w.data, dtype, strides: [1, channels], next: 0 };
        let right = Matrices { data: args.grad.data, dtype, strides: [pixels, 1], next: filters * pixels };
        let product = products(args.batch, [channels, pixels, filters], left, right);
        self.multiply(MatmulArgs { y: args.y, out: args.out, ..product }, Compute::F32)?;
        Ok(true)
    }

    /// The columns of some images, as a matrix in row-major order.
    fn taken(&self, args: &ConvArgs, dtype: DType, first: i64, samples: i64) -> Result<Memory> {
        let [rows, columns] = shape(args);
        if pixelwise(args) {
            return self.turned(args.x, [args.channels, columns as i64], dtype, first, samples);
        }
        let taken = self.memory("conv2d", rows * samples as usize * columns, dtype)?;
        let unfold = ConvArgs { y: taken.address(), first, samples, ..*args };
        self.launch(Family::Conv, "unfold", Some(Compute::F32), self.spread(taken.len().div_ceil(PACK)), unfold)?;
        Ok(taken)
    }

    /// `[C, samples, pixels]` of some images of `[N, C, pixels]`.
    fn turned(
        &self,
        x: Operand,
        [channels, pixels]: [i64; 2],
        dtype: DType,
        first: i64,
        samples: i64,
    ) -> Result<Memory> {
        let [channels, samples, pixels] = [channels, samples, pixels].map(|n| n as usize);
        let data = x.data + (first as usize * channels * pixels * dtype.size()) as u64;
        let shape = [channels, samples, pixels];
        self.laid_anew(Operand { data, ..x }, dtype, &shape, &[pixels, channels * pixels, 1])
    }

    /// A row-major copy of `x` seen with that shape and these strides.
    fn laid_anew(&self, x: Operand, dtype: DType, shape: &[usize], strides: &[usize]) -> Result<Memory> {
        let y = self.memory("conv2d", shape.iter().product(), dtype)?;
        let copy = CopyArgs { x: x.laid_out(shape, strides), y: y.address(), n: y.len() as i64, out: tag(dtype) };
        self.copy_elements(copy)?;
        Ok(y)
    }

    pub(super) fn copy_elements(&self, copy: CopyArgs) -> Result<()> {
        self.launch(Family::Copy, "copy", Some(Compute::F32), self.spread_elements(copy.n as usize, copy.out), copy)
    }
}

/// The products of `[rows, terms]` and `[terms, columns]`, as many as `batch`.
pub(super) fn products(batch: i64, [rows, columns, terms]: [i64; 3], left: Matrices, right: Matrices) -> MatmulArgs {
    let operand = |m: Matrices| Operand { data: m.data, stored: tag(m.dtype), ..Operand::NONE };
    MatmulArgs {
        l: operand(left),
        r: operand(right),
        bias: Operand::NONE,
        y: 0,
        batch_shape: padded(&[batch as usize]),
        l_batch: padded(&[left.next as usize]),
        r_batch: padded(&[right.next as usize]),
        rows,
        columns,
        terms,
        l_strides: left.strides,
        r_strides: right.strides,
        batch,
        batch_rank: 1,
        out: 0,
        accumulate: 0,
        sum_batch: 0,
    }
}
