//! Resizing of images whose channels lie together, row by row: loops over the channels of a pixel, in the sequence in which
//! planes are resized, so that both give the same bits.

use super::{Interpolation, Mix, corners, mixes};
use crate::num::Real;
use crate::pixel::map_rows;
use crate::plane::planes;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Storage, View};
use std::ops::Range;

pub(super) fn resize<T: Real>(x: &View, size: [usize; 2], how: Interpolation, out: DType) -> Storage {
    let (_, [height, width]) = planes(x);
    let (rows, columns) = (mixes::<T>(height, size[0], how), mixes::<T>(width, size[1], how));
    map_rows::<T>(x, size, out, |mut source, i, to| {
        let channels = source.images.channels;
        if how == Interpolation::Nearest {
            return copied(source.read(rows[i].at[0]), &columns, channels, to);
        }
        for corner in [0, 1] {
            let (weight, source) = (rows[i].weight[corner], source.read(rows[i].at[corner]));
            dispatch(Mixed { columns: &columns, channels, source, weight, first: corner == 0, to });
        }
    })
}

pub(super) fn resize_grad<T: Real>(grad: &View, input: [usize; 2], how: Interpolation, out: DType) -> Storage {
    let (_, [height, width]) = planes(grad);
    let (rows, columns) = (mixes::<T>(input[0], height, how), mixes::<T>(input[1], width, how));
    let drawing = drawing(&rows, input[0], how);
    map_rows::<T>(grad, input, out, |mut source, y, to| {
        let channels = source.images.channels;
        for &i in &drawing[y] {
            let (row, grad) = (&rows[i], source.read(i));
            dispatch(Parted { row, y, columns: &columns, corners: corners(how), channels, grad, to });
        }
    })
}

/// For each of `input` positions the result positions that draw on it.
fn drawing<T>(mixes: &[Mix<T>], input: usize, how: Interpolation) -> Vec<Vec<usize>> {
    let mut drawing = vec![Vec::new(); input];
    for (i, mix) in mixes.iter().enumerate() {
        corners(how).iter().for_each(|&corner| drawing[mix.at[corner]].push(i));
    }
    drawing.iter_mut().for_each(Vec::dedup);
    drawing
}

fn copied<T: Real>(source: &[T], columns: &[Mix<T>], channels: usize, to: &mut [T]) {
    for (column, to) in columns.iter().zip(to.chunks_exact_mut(channels)) {
        to.copy_from_slice(&source[pixel(column.at[0], channels)]);
    }
}

#[inline(always)]
fn pixel(x: usize, channels: usize) -> Range<usize> {
    x * channels..(x + 1) * channels
}

/// `to ← weight · mix of neighbours`, or adds it to what the `first` row gave.
struct Mixed<'a, T> {
    columns: &'a [Mix<T>],
    channels: usize,
    source: &'a [T],
    weight: T,
    first: bool,
    to: &'a mut [T],
}

impl<T: Real> Kernel for Mixed<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { columns, channels, source, weight, first, to } = self;
        for (column, to) in columns.iter().zip(to.chunks_exact_mut(channels)) {
            let [left, right] = column.at.map(|x| &source[pixel(x, channels)]);
            for (to, (&left, &right)) in to.iter_mut().zip(left.iter().zip(right)) {
                let mix = weight * (column.weight[0] * left + column.weight[1] * right);
                *to = if first { mix } else { *to + mix };
            }
        }
    }
}

/// Adds to row `y` its parts of the gradient of a result's row.
struct Parted<'a, T> {
    row: &'a Mix<T>,
    y: usize,
    columns: &'a [Mix<T>],
    corners: &'a [usize],
    channels: usize,
    grad: &'a [T],
    to: &'a mut [T],
}

impl<T: Real> Kernel for Parted<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { row, y, columns, corners, channels, grad, to } = self;
        for (column, grad) in columns.iter().zip(grad.chunks_exact(channels)) {
            for &j in corners {
                if row.at[j] != y {
                    continue;
                }
                for &i in corners {
                    let weight = row.weight[j] * column.weight[i];
                    let to = &mut to[pixel(column.at[i], channels)];
                    to.iter_mut().zip(grad).for_each(|(to, &g)| *to += weight * g);
                }
            }
        }
    }
}
