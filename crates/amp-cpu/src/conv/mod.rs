//! Convolution of images `[N, C, H, W]` with kernels `[O, C / groups, kh, kw]`, and its two gradients.
//!
//! All three are one scheme, a [`lattice::Lattice`]: each output pixel gathers source pixels at fixed distances
//! ("taps"). A task widens a band of the source into a zero-padded scratch plane, where every patch element is the
//! sum of an offset of the pixel and an offset of the tap, and multiplies patches as they are packed. The patch
//! matrix never exists.

mod direct;
mod gather;
mod lattice;
mod planes;
#[cfg(test)]
mod tests;
mod weight;

use crate::gemm::kernel::Full;
use crate::load::{computes_in_f64, load_all};
use crate::num::Real;
use crate::{DType, Storage, View};
use gather::{Target, WeightStrides, gather};
use lattice::Lattice;

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
/// Sums and bias in F32 (F64 for F64 operands), rounded once to `out`.
pub fn conv2d(x: &View, w: &View, bias: Option<&View>, spec: &Conv2d, out: DType) -> Storage {
    if computes_in_f64(x) { forward::<f64>(x, w, bias, spec, out) } else { forward::<f32>(x, w, bias, spec, out) }
}

/// Transposed convolution of `x` `[N, O, h, w]` with `w` `[O, C / groups, kh, kw]` plus `bias` `[C]`, as `output`
/// `[N, C, H, W]`; PyTorch's `conv_transpose2d`. The gradient of [`conv2d`] with respect to its input is the same thing.
///
/// Sums and bias in F32 (F64 for F64 operands), rounded once to `out`.
pub fn conv_transpose2d(
    x: &View,
    w: &View,
    bias: Option<&View>,
    output: [usize; 4],
    spec: &Conv2d,
    out: DType,
) -> Storage {
    if computes_in_f64(x) {
        transposed::<f64>(x, w, bias, output, spec, out)
    } else {
        transposed::<f32>(x, w, bias, output, spec, out)
    }
}

/// Gradient of [`conv2d`] with respect to its kernel of shape `weight` `[O, C / groups, kh, kw]`, in F32 (F64).
pub fn conv2d_grad_weight(grad: &View, x: &View, weight: [usize; 4], spec: &Conv2d) -> Storage {
    let dtype = if computes_in_f64(x) { DType::F64 } else { DType::F32 };
    let mut into = Storage::zeros(dtype, weight.iter().product());
    conv2d_grad_weight_acc(grad, x, weight, spec, &mut into);
    into
}

/// Adds [`conv2d_grad_weight`] to an F32 (F64) buffer without rounding in between.
pub fn conv2d_grad_weight_acc(grad: &View, x: &View, weight: [usize; 4], spec: &Conv2d, into: &mut Storage) {
    if into.is_empty() || grad.layout.count() == 0 || x.layout.count() == 0 {
        return;
    }
    if into.dtype() == DType::F64 {
        weight::accumulate::<f64>(grad, x, weight, spec, into);
    } else {
        weight::accumulate::<f32>(grad, x, weight, spec, into);
    }
}

fn sizes(view: &View) -> [usize; 4] {
    std::array::from_fn(|i| view.layout.shape[i])
}

fn loaded<T: Real>(view: &View) -> Vec<T> {
    let mut values = vec![T::default(); view.layout.count()];
    load_all(view, &mut values);
    values
}

fn forward<T: Full>(x: &View, w: &View, bias: Option<&View>, spec: &Conv2d, out: DType) -> Storage {
    let ([images, _, height, width], [outputs, inputs, kh, kw]) = (sizes(x), sizes(w));
    let size = spec.output_size([height, width], [kh, kw]).unwrap_or([0; 2]);
    let weights = loaded::<T>(w);
    let bias = bias.map(loaded::<T>).unwrap_or_default();
    let per_group = outputs / spec.groups;
    let strides = WeightStrides { group: per_group * inputs * kh * kw, output: inputs * kh * kw, input: kh * kw };
    let mut result = Storage::unwritten(out, images * outputs * size[0] * size[1]);
    // The sizes of an empty result may be anything: nothing must run once for each of them.
    if result.is_empty() {
        return result;
    }
    let target = Target::new(&mut result, per_group, outputs, size, &bias);
    gather(x, &weights, strides, spec.groups, &Lattice::forward(spec, size, [kh, kw]), &target);
    result
}

fn transposed<T: Full>(
    x: &View,
    w: &View,
    bias: Option<&View>,
    output: [usize; 4],
    spec: &Conv2d,
    out: DType,
) -> Storage {
    let ([images, channels, height, width], [outputs, inputs, kh, kw]) = (output, sizes(w));
    let weights = loaded::<T>(w);
    let bias = bias.map(loaded::<T>).unwrap_or_default();
    let per_group = outputs / spec.groups;
    let strides = WeightStrides { group: per_group * inputs * kh * kw, output: kh * kw, input: inputs * kh * kw };
    let mut result = Storage::unwritten(out, images * channels * height * width);
    if result.is_empty() {
        return result;
    }
    let target = Target::new(&mut result, inputs, channels, [height, width], &bias);
    for lattice in Lattice::transposed(spec, [height, width], [kh, kw]) {
        gather(x, &weights, strides, spec.groups, &lattice, &target);
    }
    result
}
