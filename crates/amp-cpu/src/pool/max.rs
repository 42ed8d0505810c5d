//! Max pooling, its indices and its gradient.

use super::lanes::{Greater, Largest, Routed, Row};
use super::rows::{self, Run};
use super::{Pool2d, Window};
use crate::line::{Span, store};
use crate::num::{Real, in_real};
use crate::output::Output;
use crate::pixel::{Images, Rows, map_rows};
use crate::plane::{map_planes, planes};
use crate::simd::dispatch;
use crate::split::for_chunks_of;
use crate::{DType, MemoryOrder, SliceMut, Storage, View, scratch};

/// Largest value of each window, in the precision of `x`, and its position in the plane `[H, W]` as I64; -1 in a window whose
/// pixels all are padding.
///
/// The first of equal values counts; NaN is larger than everything. Exact: nothing is rounded.
pub fn max_pool2d(x: &View, spec: &Pool2d, order: MemoryOrder) -> (Storage, Storage) {
    pool(x, spec.windows(planes(x).1), order)
}

/// [`max_pool2d`] with windows that divide the plane into `size` parts.
pub fn adaptive_max_pool2d(x: &View, size: [usize; 2], order: MemoryOrder) -> (Storage, Storage) {
    pool(x, Window::axes(None, planes(x).1, size), order)
}

/// The values of [`max_pool2d`] by `spec`, or by windows that divide the plane into `size` parts, without their positions.
///
/// These are twice as many bytes as F32 values.
pub fn max_pool2d_values(x: &View, spec: Option<&Pool2d>, size: [usize; 2], order: MemoryOrder) -> Storage {
    let windows = Window::axes(spec, planes(x).1, size);
    in_real!(x.logical, T => match order {
        MemoryOrder::RowMajor => values_in::<T>(x, &windows),
        MemoryOrder::ChannelsLast => values_of_pixels::<T>(x, &windows),
    })
}

/// Gradient of the max poolings by `spec`, or by windows that divide the plane: adds each element of `grad` `[N, C, oh, ow]` to
/// the place in a plane of `input` `[H, W]` that its maximum came from. `indices` and the result lie in the order of `out`.
///
/// Sums in F32 (F64 for F64 operands), rounded once.
pub fn max_pool2d_grad(
    grad: &View,
    indices: &[i64],
    input: [usize; 2],
    spec: Option<&Pool2d>,
    (out, order): (DType, MemoryOrder),
) -> Storage {
    in_real!(grad.logical, T => match order {
        MemoryOrder::RowMajor => scatter::<T>(grad, indices, input, out),
        MemoryOrder::ChannelsLast => route::<T>(grad, indices, input, &Window::axes(spec, input, planes(grad).1), out),
    })
}

fn pool(x: &View, windows: [Vec<Window>; 2], order: MemoryOrder) -> (Storage, Storage) {
    in_real!(x.logical, T => match order {
        MemoryOrder::RowMajor => pool_in::<T>(x, &windows),
        MemoryOrder::ChannelsLast => pool_pixels::<T>(x, &windows),
    })
}

fn pool_in<T: Real>(x: &View, [rows, columns]: &[Vec<Window>; 2]) -> (Storage, Storage) {
    let (count, [height, width]) = planes(x);
    let (from, to) = (height * width, rows.len() * columns.len());
    let (span, runs) = (Span::row_major(x), Run::all(columns));
    let mut y = Storage::unwritten(x.logical, count * to);
    let mut indices = Storage::unwritten(DType::I64, y.len());
    let output = Output::new(&mut y);
    for_chunks_of(&mut indices, to, x.layout.count(), &|index, places| {
        let SliceMut::I64(places) = places else { unreachable!("indices are I64") };
        scratch::with(from + to, |buffer: &mut [T]| {
            let (room, plane) = buffer.split_at_mut(from);
            let source = span.read(index * from, from, room);
            // SAFETY: each task has its own plane.
            let mut part = unsafe { output.part(index * to, to) };
            store(&mut part, plane, |to| {
                if from > MARKS {
                    return each_largest(source, width, [rows, columns], to, places);
                }
                dispatch(rows::Largest { rows, columns: &runs, width, source, to, places: Some(places) });
            });
        });
    });
    (y, indices)
}

fn values_in<T: Real>(x: &View, [rows, columns]: &[Vec<Window>; 2]) -> Storage {
    let (_, [_, width]) = planes(x);
    let runs = Run::all(columns);
    map_planes::<T>(x, [rows.len(), columns.len()], x.logical, |source, to, _| {
        dispatch(rows::Largest { rows, columns: &runs, width, source, to, places: None });
    })
}

/// Largest planes whose pixels' numbers are F32.
const MARKS: usize = 1 << 24;

/// Window by window.
pub(super) fn each_largest<T: Real>(
    source: &[T],
    width: usize,
    windows: [&[Window]; 2],
    to: &mut [T],
    places: &mut [i64],
) {
    let [rows, columns] = windows;
    let windows = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
    for ((row, column), (to, place)) in windows.zip(to.iter_mut().zip(places)) {
        (*to, *place) = largest(source, width, row, column);
    }
}

fn largest<T: Real>(source: &[T], width: usize, row: &Window, column: &Window) -> (T, i64) {
    let (mut best, mut place) = (T::LEAST, first_place(width, row, column));
    for y in row.pixels() {
        for x in column.pixels() {
            let value = source[y * width + x];
            if value > best || value.is_nan() {
                (best, place) = (value, (y * width + x) as i64);
            }
        }
    }
    (best, place)
}

/// The place of a window's first pixel, or -1.
fn first_place(width: usize, row: &Window, column: &Window) -> i64 {
    let empty = row.start >= row.end || column.start >= column.end;
    if empty { -1 } else { (row.start * width + column.start) as i64 }
}

fn scatter<T: Real>(grad: &View, indices: &[i64], input: [usize; 2], out: DType) -> Storage {
    map_planes::<T>(grad, input, out, |source, plane, index| {
        plane.fill(T::ZERO);
        for (&g, &place) in source.iter().zip(&indices[index * source.len()..]) {
            // There is no place -1.
            plane.get_mut(place as usize).into_iter().for_each(|to| *to += g);
        }
    })
}

/// [`pool_in`] of images whose channels lie together.
fn pool_pixels<T: Real>(x: &View, [rows, columns]: &[Vec<Window>; 2]) -> (Storage, Storage) {
    let images = Images::new(x);
    let len = columns.len() * images.channels;
    let mut y = Storage::unwritten(x.logical, images.count * rows.len() * len);
    let mut indices = Storage::unwritten(DType::I64, y.len());
    let output = Output::new(&mut y);
    for_chunks_of(&mut indices, len, x.layout.count(), &|i, places| {
        let SliceMut::I64(places) = places else { unreachable!("indices are I64") };
        scratch::with(images.row + len, |buffer: &mut [T]| {
            let (scratch, best) = buffer.split_at_mut(images.row);
            let source = Rows { images: &images, image: i / rows.len(), scratch };
            largest_of_rows(source, &rows[i % rows.len()], columns, best, places);
            // SAFETY: each task has its own row.
            unsafe { output.store(i * len, 1, best) };
        });
    });
    (y, indices)
}

/// [`values_in`] of images whose channels lie together.
fn values_of_pixels<T: Real>(x: &View, [rows, columns]: &[Vec<Window>; 2]) -> Storage {
    map_rows::<T>(x, [rows.len(), columns.len()], x.logical, |mut source, i, to| {
        let channels = source.images.channels;
        to.fill(T::LEAST);
        for y in rows[i].pixels() {
            dispatch(Greater { row: Row { windows: columns, channels }, source: source.read(y), best: to });
        }
    })
}

fn largest_of_rows<T: Real>(
    mut source: Rows<'_, T>,
    window: &Window,
    windows: &[Window],
    best: &mut [T],
    places: &mut [i64],
) {
    let Images { channels, row, .. } = *source.images;
    let width = row / channels;
    best.fill(T::LEAST);
    for (places, column) in places.chunks_exact_mut(channels).zip(windows) {
        places.fill(first_place(width, window, column));
    }
    for y in window.pixels() {
        let row = Row { windows, channels };
        dispatch(Largest { row, source: source.read(y), first: y * width, best, places });
    }
}

/// [`scatter`] for images whose channels lie together: every pixel asks the windows that cover it.
fn route<T: Real>(
    grad: &View,
    indices: &[i64],
    input: [usize; 2],
    [rows, columns]: &[Vec<Window>; 2],
    out: DType,
) -> Storage {
    let covering = Window::covering(rows, input[0]);
    map_rows::<T>(grad, input, out, |mut source, y, to| {
        let Images { channels, row: len, .. } = *source.images;
        for &window in &covering[y] {
            let places = &indices[(source.image * rows.len() + window) * len..][..len];
            let row = Row { windows: columns, channels };
            dispatch(Routed { row, grad: source.read(window), places, first: y * input[1], to });
        }
    })
}
