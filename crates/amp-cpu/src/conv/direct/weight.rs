//! Gradients with respect to kernels: every place of the patch sums what it reads times the gradient of the pixels.

use super::super::images::Images;
use super::super::lattice::Lattice;
use super::depthwise::{self, Frame};
use super::fill::Filling;
use super::patch::{Patch, TRIPLE};
use super::planes::Planes;
use super::{Cut, ROWS, SLACK, filled, with_channels};
use crate::gemm::kernel::Full;
use crate::gemm::product::PER_CYCLE;
use crate::num::Real;
use crate::output::Output;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch_at};
use crate::{Storage, View, parallel, scratch};
use std::ops::Range;

/// Tasks wanted at least: images are divided where the groups are few.
const TASKS: usize = 8;
/// Columns of three places that are summed at a time.
const COLUMNS: usize = 3;

/// Adds the gradient with respect to kernels of shape `weight` to `into`; as [`super::super::weight::compute`].
pub(in crate::conv) fn accumulate<T: Full>(
    grad: &View,
    x: &View,
    weight: [usize; 4],
    lattice: &Lattice,
    into: &mut Storage,
) {
    accumulate_at::<T>(Level::current(), grad, x, weight, lattice, into);
}

/// [`accumulate`] with an instruction set.
pub(in crate::conv) fn accumulate_at<T: Full>(
    level: Level,
    grad: &View,
    x: &View,
    weight: [usize; 4],
    lattice: &Lattice,
    into: &mut Storage,
) {
    let (images, [outputs, inputs, kh, kw]) = (x.layout.shape[0], weight);
    let groups = x.layout.shape[1] / inputs;
    let (x, grad) = (Images::new(x), Images::new(grad));
    let pixels: usize = lattice.grid.iter().product();
    let work = 2 * images * outputs * pixels * (8 + inputs * kh * kw) / PER_CYCLE;
    let frame = Frame::new(lattice, x.size, [groups, inputs], x.together() && grad.together());
    if let Some(frame) = frame.filter(|_| outputs == groups) {
        let blocks: Vec<Range<usize>> = depthwise::blocks(groups, frame.lanes).collect();
        return in_parts::<T>([blocks.len(), images], work, into, &|block, images, give| {
            let first = blocks[block].start * kh * kw;
            let give = &mut |sums: &[T]| give(first, sums);
            depthwise::kernels(level, frame, [&grad, &x], lattice, images, blocks[block].clone(), give);
        });
    }
    let cut = Cut::new(lattice, groups, inputs);
    let planes = Planes::new(lattice, x.size, cut.rows);
    let patch = Patch::new(&planes, &lattice.phases[0], inputs);
    let offsets = patch.offsets(planes.line);
    let (per_group, taps) = (outputs / groups, kh * kw);
    let gradient = Gradient { level, grad, x, inputs, per_group, taps, planes, patch, offsets };
    let blocks: Vec<Range<usize>> = (0..groups).step_by(cut.groups).map(|g| g..groups.min(g + cut.groups)).collect();
    in_parts::<T>([blocks.len(), images], work, into, &|block, images, give| {
        gradient.block(images, blocks[block].clone(), cut.rows, give);
    });
}

/// Takes the index of the first element of some kernels, and their sums.
pub(in crate::conv) type Give<'a, T> = &'a mut dyn FnMut(usize, &[T]);

/// Sums the kernels of a block over some images.
pub(in crate::conv) type Sum<'a, T> = dyn Fn(usize, Range<usize>, Give<T>) + Sync + 'a;

/// Adds the sums of each block over all images to `into`: over a few parts of the images, where the blocks are few, which
/// are then added in order.
pub(in crate::conv) fn in_parts<T: Full>([blocks, images]: [usize; 2], work: usize, into: &mut Storage, sum: &Sum<T>) {
    let (size, parts) = (into.len(), TASKS.div_ceil(blocks).min(images));
    let mut partial = Storage::unwritten(T::DTYPE, parts * size);
    let all = Output::new(&mut partial);
    parallel::for_each(blocks * parts, work, |task| {
        let (block, part) = (task / parts, task % parts);
        sum(block, images * part / parts..images * (part + 1) / parts, &mut |first, values| {
            // SAFETY: every part has its own sums, and every block its own kernels.
            unsafe { all.store(part * size + first, 1, values) }
        });
    });
    let values = T::same(partial.as_slice()).expect("just made of this type");
    let output = Output::new(into);
    for part in values.chunks_exact(size) {
        // SAFETY: only this thread is left.
        unsafe { output.accumulate(0, 1, part) };
    }
}

struct Gradient<'a> {
    level: Level,
    grad: Images<'a>,
    x: Images<'a>,
    /// Input channels of a group.
    inputs: usize,
    /// Output channels of a group.
    per_group: usize,
    /// Elements of a kernel.
    taps: usize,
    planes: Planes,
    patch: Patch,
    /// Of the patch's places.
    offsets: Vec<usize>,
}

impl Gradient<'_> {
    /// Gives `store` the sums over some images of the kernels of some groups, with the index of their first element.
    fn block<T: Full>(&self, images: Range<usize>, groups: Range<usize>, band: usize, give: Give<T>) {
        let [inputs, outputs] = [self.inputs, self.per_group].map(|n| groups.start * n..groups.end * n);
        let [height, width] = self.grad.size;
        let places = outputs.len() * self.offsets.len();
        let sizes = [inputs.len() * self.planes.of_channel() + SLACK, outputs.len() * band * width, places * LANES];
        scratch::with(sizes.iter().sum::<usize>() + places, |buffer: &mut [T]| {
            let (data, buffer) = buffer.split_at_mut(sizes[0]);
            let (grad, buffer) = buffer.split_at_mut(sizes[1]);
            let (lanes, sums) = buffer.split_at_mut(sizes[2]);
            let lanes = lanes.as_chunks_mut::<LANES>().0;
            lanes.fill([T::ZERO; LANES]);
            for image in images {
                for start in (0..height).step_by(band) {
                    let rows = start..height.min(start + band);
                    let (count, grad) = (rows.len(), &mut grad[..outputs.len() * rows.len() * width]);
                    self.grad.load(image, outputs.clone(), rows, grad);
                    with_channels(&self.x, &self.planes, image, inputs.clone(), start, |filling| {
                        dispatch_at(self.level, Band { filling, data, grad, sums: lanes, gradient: self, rows: count });
                    });
                }
            }
            self.finish(lanes, sums);
            give(outputs.start * self.inputs * self.taps, sums);
        });
    }

    /// Adds up lanes and puts the places of each kernel in order.
    fn finish<T: Real>(&self, lanes: &[[T; LANES]], sums: &mut [T]) {
        let depth = self.offsets.len();
        for (lanes, sums) in lanes.chunks_exact(depth).zip(sums.chunks_exact_mut(depth)) {
            for (lanes, &(channel, at)) in lanes.iter().zip(&self.patch.elements) {
                sums[channel * self.taps + at] = lanes.iter().fold(T::ZERO, |sum, &lane| sum + lane);
            }
        }
    }
}

/// A band of an image: adds to the sums of all outputs, lane by lane.
struct Band<'a, T> {
    filling: Filling<'a, T>,
    data: &'a mut [T],
    /// `[outputs][rows][columns]`.
    grad: &'a [T],
    /// `[outputs][places]`.
    sums: &'a mut [[T; LANES]],
    gradient: &'a Gradient<'a>,
    rows: usize,
}

impl<T: Real> Kernel for Band<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { filling, data, grad, sums, gradient, rows } = self;
        let (planes, patch, width) = (&gradient.planes, &gradient.patch, gradient.grad.size[1]);
        let (inputs, per_group) = (gradient.inputs, gradient.per_group);
        let (batch, unit) = (filled(planes, inputs), inputs * planes.of_channel());
        let (columns, _) = patch.triples.as_chunks::<COLUMNS>();
        let singles = &gradient.offsets[columns.len() * COLUMNS * TRIPLE..];
        let outputs = grad.chunks_exact(rows * width).zip(sums.chunks_exact_mut(gradient.offsets.len()));
        for (output, (grad, sums)) in outputs.enumerate() {
            let group = output / per_group;
            if output % per_group == 0 && group % batch == 0 {
                let last = (filling.channels[0] / inputs).min(group + batch);
                filling.part(group * inputs..last * inputs).fill::<S>(data);
            }
            let data = &data[group % batch * unit..];
            assert!(planes.reach(patch, rows, width) <= data.len());
            let plane = Plane { grad: grad.as_ptr(), rows, width, data: data.as_ptr(), next: planes.line };
            let (of_columns, of_singles) = sums.split_at_mut(columns.len() * COLUMNS * TRIPLE);
            for (offsets, sums) in columns.iter().zip(of_columns.as_chunks_mut().0) {
                // SAFETY: the gradient is a chunk of that size, and pixels read below `reach` (asserted above).
                unsafe { plane.columns::<S>(offsets, sums) };
            }
            for (offsets, sums) in singles.chunks(TRIPLE).zip(of_singles.chunks_mut(TRIPLE)) {
                // SAFETY: as above.
                unsafe { plane.places::<S>(offsets, sums) };
            }
        }
    }
}

/// The gradient `[rows][width]` of one output channel, and where its pixels read one group.
struct Plane<T> {
    grad: *const T,
    rows: usize,
    width: usize,
    data: *const T,
    next: usize,
}

impl<T: Real> Plane<T> {
    /// Adds to `sums[i][k]` the products with what the `k`-th line after `offsets[i]` reads.
    ///
    /// # Safety
    /// All of the gradient, and what the pixels read at these offsets, must be readable.
    #[inline(always)]
    unsafe fn columns<S: Simd>(&self, offsets: &[usize; COLUMNS], sums: &mut [[T; LANES]; COLUMNS * TRIPLE]) {
        let mut of_columns = [[T::Lanes::<S>::splat(T::ZERO); TRIPLE]; COLUMNS];
        let whole = self.rows - self.rows % ROWS;
        // SAFETY: the caller's duty.
        unsafe {
            for y in (0..whole).step_by(ROWS) {
                self.column_rows::<S, ROWS>(y, offsets, &mut of_columns);
            }
            for y in whole..self.rows {
                self.column_rows::<S, 1>(y, offsets, &mut of_columns);
            }
        }
        for (sum, to) in of_columns.as_flattened().iter().zip(sums) {
            (T::Lanes::<S>::load(to) + *sum).store(to);
        }
    }

    /// # Safety
    /// As [`Self::columns`].
    #[inline(always)]
    unsafe fn column_rows<S: Simd, const R: usize>(
        &self,
        y: usize,
        offsets: &[usize; COLUMNS],
        sums: &mut [[T::Lanes<S>; TRIPLE]; COLUMNS],
    ) {
        for x in (0..self.width).step_by(LANES) {
            let count = LANES.min(self.width - x);
            // SAFETY: the caller's duty.
            unsafe {
                let (grad, data) = (self.grad.add(y * self.width + x), self.data.add(y * self.next + x));
                let grad: [T::Lanes<S>; R] = std::array::from_fn(|r| first::<T, S>(grad.add(r * self.width), count));
                for (&offset, sums) in offsets.iter().zip(sums.iter_mut()) {
                    for line in 0..R + TRIPLE - 1 {
                        let from = first::<T, S>(data.add(offset + line * self.next), count);
                        for (r, &g) in grad.iter().enumerate() {
                            if let Some(sum) = line.checked_sub(r).and_then(|k| sums.get_mut(k)) {
                                *sum = from.mul_add(g, *sum);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Adds to `sums[i]` the products with what is read at `offsets[i]`; there may be fewer of them than [`TRIPLE`].
    ///
    /// # Safety
    /// As [`Self::columns`].
    #[inline(always)]
    unsafe fn places<S: Simd>(&self, offsets: &[usize], sums: &mut [[T; LANES]]) {
        let three: [usize; TRIPLE] = std::array::from_fn(|i| offsets[i.min(offsets.len() - 1)]);
        // Two rows at a time, or each sum would wait for itself.
        let mut of_rows = [[T::Lanes::<S>::splat(T::ZERO); 2]; TRIPLE];
        for y in (0..self.rows).step_by(2) {
            for x in (0..self.width).step_by(LANES) {
                let count = LANES.min(self.width - x);
                for (r, y) in (y..self.rows.min(y + 2)).enumerate() {
                    // SAFETY: the caller's duty.
                    unsafe {
                        let g = first::<T, S>(self.grad.add(y * self.width + x), count);
                        for (offset, sums) in three.iter().zip(&mut of_rows) {
                            let from = first::<T, S>(self.data.add(offset + y * self.next + x), count);
                            sums[r] = from.mul_add(g, sums[r]);
                        }
                    }
                }
            }
        }
        for ([even, odd], to) in of_rows.into_iter().zip(sums) {
            (T::Lanes::<S>::load(to) + (even + odd)).store(to);
        }
    }
}

/// The first of up to sixteen elements, then zeros.
///
/// # Safety
/// `count` elements must be readable.
#[inline(always)]
unsafe fn first<T: Real, S: Simd>(from: *const T, count: usize) -> T::Lanes<S> {
    // SAFETY: the caller's duty.
    unsafe {
        if count == LANES {
            return Lanes::load(&*from.cast());
        }
        Lanes::load_part(std::slice::from_raw_parts(from, count), T::ZERO)
    }
}
