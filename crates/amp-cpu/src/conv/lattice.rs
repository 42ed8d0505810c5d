//! Which source pixels an output pixel gathers: one description of convolutions and transposed ones, whatever their strides.

use super::Conv2d;
use std::ops::Range;

/// One element of the kernel: where it reads relative to the pixel, and its place in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub y: isize,
    pub x: isize,
    pub at: usize,
}

/// Grids of output pixels that interleave: pixel `(gy, gx)` of a phase reads the source at
/// `(gy * step[0] + tap.y, gx * step[1] + tap.x)`, or zero outside of it, and is written to
/// `(gy * pace[0] + sy, gx * pace[1] + sx)` if that is inside of `size`, the phases being ordered by `(sy, sx)`.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    /// Height and width of the output.
    pub size: [usize; 2],
    /// Pixels of each phase.
    pub grid: [usize; 2],
    pub step: [usize; 2],
    pub pace: [usize; 2],
    pub phases: Vec<Phase>,
}

/// Output pixels with the same taps.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    /// By row and column that they read.
    pub taps: Vec<Tap>,
}

impl Lattice {
    /// The convolution itself, with every element of its kernel: one phase.
    #[cfg(test)]
    pub(super) fn forward(spec: &Conv2d, size: [usize; 2], kernel: [usize; 2]) -> Self {
        Self::forward_from(spec.padding.map(|padding| -(padding as isize)), spec, size, kernel)
    }

    /// The same with a kernel whose first element reads `first` for the first pixel.
    pub(super) fn forward_from(first: [isize; 2], spec: &Conv2d, size: [usize; 2], kernel: [usize; 2]) -> Self {
        let place = |i: usize, k: usize| first[i] + (k * spec.dilation[i]) as isize;
        let taps = (0..kernel[0] * kernel[1])
            .map(|at| Tap { y: place(0, at / kernel[1]), x: place(1, at % kernel[1]), at })
            .collect();
        let phases = vec![Phase { taps }];
        Self { size, grid: size, step: spec.stride, pace: [1; 2], phases }
    }

    /// The transposed convolution with a result of `size`: one phase for each remainder of the position by the stride,
    /// with just the taps that reach it; `first` as in [`Self::forward_from`], of the convolution.
    pub(super) fn transposed_from(first: [isize; 2], spec: &Conv2d, size: [usize; 2], kernel: [usize; 2]) -> Self {
        let pace: [usize; 2] = std::array::from_fn(|i| spec.stride[i].min(size[i]));
        let starts = (0..pace[0]).flat_map(|y| (0..pace[1]).map(move |x| [y, x]));
        let phase = |start: [usize; 2]| {
            let along = |i: usize, k: usize| {
                let stride = spec.stride[i] as isize;
                let distance = start[i] as isize - first[i] - (k * spec.dilation[i]) as isize;
                (distance % stride == 0).then_some(distance / stride)
            };
            let mut taps: Vec<Tap> = (0..kernel[0] * kernel[1])
                .filter_map(|at| Some(Tap { y: along(0, at / kernel[1])?, x: along(1, at % kernel[1])?, at }))
                .collect();
            taps.sort_unstable_by_key(|tap| (tap.y, tap.x));
            Phase { taps }
        };
        let grid = std::array::from_fn(|i| size[i].div_ceil(spec.stride[i]));
        Self { size, grid, step: [1; 2], pace, phases: starts.map(phase).collect() }
    }

    /// Number of taps of all phases.
    pub(super) fn taps(&self) -> usize {
        self.phases.iter().map(|phase| phase.taps.len()).sum()
    }

    /// Writes pixels of all phases, `[phases][rows][columns]` with phases `apart`, where they belong in the band's rows of
    /// the output.
    pub(super) fn interleave<T: Copy>(&self, band: &Band, pixels: &[T], apart: usize, out: &mut [T]) {
        let ([height, width], [down, across], columns) = (self.size, self.pace, self.grid[1]);
        for (y, row) in self.written(band).zip(out.chunks_exact_mut(width)) {
            debug_assert!(y < height);
            let at = y % down * across * apart + (y / down - band.rows.start) * columns;
            if across == 2 {
                let (even, odd) = (&pixels[at..][..columns], &pixels[at + apart..][..columns]);
                let (pairs, last) = row.as_chunks_mut::<2>();
                pairs.iter_mut().zip(even.iter().zip(odd)).for_each(|(pair, (&even, &odd))| *pair = [even, odd]);
                last.iter_mut().zip(&even[width / 2..]).for_each(|(to, &pixel)| *to = pixel);
                continue;
            }
            for left in 0..across {
                let pixels = &pixels[at + left * apart..][..columns];
                row[left..].iter_mut().step_by(across).zip(pixels).for_each(|(to, &pixel)| *to = pixel);
            }
        }
    }

    /// Which of the output's pixels in [`Self::written`], image after image, a phase's pixel is; `None` outside of it.
    pub(super) fn place(&self, band: &Band, phase: usize, index: usize) -> Option<usize> {
        let ([_, width], [down, across], rows) = (self.size, self.pace, band.rows.len());
        let (line, x) = (index / self.grid[1], index % self.grid[1] * across + phase % across);
        let (image, y) = (line / rows, line % rows * down + phase / across);
        let written = self.written(band).len();
        (x < width && y < written).then(|| (image * written + y) * width + x)
    }

    /// Rows of the output that a band's pixels are written to.
    pub(super) fn written(&self, band: &Band) -> Range<usize> {
        band.rows.start * self.pace[0]..(band.rows.end * self.pace[0]).min(self.size[0])
    }

    /// The parts that tasks work on: rows of one image, or several whole images when they are small.
    ///
    /// Of small images, as many together as stay in the L2 cache beside a panel of kernels, so that tiles are filled with
    /// pixels that read the same taps; but enough parts that a few threads have something to do.
    pub(super) fn bands(&self, images: usize, channels: usize, bytes: usize) -> Vec<Band> {
        /// Bytes of the source, and parts wanted.
        const SOURCE: usize = 3 << 16;
        const PARTS: usize = 8;
        /// Pixels, of which there is a list: one of 16 images of a stem took as long as a tenth of the convolution.
        const PIXELS: usize = 1 << 11;
        let of_pixel = channels * self.step[0] * self.step[1];
        let image = of_pixel * self.grid[0] * self.grid[1];
        self.bands_for(images, channels, (SOURCE / bytes).min(images.div_ceil(PARTS) * image).min(PIXELS * of_pixel))
    }

    /// [`Self::bands`] that may have `elements` of the source each if that is more than the L2 cache holds.
    pub(super) fn bands_for(&self, images: usize, channels: usize, elements: usize) -> Vec<Band> {
        /// Pixels over which the loading of kernels is spread, and source elements that stay in the L2 cache.
        const PIXELS: usize = 192;
        const SOURCE: usize = 1 << 17;
        let [height, width] = self.grid;
        let pixels = height * width;
        if pixels == 0 {
            return Vec::new();
        }
        let line = (channels * width * self.step[0] * self.step[1]).max(1);
        let count = (PIXELS / pixels).max(elements / (line * height));
        if count > 0 {
            let starts = (0..images).step_by(count);
            return starts.map(|n| Band { images: n..images.min(n + count), rows: 0..height }).collect();
        }
        let rows = (SOURCE / line).max(PIXELS.div_ceil(width)).min(height);
        let rows = height.div_ceil(height.div_ceil(rows));
        (0..images)
            .flat_map(|n| {
                (0..height).step_by(rows).map(move |y| Band { images: n..n + 1, rows: y..height.min(y + rows) })
            })
            .collect()
    }
}

/// A part of the output pixels: some rows of some images.
#[derive(Clone, Debug)]
pub(super) struct Band {
    pub images: Range<usize>,
    pub rows: Range<usize>,
}
