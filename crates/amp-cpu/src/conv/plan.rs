//! Which pixels the tiles of a band take and where these read: worked out once for all bands that are alike.

use super::lattice::{Band, Lattice, Phase};
use super::patch::{Class, Patch, Pixel, evenly};
use super::planes::Planes;
use super::tile::{Convolve, Kernel};
use super::weight::CACHE_LINE;
use std::ops::Range;

/// Bytes of the images that are put side by side: they stay in the L2 cache beside kernels.
const SIDE_BY_SIDE: usize = 3 << 18;

/// What bands with the same rows and as many images have in common.
///
/// Pixels of all phases have their places among the sums in the order of the output: bringing phases together when they
/// are stored took a fifth of the gradient of 1 x 1 by steps of two.
pub(super) struct Plan {
    rows: Range<usize>,
    images: usize,
    pub planes: Planes,
    /// Elements that are read behind them.
    pub behind: usize,
    /// Of each phase.
    pub patches: Vec<Patch>,
}

/// The plans of all bands.
pub(super) struct Plans(Vec<Plan>);

impl Plans {
    pub(super) fn new<E: Convolve>(
        kernel: &Kernel<E>,
        lattice: &Lattice,
        bands: &[Band],
        channels: usize,
        size: [usize; 2],
    ) -> Self {
        let mut plans = Self(Vec::new());
        for band in bands {
            if plans.find(band).is_none() {
                plans.0.push(Plan::new(kernel, lattice, band, channels, size));
            }
        }
        plans
    }

    fn find(&self, band: &Band) -> Option<&Plan> {
        self.0.iter().find(|plan| plan.rows == band.rows && plan.images == band.images.len())
    }

    pub(super) fn of(&self, band: &Band) -> &Plan {
        self.find(band).expect("one for every band")
    }
}

impl Plan {
    fn new<E: Convolve>(kernel: &Kernel<E>, lattice: &Lattice, band: &Band, channels: usize, size: [usize; 2]) -> Self {
        let half = kernel.rows / 2;
        let order = Arrangement::new(kernel, lattice, band.images.len(), channels);
        let planes = |apart| Planes::new(lattice, band, channels, kernel.padding(), apart);
        let planes = match order {
            Arrangement::SideBySide => planes(CACHE_LINE).side_by_side(band.images.len()),
            _ => planes(0),
        };
        let patch = |(index, phase): (usize, &Phase)| {
            let mut classes = match order {
                Arrangement::ByTaps => planes.classes(phase, size, kernel.rows),
                Arrangement::SideBySide => planes.classes_by_pixel(phase, size),
                Arrangement::Plain => planes.one_class(phase),
                Arrangement::Through => planes.one_class_through(phase, half),
            };
            for Class { pixels, .. } in &mut classes {
                let place = |pixel: &Pixel| match pixel.index {
                    Pixel::NONE => Some(*pixel),
                    _ => lattice.place(band, index, pixel.index).map(|index| Pixel { index, ..*pixel }),
                };
                *pixels = pixels.iter().filter_map(place).collect();
                // The last tile of a class repeats its last pixel, or its only half.
                let missing = pixels.len().next_multiple_of(kernel.rows) - pixels.len();
                if missing == half {
                    pixels.extend_from_within(pixels.len() - half..);
                } else if let Some(&last) = pixels.last() {
                    pixels.resize(pixels.len() + missing, last);
                }
            }
            let whole = kernel.anywhere() && planes.depth().is_multiple_of(kernel.step);
            let even = if whole { evenly(&classes, half) } else { None };
            Patch { even, ..Patch::new(&planes.taps(phase), planes.depth(), classes, kernel.depth) }
        };
        let patches = lattice.phases.iter().enumerate().map(patch).collect();
        let behind = if order == Arrangement::Through { planes.through(half) } else { 0 };
        Self { rows: band.rows.clone(), images: band.images.len(), patches, planes, behind }
    }
}

/// The pixels that tiles take in turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// Those that read the same taps, so that taps outside of the image are left out.
    ByTaps,
    /// Those of rows, whatever they read.
    Plain,
    /// The images of a pixel that are side by side.
    SideBySide,
    /// Those of rows and what lies between these in the plane, through all rows.
    Through,
}

impl Arrangement {
    fn new<E: Convolve>(kernel: &Kernel<E>, lattice: &Lattice, images: usize, channels: usize) -> Self {
        if !kernel.anywhere() {
            return Self::ByTaps;
        }
        match wants_side_by_side(kernel, lattice, channels) {
            true if images.is_multiple_of(kernel.rows / 2) => Self::SideBySide,
            // What is between them must be little.
            true if lattice.step == [1; 2] && lattice.grid[1] > kernel.rows / 2 => Self::Through,
            _ => Self::Plain,
        }
    }
}

/// Whether patches can be read where they lie, but rows of pixels are no multiple of half a tile: the images of a pixel are put side
/// by side.
fn wants_side_by_side<E: Convolve>(kernel: &Kernel<E>, lattice: &Lattice, channels: usize) -> bool {
    kernel.anywhere() && channels.is_multiple_of(kernel.step) && !lattice.grid[1].is_multiple_of(kernel.rows / 2)
}

/// Bands of as many images as go side by side, and of the rest.
pub(super) fn bands<E: Convolve>(kernel: &Kernel<E>, lattice: &Lattice, images: usize, channels: usize) -> Vec<Band> {
    let half = kernel.rows / 2;
    let of_image = channels * lattice.grid.iter().chain(&lattice.step).product::<usize>() * size_of::<E>();
    let at_once = (SIDE_BY_SIDE / (of_image * half).max(1)).min(2) * half;
    if !wants_side_by_side(kernel, lattice, channels) || at_once == 0 || images < half {
        return lattice.bands(images, channels, size_of::<E>());
    }
    let whole = images / half * half;
    let starts = (0..whole).step_by(at_once).map(|first| first..whole.min(first + at_once));
    let band = |images| Band { images, rows: 0..lattice.grid[0] };
    starts.chain((whole < images).then_some(whole..images)).map(band).collect()
}
