//! Kernels that turn image planes into image planes, one after the other: pooling and upsampling.

use crate::line::{Span, store};
use crate::num::Real;
use crate::output::Output;
use crate::{DType, Storage, View, parallel, scratch};

/// Sizes of the last two dimensions, and how many planes there are before them.
pub(crate) fn planes(view: &View) -> (usize, [usize; 2]) {
    let (outer, size) = view.layout.shape.split_at(view.layout.shape.len() - 2);
    (outer.iter().product(), [size[0], size[1]])
}

/// Computes every plane of a result of `size` from the same plane of `view`; `body` gets the source, the result, of which it
/// writes everything, and the plane's index.
///
/// Planes are read and written where they lie if nothing is to be converted.
pub(crate) fn map_planes<T: Real>(
    view: &View,
    size: [usize; 2],
    out: DType,
    body: impl Fn(&[T], &mut [T], usize) + Sync + Send,
) -> Storage {
    let (count, [height, width]) = planes(view);
    let (from, to) = (height * width, size[0] * size[1]);
    let mut result = Storage::unwritten(out, count * to);
    let (span, output, group) =
        (Span::row_major(view), Output::new(&mut result), count.div_ceil(parallel::most_pieces()).max(1));
    parallel::for_each(count.div_ceil(group), count * (from + to), |task| {
        scratch::with(from + to, |buffer: &mut [T]| {
            let (room, plane) = buffer.split_at_mut(from);
            for index in task * group..count.min((task + 1) * group) {
                let source = span.read(index * from, from, room);
                // SAFETY: each task has its own planes.
                let mut to = unsafe { output.part(index * to, to) };
                store(&mut to, plane, |plane| body(source, plane, index));
            }
        });
    });
    result
}
