//! Max pooling, its indices and its gradient.

use super::{Pool2d, Window};
use crate::load::computes_in_f64;
use crate::num::Real;
use crate::plane::{map_planes, planes};
use crate::{DType, Storage, View};
use std::sync::atomic::{AtomicI64, Ordering};

/// Largest value of each window, in the precision of `x`, and its position in the plane `[H, W]` as I64.
///
/// The first of equal values counts; NaN is larger than everything. Exact: nothing is rounded.
pub fn max_pool2d(x: &View, spec: &Pool2d) -> (Storage, Storage) {
    pool(x, spec.windows(planes(x).1))
}

/// [`max_pool2d`] with windows that divide the plane into `size` parts.
pub fn adaptive_max_pool2d(x: &View, size: [usize; 2]) -> (Storage, Storage) {
    let (_, [height, width]) = planes(x);
    pool(x, [Window::adaptive(height, size[0]), Window::adaptive(width, size[1])])
}

/// Gradient of the max poolings: adds each element of `grad` `[N, C, oh, ow]` to the place in a plane of `input`
/// `[H, W]` that its maximum came from.
///
/// Sums in F32 (F64 for F64 operands), rounded once to `out`.
pub fn max_pool2d_grad(grad: &View, indices: &[i64], input: [usize; 2], out: DType) -> Storage {
    if computes_in_f64(grad) {
        scatter::<f64>(grad, indices, input, out)
    } else {
        scatter::<f32>(grad, indices, input, out)
    }
}

fn pool(x: &View, windows: [Vec<Window>; 2]) -> (Storage, Storage) {
    if computes_in_f64(x) { pool_in::<f64>(x, &windows) } else { pool_in::<f32>(x, &windows) }
}

fn pool_in<T: Real>(x: &View, [rows, columns]: &[Vec<Window>; 2]) -> (Storage, Storage) {
    let (count, [_, width]) = planes(x);
    let size = [rows.len(), columns.len()];
    let indices: Vec<AtomicI64> = (0..count * size[0] * size[1]).map(|_| AtomicI64::new(0)).collect();
    let y = map_planes::<T>(x, size, x.logical, |source, plane, index| {
        let mut places = indices[index * plane.len()..].iter();
        let windows = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
        for ((row, column), to) in windows.zip(plane) {
            let (value, place) = largest(source, width, row, column);
            *to = value;
            places.next().expect("one place per window").store(place as i64, Ordering::Relaxed);
        }
    });
    (y, Storage::I64(indices.into_iter().map(AtomicI64::into_inner).collect()))
}

fn largest<T: Real>(source: &[T], width: usize, row: &Window, column: &Window) -> (T, usize) {
    let (mut best, mut place) = (T::LEAST, row.start * width + column.start);
    for y in row.pixels() {
        for x in column.pixels() {
            let value = source[y * width + x];
            if value > best || value.is_nan() {
                (best, place) = (value, y * width + x);
            }
        }
    }
    (best, place)
}

fn scatter<T: Real>(grad: &View, indices: &[i64], input: [usize; 2], out: DType) -> Storage {
    map_planes::<T>(grad, input, out, |source, plane, index| {
        for (&slope, &place) in source.iter().zip(&indices[index * source.len()..]) {
            plane[place as usize] += slope;
        }
    })
}
