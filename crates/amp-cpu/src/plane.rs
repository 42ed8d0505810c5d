//! Kernels that turn image planes into image planes, one after the other: pooling and upsampling.

use crate::load::load;
use crate::num::Real;
use crate::output::Output;
use crate::{DType, Storage, View, parallel, scratch};

/// Sizes of the last two dimensions, and how many planes there are before them.
pub(crate) fn planes(view: &View) -> (usize, [usize; 2]) {
    let (outer, size) = view.layout.shape.split_at(2);
    (outer.iter().product(), [size[0], size[1]])
}

/// Widens plane `index` of a `[N, C, H, W]` view into `out`.
pub(crate) fn load_plane<T: Real>(view: &View, index: usize, out: &mut [T]) {
    let (shape, strides) = (&view.layout.shape, &view.layout.strides);
    let start = view.layout.offset + index / shape[1] * strides[0] + index % shape[1] * strides[1];
    if strides[3] == 1 && strides[2] == shape[3] {
        return load(view, start, 1, out);
    }
    for (y, line) in out.chunks_exact_mut(shape[3].max(1)).enumerate() {
        load(view, start + y * strides[2], strides[3], line);
    }
}

/// Computes every plane of a result of `size` from the same plane of `view`; `body` gets the source, the (zeroed)
/// result and the plane's index.
pub(crate) fn map_planes<T: Real>(
    view: &View,
    size: [usize; 2],
    out: DType,
    body: impl Fn(&[T], &mut [T], usize) + Sync + Send,
) -> Storage {
    let (count, [height, width]) = planes(view);
    let (from, to) = (height * width, size[0] * size[1]);
    let mut result = Storage::unwritten(out, count * to);
    let output = Output::new(&mut result);
    parallel::for_each(count, count * (from + to), |index| {
        scratch::with(from + to, |buffer: &mut [T]| {
            let (source, plane) = buffer.split_at_mut(from);
            load_plane(view, index, source);
            plane.fill(T::default());
            body(source, plane, index);
            // SAFETY: each task has its own plane.
            unsafe { output.store(index * to, 1, plane) };
        });
    });
    result
}
