//! The order in which a weight gradient sums the pixels of a band, and which of them a tap needs.

use super::super::lattice::{Band, Lattice};
use super::super::planes::Planes;
use crate::scratch;
use crate::scratch::Plain;
use crate::transpose::transpose;
use std::ops::Range;

/// Pixels whose vectors stay in the L1 cache while they are multiplied by one panel of the gradient after the other.
const PIXELS: usize = 256;
/// What part of the work bringing the gradient into order takes: one in twenty.
///
/// 64 channels of 32 by 32 have a twenty-fifth less to multiply in that order, and took 7 % longer.
const ARRANGING: usize = 20;
/// Pixels that take as long as loading and storing the sums of a tile.
const TILE: usize = 8;

/// Pixels in order.
pub(super) struct Order {
    /// Offset of each pixel in the scratch.
    pub pixels: Vec<usize>,
    /// For each tap the pixels that it sums, in pieces.
    pub pieces: Vec<Vec<Range<usize>>>,
    /// Pixels of an image and number of images, where the images of a pixel follow one another.
    turned: Option<[usize; 2]>,
}

impl Order {
    /// Image after image; every tap sums all pixels, zeros where it lies outside of the image.
    pub(super) fn plain(planes: &Planes, taps: usize) -> Self {
        let pixels = planes.pixels.clone();
        let pieces = vec![cut(0..pixels.len()).collect(); taps];
        Self { pixels, pieces, turned: None }
    }

    /// Pixel after pixel: those that lie inside of images of a `size` are few pieces for each tap. `None` where that is not
    /// enough less work.
    pub(super) fn by_pixel(planes: &Planes, lattice: &Lattice, band: &Band, size: [usize; 2]) -> Option<Self> {
        let (images, [height, width]) = (band.images.len(), [band.rows.len(), lattice.grid[1]]);
        let inside = |tap| {
            let [rows, columns] = planes.inside(tap, size);
            let line = |y: usize| (y * width + columns.start) * images..(y * width + columns.end) * images;
            if columns.len() == width {
                cut(rows.start * width * images..rows.end * width * images).collect()
            } else {
                rows.flat_map(|y| cut(line(y))).collect()
            }
        };
        let pieces: Vec<Vec<Range<usize>>> = lattice.phases[0].taps.iter().map(inside).collect();
        let work = |pieces: &[Range<usize>]| pieces.iter().map(|piece| piece.len() + TILE).sum::<usize>();
        let whole = work(&cut(0..planes.pixels.len()).collect::<Vec<_>>()) * pieces.len();
        if pieces.iter().map(|pieces| work(pieces)).sum::<usize>() >= whole - whole / ARRANGING {
            return None;
        }
        let count = height * width;
        let pixels = (0..count * images).map(|i| planes.pixels[i % images * count + i / images]).collect();
        Some(Self { pixels, pieces, turned: Some([count, images]) })
    }

    /// Which pixel of a band, image after image, stands at a place.
    pub(super) fn pixel(&self, place: usize) -> usize {
        match self.turned {
            Some([count, images]) => place % images * count + place / images,
            None => place,
        }
    }

    /// Brings the values of a band's pixels, image after image, into this order.
    pub(super) fn arrange<T: Plain>(&self, line: &mut [T]) {
        let Some([count, images]) = self.turned else { return };
        scratch::with(line.len(), |copy: &mut [T]| {
            copy.copy_from_slice(line);
            transpose(copy, count, [images, count], line, images);
        });
    }
}

/// Pieces of at most [`PIXELS`].
fn cut(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(PIXELS).map(move |start| start..end.min(start + PIXELS))
}
