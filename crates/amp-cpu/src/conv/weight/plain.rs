//! Gradient with respect to a kernel, image after image.

use super::super::images::Images;
use super::super::lattice::Band;
use super::super::planes::Planes;
use super::super::tile::{self, Convolve, Kernel, Reading};
use super::CACHE_LINE;
use super::grad_panels::GradPanels;
use super::order::Order;
use super::part::{Part, Strip};
use crate::gemm;
use crate::gemm::panel::pair;
use crate::gemm::product::{Threads, tiles};
use crate::simd::{self, Simd, dispatch};
use crate::{View, parallel, scratch};

/// Bytes of which only a quarter of the L1 cache's lines, or less, lie multiples apart.
const COLLIDING: usize = 1 << 10;

impl<E: Convolve> Part<'_, E> {
    /// Adds the band's sums.
    pub(super) fn add(&self, grad: &View, x: &View, inputs: [usize; 2]) {
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
            scratch::with(panels * rows * padded, |panels: &mut [E]| {
                let source =
                    GradPanels { kernel: self.kernel, grad: Images::new(grad), outputs: self.outputs, order: &order };
                source.pack(self.band, self.lattice.grid[1], panels);
                let strips = strips(&planes.taps(&self.lattice.phases[0]), planes.depth(), columns);
                let last = order.pixels.iter().max().copied().unwrap_or(0);
                let sources = Sources { grad: panels, data, order: &order, last, depth: planes.depth() };
                self.store(&strips, inputs[1], self.work(inputs[1]), &|strip, panel, sums| {
                    self.sum(strip, panel, &sources, sums);
                });
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

    /// Sums of one strip of columns for the outputs from a panel on, as many as there is room for.
    fn sum(&self, strip: &Strip, panel: usize, sources: &Sources<E>, sums: &mut [E::Sum]) {
        let Kernel { rows, columns, step, reading, .. } = self.kernel;
        let Sources { grad, data, order, last, depth } = *sources;
        let (of_panel, data) = (rows * order.pixels.len().next_multiple_of(step), &data[strip.at..]);
        let pieces = &order.pieces[strip.first / depth];
        assert!(last + columns <= data.len());
        if pieces.is_empty() {
            sums.fill(Default::default());
        }
        for (i, piece) in pieces.iter().enumerate() {
            let panels = grad[panel * of_panel..].chunks_exact(of_panel).map(|grad| &grad[piece.start * rows..]);
            let tiles = panels.zip(sums.chunks_exact_mut(rows * columns));
            let pixels = &order.pixels[piece.clone()];
            match reading {
                Reading::Direct(_, weight_grad) => {
                    self.direct(weight_grad[self.kernel.form(strip.len)], data, pixels, tiles, i > 0);
                }
                Reading::Packed(gemm) => self.packed(&gemm, data, pixels, tiles, i > 0),
            }
        }
    }

    /// Multiplies each panel of the gradient by the vectors of some pixels, read where they lie; all of these end inside
    /// `data`.
    fn direct<'b>(
        &self,
        weight_grad: tile::WeightGrad<E>,
        data: &[E],
        pixels: &[usize],
        tiles: impl Iterator<Item = (&'b [E], &'b mut [E::Sum])>,
        accumulate: bool,
    ) {
        let Kernel { rows, columns, group, .. } = self.kernel;
        for (grad, sums) in tiles {
            assert!(pixels.len().next_multiple_of(group) * rows <= grad.len() && rows * columns <= sums.len());
            // SAFETY: each pixel's vector ends inside `data` (asserted in `sum` for the last of them), the panel has the rows
            // of all of them, and `sums` holds the tile (asserted); a `Kernel` is only made for levels that the CPU has.
            unsafe {
                weight_grad(grad.as_ptr(), data.as_ptr(), pixels, sums.as_mut_ptr(), columns, accumulate);
            }
        }
    }

    /// Multiplies each panel of the gradient by the vectors of some pixels, packed for all of them.
    fn packed<'b>(
        &self,
        gemm: &gemm::kernel::MicroKernel<E>,
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
            for (grad, sums) in panels {
                tiles(gemm, &grad[..depth * rows], right, depth, sums, columns, accumulate);
            }
        });
    }
}

/// Interleaves the vectors of two pixels at a time; the last one may have none beside it.
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
                pair(vector(first), vector(second), out);
            } else {
                out.iter_mut().zip(vector(pixels[0])).for_each(|(to, &first)| *to = [first, E::default()]);
            }
        }
    }
}

/// What all strips read.
struct Sources<'a, E> {
    /// Panels.
    grad: &'a [E],
    /// The planes, and room for a vector.
    data: &'a [E],
    order: &'a Order,
    /// The greatest of its pixels.
    last: usize,
    /// Elements of a tap.
    depth: usize,
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
