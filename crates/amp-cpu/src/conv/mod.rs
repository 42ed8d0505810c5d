//! Convolution of images `[N, C, H, W]` with kernels `[O, C / groups, kh, kw]`, and its two gradients.
//!
//! All three are one scheme, a [`lattice::Lattice`]: each output pixel gathers source pixels at fixed distances
//! ("taps"). A task copies a band of the source into a zero-padded scratch plane in which the channels of a pixel lie
//! together; a patch is then a vector at an offset for each pixel and tap, and tiles read it where it lies. The patch
//! matrix of im2col never exists (implicit GEMM): of patches that cannot be read so, there are those of a tile at a time
//! ([`lines`]).

mod axis;
mod direct;
mod disjoint;
mod gather;
mod images;
mod kept;
mod lanes;
mod lattice;
mod lines;
mod pack;
mod patch;
mod plan;
mod planes;
mod short;
mod target;
#[cfg(test)]
mod tests;
mod tile;
mod weight;

use crate::gemm::kernel::Multiply;
use crate::gemm::{dot, in_panels};
use crate::load::{computes_in_f64, load_all, offset_of};
use crate::num::Real;
use crate::simd::{LANES, Level};
use crate::{DType, MemoryOrder, Storage, View};
use half::bf16;
use images::Images;
use kept::Kept;
use lattice::Lattice;
use pack::Weights;
use std::borrow::Cow;
use target::Target;
use tile::Convolve;

/// Most channels of a group, on both sides, for which tiles never pay.
const DIRECT: usize = 8;
/// Most elements of the channels' rows for which lines of all channels stay in the L2 cache.
const PLANES: usize = 1 << 14;

/// How a convolution moves over its input; pairs are (vertical, horizontal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Distance between neighbouring outputs, in input pixels.
    pub stride: [usize; 2],
    /// Zeros added on both sides.
    pub padding: [usize; 2],
    /// Distance between neighbouring kernel elements, in input pixels.
    pub dilation: [usize; 2],
    /// Parts that the channels are divided into, each convolved on its own.
    pub groups: usize,
}

impl Default for Conv2d {
    fn default() -> Self {
        Self { stride: [1; 2], padding: [0; 2], dilation: [1; 2], groups: 1 }
    }
}

impl Conv2d {
    /// Output size for an input and a kernel size; `None` when the kernel does not fit or a step is zero.
    pub fn output_size(&self, input: [usize; 2], kernel: [usize; 2]) -> Option<[usize; 2]> {
        let along = |i: usize| {
            let padded = input[i].checked_add(self.padding[i].checked_mul(2)?)?;
            let extent = self.dilation[i].checked_mul(kernel[i].checked_sub(1)?)?.checked_add(1)?;
            Some(padded.checked_sub(extent)?.checked_div(self.stride[i])? + 1)
        };
        Some([along(0)?, along(1)?])
    }
}

/// Convolution of `x` `[N, C, H, W]` with `w` `[O, C / groups, kh, kw]` plus `bias` `[O]`, as `[N, O, oh, ow]`.
///
/// Sums and bias in F32 (F64 for F64 operands), rounded once to `out`, in either order; [`conv2d_order`] is the faster.
pub fn conv2d(x: &View, w: &View, bias: Option<&View>, spec: &Conv2d, out: (DType, MemoryOrder)) -> Storage {
    if disjoint::are_rows(sizes(w), spec, Images::new(x).size) {
        return disjoint::forward(x, w, bias, out);
    }
    if forward_without_tiles(x, w, spec) {
        if in_pairs(x, w, sizes(w), spec) {
            return forward::<bf16>(x, w, bias, spec, out, short::gather);
        }
        return forward::<f32>(x, w, bias, spec, out, direct::gather);
    }
    in_panels!(x, w, E => forward::<E>(x, w, bias, spec, out, gather::gather))
}

/// The order that [`conv2d`] should write: that of tiles, unless what it writes has few channels, or a height of 1.
/// Depthwise convolutions keep the order of what they read.
pub fn conv2d_order(x: &View, w: &View, spec: &Conv2d) -> MemoryOrder {
    order(forward_without_tiles(x, w, spec), sizes(w)[0], x, w, spec)
}

fn order(without_tiles: bool, channels: usize, x: &View, w: &View, spec: &Conv2d) -> MemoryOrder {
    let lines = [sizes(x)[2], sizes(w)[2]] == [1, 1];
    let kept = spec.groups == channels && sizes(x)[1] == channels && Images::new(x).together();
    let few = without_tiles && spec.groups > 1 && !kept || channels <= DIRECT;
    if lines || few { MemoryOrder::RowMajor } else { MemoryOrder::ChannelsLast }
}

fn forward_without_tiles(x: &View, w: &View, spec: &Conv2d) -> bool {
    let [outputs, inputs, ..] = sizes(w);
    gathers_without_tiles([x, w], spec, [outputs / spec.groups, inputs, sizes(x)[3] / spec.stride[1]])
}

/// Whether patches, short ones, are of BF16 that is multiplied in pairs, and neighbours read neighbours; AMX has no such kernel.
fn in_pairs(a: &View, b: &View, w: [usize; 4], spec: &Conv2d) -> bool {
    let one_by_one = w[0] > DIRECT && spec.stride == [1; 2] && spec.groups == 1;
    one_by_one && Level::current() == Level::Avx512Bf16 && dot::multiplies(a, b)
}

/// Transposed convolution of `x` `[N, O, h, w]` with `w` `[O, C / groups, kh, kw]` plus `bias` `[C]`, as `output`
/// `[N, C, H, W]`; PyTorch's `conv_transpose2d`. The gradient of [`conv2d`] with respect to its input is the same thing.
///
/// Sums and bias in F32 (F64 for F64 operands), rounded once to `out`, in either order; [`conv_transpose2d_order`] is the
/// faster.
pub fn conv_transpose2d(
    x: &View,
    w: &View,
    bias: Option<&View>,
    output: [usize; 4],
    spec: &Conv2d,
    out: (DType, MemoryOrder),
) -> Storage {
    if disjoint::are_blocks(Images::new(x).size, sizes(w), spec, [output[2], output[3]]) {
        return disjoint::transposed(x, w, bias, out);
    }
    if transposed_without_tiles(x, w, spec) {
        return transposed::<f32>(x, w, bias, output, spec, out, direct::gather);
    }
    in_panels!(x, w, E => transposed::<E>(x, w, bias, output, spec, out, gather::gather))
}

/// The order that [`conv_transpose2d`] should write, as [`conv2d_order`].
pub fn conv_transpose2d_order(x: &View, w: &View, spec: &Conv2d) -> MemoryOrder {
    order(transposed_without_tiles(x, w, spec), sizes(w)[1] * spec.groups, x, w, spec)
}

/// Adds [`conv_transpose2d`] to images of size `output` that lie in its order, in F32 (F64), where the channels of a pixel lie
/// together in that; returns whether it did.
///
/// Tiles begin with what is there, prefetched one tile ahead: steps of ResNet-18, in which gradients of both ways through a
/// block meet, take 3 to 4 % less processor time than with passes for storing and adding; not prefetched, 0.5 to 2 % less.
/// `vdpbf16ps` takes denormal numbers that are there for zeros.
pub fn conv_transpose2d_acc(x: &View, w: &View, output: [usize; 4], spec: &Conv2d, into: &mut Storage) -> bool {
    let ([_, channels, height, width], inputs) = (output, sizes(w)[1]);
    if conv_transpose2d_order(x, w, spec) != MemoryOrder::ChannelsLast {
        return false;
    }
    if disjoint::are_blocks(Images::new(x).size, sizes(w), spec, [height, width]) {
        disjoint::add_transposed(x, w, into);
        return true;
    }
    if transposed_without_tiles(x, w, spec) {
        return false;
    }
    if !into.is_empty() {
        in_panels!(x, w, E => {
            let target = Target::onto(into, inputs, channels, [height, width]);
            gather_back::<E>(x, w, spec, &target, gather::gather);
        });
    }
    true
}

fn transposed_without_tiles(x: &View, w: &View, spec: &Conv2d) -> bool {
    let [outputs, inputs, ..] = sizes(w);
    gathers_without_tiles([x, w], spec, [inputs, outputs / spec.groups, sizes(x)[3]])
}

/// Gradient of [`conv2d`] with respect to its kernel of shape `weight` `[O, C / groups, kh, kw]`, in F32 (F64).
pub fn conv2d_grad_weight(grad: &View, x: &View, weight: [usize; 4], spec: &Conv2d) -> Storage {
    let dtype = if computes_in_f64(x) { DType::F64 } else { DType::F32 };
    let len = weight.iter().product();
    let nothing = len == 0 || grad.layout.count() == 0 || x.layout.count() == 0;
    let of_patches = disjoint::are_patches(weight, spec, Images::new(x).size);
    if nothing {
        return Storage::zeros(dtype, len);
    }
    if of_patches {
        return disjoint::grad_weight(grad, x, weight);
    }
    let kept = Kept::of_weight(grad, x, weight, spec);
    if kept.shape(weight) != weight || sums_without_tiles([grad, x], weight, spec) {
        let mut into = Storage::zeros(dtype, len);
        conv2d_grad_weight_acc(grad, x, weight, spec, &mut into);
        return into;
    }
    let mut into = Storage::unwritten(dtype, len);
    let lattice = kept.lattice(spec, Images::new(grad).size);
    grad_weight(grad, x, &lattice, weight::Target { shape: weight, into: &mut into, accumulate: false });
    into
}

/// Adds [`conv2d_grad_weight`] to an F32 (F64) buffer without rounding in between.
pub fn conv2d_grad_weight_acc(grad: &View, x: &View, weight: [usize; 4], spec: &Conv2d, into: &mut Storage) {
    if into.is_empty() || grad.layout.count() == 0 || x.layout.count() == 0 {
        return;
    }
    if disjoint::are_patches(weight, spec, Images::new(x).size) {
        return disjoint::add_grad_weight(grad, x, weight, into);
    }
    let kept = Kept::of_weight(grad, x, weight, spec);
    let (shape, lattice) = (kept.shape(weight), kept.lattice(spec, Images::new(grad).size));
    if shape == weight {
        return add_grad_weight([grad, x], spec, &lattice, weight, into);
    }
    let mut part = Storage::zeros(into.dtype(), shape.iter().product());
    add_grad_weight([grad, x], spec, &lattice, shape, &mut part);
    kept.add(&part, weight, into);
}

fn add_grad_weight([grad, x]: [&View; 2], spec: &Conv2d, lattice: &Lattice, weight: [usize; 4], into: &mut Storage) {
    if sums_without_tiles([grad, x], weight, spec) {
        let kernel = bf16::convolve(Level::current());
        if !in_pairs(grad, x, weight, spec) || !short::accumulate(kernel, grad, x, weight, lattice, into) {
            direct::accumulate::<f32>(grad, x, weight, lattice, into);
        }
        return;
    }
    grad_weight(grad, x, lattice, weight::Target { shape: weight, into, accumulate: true });
}

fn grad_weight(grad: &View, x: &View, lattice: &Lattice, target: weight::Target) {
    in_panels!(grad, x, E => weight::compute::<E>(grad, x, lattice, target))
}

/// Whether tiles do not pay for gathering so many outputs of a group from so many inputs.
///
/// A tile has the same sums for 12 pixels and 32 outputs. Of a few outputs most are zeros, and of patches as short as 3
/// channels of 3 x 3 beginning and ending a tile takes as long as multiplying: on a core of Zen 5 such a stem takes two
/// thirds of the time without tiles in BF16 and half in F32, the gradient of its three channels under half and a third. (Where
/// BF16 is multiplied in pairs there is a better way still: [`short`].)
/// F64, which checks and references are in, always has tiles: those kernels for it were 4 % of the crate's code.
/// AMX is so fast that a tile may be empty but for a few sums.
fn gathers_without_tiles([x, kernels]: [&View; 2], spec: &Conv2d, [outputs, inputs, width]: [usize; 3]) -> bool {
    let w = sizes(kernels);
    let taps = w[2] * w[3];
    let one_plane = inputs * width <= PLANES && fills_vectors(width);
    // Sums of nothing have no vectors.
    let few = outputs <= DIRECT && inputs <= DIRECT
        || one_plane && taps > DIRECT && (outputs <= DIRECT / 2 || inputs * taps <= 4 * DIRECT && shares_rows(w, spec));
    let amx = takes_amx(x, kernels) && tiles_of_amx_pay(outputs, inputs * taps);
    !computes_in_f64(x) && inputs > 0 && outputs > 0 && few && !amx
}

/// Whether tiles, most of whose columns may be empty, take less time than vectors of as many outputs: in cycles for 32 pixels.
fn tiles_of_amx_pay(outputs: usize, terms: usize) -> bool {
    /// Beginning, rounding and storing a tile.
    const TILE: usize = 500;
    2 * terms * outputs.div_ceil(32) + TILE < outputs * terms
}

/// Whether tiles are those of AMX.
fn takes_amx(a: &View, b: &View) -> bool {
    Level::current() == Level::Amx && dot::multiplies(a, b)
}

/// Whether tiles do not pay for the gradient of kernels: strips of three neighbouring taps have few columns.
fn sums_without_tiles([grad, x]: [&View; 2], w @ [outputs, inputs, kh, kw]: [usize; 4], spec: &Conv2d) -> bool {
    let [images, _, _, width] = sizes(grad);
    let short = inputs * kw <= DIRECT + DIRECT / 2 && shares_rows(w, spec) && fills_vectors(width);
    let few = outputs <= DIRECT * spec.groups && inputs <= DIRECT;
    let amx = takes_amx(grad, x) && tiles_of_amx_pay(outputs / spec.groups, inputs * kh * kw);
    !computes_in_f64(x) && (few || short && !(amx && weight::takes_batches(images, width, spec.stride[1])))
}

/// Whether rows of pixels that are summed together read the same rows of the image.
fn shares_rows([.., kh, _]: [usize; 4], spec: &Conv2d) -> bool {
    kh >= 3 && spec.stride[0] == 1 && spec.dilation[0] == 1
}

/// Whether a row of pixels leaves little of vectors unused.
fn fills_vectors(width: usize) -> bool {
    4 * width >= 3 * width.next_multiple_of(LANES)
}

fn sizes(view: &View) -> [usize; 4] {
    std::array::from_fn(|i| view.layout.shape[i])
}

fn loaded_bias<T: Real>(bias: Option<&View>) -> Vec<T> {
    let mut values = vec![T::default(); bias.map_or(0, |bias| bias.layout.count())];
    if let Some(bias) = bias {
        load_all(bias, &mut values);
    }
    values
}

/// The kernels as one row of `E`: where they lie if they are that already.
fn loaded<'a, E: Multiply>(view: &View<'a>) -> Cow<'a, [E]> {
    let layout = view.layout;
    if layout.is_contiguous() {
        if let Some(stored) = E::stored(view) {
            return Cow::Borrowed(&stored[layout.offset..][..layout.count()]);
        }
        let mut values = vec![E::default(); layout.count()];
        E::load(view, layout.offset, 1, &mut values);
        return Cow::Owned(values);
    }
    let mut values = vec![E::default(); layout.count()];
    let outer = layout.shape.len() - 1;
    let last = layout.shape[outer].max(1);
    for (row, values) in values.chunks_exact_mut(last).enumerate() {
        let offset = layout.offset + offset_of(row, &layout.shape[..outer], &layout.strides[..outer]);
        E::load(view, offset, layout.strides[outer], values);
    }
    Cow::Owned(values)
}

/// Computes the target of a lattice from all channels of the source; see [`gather::gather`].
type Gather<E> = for<'a, 'b, 'c> fn(
    &View<'b>,
    &(dyn Fn(usize) -> Weights<'a, E> + Sync),
    usize,
    &Lattice,
    &Target<'c, <E as Multiply>::Sum>,
);

fn forward<E: Multiply>(
    x: &View,
    w: &View,
    bias: Option<&View>,
    spec: &Conv2d,
    (out, order): (DType, MemoryOrder),
    gather: Gather<E>,
) -> Storage {
    let ([images, _, height, width], [outputs, inputs, kh, kw]) = (sizes(x), sizes(w));
    let size = spec.output_size([height, width], [kh, kw]).unwrap_or([0; 2]);
    let mut result = Storage::unwritten(out, images * outputs * size[0] * size[1]);
    // The sizes of an empty result may be anything: nothing must run once for each of them.
    if result.is_empty() {
        return result;
    }
    let kept = Kept::new(spec, [kh, kw], [height, width], size);
    let layout = kept.layout(w.layout);
    let weights = loaded::<E>(&View { layout: &layout, ..*w });
    let bias = loaded_bias::<E::Sum>(bias);
    let (per_group, [kh, kw]) = (outputs / spec.groups, kept.size());
    let taps = kh * kw;
    let target = Target::new(&mut result, per_group, outputs, size, &bias, order);
    let of_group = |group: usize| Weights {
        data: &weights[group * per_group * inputs * taps..],
        outputs: [per_group, inputs * taps],
        inputs: [inputs, taps],
        taps,
    };
    gather(x, &of_group, spec.groups, &kept.lattice(spec, size), &target);
    result
}

fn transposed<E: Multiply>(
    x: &View,
    w: &View,
    bias: Option<&View>,
    output: [usize; 4],
    spec: &Conv2d,
    (out, order): (DType, MemoryOrder),
    gather: Gather<E>,
) -> Storage {
    let ([images, channels, height, width], inputs) = (output, sizes(w)[1]);
    let bias = loaded_bias::<E::Sum>(bias);
    let mut result = Storage::unwritten(out, images * channels * height * width);
    if !result.is_empty() {
        let target = Target::new(&mut result, inputs, channels, [height, width], &bias, order);
        gather_back::<E>(x, w, spec, &target, gather);
    }
    result
}

/// Computes the target of a transposed convolution.
fn gather_back<E: Multiply>(x: &View, w: &View, spec: &Conv2d, target: &Target<E::Sum>, gather: Gather<E>) {
    let ([.., height, width], [outputs, inputs, kh, kw]) = (sizes(x), sizes(w));
    let kept = Kept::new(spec, [kh, kw], target.size, [height, width]);
    let layout = kept.layout(w.layout);
    // Read across, 512 x 512 x 3 x 3 took a fifth longer from where it lies, far from the caches, than from a copy.
    let weights = loaded::<E>(&View { layout: &layout, ..*w }).into_owned();
    let (per_group, [kh, kw]) = (outputs / spec.groups, kept.size());
    let taps = kh * kw;
    let of_group = |group: usize| Weights {
        data: &weights[group * per_group * inputs * taps..],
        outputs: [inputs, taps],
        inputs: [per_group, inputs * taps],
        taps,
    };
    gather(x, &of_group, spec.groups, &Lattice::transposed_from(kept.first, spec, target.size, [kh, kw]), target);
}
