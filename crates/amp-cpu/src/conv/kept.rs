//! Which elements of a kernel read anything of a source.

use super::lattice::Lattice;
use super::{Conv2d, sizes};
use crate::{Layout, Storage, View};
use std::ops::Range;

/// A kernel's elements from the first to the last that read a source.
///
/// The others read padding, wherever the kernel is moved. Planes reach from the lowest tap to the highest: 8 by 8 pixels and
/// 3 x 3 elements that lie 50000 apart would take 40 GB.
pub(super) struct Kept {
    taps: [Range<usize>; 2],
    /// What the first of them reads for the first pixel.
    pub first: [isize; 2],
}

impl Kept {
    /// Of a kernel of which so many pixels read a source of that size.
    pub(super) fn new(spec: &Conv2d, kernel: [usize; 2], source: [usize; 2], pixels: [usize; 2]) -> Self {
        let along = |i: usize| {
            let place = |k: usize| (k * spec.dilation[i]) as isize - spec.padding[i] as isize;
            let way = (pixels[i].saturating_sub(1) * spec.stride[i]) as isize;
            let mut reading = (0..kernel[i]).filter(|&k| place(k) < source[i] as isize && place(k) + way >= 0);
            match reading.next() {
                Some(first) => (first..reading.next_back().unwrap_or(first) + 1, place(first)),
                // One that reads padding just before the source: there are no sums of nothing.
                None => (0..kernel[i].min(1), -way - 1),
            }
        };
        let ((rows, top), (columns, left)) = (along(0), along(1));
        Self { taps: [rows, columns], first: [top, left] }
    }

    /// Of the kernel's gradient `[O, C, kh, kw]`.
    pub(super) fn of_weight(grad: &View, x: &View, [_, _, kh, kw]: [usize; 4], spec: &Conv2d) -> Self {
        let ([.., height, width], [.., rows, columns]) = (sizes(x), sizes(grad));
        Self::new(spec, [kh, kw], [height, width], [rows, columns])
    }

    /// Rows and columns that are kept.
    pub(super) fn size(&self) -> [usize; 2] {
        self.taps.each_ref().map(|taps| taps.len())
    }

    /// So many pixels of the result, and the taps that are kept.
    pub(super) fn lattice(&self, spec: &Conv2d, pixels: [usize; 2]) -> Lattice {
        Lattice::forward_from(self.first, spec, pixels, self.size())
    }

    /// The shape of what is kept of kernels `[O, C, kh, kw]`.
    pub(super) fn shape(&self, [outputs, inputs, ..]: [usize; 4]) -> [usize; 4] {
        let [rows, columns] = self.size();
        [outputs, inputs, rows, columns]
    }

    /// Where it lies.
    pub(super) fn layout(&self, of: &Layout) -> Layout {
        let mut layout = *of;
        for (axis, taps) in [2, 3].into_iter().zip(&self.taps) {
            layout.shape[axis] = taps.len();
            layout.offset += taps.start * layout.strides[axis];
        }
        // Of nothing, there is no place to begin at.
        if layout.count() == 0 { Layout { offset: of.offset, ..layout } } else { layout }
    }

    /// Adds a gradient of what is kept to one of kernels `[O, C, kh, kw]`.
    pub(super) fn add(&self, part: &Storage, [_, _, kh, kw]: [usize; 4], into: &mut Storage) {
        match (part, into) {
            (Storage::F32(part), Storage::F32(into)) => self.add_to(part, [kh, kw], into),
            (Storage::F64(part), Storage::F64(into)) => self.add_to(part, [kh, kw], into),
            _ => unreachable!("both are gradients of one precision"),
        }
    }

    fn add_to<T: Copy + std::ops::AddAssign>(&self, part: &[T], [kh, kw]: [usize; 2], into: &mut [T]) {
        let [rows, columns] = &self.taps;
        let lines = into
            .chunks_exact_mut(kh * kw)
            .flat_map(|kernel| kernel.chunks_exact_mut(kw).take(rows.end).skip(rows.start));
        for (line, part) in lines.zip(part.chunks_exact(columns.len())) {
            line[columns.clone()].iter_mut().zip(part).for_each(|(into, &part)| *into += part);
        }
    }
}
