//! Convolution of few channels at a time (depthwise, most of all): too little arithmetic for tiles.
//!
//! Neighbouring pixels are summed side by side, so the scratch holds a plane for each channel, its lines divided by the
//! remainder of the position by the step: what neighbouring pixels read are always neighbours.

use super::axis::Axis;
use super::gather::Target;
use super::images::Images;
use super::lattice::{Band, Lattice, Phase};
use super::pack::Weights;
use crate::gemm::kernel::Full;
use crate::gemm::product::PER_CYCLE;
use crate::num::Real;
use crate::output::Output;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{Storage, View, parallel, scratch};

/// Partial sums of a gradient where the groups are fewer.
const PARTS: usize = 8;
/// Pieces of work.
const TASKS: usize = 64;

/// Where the channels of an image lie in the scratch.
struct Planes {
    axes: [Axis; 2],
    channels: usize,
    /// Length of one remainder's part of a line.
    phase: usize,
    /// Distance between lines of pixels.
    next: usize,
}

impl Planes {
    fn new(lattice: &Lattice, channels: usize) -> Self {
        let Lattice { phases, grid, step, .. } = lattice;
        let axes =
            [Axis::new(phases, |tap| tap.y, 0..grid[0], step[0]), Axis::new(phases, |tap| tap.x, 0..grid[1], step[1])];
        let phase = axes[1].rounds();
        let next = axes[0].pace() * axes[1].pace() * phase;
        Self { channels, phase, next, axes }
    }

    /// Offset of each place in a patch: the taps of each channel.
    fn offsets(&self, phase: &Phase) -> Vec<usize> {
        let [rows, columns] = &self.axes;
        let of_channel = |channel: usize| {
            phase.taps.iter().map(move |tap| {
                let (round, rank) = columns.place(tap.x);
                (channel * rows.len + rows.index(tap.y)) * self.line() + rank * self.phase + round
            })
        };
        (0..self.channels).flat_map(of_channel).collect()
    }

    fn line(&self) -> usize {
        self.axes[1].pace() * self.phase
    }

    fn len(&self) -> usize {
        self.channels * self.axes[0].len * self.line()
    }

    /// Widens the channels of an image, `first` the first of them.
    fn fill<T: Full>(&self, source: &View, image: usize, first: usize, out: &mut [T]) {
        let (images, [rows, columns]) = (Images::new(source), &self.axes);
        let [height, width] = images.size;
        out.fill(T::default());
        scratch::with(self.channels * height * width, |loaded: &mut [T]| {
            images.load(image, first..first + self.channels, 0..height, loaded);
            let planes = out.chunks_exact_mut((rows.len * self.line()).max(1));
            for (plane, loaded) in planes.zip(loaded.chunks_exact(height * width)) {
                for (index, line) in plane.chunks_exact_mut(self.line()).enumerate() {
                    let Some(y) = rows.within(index, height) else { continue };
                    let from = &loaded[y * width..][..width];
                    for (rank, line) in line.chunks_exact_mut(self.phase).enumerate() {
                        let inside = columns.inside(rank, width);
                        if inside.is_empty() {
                            continue;
                        }
                        let x = columns.position(inside.start * columns.pace() + rank) as usize;
                        pick(&from[x..], columns.step, &mut line[inside]);
                    }
                }
            }
        });
    }
}

/// Copies every `step`-th element.
fn pick<T: Copy>(from: &[T], step: usize, to: &mut [T]) {
    match step {
        1 => to.iter_mut().zip(from).for_each(|(to, &from)| *to = from),
        _ => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, &from)| *to = from),
    }
}

/// Computes the target from all channels of `source`; `of_group` is the kernels of a group.
pub(super) fn gather<'a, T: Full>(
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    groups: usize,
    lattice: &Lattice,
    target: &Target<T>,
) {
    let (images, channels) = (source.layout.shape[0], source.layout.shape[1] / groups);
    let (planes, [height, width]) = (Planes::new(lattice, channels), lattice.grid);
    let patches: Vec<Vec<usize>> = lattice.phases.iter().map(|phase| planes.offsets(phase)).collect();
    let depth = patches.iter().map(Vec::len).max().unwrap_or(0);
    let (pixels, written) = (height * width, lattice.size[0] * lattice.size[1]);
    let units = images * groups;
    let tasks = units.min(TASKS);
    let work = 8 * units * target.per_group * pixels * (1 + channels * lattice.taps()) / PER_CYCLE;
    parallel::for_each(tasks, work, |task| {
        scratch::with(planes.len() + patches.len() * pixels + written + depth, |buffer: &mut [T]| {
            let (data, buffer) = buffer.split_at_mut(planes.len());
            let (sums, buffer) = buffer.split_at_mut(patches.len() * pixels);
            let (values, weights) = buffer.split_at_mut(written);
            for unit in units * task / tasks..units * (task + 1) / tasks {
                let (group, image) = (unit / images, unit % images);
                planes.fill(source, image, group * channels, data);
                let band = Band { images: image..image + 1, rows: 0..height };
                for output in 0..target.per_group {
                    let phases = lattice.phases.iter().zip(&patches);
                    for ((phase, offsets), sums) in phases.zip(sums.chunks_exact_mut(pixels)) {
                        let weights = &mut weights[..offsets.len()];
                        of_group(group).patch(phase, output, weights);
                        dispatch(Pixels { sums, width, data, next: planes.next, offsets, weights });
                    }
                    lattice.interleave(&band, sums, pixels, values);
                    // SAFETY: tasks differ in group or image, so in the pixels they store.
                    unsafe { target.store(image, group * target.per_group + output, 0, values) };
                }
            }
        });
    });
}

/// Adds the gradient with respect to kernels of shape `weight` to `into`; as [`super::weight::compute`].
pub(super) fn accumulate<T: Full>(grad: &View, x: &View, weight: [usize; 4], lattice: &Lattice, into: &mut Storage) {
    let (images, [outputs, inputs, ..]) = (x.layout.shape[0], weight);
    let groups = x.layout.shape[1] / inputs;
    let (planes, per_group) = (Planes::new(lattice, inputs), outputs / groups);
    let offsets = planes.offsets(&lattice.phases[0]);
    let (depth, [height, width]) = (offsets.len(), lattice.grid);
    let (size, parts) = (into.len(), if groups < PARTS { PARTS.min(images) } else { 1 });
    let mut partial = Storage::zeros(T::DTYPE, parts * size);
    let all = Output::new(&mut partial);
    let (work, slopes_of) = (8 * images * height * width * size / PER_CYCLE, Images::new(grad));
    parallel::for_each(groups * parts, work, |task| {
        let (group, part) = (task / parts, task % parts);
        scratch::with(planes.len() + height * width + per_group * depth, |buffer: &mut [T]| {
            let (data, buffer) = buffer.split_at_mut(planes.len());
            let (slopes, sums) = buffer.split_at_mut(height * width);
            sums.fill(T::default());
            for image in images * part / parts..images * (part + 1) / parts {
                planes.fill(x, image, group * inputs, data);
                for (output, sums) in sums.chunks_exact_mut(depth).enumerate() {
                    let channel = group * per_group + output;
                    slopes_of.load(image, channel..channel + 1, 0..height, slopes);
                    dispatch(Slopes { sums, slopes, width, data, next: planes.next, offsets: &offsets });
                }
            }
            // SAFETY: every part has its own sums, and every group its own kernels.
            unsafe { all.store(part * size + group * per_group * depth, 1, sums) };
        });
    });
    let values = T::same(partial.as_slice()).expect("just made of this type");
    let output = Output::new(into);
    for part in values.chunks_exact(size) {
        // SAFETY: only this thread is left.
        unsafe { output.accumulate(0, 1, part) };
    }
}

/// Runs `$body` with as many `$LANES` as a line of pixels fills.
macro_rules! in_lanes {
    ($width:expr, $LANES:ident => $body:expr) => {
        match $width {
            16.. => {
                const $LANES: usize = 16;
                $body
            }
            8.. => {
                const $LANES: usize = 8;
                $body
            }
            4.. => {
                const $LANES: usize = 4;
                $body
            }
            _ => {
                const $LANES: usize = 1;
                $body
            }
        }
    };
}

/// All pixels of one output channel: `sums[y][x] = Σ weights[i] * data[offsets[i] + y * next + x]`.
struct Pixels<'a, T> {
    sums: &'a mut [T],
    width: usize,
    data: &'a [T],
    next: usize,
    offsets: &'a [usize],
    weights: &'a [T],
}

impl<T: Real> Kernel for Pixels<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        in_lanes!(self.width, LANES => self.lines::<S, LANES>());
    }
}

impl<T: Real> Pixels<'_, T> {
    #[inline(always)]
    fn lines<S: Simd, const LANES: usize>(self) {
        for (y, line) in self.sums.chunks_exact_mut(self.width).enumerate() {
            for x in (0..self.width).step_by(LANES) {
                // The last vector overlaps the one before it rather than leave single pixels.
                let x = x.min(self.width - LANES);
                let mut sums = [T::ZERO; LANES];
                for (&offset, &weight) in self.offsets.iter().zip(self.weights) {
                    let from: &[T; LANES] =
                        self.data[offset + y * self.next + x..].first_chunk().expect("in the plane");
                    for i in 0..LANES {
                        sums[i] = from[i].mul_add::<S>(weight, sums[i]);
                    }
                }
                line[x..x + LANES].copy_from_slice(&sums);
            }
        }
    }
}

/// Gradient of one output channel's weights: `sums[i] += Σ slopes[y][x] * data[offsets[i] + y * next + x]`.
struct Slopes<'a, T> {
    sums: &'a mut [T],
    slopes: &'a [T],
    width: usize,
    data: &'a [T],
    next: usize,
    offsets: &'a [usize],
}

impl<T: Real> Kernel for Slopes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        in_lanes!(self.width, LANES => self.lines::<S, LANES>());
    }
}

impl<T: Real> Slopes<'_, T> {
    #[inline(always)]
    fn lines<S: Simd, const LANES: usize>(self) {
        for (sum, &offset) in self.sums.iter_mut().zip(self.offsets) {
            let mut lanes = [T::ZERO; LANES];
            for (y, slopes) in self.slopes.chunks_exact(self.width).enumerate() {
                let data = &self.data[offset + y * self.next..][..self.width];
                let ((slopes, rest), (data, data_rest)) = (slopes.as_chunks::<LANES>(), data.as_chunks::<LANES>());
                for (slope, from) in slopes.iter().zip(data) {
                    for i in 0..LANES {
                        lanes[i] = slope[i].mul_add::<S>(from[i], lanes[i]);
                    }
                }
                for ((lane, &slope), &from) in lanes.iter_mut().zip(rest).zip(data_rest) {
                    *lane = slope.mul_add::<S>(from, *lane);
                }
            }
            *sum += lanes.iter().fold(T::ZERO, |sum, &lane| sum + lane);
        }
    }
}
