//! Gradient of a convolution with respect to its kernel: slopes times the vectors of the pixels that they belong to.

use super::images::Images;
use super::lattice::{Band, Lattice};
use super::order::Order;
use super::planes::Planes;
use super::slopes::Slopes;
use super::tile::{self, Convolve, Kernel, Reading};
use crate::gemm::{
    self,
    product::{PER_CYCLE, Threads, tiles},
};
use crate::num::{Num, Real};
use crate::output::{Finished, Output};
use crate::simd::{self, Level, Simd, dispatch};
use crate::storage::Element;
use crate::transpose::transpose;
use crate::{Storage, View, parallel, scratch};

/// Elements of all partial sums together, and the most there may be of them.
const PARTIAL: usize = 1 << 21;
const PARTS: usize = 8;
/// Elements of the source, and of the slopes, in a band: enough pixels that adding to the partial sums costs little.
const BAND: usize = 1 << 18;

/// Elements of sums that are turned at a time: they stay in the L2 cache.
const TURNED: usize = 1 << 16;

/// Bytes of which only a quarter of the L1 cache's lines, or less, lie multiples apart.
const COLLIDING: usize = 1 << 10;
/// Elements that fill a line of the cache, or two or four.
pub(super) const CACHE_LINE: usize = 32;

/// Where the gradient goes.
pub(super) struct Target<'a> {
    /// `[outputs, inputs, kh, kw]`.
    pub shape: [usize; 4],
    pub into: &'a mut Storage,
    /// Whether it is added to what is there.
    pub accumulate: bool,
}

/// Computes the gradient.
///
/// The bands are dealt to a number of partial sums that depends on the shapes alone; these are added in order.
pub(super) fn compute<E: Convolve>(grad: &View, x: &View, lattice: &Lattice, target: Target) {
    let groups = x.layout.shape[1] / target.shape[1].max(1);
    let kernel = E::for_slopes(Level::current(), target.shape[0] / groups.max(1));
    compute_with(kernel, grad, x, lattice, target);
}

/// [`compute`] with a given kernel.
///
/// Nothing is written twice: the first band of a part stores its sums and a fresh gradient is stored, not added to
/// zeros. A weight of 512 x 512 x 3 x 3 is 9 MB, and each pass over it that falls away is 2 % of its gradient at 32 images.
pub(super) fn compute_with<E: Convolve>(
    kernel: Kernel<E>,
    grad: &View,
    x: &View,
    lattice: &Lattice,
    Target { shape: weight, into, accumulate }: Target,
) {
    let ([outputs, inputs, kh, kw], size) = (weight, into.len());
    if size == 0 {
        return;
    }
    let groups = x.layout.shape[1] / inputs;
    let channels = inputs.max(outputs / groups / lattice.step.iter().product::<usize>());
    let bands = lattice.bands_for(x.layout.shape[0], channels, (size / 2).max(BAND));
    if bands.is_empty() {
        return;
    }
    let parts = (PARTIAL / size).clamp(2, PARTS).min(bands.len());
    let pixels = grad.layout.count() / outputs;
    let threads = if parts < PARTS { Threads::Many } else { Threads::One };
    let of_band = |band, sums, start: usize, accumulate, turned| {
        for group in 0..groups {
            let outputs = [group * (outputs / groups), outputs / groups];
            let start = start + outputs[0] * inputs * kh * kw;
            let part = Part { kernel, lattice, band, outputs, sums, start, accumulate, turned, threads };
            part.add(grad, x, [group * inputs, inputs]);
        }
    };
    if let ([band], true) = (&bands[..], inputs.is_multiple_of(kernel.columns)) {
        return of_band(band, Output::new(into), 0, accumulate, true);
    }
    let mut partial = Storage::unwritten(E::Sum::DTYPE, parts * size);
    let sums = Output::new(&mut partial);
    parallel::for_each(parts, pixels * size / PER_CYCLE, |part| {
        let bands = &bands[bands.len() * part / parts..bands.len() * (part + 1) / parts];
        for (i, band) in bands.iter().enumerate() {
            of_band(band, sums, part * size, i > 0, false);
        }
    });
    let values = E::Sum::same(partial.as_slice()).expect("just made of this type");
    let (output, taps) = (Output::new(into), kh * kw);
    let row = inputs * taps;
    parallel::for_each(outputs, 2 * parts * size, |o| {
        scratch::with(2 * row, |buffer: &mut [E::Sum]| {
            let (total, turned) = buffer.split_at_mut(row);
            let of_part = |part: usize| &values[part * size + o * row..][..row];
            let total = if parts == 1 { of_part(0) } else { added(parts, of_part, total) };
            // The sums list the channels of each tap, the kernel lists the taps of each channel.
            let turn = |to: &mut [E::Sum]| transpose(total, inputs, [taps, inputs], to, taps);
            // SAFETY: every task has its own output channel.
            unsafe {
                if accumulate {
                    turn(turned);
                    output.accumulate(o * row, 1, turned);
                } else {
                    turn(E::Sum::same_mut(&mut output.part(o * row, row)).expect("a gradient has the sums' type"));
                }
            }
        });
    });
}

/// The sum of two parts at least, in order.
fn added<'a, 'b, T: Real>(parts: usize, of_part: impl Fn(usize) -> &'b [T], total: &'a mut [T]) -> &'a [T] {
    let first = of_part(0).iter().zip(of_part(1));
    total.iter_mut().zip(first).for_each(|(total, (&a, &b))| *total = a + b);
    for part in (2..parts).map(of_part) {
        total.iter_mut().zip(part).for_each(|(total, &sum)| *total += sum);
    }
    total
}

/// The pixels of a band and the outputs of a group.
struct Part<'a, E: Convolve> {
    kernel: Kernel<E>,
    lattice: &'a Lattice,
    band: &'a Band,
    /// First output channel, and how many.
    outputs: [usize; 2],
    sums: Output<'a>,
    /// Where the group's sums begin: `[outputs][taps][inputs]`.
    start: usize,
    /// Whether there are sums already.
    accumulate: bool,
    /// Whether they are turned, as kernels list them: `[outputs][inputs][taps]`.
    turned: bool,
    threads: Threads,
}

impl<E: Convolve> Part<'_, E> {
    fn add(&self, grad: &View, x: &View, inputs: [usize; 2]) {
        let Kernel { rows, columns, step, .. } = self.kernel;
        // Vectors of pixels that lie a large power of two apart would push each other out of the L1 cache: with a line
        // between them the gradient of 512 channels of 4 by 4 takes 0.73 of the time.
        let collide = (inputs[1] * size_of::<E>()).is_multiple_of(COLLIDING) && inputs[1].is_multiple_of(columns);
        let planes = Planes::new(self.lattice, self.band, inputs[1], 1, if collide { CACHE_LINE } else { 0 });
        let order = self.order(&planes, Images::new(x).size);
        let padded = order.pixels.len().next_multiple_of(step);
        let panels = self.outputs[1].div_ceil(rows);
        // A vector of the last pixel may end after it.
        scratch::with(planes.len(self.band) + columns, |data: &mut [E]| {
            self.fill(&planes, x, inputs[0], data);
            scratch::with(panels * rows * padded, |slopes: &mut [E]| {
                let source =
                    Slopes { kernel: self.kernel, grad: Images::new(grad), outputs: self.outputs, order: &order };
                source.pack(self.band, self.lattice.grid[1], slopes);
                let strips = strips(&planes.taps(&self.lattice.phases[0]), planes.depth(), columns);
                let work = self.outputs[1] * self.lattice.taps() * inputs[1] * order.pixels.len() / PER_CYCLE;
                let work = if self.threads == Threads::Many { work } else { 0 };
                let last = order.pixels.iter().max().copied().unwrap_or(0);
                let sources = Sources { slopes, data, order: &order, last, depth: planes.depth() };
                if self.turned {
                    let blocks = inputs[1] / columns;
                    return parallel::for_each(blocks, work, |block| {
                        let strips: Vec<&Strip> = strips.iter().skip(block).step_by(blocks).collect();
                        self.kernels(&strips, &sources);
                    });
                }
                parallel::for_each(strips.len(), work, |i| self.strip(&strips[i], &sources));
            });
        });
    }

    /// Copies what the band reads of channels from `first` on, image by image if there are threads for that.
    fn fill(&self, planes: &Planes, x: &View, first: usize, data: &mut [E]) {
        if self.threads == Threads::One {
            return planes.fill(x, self.band, first, data);
        }
        let Band { images, rows } = self.band;
        let (len, of_image) = (planes.len(self.band), planes.len(self.band) / images.len());
        parallel::for_each_chunk_mut(&mut data[..len], of_image.max(1), &|i, plane| {
            let image = images.start + i;
            planes.fill(x, &Band { images: image..image + 1, rows: rows.clone() }, first, plane);
        });
    }

    /// The order of the pixels: taps are told apart where a strip has but one, and pieces begin with whole groups.
    fn order(&self, planes: &Planes, size: [usize; 2]) -> Order {
        let Kernel { columns, group, reading, .. } = self.kernel;
        let direct = matches!(reading, Reading::Direct(..));
        let pays = direct && planes.depth().is_multiple_of(columns) && self.band.images.len().is_multiple_of(group);
        let order = if pays { Order::by_pixel(planes, self.lattice, self.band, size) } else { None };
        order.unwrap_or_else(|| Order::plain(planes, self.lattice.taps()))
    }

    /// Stores the gradient of all taps' kernels for the channels of their strips.
    ///
    /// Some outputs at a time, so that what is turned has not left the L2 cache: of 512 channels, 4 by 4 of 32 images, the
    /// gradient takes 0.85 of the time that writing all sums and turning them afterwards took.
    fn kernels(&self, strips: &[&Strip], sources: &Sources<E>) {
        let (Kernel { rows, columns, .. }, taps) = (self.kernel, strips.len());
        let (outputs, row) = (self.outputs[1], strips[0].total);
        let at_once = (TURNED / (taps * columns)).next_multiple_of(rows);
        scratch::with(taps * columns * (at_once + 1), |buffer: &mut [E::Sum]| {
            let (turned, sums) = buffer.split_at_mut(taps * columns);
            for first in (0..outputs).step_by(at_once) {
                let count = at_once.min(outputs - first);
                let of_tap = count.next_multiple_of(rows) * columns;
                for (strip, sums) in strips.iter().zip(sums.chunks_exact_mut(of_tap)) {
                    self.sum(strip, first / rows, sources, sums);
                }
                for output in 0..count {
                    transpose(&sums[output * columns..], of_tap, [taps, columns], turned, taps);
                    let at = self.start + (first + output) * row + strips[0].first * taps;
                    // SAFETY: every group has its own outputs, every block of strips its own channels.
                    unsafe {
                        match self.accumulate {
                            true => self.sums.accumulate(at, 1, turned),
                            false => self.sums.store(at, 1, turned),
                        }
                    }
                }
            }
        });
    }

    /// Sums of one strip of columns for the outputs from a panel on, as many as there is room for.
    fn sum(&self, strip: &Strip, panel: usize, sources: &Sources<E>, sums: &mut [E::Sum]) {
        let Kernel { rows, columns, step, reading, .. } = self.kernel;
        let Sources { slopes, data, order, last, depth } = *sources;
        let (of_panel, data) = (rows * order.pixels.len().next_multiple_of(step), &data[strip.at..]);
        let pieces = &order.pieces[strip.first / depth];
        assert!(last + columns <= data.len());
        if pieces.is_empty() {
            sums.fill(Default::default());
        }
        for (i, piece) in pieces.iter().enumerate() {
            let panels = slopes[panel * of_panel..].chunks_exact(of_panel).map(|slopes| &slopes[piece.start * rows..]);
            let tiles = panels.zip(sums.chunks_exact_mut(rows * columns));
            let pixels = &order.pixels[piece.clone()];
            match reading {
                Reading::Direct(_, of_slopes) => self.direct(of_slopes, data, pixels, tiles, i > 0),
                Reading::Packed(gemm) => self.packed(&gemm, data, pixels, tiles, i > 0),
            }
        }
    }

    /// Adds the sums of one strip of columns for all outputs.
    fn strip(&self, strip: &Strip, sources: &Sources<E>) {
        let Kernel { rows, columns, .. } = self.kernel;
        scratch::with(self.outputs[1].next_multiple_of(rows) * columns, |sums: &mut [E::Sum]| {
            self.sum(strip, 0, sources, sums);
            let (start, rows) = (self.start + strip.first, &mut sums[..self.outputs[1] * columns]);
            // SAFETY: every part has its own sums, every group its own rows and every strip its own columns.
            unsafe {
                if self.accumulate {
                    for (output, sums) in rows.chunks_exact(columns).enumerate() {
                        self.sums.accumulate(start + output * strip.total, 1, &sums[..strip.len]);
                    }
                } else {
                    let lines = Finished { values: rows, len: columns };
                    self.sums.store_rows(start, strip.total, strip.len, &[], lines);
                }
            }
        });
    }

    /// Multiplies the slopes of each panel by the vectors of some pixels, read where they lie; all of these end inside
    /// `data`.
    fn direct<'b>(
        &self,
        of_slopes: tile::Slopes<E>,
        data: &[E],
        pixels: &[usize],
        tiles: impl Iterator<Item = (&'b [E], &'b mut [E::Sum])>,
        accumulate: bool,
    ) {
        let Kernel { rows, columns, group, .. } = self.kernel;
        for (slopes, sums) in tiles {
            assert!(pixels.len().next_multiple_of(group) * rows <= slopes.len() && rows * columns <= sums.len());
            // SAFETY: each pixel's vector ends inside `data` (asserted in `sum` for the last of them), the panel has the rows
            // of all of them, and `sums` holds the tile (asserted); a `Kernel` is only made for levels that the CPU has.
            unsafe {
                of_slopes(slopes.as_ptr(), data.as_ptr(), pixels, sums.as_mut_ptr(), columns, accumulate);
            }
        }
    }

    /// Multiplies the slopes of each panel by the vectors of some pixels, packed for all of them.
    fn packed<'b>(
        &self,
        gemm: &gemm::kernel::Kernel<E>,
        data: &[E],
        pixels: &[usize],
        panels: impl Iterator<Item = (&'b [E], &'b mut [E::Sum])>,
        accumulate: bool,
    ) {
        let Kernel { rows, columns, step, .. } = self.kernel;
        let depth = pixels.len().next_multiple_of(step);
        scratch::with(depth * columns, |right: &mut [E]| {
            let (pairs, rest) = right.split_at_mut(pixels.len().next_multiple_of(2) * columns);
            dispatch(Pairs { data, pixels, columns, out: pairs });
            rest.fill(E::default());
            let _prepared = gemm.prepared();
            for (slopes, sums) in panels {
                tiles(gemm, &slopes[..depth * rows], right, depth, sums, columns, accumulate);
            }
        });
    }
}

/// Weaves the vectors of two pixels at a time; the last one may have none beside it.
struct Pairs<'a, E> {
    data: &'a [E],
    pixels: &'a [usize],
    columns: usize,
    out: &'a mut [E],
}

impl<E: Convolve> simd::Kernel for Pairs<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { data, pixels, columns, out } = self;
        for (pixels, out) in pixels.chunks(2).zip(out.chunks_exact_mut(2 * columns)) {
            let vector = |pixel: usize| &data[pixel..][..columns];
            let out = out.as_chunks_mut::<2>().0;
            if let &[first, second] = pixels {
                let both = vector(first).iter().zip(vector(second));
                out.iter_mut().zip(both).for_each(|(to, (&first, &second))| *to = [first, second]);
            } else {
                out.iter_mut().zip(vector(pixels[0])).for_each(|(to, &first)| *to = [first, E::default()]);
            }
        }
    }
}

/// What all strips read.
struct Sources<'a, E> {
    /// Panels.
    slopes: &'a [E],
    /// The planes, and room for a vector.
    data: &'a [E],
    order: &'a Order,
    /// The greatest of its pixels.
    last: usize,
    /// Elements of a tap.
    depth: usize,
}

/// Neighbouring columns of the sums.
struct Strip {
    /// Place of the first.
    first: usize,
    /// Columns of all strips together.
    total: usize,
    /// Distance of their elements from the pixel.
    at: usize,
    /// How many they are.
    len: usize,
}

/// Cuts the elements of some taps, `len` from each on, into strips of neighbours.
fn strips(taps: &[usize], len: usize, columns: usize) -> Vec<Strip> {
    let total = taps.len() * len;
    let (mut strips, mut first) = (Vec::new(), 0);
    for taps in taps.chunk_by(|a, b| a + len == *b) {
        let (start, end) = (first, first + taps.len() * len);
        while first < end {
            let here = columns.min(end - first);
            strips.push(Strip { first, total, at: taps[0] + first - start, len: here });
            first += here;
        }
    }
    strips
}
