//! Average pooling and its gradient.

use super::{Pool2d, Window};
use crate::load::computes_in_f64;
use crate::num::Real;
use crate::plane::{map_planes, planes};
use crate::{DType, Storage, View};

/// Mean of each window, in the precision of `x`; `count_include_pad` counts the padding it covers as zeros.
///
/// Sums in F32 (F64 for F64 operands), rounded once.
pub fn avg_pool2d(x: &View, spec: &Pool2d, count_include_pad: bool) -> Storage {
    mean(x, &Windows { axes: spec.windows(planes(x).1), count_include_pad })
}

/// Mean of each of `size` parts of the plane, in the precision of `x`.
pub fn adaptive_avg_pool2d(x: &View, size: [usize; 2]) -> Storage {
    let (_, input) = planes(x);
    mean(x, &Windows::adaptive(input, size))
}

/// Gradient of [`avg_pool2d`] for planes of `input` `[H, W]`.
///
/// Sums in F32 (F64 for F64 operands), rounded once to `out`.
pub fn avg_pool2d_grad(grad: &View, input: [usize; 2], spec: &Pool2d, count_include_pad: bool, out: DType) -> Storage {
    spread(grad, input, &Windows { axes: spec.windows(input), count_include_pad }, out)
}

/// Gradient of [`adaptive_avg_pool2d`] for planes of `input` `[H, W]`.
///
/// Sums in F32 (F64 for F64 operands), rounded once to `out`.
pub fn adaptive_avg_pool2d_grad(grad: &View, input: [usize; 2], out: DType) -> Storage {
    let (_, size) = planes(grad);
    spread(grad, input, &Windows::adaptive(input, size), out)
}

struct Windows {
    axes: [Vec<Window>; 2],
    count_include_pad: bool,
}

impl Windows {
    fn adaptive(input: [usize; 2], size: [usize; 2]) -> Self {
        Self { axes: std::array::from_fn(|i| Window::adaptive(input[i], size[i])), count_include_pad: false }
    }

    fn size(&self) -> [usize; 2] {
        [self.axes[0].len(), self.axes[1].len()]
    }

    /// All windows, row-major, with the number of pixels they average over.
    fn each<T: Real>(&self) -> impl Iterator<Item = (&Window, &Window, T)> {
        let pairs = self.axes[0].iter().flat_map(|row| self.axes[1].iter().map(move |column| (row, column)));
        pairs.map(|(row, column)| {
            let count = if self.count_include_pad {
                row.size * column.size
            } else {
                row.pixels().len() * column.pixels().len()
            };
            (row, column, T::of(count as f64))
        })
    }
}

fn mean(x: &View, windows: &Windows) -> Storage {
    if computes_in_f64(x) { mean_in::<f64>(x, windows) } else { mean_in::<f32>(x, windows) }
}

fn mean_in<T: Real>(x: &View, windows: &Windows) -> Storage {
    let (_, [_, width]) = planes(x);
    map_planes::<T>(x, windows.size(), x.logical, |source, plane, _| {
        for ((row, column, count), to) in windows.each::<T>().zip(plane) {
            let mut sum = T::default();
            for y in row.pixels() {
                for &value in &source[y * width + column.start..y * width + column.end] {
                    sum += value;
                }
            }
            *to = sum / count;
        }
    })
}

fn spread(grad: &View, input: [usize; 2], windows: &Windows, out: DType) -> Storage {
    if computes_in_f64(grad) {
        spread_in::<f64>(grad, input, windows, out)
    } else {
        spread_in::<f32>(grad, input, windows, out)
    }
}

fn spread_in<T: Real>(grad: &View, input: [usize; 2], windows: &Windows, out: DType) -> Storage {
    let width = input[1];
    map_planes::<T>(grad, input, out, |source, plane, _| {
        for ((row, column, count), &slope) in windows.each::<T>().zip(source) {
            let share = slope / count;
            for y in row.pixels() {
                for to in &mut plane[y * width + column.start..y * width + column.end] {
                    *to += share;
                }
            }
        }
    })
}
