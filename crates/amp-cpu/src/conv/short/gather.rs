//! The convolution itself: the same two elements of the patches of neighbouring pixels are interleaved into pairs, which tiles
//! multiply by panels of outputs.

use super::super::images::Images;
use super::super::lanes::{self, Lanes};
use super::super::lattice::Lattice;
use super::super::pack::Weights;
use super::super::target::Target;
use super::super::tile::end;
use super::Frame;
use crate::gemm::product::PER_CYCLE;
use crate::simd::Level;
use crate::{View, parallel, scratch};
use half::bf16;
use std::ops::Range;

/// Pixels that are interleaved at a time: with their sums they stay in the L1 cache.
const PIXELS: usize = 96;

/// The kernel of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// Pixels and outputs of a tile.
    tile: [usize; 2],
    compute: unsafe fn(&Rows, &mut [bf16], &mut [f32]),
}

macro_rules! kernel {
    ($lanes:ty, $rows:literal $(, $features:literal)?) => {{
        $(#[target_feature(enable = $features)])?
        unsafe fn compute(rows: &Rows, interleaved: &mut [bf16], sums: &mut [f32]) {
            // SAFETY: the caller's duty; the instructions are enabled here.
            unsafe { rows.compute::<$lanes, $rows>(interleaved, sums) }
        }
        Kernel { tile: [$rows, 2 * <$lanes as Lanes>::LANES], compute }
    }};
}

/// The kernel of an instruction set: dot products of AVX512-BF16, or what they compute.
pub(super) fn kernel(level: Level) -> Kernel {
    match level.min(Level::best()) {
        #[cfg(target_arch = "x86_64")]
        level if level >= Level::Avx512Bf16 => {
            kernel!(lanes::x86::Pairs, 12, "avx512f,avx512bw,avx512bf16")
        }
        _ => kernel!(lanes::FourPairs, 4),
    }
}

/// [`gather_with`] the kernel of this machine, of the only group.
pub(in crate::conv) fn gather<'a>(
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, bf16> + Sync),
    _groups: usize,
    lattice: &Lattice,
    target: &Target<f32>,
) {
    gather_with(kernel(Level::current()), source, &of_group(0), lattice, target);
}

/// Computes the target from all channels of `source`.
pub(super) fn gather_with(
    kernel: Kernel,
    source: &View,
    weights: &Weights<bf16>,
    lattice: &Lattice,
    target: &Target<f32>,
) {
    let ([height, width], images, channels) = (lattice.grid, source.layout.shape[0], weights.inputs[0]);
    let at_once = (PIXELS / width).max(1);
    let frame = Frame::new(lattice, channels, at_once);
    let taps = || lattice.phases[0].taps.iter();
    let places: Vec<usize> =
        (0..channels).flat_map(|channel| taps().map(move |tap| channel * weights.inputs[1] + tap.at)).collect();
    let bands = frame.bands(height);
    let work = images * height * width * target.per_group * (8 + places.len()) / PER_CYCLE;
    let panels = packed(weights, &places, kernel.tile[1]);
    let short = Short { kernel, source: Images::new(source), target, frame, at_once, panels };
    parallel::for_each(images * bands.len(), work, |task| {
        short.band(task / bands.len(), &bands[task % bands.len()]);
    });
}

struct Short<'a> {
    kernel: Kernel,
    source: Images<'a>,
    target: &'a Target<'a, f32>,
    frame: Frame,
    /// Rows that are interleaved at a time.
    at_once: usize,
    /// `[outputs / columns][pairs of terms][columns][2]`.
    panels: Vec<bf16>,
}

impl Short<'_> {
    /// Computes rows of pixels of an image.
    fn band(&self, image: usize, band: &Range<usize>) {
        let ([pixels, columns], &Frame { width, line, ref offsets, .. }) = (self.kernel.tile, &self.frame);
        let outputs = self.target.per_group.next_multiple_of(columns);
        let count = (self.at_once * width).next_multiple_of(pixels);
        let (pitch, planes) = (2 * (count + columns), self.frame.len());
        scratch::with(planes + columns + offsets.len().div_ceil(2) * pitch, |buffer: &mut [bf16]| {
            let (data, interleaved) = buffer.split_at_mut(planes + columns);
            self.frame.fill(&self.source, image, band, data);
            scratch::with(count * outputs, |sums: &mut [f32]| {
                for y in (0..band.len()).step_by(self.at_once) {
                    let size = [self.at_once.min(band.len() - y), width];
                    let (first, pixels) = ((band.start + y) * width, size[0] * width);
                    self.target.prefetch(image, first, pixels);
                    let (data, panels) = (&data[y * line..], &self.panels[..]);
                    let rows = Rows { data, offsets, line, size, pitch, panels, outputs };
                    // SAFETY: a `Kernel` is only made for levels that the CPU has; tasks differ in the image or the rows that
                    // they store.
                    unsafe {
                        (self.kernel.compute)(&rows, interleaved, sums);
                        let (place, sums) = ([image, 0, first], &mut sums[..pixels * outputs]);
                        self.target.store_vectors(place, self.target.per_group, outputs, sums);
                    }
                }
            });
        });
    }
}

/// Panels of as many outputs as a tile has columns, of the elements at `places` of each.
fn packed(weights: &Weights<bf16>, places: &[usize], columns: usize) -> Vec<bf16> {
    let (count, of_panel) = (weights.outputs[0], places.len().next_multiple_of(2) * columns);
    let mut panels = vec![bf16::ZERO; count.div_ceil(columns) * of_panel];
    for output in 0..count {
        let panel = &mut panels[output / columns * of_panel..][..of_panel];
        let from = &weights.data[output * weights.outputs[1]..];
        for (term, &place) in places.iter().enumerate() {
            panel[(term / 2 * columns + output % columns) * 2 + term % 2] = from[place];
        }
    }
    panels
}

/// Rows of pixels that are computed at a time.
struct Rows<'a> {
    /// Planes, from the first row on.
    data: &'a [bf16],
    offsets: &'a [usize],
    line: usize,
    /// Rows, and pixels of a row.
    size: [usize; 2],
    /// Elements from one pair of terms to the next.
    pitch: usize,
    panels: &'a [bf16],
    /// Sums of a pixel.
    outputs: usize,
}

impl Rows<'_> {
    /// Interleaves the pixels' patches and multiplies them by all panels: `sums` are `[pixels][outputs]`.
    ///
    /// # Safety
    /// The CPU must have the instructions of `L`.
    #[inline(always)]
    unsafe fn compute<L: Lanes<Element = bf16, Sum = f32>, const ROWS: usize>(
        &self,
        interleaved: &mut [bf16],
        sums: &mut [f32],
    ) {
        let Self { data, offsets, line, size: [rows, width], pitch, panels, outputs } = *self;
        let (columns, pairs) = (2 * L::LANES, offsets.len().div_ceil(2));
        let count = (rows * width).next_multiple_of(ROWS);
        let last = offsets.iter().max().copied().unwrap_or(0) + (rows - 1) * line + (width - 1);
        assert!(last + columns <= data.len() && pairs * pitch <= interleaved.len() && 2 * (count + columns) <= pitch);
        assert!(
            count * outputs <= sums.len() && pairs * outputs * 2 <= panels.len() && outputs.is_multiple_of(columns)
        );
        // SAFETY: vectors that begin at a pixel end in `data`, and where they are written before the next pair's; tiles are
        // pixels of these pairs, panels are `columns` outputs, and there is a sum for each (all asserted above).
        unsafe {
            for (pair, terms) in offsets.chunks(2).enumerate() {
                let to = interleaved.as_mut_ptr().add(pair * pitch);
                for y in 0..rows {
                    for x in (0..width).step_by(columns) {
                        let pixels = L::of_pixels::<2>(data.as_ptr().add(y * line + x), terms);
                        to.add(2 * (y * width + x)).cast::<[L::Factors; 2]>().write_unaligned(pixels);
                    }
                }
            }
            for first in (0..count).step_by(ROWS) {
                for output in (0..outputs).step_by(columns) {
                    let mut tile = [[L::zero(); 2]; ROWS];
                    let mut panel = panels.as_ptr().add(output * 2 * pairs);
                    let mut left = interleaved.as_ptr().add(2 * first);
                    for _ in 0..pairs {
                        let right = [L::load(panel), L::load(panel.add(columns))];
                        for (i, sums) in tile.iter_mut().enumerate() {
                            let pixel = L::splat(left.add(2 * i));
                            *sums =
                                [L::multiply_add(pixel, right[0], sums[0]), L::multiply_add(pixel, right[1], sums[1])];
                        }
                        // Behind the last pair there is nothing.
                        (panel, left) = (panel.add(2 * columns), left.wrapping_add(pitch));
                    }
                    end::<L, ROWS, 2>(tile, sums.as_mut_ptr().add(first * outputs + output), |i| i * outputs);
                }
            }
        }
    }
}
