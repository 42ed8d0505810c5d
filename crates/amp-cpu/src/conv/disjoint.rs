//! Convolutions whose patches do not overlap: products of matrices.
//!
//! Where a kernel moves as far as it reaches, without padding, every pixel is in one patch: 1 x 1, the patches that transformers
//! cut images into, steps of two by 2 x 2 and their transpose. Patches are then rows of a matrix, as they lie where that is one,
//! otherwise from a copy. In a lattice each element of a kernel is a phase of its own, whose tiles have as many columns as there
//! are channels: on a core of Zen 4, 192 outputs of three channels of 64 by 64 (16 images), 16 x 16, took 51 ms with gradients in
//! F32, and take 2.6.

use super::{Conv2d, loaded_bias, sizes};
use crate::elementwise::copy;
use crate::gemm::kernel::Multiply;
use crate::gemm::operand::Matrix;
use crate::gemm::product::{Sink, Threads};
use crate::gemm::{Epilogue, in_panels, matmul, matmul_acc};
use crate::load::computes_in_f64;
use crate::num::{Real, in_real};
use crate::output::Output;
use crate::storage::Element;
use crate::{DType, Dims, Layout, MemoryOrder, Storage, View};

/// Whether the patches of kernels `w` cover images of a `size`, but for a remainder, without overlapping.
pub(super) fn are_patches(w: [usize; 4], spec: &Conv2d, size: [usize; 2]) -> bool {
    let Conv2d { stride, padding, dilation, groups } = *spec;
    let along = |i: usize| {
        let reach = w[2 + i];
        reach > 0 && stride[i] == reach && padding[i] == 0 && (dilation[i] == 1 || reach == 1) && size[i] >= reach
    };
    groups == 1 && w[0] > 0 && w[1] > 0 && along(0) && along(1)
}

/// Whether images of a `size` are the patches of kernels `w` that lie side by side, one for each of `grid`'s pixels.
pub(super) fn are_blocks(grid: [usize; 2], w: [usize; 4], spec: &Conv2d, size: [usize; 2]) -> bool {
    are_patches(w, spec, size) && size == [grid[0] * w[2], grid[1] * w[3]]
}

/// Whether [`conv2d`](super::conv2d) is faster as a product: of pixels, and of patches that are copied in long runs. Tiles read others
/// where they lie.
pub(super) fn are_rows(w: [usize; 4], spec: &Conv2d, size: [usize; 2]) -> bool {
    const LONG: usize = 8;
    are_patches(w, spec, size) && (w[2] * w[3] == 1 || w[3] >= LONG)
}

/// [`conv2d`](super::conv2d) of such images.
pub(super) fn forward(x: &View, w: &View, bias: Option<&View>, out: (DType, MemoryOrder)) -> Storage {
    let (kernel, kernels) = (sizes(w), Rows::kernels(w));
    let turned = kernels.layout.moved(0, 1);
    product(x, kernel, &View { layout: &turned, ..kernels.view() }, bias, out)
}

/// [`conv_transpose2d`](super::conv_transpose2d) of images that are made of patches.
pub(super) fn transposed(x: &View, w: &View, bias: Option<&View>, (out, order): (DType, MemoryOrder)) -> Storage {
    let ([images, _, height, width], [_, channels, kh, kw]) = (sizes(x), sizes(w));
    if kh * kw == 1 {
        return product(x, [1; 4], &Rows::kernels(w).view(), bias, (out, order));
    }
    let mut result = Storage::unwritten(out, images * channels * height * kh * width * kw);
    blocks(x, w, bias, order, (&mut result, false));
    result
}

/// Adds [`transposed`] to images whose pixels have their channels together, in F32 (F64).
pub(super) fn add_transposed(x: &View, w: &View, into: &mut Storage) {
    let [_, _, kh, kw] = sizes(w);
    if kh * kw == 1 {
        return matmul_acc(&Rows::patches(x, [1; 4]).view(), &Rows::kernels(w).view(), into);
    }
    blocks(x, w, None, MemoryOrder::ChannelsLast, (into, true));
}

/// The patches of a kernel times a matrix, as images in an order.
fn product(x: &View, w: [usize; 4], matrix: &View, bias: Option<&View>, (out, order): (DType, MemoryOrder)) -> Storage {
    let epilogue = Epilogue { bias: bias.copied(), residual: None };
    let y = matmul(&Rows::patches(x, w).view(), matrix, &epilogue, out);
    if order == MemoryOrder::ChannelsLast {
        return y;
    }
    let [images, _, height, width] = sizes(x);
    let pixels = dims(&[images, height / w[2] * (width / w[3]), matrix.layout.shape[1]]);
    copy(&View { data: y.as_slice(), layout: &Layout::contiguous(pixels).moved(2, 1), logical: out }, out)
}

/// Computes blocks of images to where they lie, or adds them to what is there.
fn blocks(x: &View, w: &View, bias: Option<&View>, order: MemoryOrder, (into, accumulate): (&mut Storage, bool)) {
    let ([images, _, height, width], kernel @ [_, channels, kh, kw]) = (sizes(x), sizes(w));
    let (pixels, kernels) = (Rows::patches(x, [1; 4]), Rows::kernels(w));
    let layout = order.layout(dims(&[images, channels, height * kh, width * kw]));
    let output = Output::new(into);
    in_panels!(x, w, E => {
        let bias = per_column(&loaded_bias::<<E as Multiply>::Sum>(bias), kernel);
        let blocks = Blocks { output, layout, grid: [height, width], kernel, bias, accumulate };
        <E as Multiply>::product(&pixels.matrix(0), &kernels.matrix(1), &blocks, Threads::Many);
    });
}

/// [`conv2d_grad_weight`](super::conv2d_grad_weight) of such images.
pub(super) fn grad_weight(grad: &View, x: &View, w: [usize; 4]) -> Storage {
    let dtype = if computes_in_f64(x) { DType::F64 } else { DType::F32 };
    let sums = of_patches(grad, x, w, |grad, patches| matmul(grad, patches, &Epilogue::default(), dtype));
    if !channels_follow(w) {
        return sums;
    }
    let layout = Layout::contiguous(dims(&[w[0], w[2], w[3], w[1]])).moved(3, 1);
    copy(&View { data: sums.as_slice(), layout: &layout, logical: dtype }, dtype)
}

/// Adds [`grad_weight`] in F32 (F64).
pub(super) fn add_grad_weight(grad: &View, x: &View, w: [usize; 4], into: &mut Storage) {
    if !channels_follow(w) {
        return of_patches(grad, x, w, |grad, patches| matmul_acc(grad, patches, into));
    }
    let sums = grad_weight(grad, x, w);
    in_real!(sums.dtype(), A => {
        let sums = A::same(sums.as_slice()).expect("made of this type");
        // SAFETY: the gradient is borrowed by this thread alone.
        unsafe { Output::new(into).accumulate(0, 1, sums) }
    });
}

/// Calls `body` with the two sides of a product: what each output's gradient is at every pixel, and the patches.
fn of_patches<R>(grad: &View, x: &View, w: [usize; 4], body: impl FnOnce(&View, &View) -> R) -> R {
    let (pixels, patches) = (Rows::patches(grad, [1; 4]), Rows::patches(x, w));
    body(&View { layout: &pixels.layout.moved(0, 1), ..pixels.view() }, &patches.view())
}

/// Whether the channels of an element of the kernel follow one another in a row, not the elements of a channel's kernel: whichever
/// runs are the longer ones.
fn channels_follow([_, channels, kh, kw]: [usize; 4]) -> bool {
    kh * kw > 1 && channels >= kw
}

/// The bias of every element of a row.
fn per_column<T: Copy>(bias: &[T], kernel @ [_, _, kh, kw]: [usize; 4]) -> Vec<T> {
    match channels_follow(kernel) {
        true => bias.repeat(kh * kw),
        false => bias.iter().flat_map(|&bias| std::iter::repeat_n(bias, kh * kw)).collect(),
    }
}

fn dims(sizes: &[usize]) -> Dims {
    Dims::new(sizes).expect("few dimensions")
}

/// Vectors of `[channels, kh, kw]`, in the order that [`channels_follow`] says, as the rows of a matrix.
struct Rows<'a> {
    view: View<'a>,
    copied: Option<Storage>,
    layout: Layout,
}

impl<'a> Rows<'a> {
    /// The patches of images, in the order of pixels.
    fn patches(x: &View<'a>, w @ [_, _, kh, kw]: [usize; 4]) -> Self {
        let ([images, channels, height, width], s) = (sizes(x), &x.layout.strides);
        let (shape, strides) = ([images, height / kh, width / kw], [s[0], kh * s[2], kw * s[3]]);
        Self::new(x, (&shape, &strides), ([channels, kh, kw], [s[1], s[2], s[3]]), w)
    }

    /// The kernels.
    fn kernels(w: &View<'a>) -> Self {
        let (size @ [outputs, channels, kh, kw], s) = (sizes(w), &w.layout.strides);
        Self::new(w, (&[outputs], &[s[0]]), ([channels, kh, kw], [s[1], s[2], s[3]]), size)
    }

    fn new(
        view: &View<'a>,
        (shape, strides): (&[usize], &[usize]),
        (mut sizes, mut steps): ([usize; 3], [usize; 3]),
        w: [usize; 4],
    ) -> Self {
        if channels_follow(w) {
            sizes.rotate_left(1);
            steps.rotate_left(1);
        }
        let both = |first: &[usize], then: [usize; 3]| dims(&[first, &then].concat());
        let all = Layout { shape: both(shape, sizes), strides: both(strides, steps), offset: view.layout.offset };
        let matrix = dims(&[shape.iter().product(), sizes.iter().product()]);
        if let Some(layout) = all.reshaped(matrix) {
            return Self { view: *view, copied: None, layout };
        }
        let dtype = if view.rounds_on_load() { view.logical } else { view.data.dtype() };
        let copied = copy(&View { layout: &all, logical: dtype, ..*view }, dtype);
        Self { view: *view, copied: Some(copied), layout: Layout::contiguous(matrix) }
    }

    fn view(&self) -> View<'_> {
        let data = self.copied.as_ref().map_or(self.view.data, Storage::as_slice);
        View { data, layout: &self.layout, logical: self.view.logical }
    }

    /// A side of a product, of which `axis` is not summed.
    fn matrix(&self, axis: usize) -> Matrix<'_> {
        let Layout { shape, strides, offset } = self.layout;
        let (rows, depth, row_stride, depth_stride) = (shape[axis], shape[1 - axis], strides[axis], strides[1 - axis]);
        Matrix { view: self.view(), offset, rows, depth, row_stride, depth_stride }
    }
}

/// Images whose patches are the rows of a product.
struct Blocks<'a, T> {
    output: Output<'a>,
    layout: Layout,
    /// Rows and columns of patches.
    grid: [usize; 2],
    kernel: [usize; 4],
    /// Of each element of a patch, if any.
    bias: Vec<T>,
    accumulate: bool,
}

impl<T> Blocks<'_, T> {
    /// Where an element of the patch at `patch` lies, how far the next ones lie from it and from one another, and how many there are.
    fn run(&self, patch: usize, element: usize) -> (usize, usize, usize) {
        let ([_, channels, kh, kw], s) = (self.kernel, &self.layout.strides);
        if !channels_follow(self.kernel) {
            let (channel, y, x) = (element / (kh * kw), element / kw % kh, element % kw);
            return (patch + channel * s[1] + y * s[2] + x * s[3], s[3], kw - x);
        }
        let (y, x, channel) = (element / (kw * channels), element / channels % kw, element % channels);
        let at = patch + y * s[2] + x * s[3] + channel * s[1];
        // A row of pixels whose channels lie together is one run.
        let whole = s[1] == 1 && s[3] == channels;
        (at, s[1], if whole { kw * channels - element % (kw * channels) } else { channels - channel })
    }
}

impl<T: Real> Sink<T> for Blocks<'_, T> {
    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        let ([rows, columns], [_, _, kh, kw], s) = (self.grid, self.kernel, &self.layout.strides);
        let patch = row / (rows * columns) * s[0] + row / columns % rows * kh * s[2] + row % columns * kw * s[3];
        if !self.bias.is_empty() {
            values.iter_mut().zip(&self.bias[column..]).for_each(|(value, &bias)| *value += bias);
        }
        let (mut element, mut rest) = (column, &*values);
        while !rest.is_empty() {
            let (at, stride, len) = self.run(patch, element);
            let (here, after) = rest.split_at(len.min(rest.len()));
            // SAFETY: every element of every patch has a place of its own, and each task its own part of the product ([`Sink`]).
            unsafe {
                match self.accumulate {
                    true => self.output.accumulate(at, stride, here),
                    false => self.output.store(at, stride, here),
                }
            }
            (element, rest) = (element + here.len(), after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Case, spec};
    use super::super::{
        conv_transpose2d, conv_transpose2d_acc, conv2d, conv2d_grad_weight, conv2d_grad_weight_acc, sizes,
    };
    use crate::MemoryOrder::{ChannelsLast, RowMajor};
    use crate::testing::{Random, Tensor, epsilon};
    use crate::{Conv2d, DType, MemoryOrder, Storage};

    const PRECISIONS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

    /// Images, kernels that move as far as they reach, and whether they leave no remainder.
    const SIZES: [([usize; 4], [usize; 4], bool); 9] = [
        ([2, 5, 6, 7], [7, 5, 1, 1], true),
        ([1, 70, 3, 4], [20, 70, 1, 1], true),
        ([3, 3, 1, 9], [1, 3, 1, 1], true),
        ([2, 3, 16, 24], [20, 3, 8, 8], true),
        ([2, 3, 9, 8], [37, 3, 3, 2], true),
        ([2, 17, 4, 6], [9, 17, 2, 2], true),
        ([1, 40, 4, 6], [33, 40, 2, 3], true),
        ([2, 9, 6, 4], [5, 9, 3, 4], true),
        ([2, 4, 7, 19], [10, 4, 2, 8], false),
    ];

    fn cases(random: &mut Random) -> Vec<(Case, bool)> {
        let case = |random: &mut Random, (x, w, whole): ([usize; 4], [usize; 4], bool), dtype| {
            (Case::new(random, x, w, spec([w[2], w[3]], [0; 2], [1; 2], 1), dtype), whole)
        };
        SIZES.iter().flat_map(|&of| PRECISIONS.map(|dtype| case(random, of, dtype))).collect()
    }

    #[test]
    fn results_and_gradients_agree_with_the_reference() {
        let mut random = Random::new(41);
        cases(&mut random).into_iter().for_each(|(case, _)| case.check(case.sum()));
    }

    fn of(shape: &[usize], order: MemoryOrder, storage: &Storage) -> Vec<f64> {
        let shape_of = |storage| Tensor::contiguous(shape, storage).values();
        match order {
            RowMajor => shape_of(storage.clone()),
            ChannelsLast => shape_of(Tensor::row_major(shape, ChannelsLast, storage)),
        }
    }

    #[test]
    fn biases_are_added_to_their_channels() {
        let mut random = Random::new(42);
        for (case, _) in cases(&mut random) {
            let (x, w, grad, spec): (_, _, _, &Conv2d) = (case.x.view(), case.w.view(), case.grad.view(), &case.spec);
            for order in [RowMajor, ChannelsLast] {
                let out = (case.sum(), order);
                let check = |shape: &[usize], without: &Storage, with: &Storage, bias: &Tensor| {
                    let (without, with) = (of(shape, order, without), of(shape, order, with));
                    let pixels = shape[2] * shape[3];
                    for (i, (without, with)) in without.iter().zip(with).enumerate() {
                        let sum = without + bias.at(&[i / pixels % shape[1]]);
                        let tolerance = 2.0 * epsilon(case.sum()) * (without.abs() + sum.abs());
                        assert!((sum - with).abs() <= tolerance, "{shape:?} {order:?}: {with} is not {sum}");
                    }
                };
                let bias = random.tensor(&[sizes(&w)[0]], case.sum());
                let forward = |bias: Option<&Tensor>| conv2d(&x, &w, bias.map(Tensor::view).as_ref(), spec, out);
                check(case.grad.shape(), &forward(None), &forward(Some(&bias)), &bias);
                let bias = random.tensor(&[sizes(&w)[1]], case.sum());
                let back = |bias: Option<&Tensor>| {
                    conv_transpose2d(&grad, &w, bias.map(Tensor::view).as_ref(), sizes(&x), spec, out)
                };
                check(case.x.shape(), &back(None), &back(Some(&bias)), &bias);
            }
        }
    }

    /// A kernel of one element may have any dilation, and a result any padding below that.
    #[test]
    fn what_is_padded_is_no_patch() {
        let mut random = Random::new(44);
        let (x, w) = (random.tensor(&[2, 9, 3, 4], DType::F32), random.tensor(&[9, 10, 1, 1], DType::F32));
        let spec = spec([1; 2], [0; 2], [3; 2], 1);
        let of = |size: [usize; 4]| {
            let y = conv_transpose2d(&x.view(), &w.view(), None, size, &spec, (DType::F32, RowMajor));
            Tensor::contiguous(&size, y)
        };
        let (padded, whole) = (of([2, 10, 5, 6]), of([2, 10, 3, 4]));
        for index in padded.indices() {
            let expected = if index[2] < 3 && index[3] < 4 { whole.at(&index) } else { 0.0 };
            assert!((padded.at(&index) - expected).abs() <= 9.0 * 9.0 * epsilon(DType::F32), "{index:?}");
        }
    }

    #[test]
    fn gradients_are_added_to_what_is_there() {
        let mut random = Random::new(43);
        for (case, whole) in cases(&mut random) {
            let (x, w, grad, spec) = (case.x.view(), case.w.view(), case.grad.view(), &case.spec);
            let earlier = random.tensor(case.x.shape(), case.sum());
            // Images of few channels are not added to.
            if whole && sizes(&x)[1] > 8 && sizes(&x)[2] > 1 {
                case.compare_onto(&earlier, |into| conv_transpose2d_acc(&grad, &w, sizes(&x), spec, into));
            }
            let fresh = Tensor::contiguous(case.w.shape(), conv2d_grad_weight(&grad, &x, sizes(&w), spec)).values();
            let earlier = random.tensor(case.w.shape(), case.sum());
            let mut into = earlier.storage.clone();
            conv2d_grad_weight_acc(&grad, &x, sizes(&w), spec, &mut into);
            let (found, terms) = (Tensor::contiguous(case.w.shape(), into).values(), case.grad.values().len());
            for ((fresh, earlier), found) in fresh.iter().zip(earlier.values()).zip(found) {
                // Random numbers are below 1, so each of the terms and what is there.
                let tolerance = epsilon(case.sum()) * (terms as f64 + 2.0) * (terms as f64 + 1.0);
                assert!((fresh + earlier - found).abs() <= tolerance, "{found} is not {fresh} + {earlier}");
            }
        }
    }
}
