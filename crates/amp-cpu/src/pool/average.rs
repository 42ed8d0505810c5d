//! Average pooling and its gradient.

use super::lanes::{Added, Divided, Row, Spread, Sums};
use super::rows::{Means, Run, Shares};
use super::{Pool2d, Window};
use crate::num::{Real, in_real};
use crate::pixel::{Images, map_rows};
use crate::plane::{map_planes, planes};
use crate::simd::dispatch;
use crate::{DType, MemoryOrder, Storage, View, scratch};

/// Mean of each window, in the precision of `x`; `count_include_pad` counts the padding it covers as zeros.
///
/// Sums in F32 (F64 for F64 operands), rounded once.
pub fn avg_pool2d(x: &View, spec: &Pool2d, count_include_pad: bool, order: MemoryOrder) -> Storage {
    mean(x, &Windows { axes: spec.windows(planes(x).1), count_include_pad }, order)
}

/// Mean of each of `size` parts of the plane, in the precision of `x`.
pub fn adaptive_avg_pool2d(x: &View, size: [usize; 2], order: MemoryOrder) -> Storage {
    let (_, input) = planes(x);
    mean(x, &Windows::adaptive(input, size), order)
}

/// Gradient of [`avg_pool2d`] for planes of `input` `[H, W]`.
///
/// Sums in F32 (F64 for F64 operands), rounded once; `out` says to what, and in which order the result lies.
pub fn avg_pool2d_grad(
    grad: &View,
    input: [usize; 2],
    spec: &Pool2d,
    count_include_pad: bool,
    out: (DType, MemoryOrder),
) -> Storage {
    spread(grad, input, &Windows { axes: spec.windows(input), count_include_pad }, out)
}

/// Gradient of [`adaptive_avg_pool2d`] for planes of `input` `[H, W]`.
///
/// Sums in F32 (F64 for F64 operands), rounded once; `out` says to what, and in which order the result lies.
pub fn adaptive_avg_pool2d_grad(grad: &View, input: [usize; 2], out: (DType, MemoryOrder)) -> Storage {
    let (_, size) = planes(grad);
    spread(grad, input, &Windows::adaptive(input, size), out)
}

struct Windows {
    axes: [Vec<Window>; 2],
    count_include_pad: bool,
}

impl Windows {
    fn adaptive(input: [usize; 2], size: [usize; 2]) -> Self {
        Self { axes: Window::axes(None, input, size), count_include_pad: false }
    }

    fn size(&self) -> [usize; 2] {
        [self.axes[0].len(), self.axes[1].len()]
    }

    /// The number of pixels that a window averages over.
    fn count<T: Real>(&self, row: &Window, column: &Window) -> T {
        T::of(if self.count_include_pad { row.size * column.size } else { row.pixels().len() * column.pixels().len() }
            as f64)
    }

    /// Those of each row of windows.
    fn counts<T: Real>(&self) -> Vec<Vec<T>> {
        let [rows, columns] = &self.axes;
        rows.iter().map(|row| columns.iter().map(|column| self.count(row, column)).collect()).collect()
    }
}

fn mean(x: &View, windows: &Windows, order: MemoryOrder) -> Storage {
    in_real!(x.logical, T => match order {
        MemoryOrder::RowMajor => mean_in::<T>(x, windows),
        MemoryOrder::ChannelsLast => mean_of_pixels::<T>(x, windows),
    })
}

fn mean_in<T: Real>(x: &View, windows: &Windows) -> Storage {
    let (_, [_, width]) = planes(x);
    let ([rows, columns], counts) = (&windows.axes, windows.counts::<T>().concat());
    let runs = Run::all(columns);
    map_planes::<T>(x, windows.size(), x.logical, |source, to, _| {
        scratch::with(width, |line: &mut [T]| {
            dispatch(Means { rows, columns: &runs, source, counts: &counts, line, to });
        });
    })
}

fn spread(grad: &View, input: [usize; 2], windows: &Windows, (out, order): (DType, MemoryOrder)) -> Storage {
    in_real!(grad.logical, T => match order {
        MemoryOrder::RowMajor => spread_in::<T>(grad, input, windows, out),
        MemoryOrder::ChannelsLast => spread_over_pixels::<T>(grad, input, windows, out),
    })
}

fn spread_in<T: Real>(grad: &View, input: [usize; 2], windows: &Windows, out: DType) -> Storage {
    let ([rows, columns], counts) = (&windows.axes, windows.counts::<T>().concat());
    let (width, runs) = (input[1], Run::all(columns));
    map_planes::<T>(grad, input, out, |grad, to, _| {
        scratch::with(grad.len(), |shares: &mut [T]| {
            dispatch(Shares { rows, columns: &runs, width, grad, counts: &counts, shares, to });
        });
    })
}

/// [`mean_in`] of images whose channels lie together.
fn mean_of_pixels<T: Real>(x: &View, windows: &Windows) -> Storage {
    let ([rows, columns], counts) = (&windows.axes, windows.counts::<T>());
    map_rows::<T>(x, windows.size(), x.logical, |mut source, i, to| {
        let Images { channels, row: len, .. } = *source.images;
        scratch::with(len, |line: &mut [T]| {
            line.fill(T::ZERO);
            for y in rows[i].pixels() {
                dispatch(Added { to: line, source: source.read(y) });
            }
            dispatch(Sums { row: Row { windows: columns, channels }, source: line, to });
        });
        dispatch(Divided { counts: &counts[i], channels, to });
    })
}

/// [`spread_in`] for images whose channels lie together: every row asks the windows that cover it.
fn spread_over_pixels<T: Real>(grad: &View, input: [usize; 2], windows: &Windows, out: DType) -> Storage {
    let ([rows, columns], counts) = (&windows.axes, windows.counts::<T>());
    let covering = Window::covering(rows, input[0]);
    map_rows::<T>(grad, input, out, |mut source, y, to| {
        let Images { channels, row: len, .. } = *source.images;
        scratch::with(len, |shares: &mut [T]| {
            for &window in &covering[y] {
                shares.copy_from_slice(source.read(window));
                dispatch(Divided { counts: &counts[window], channels, to: shares });
                dispatch(Spread { row: Row { windows: columns, channels }, shares, to });
            }
        });
    })
}
