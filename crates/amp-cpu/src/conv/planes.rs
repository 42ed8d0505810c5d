//! Zero-padded scratch copies of the part of a source that a band reads, the channels of a pixel together.
//!
//! Without padding, 1 x 1 could be read where it lies. On a core of Zen 5, 64 channels of every second pixel took a quarter longer
//! that way, forward, and more channels as long as from a copy: a tile reads twelve pixels in turn and waits for each.

use super::axis::Axis;
use super::images::Images;
use super::lattice::{Band, Lattice, Phase, Tap};
use super::patch::{Class, Pixel};
use crate::View;
use crate::gemm::kernel::Multiply;
use crate::output::prefetch;
use crate::scratch;
use crate::transpose::{transpose, transpose_every};
use std::ops::Range;

/// Elements of the lines that are transposed at a time: they stay in the L1 cache.
const LINES: usize = 1 << 12;
/// Elements of a channel that are loaded at a time.
const SPAN: usize = 256;

/// Where the elements of a band's patches lie in its scratch.
///
/// The element of a pixel, of a tap and of a channel lies at the sum of the two offsets and the channel.
pub(super) struct Planes {
    axes: [Axis; 2],
    channels: usize,
    /// Elements of a tap: the channels, and zeros.
    depth: usize,
    /// Elements from pixel to pixel, and from image to image.
    stride: usize,
    image: usize,
    /// Rows of an image that are computed, and columns.
    grid: [usize; 2],
    /// Offset of each pixel.
    pub pixels: Vec<usize>,
}

impl Planes {
    /// The planes of `channels`, each pixel's vector padded to a multiple of `group`, with `apart` elements that are not used
    /// between them.
    pub(super) fn new(lattice: &Lattice, band: &Band, channels: usize, group: usize, apart: usize) -> Self {
        let Lattice { phases, grid, step, .. } = lattice;
        let axes = [
            Axis::new(phases, |tap| tap.y, band.rows.clone(), step[0]),
            Axis::new(phases, |tap| tap.x, 0..grid[1], step[1]),
        ];
        let depth = channels.next_multiple_of(group);
        let stride = depth + apart;
        let image = axes[0].len * axes[1].len * stride;
        Self { axes, channels, depth, stride, image, grid: [band.rows.len(), grid[1]], pixels: Vec::new() }
            .with_pixels(band.images.len())
    }

    /// The same with the images of a pixel side by side. What lies outside of images is not written.
    pub(super) fn side_by_side(self, images: usize) -> Self {
        Self { stride: images * self.stride, image: self.stride, ..self }.with_pixels(images)
    }

    fn with_pixels(mut self, images: usize) -> Self {
        let Self { axes, stride, image, grid, .. } = &self;
        let paces = axes.each_ref().map(|axis| axis.pace());
        let line = axes[1].len * stride;
        let lines = (0..images).flat_map(|n| (0..grid[0]).map(move |y| n * image + y * paces[0] * line));
        let mut pixels = Vec::with_capacity(images * grid[0] * grid[1]);
        lines.for_each(|start| pixels.extend((0..grid[1]).map(|x| start + x * paces[1] * stride)));
        self.pixels = pixels;
        self
    }

    /// Whether the images of a pixel lie side by side.
    pub(super) fn are_side_by_side(&self) -> bool {
        self.image < self.stride
    }

    /// Elements of the scratch of a band.
    pub(super) fn len(&self, band: &Band) -> usize {
        self.of_image() + (band.images.len() - 1) * self.image
    }

    /// Elements from an image's first to behind its last.
    fn of_image(&self) -> usize {
        self.axes[0].len * self.axes[1].len * self.stride
    }

    /// Elements of a tap: a pixel's channels, and zeros.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The distances of a phase's taps from the pixel.
    pub(super) fn taps(&self, phase: &Phase) -> Vec<usize> {
        let [rows, columns] = &self.axes;
        phase.taps.iter().map(|tap| (rows.index(tap.y) * columns.len + columns.index(tap.x)) * self.stride).collect()
    }

    /// Rows and columns of the pixels for which a tap lies inside of an image of a `size`.
    pub(super) fn inside(&self, tap: &Tap, size: [usize; 2]) -> [Range<usize>; 2] {
        std::array::from_fn(|i| {
            let axis = &self.axes[i];
            let first = axis.index([tap.y, tap.x][i]);
            let reads = |position: &usize| axis.within(position * axis.pace() + first, size[i]).is_some();
            let start = (0..self.grid[i]).find(reads).unwrap_or(0);
            start..(start..self.grid[i]).take_while(reads).last().map_or(start, |last| last + 1)
        })
    }

    /// All pixels in order, whatever their taps read.
    pub(super) fn one_class(&self, phase: &Phase) -> Vec<Class> {
        let pixels = self.pixels.iter().enumerate().map(|(index, &at)| Pixel { at, index }).collect();
        vec![Class { inside: vec![true; phase.taps.len()], pixels }]
    }

    /// All pixels in order, and what lies beside them in the plane as well: those of every image at even distances, a multiple of
    /// `half` of them. The last ones read up to [`Self::through`] elements behind the planes.
    ///
    /// 64 channels of 56 by 56 (32 images), 3 x 3, take two threads of a Xeon with AMX 2.8 to 3.4 ms and not 5.8, as lines.
    pub(super) fn one_class_through(&self, phase: &Phase, half: usize) -> Vec<Class> {
        let [rows, columns] = [self.grid[0], self.axes[1].len];
        let count = (rows * columns).next_multiple_of(half);
        let pixel = |image: usize, place: usize| {
            let (y, x) = (place / columns, place % columns);
            let inside = y < rows && x < self.grid[1];
            let index = if inside { (image * rows + y) * self.grid[1] + x } else { Pixel::NONE };
            Pixel { at: image * self.image + place * self.stride, index }
        };
        let images = self.pixels.len() / (rows * self.grid[1]);
        let pixels = (0..images).flat_map(|image| (0..count).map(move |place| pixel(image, place))).collect();
        vec![Class { inside: vec![true; phase.taps.len()], pixels }]
    }

    /// Elements behind the planes that places beside pixels read.
    pub(super) fn through(&self, half: usize) -> usize {
        (self.axes[1].len + half) * self.stride
    }

    /// The rows and the columns of the pixels, parted by the taps of a phase that lie inside of an image of a `size`.
    fn parts(&self, phase: &Phase, [height, width]: [usize; 2]) -> [Parts; 2] {
        [
            Parts::new(self.grid[0], phase.taps.iter().map(|tap| tap.y), &self.axes[0], height),
            Parts::new(self.grid[1], phase.taps.iter().map(|tap| tap.x), &self.axes[1], width),
        ]
    }

    /// The pixels of a phase, by the taps that lie inside of an image of a `size`; all images of a pixel in turn.
    pub(super) fn classes_by_pixel(&self, phase: &Phase, size: [usize; 2]) -> Vec<Class> {
        let (grid, [down, across]) = (self.grid, self.parts(phase, size));
        let class = |(down, across): (&Part, &Part)| Class {
            inside: both(&down.inside, &across.inside).collect(),
            pixels: Vec::new(),
        };
        let mut classes: Vec<Class> = pairs(&down, &across).map(class).collect();
        let of_image = grid[0] * grid[1];
        for pixel in 0..of_image {
            let images = (pixel..self.pixels.len()).step_by(of_image);
            let class = &mut classes[down.of[pixel / grid[1]] * across.parts.len() + across.of[pixel % grid[1]]];
            class.pixels.extend(images.map(|index| Pixel { at: self.pixels[index], index }));
        }
        classes
    }

    /// The pixels of a phase, by the taps that lie inside of an image of a `size`; told apart along an axis only if that
    /// makes tiles of so many `rows` multiply less.
    pub(super) fn classes(&self, phase: &Phase, size: [usize; 2], rows: usize) -> Vec<Class> {
        let (grid, images) = (self.grid, self.pixels.len() / (self.grid[0] * self.grid[1]));
        let along = self.parts(phase, size);
        let whole = grid.map(|size| Parts::whole(size, phase.taps.len()));
        let choices = [[&whole[0], &whole[1]], [&along[0], &whole[1]], [&whole[0], &along[1]], [&along[0], &along[1]]];
        let [down, across] =
            choices.into_iter().min_by_key(|parts| cost(*parts, images, rows, self.depth)).expect("four of them");
        let class = |(down, across): (&Part, &Part)| Class {
            inside: both(&down.inside, &across.inside).collect(),
            pixels: Vec::with_capacity((images * down.len * across.len).next_multiple_of(rows)),
        };
        let mut classes: Vec<Class> = pairs(down, across).map(class).collect();
        let lines = self.pixels.chunks_exact(grid[1]).zip(down.of.iter().cycle());
        for (line, (pixels, down)) in lines.enumerate() {
            let classes = &mut classes[down * across.parts.len()..];
            for (x, (&at, &of)) in pixels.iter().zip(&across.of).enumerate() {
                classes[of].pixels.push(Pixel { at, index: line * grid[1] + x });
            }
        }
        classes
    }

    /// Copies the band's part of the source, channels `first..first + self.channels`, rounded to the panels' type.
    pub(super) fn fill<E: Multiply>(&self, source: &View, band: &Band, first: usize, out: &mut [E]) {
        let (line, rows) = (self.axes[1].len * self.stride, self.axes[0].len);
        if line == 0 {
            return;
        }
        let images = Images::new(source);
        if self.are_side_by_side() && self.channels < self.depth {
            out.fill(E::default());
        }
        for (i, image) in band.images.clone().enumerate() {
            let plane = &mut out[i * self.image..][..rows * line];
            if !self.are_side_by_side() {
                self.clear(&images, plane);
            }
            if images.size[1] == 0 {
                continue;
            }
            let inside: Vec<(usize, usize)> =
                (0..rows).filter_map(|index| Some((index, self.axes[0].within(index, images.size[0])?))).collect();
            let stored = E::stored(source).filter(|_| images.strides[3] == 1 && self.skips());
            if let Some(stored) = stored {
                self.thin_rows(&images, stored, image, first, &inside, plane);
                continue;
            }
            for rows in inside.chunks((SPAN / images.size[1]).max(1)) {
                self.fill_rows(&images, image, first, rows, plane);
            }
        }
    }

    /// Zeroes what lies outside of the image, and the padding of the vectors.
    fn clear<E: Multiply>(&self, images: &Images, plane: &mut [E]) {
        let [rows, columns] = &self.axes;
        let outside: Vec<usize> = (0..columns.len).filter(|&x| columns.within(x, images.size[1]).is_none()).collect();
        for (index, line) in plane.chunks_exact_mut(columns.len * self.stride).enumerate() {
            if self.channels < self.depth || rows.within(index, images.size[0]).is_none() {
                line.fill(E::default());
                continue;
            }
            for &x in &outside {
                line[x * self.stride..][..self.depth].fill(E::default());
            }
        }
    }

    /// Copies rows, given as (index in the plane, row of the image).
    ///
    /// Channels are loaded a span at a time even where they need no conversion: turning rows where they lie, a line of
    /// each channel at a time, was 4 % slower (64 channels of 32 by 32, BF16).
    fn fill_rows<E: Multiply>(
        &self,
        images: &Images,
        image: usize,
        first: usize,
        rows: &[(usize, usize)],
        plane: &mut [E],
    ) {
        let line = self.axes[1].len * self.stride;
        let (top, bottom) = (rows[0].1, rows[rows.len() - 1].1 + 1);
        if images.strides[1] == 1 {
            for &(index, y) in rows {
                self.copy_pixels(images, images.start(image, first, y), &mut plane[index * line..][..line]);
            }
            return;
        }
        let span = (bottom - top) * images.size[1];
        let block = (LINES / span).max(1).next_multiple_of(16).min(self.channels);
        scratch::with(block * span, |lines: &mut [E]| {
            for start in (0..self.channels).step_by(block) {
                let count = block.min(self.channels - start);
                images.load(image, first + start..first + start + count, top..bottom, lines);
                for &(index, y) in rows {
                    let (from, to) = (&lines[(y - top) * images.size[1]..], &mut plane[index * line..][..line]);
                    self.turn(from, span, images.size[1], count, &mut to[start..]);
                }
            }
        });
    }

    /// Copies rows of which some columns are left out, from where they lie: what is not read need not be loaded.
    fn thin_rows<E: Multiply>(
        &self,
        images: &Images,
        stored: &[E],
        image: usize,
        first: usize,
        rows: &[(usize, usize)],
        plane: &mut [E],
    ) {
        let (line, width) = (self.axes[1].len * self.stride, images.size[1]);
        for (i, &(index, y)) in rows.iter().enumerate() {
            if let Some(&(_, next)) = rows.get(i + 1) {
                (first..first + self.channels).for_each(|c| prefetch(&stored[images.start(image, c, next)..][..width]));
            }
            let from = &stored[images.start(image, first, y)..];
            self.turn(from, images.strides[1], width, self.channels, &mut plane[index * line..][..line]);
        }
    }

    /// Whether there are columns of an image that no tap reads.
    fn skips(&self) -> bool {
        self.axes[1].pace() < self.axes[1].step
    }

    /// Copies one row of an image whose pixels have their channels together: at once, where nothing lies between them.
    fn copy_pixels<E: Multiply>(&self, images: &Images, start: usize, line: &mut [E]) {
        let (columns, apart) = (&self.axes[1], images.strides[3]);
        if !self.skips() && apart == self.channels && self.stride == self.channels {
            let inside = columns.inside_all(images.size[1]);
            if !inside.is_empty() {
                let start = start + columns.position(inside.start) as usize * apart;
                let line = &mut line[inside.start * apart..inside.end * apart];
                match E::stored(images.view) {
                    Some(stored) => line.copy_from_slice(&stored[start..][..line.len()]),
                    None => E::load(images.view, start, 1, line),
                }
            }
            return;
        }
        for (x, pixel) in line.chunks_exact_mut(self.stride).enumerate() {
            if let Some(x) = columns.within(x, images.size[1]) {
                E::load(images.view, start + x * apart, 1, &mut pixel[..self.channels]);
            }
        }
    }

    /// Turns one row of `count` channels, `span` apart, into vectors of pixels.
    fn turn<E: Multiply>(&self, lines: &[E], span: usize, width: usize, count: usize, out: &mut [E]) {
        let (columns, pace) = (&self.axes[1], self.axes[1].pace());
        if !self.skips() {
            let inside = columns.inside_all(width);
            if let Some(x) = inside.clone().next().map(|index| columns.position(index) as usize) {
                transpose(
                    &lines[x..],
                    span,
                    [count, inside.len()],
                    &mut out[inside.start * self.stride..],
                    self.stride,
                );
            }
            return;
        }
        for rank in 0..pace {
            let inside = columns.inside(rank, width);
            if inside.is_empty() {
                continue;
            }
            let x = columns.position(inside.start * pace + rank) as usize;
            let out = &mut out[(inside.start * pace + rank) * self.stride..];
            transpose_every(columns.step, &lines[x..], span, [count, inside.len()], out, pace * self.stride);
        }
    }
}

/// The positions along an axis of the pixels, parted by the taps that lie inside of the image.
struct Parts {
    parts: Vec<Part>,
    /// The part of each position.
    of: Vec<usize>,
}

struct Part {
    /// Whether each tap lies inside.
    inside: Vec<bool>,
    /// Number of positions.
    len: usize,
}

impl Parts {
    fn whole(positions: usize, taps: usize) -> Self {
        Self { parts: vec![Part { inside: vec![true; taps], len: positions }], of: vec![0; positions] }
    }

    fn new(positions: usize, taps: impl Iterator<Item = isize> + Clone, axis: &Axis, size: usize) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let part_of = |position: usize| {
            let reads = |tap| axis.within(position * axis.pace() + axis.index(tap), size).is_some();
            let inside: Vec<bool> = taps.clone().map(reads).collect();
            let index = parts.iter().position(|part| part.inside == inside).unwrap_or(parts.len());
            if index == parts.len() {
                parts.push(Part { inside, len: 0 });
            }
            parts[index].len += 1;
            index
        };
        let of = (0..positions).map(part_of).collect();
        Self { parts, of }
    }
}

fn pairs<'a>(down: &'a Parts, across: &'a Parts) -> impl Iterator<Item = (&'a Part, &'a Part)> {
    down.parts.iter().flat_map(|down| across.parts.iter().map(move |across| (down, across)))
}

fn both(down: &[bool], across: &[bool]) -> impl Iterator<Item = bool> {
    down.iter().zip(across).map(|(&down, &across)| down && across)
}

/// Elements that tiles of so many `rows` multiply, taps being `depth` long, and what a tile costs beside.
fn cost([down, across]: [&Parts; 2], images: usize, rows: usize, depth: usize) -> usize {
    const TILE: usize = 16;
    let taps = |down: &Part, across: &Part| both(&down.inside, &across.inside).filter(|&inside| inside).count();
    let tiles = |down: &Part, across: &Part| (images * down.len * across.len).div_ceil(rows);
    pairs(down, across).map(|(down, across)| tiles(down, across) * (taps(down, across) * depth + TILE)).sum()
}
