//! Loading elements of any stored precision into the type that kernels compute in.

use crate::convert::{Compute, each_dtype};
use crate::output::prefetch;
use crate::simd::Level;
use crate::{DType, Slice, View};

/// Whether kernels on this operand compute in `f64`.
pub(crate) fn computes_in_f64(view: &View<'_>) -> bool {
    view.logical == DType::F64
}

/// Loads `out.len()` elements that lie `stride` apart from `offset` on: widens them, then rounds them where the
/// view's logical precision is narrower than its storage.
pub(crate) fn load<T: Compute>(view: &View<'_>, offset: usize, stride: usize, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    match stride {
        0 => {
            T::widen(view.data.range(offset, 1), &mut out[..1]);
            out.fill(out[0]);
        }
        1 => T::widen(view.data.range(offset, out.len()), out),
        _ => T::gather(view.data.range(offset, (out.len() - 1) * stride + 1), stride, out),
    }
    if view.rounds_on_load() {
        T::round_to(view.logical, out);
    }
}

/// Whether lines that are read one after the other are prefetched.
///
/// A Xeon with AMX fetches them by itself, into the same few buffers that prefetches use: 128 rows by 768 × 3072 took two of
/// its threads 10 to 25 % longer with what Zen 5 gains from, of F32 operands 2 to 5 %; left sides that are rounded as lines, 2048 × 768
/// by 768 × 768 2 to 4 % and 96 products of 256 × 64 by 64 × 256 9 %; depthwise 3 x 3 in BF16 3 to 6 %.
pub(crate) fn prefetches_lines() -> bool {
    Level::current() < Level::Amx
}

/// Prefetches up to `len` neighbouring elements that will be loaded soon, those that exist.
pub(crate) fn prefetch_range(data: Slice<'_>, offset: usize, len: usize) {
    let start = offset.min(data.len());
    let soon = data.range(start, len.min(data.len() - start));
    each_dtype!(soon, Slice, elements => prefetch(elements));
}

/// All elements of a view, row-major.
pub(crate) fn load_all<T: Compute>(view: &View<'_>, out: &mut [T]) {
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
