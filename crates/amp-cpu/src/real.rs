//! The two types kernels compute in, and how elements of any precision are loaded into them and stored from them.

use crate::convert::round_to_odd;
use crate::{DType, Slice, View};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Elements converted at a time when a conversion needs a temporary: small enough for the stack and L1.
const CHUNK: usize = 256;

/// A type that kernels compute and accumulate in: `f32`, or `f64` for F64 operands.
pub(crate) trait Real:
    Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The same as a tag.
    const DTYPE: DType;
    /// Below every finite value.
    const NEG_INFINITY: Self;

    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn exp(self) -> Self;
    fn is_nan(self) -> bool;

    fn widen_f16(src: &[f16], out: &mut [Self]);
    fn widen_bf16(src: &[bf16], out: &mut [Self]);
    fn widen_f32(src: &[f32], out: &mut [Self]);
    fn widen_f64(src: &[f64], out: &mut [Self]);
    fn narrow_f16(src: &[Self], out: &mut [f16]);
    fn narrow_bf16(src: &[Self], out: &mut [bf16]);
    fn narrow_f32(src: &[Self], out: &mut [f32]);
    fn narrow_f64(src: &[Self], out: &mut [f64]);

    /// The elements of a buffer of this very type.
    fn slice(data: Slice<'_>) -> Option<&[Self]>;
}

fn map<S: Copy, T>(src: &[S], out: &mut [T], f: impl Fn(S) -> T) {
    for (o, &s) in out.iter_mut().zip(src) {
        *o = f(s);
    }
}

impl Real for f32 {
    const DTYPE: DType = DType::F32;
    const NEG_INFINITY: Self = Self::NEG_INFINITY;

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn widen_f16(src: &[f16], out: &mut [Self]) {
        src.convert_to_f32_slice(out);
    }

    fn widen_bf16(src: &[bf16], out: &mut [Self]) {
        map(src, out, |v| f32::from_bits(u32::from(v.to_bits()) << 16));
    }

    fn widen_f32(src: &[f32], out: &mut [Self]) {
        out.copy_from_slice(src);
    }

    fn widen_f64(src: &[f64], out: &mut [Self]) {
        map(src, out, |v| v as f32);
    }

    fn narrow_f16(src: &[Self], out: &mut [f16]) {
        out.convert_from_f32_slice(src);
    }

    fn narrow_bf16(src: &[Self], out: &mut [bf16]) {
        map(src, out, |v| bf16::from_bits((round_to_bf16(v).to_bits() >> 16) as u16));
    }

    fn narrow_f32(src: &[Self], out: &mut [f32]) {
        out.copy_from_slice(src);
    }

    fn narrow_f64(src: &[Self], out: &mut [f64]) {
        map(src, out, f64::from);
    }

    fn slice(data: Slice<'_>) -> Option<&[Self]> {
        if let Slice::F32(s) = data { Some(s) } else { None }
    }
}

impl Real for f64 {
    const DTYPE: DType = DType::F64;
    const NEG_INFINITY: Self = Self::NEG_INFINITY;

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn is_nan(self) -> bool {
        self.is_nan()
    }

    fn widen_f16(src: &[f16], out: &mut [Self]) {
        src.convert_to_f64_slice(out);
    }

    fn widen_bf16(src: &[bf16], out: &mut [Self]) {
        map(src, out, bf16::to_f64);
    }

    fn widen_f32(src: &[f32], out: &mut [Self]) {
        map(src, out, f64::from);
    }

    fn widen_f64(src: &[f64], out: &mut [Self]) {
        out.copy_from_slice(src);
    }

    fn narrow_f16(src: &[Self], out: &mut [f16]) {
        map(src, out, |v| f16::from_f32(round_to_odd(v)));
    }

    fn narrow_bf16(src: &[Self], out: &mut [bf16]) {
        map(src, out, |v| bf16::from_f32(round_to_odd(v)));
    }

    fn narrow_f32(src: &[Self], out: &mut [f32]) {
        map(src, out, |v| v as f32);
    }

    fn narrow_f64(src: &[Self], out: &mut [f64]) {
        out.copy_from_slice(src);
    }

    fn slice(data: Slice<'_>) -> Option<&[Self]> {
        if let Slice::F64(s) = data { Some(s) } else { None }
    }
}

/// Rounds to the nearest bf16, ties to even, without branches other than the one for NaN.
fn round_to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    f32::from_bits(if value.is_nan() { (bits | 0x0040_0000) & 0xffff_0000 } else { rounded })
}

/// Whether kernels on this operand compute in `f64`.
pub(crate) fn computes_in_f64(view: &View<'_>) -> bool {
    view.logical == DType::F64
}

/// Loads `out.len()` elements that lie `stride` apart from `offset` on: widens them, then rounds them where the
/// view's logical precision is narrower than its storage.
pub(crate) fn load<T: Real>(view: &View<'_>, offset: usize, stride: usize, out: &mut [T]) {
    match view.data {
        Slice::F16(s) => widen(s, offset, stride, out, T::widen_f16),
        Slice::BF16(s) => widen(s, offset, stride, out, T::widen_bf16),
        Slice::F32(s) => widen(s, offset, stride, out, T::widen_f32),
        Slice::F64(s) => widen(s, offset, stride, out, T::widen_f64),
        Slice::I64(_) | Slice::U8(_) | Slice::Bool(_) => unreachable!("float kernels get float operands"),
    }
    if view.rounds_on_load() {
        round(view.logical, out);
    }
}

fn widen<S: Copy + Default, T: Real>(
    src: &[S],
    offset: usize,
    stride: usize,
    out: &mut [T],
    convert: impl Fn(&[S], &mut [T]),
) {
    if out.is_empty() {
        return;
    }
    if stride == 1 {
        return convert(&src[offset..offset + out.len()], out);
    }
    let mut gathered = [S::default(); CHUNK];
    for (i, chunk) in out.chunks_mut(CHUNK).enumerate() {
        let start = offset + i * CHUNK * stride;
        for (j, g) in gathered[..chunk.len()].iter_mut().enumerate() {
            *g = src[start + j * stride];
        }
        convert(&gathered[..chunk.len()], chunk);
    }
}

/// Rounds values to a 16-bit precision and keeps them in the wide type.
fn round<T: Real>(logical: DType, values: &mut [T]) {
    for chunk in values.chunks_mut(CHUNK) {
        if logical == DType::F16 {
            let mut half = [f16::ZERO; CHUNK];
            T::narrow_f16(chunk, &mut half[..chunk.len()]);
            T::widen_f16(&half[..chunk.len()], chunk);
        } else {
            let mut half = [bf16::ZERO; CHUNK];
            T::narrow_bf16(chunk, &mut half[..chunk.len()]);
            T::widen_bf16(&half[..chunk.len()], chunk);
        }
    }
}

/// All elements of a view, row-major, in the computing type.
pub(crate) fn load_all<T: Real>(view: &View<'_>, out: &mut [T]) {
    let layout = view.layout;
    let Some((&last, outer)) = layout.shape.split_last() else {
        return load(view, layout.offset, 1, &mut out[..1]);
    };
    if layout.is_contiguous() {
        return load(view, layout.offset, 1, out);
    }
    if last == 0 {
        return;
    }
    let strides = &layout.strides[..outer.len()];
    for (row, out) in out.chunks_mut(last).enumerate() {
        let offset = layout.offset + offset_of(row, outer, strides);
        load(view, offset, layout.strides[outer.len()], out);
    }
}

/// Position of the `index`-th element (row-major) of a strided shape.
pub(crate) fn offset_of(mut index: usize, shape: &[usize], strides: &[usize]) -> usize {
    let mut offset = 0;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        offset += index % size * stride;
        index /= size;
    }
    offset
}
