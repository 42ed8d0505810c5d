//! Where the operands of a band lie: found out once for all bands that are alike.

use super::lattice::{Band, Lattice, Phase};
use super::patch::{Class, Patch, Pixel, evenly};
use super::planes::Planes;
use super::tile::{Convolve, Kernel, Reading};
use std::ops::Range;

/// What bands with the same rows and as many images have in common.
///
/// Pixels of all phases have their places among the sums in the order of the output: bringing phases together when they
/// are stored took a fifth of the gradient of 1 x 1 by steps of two.
pub(super) struct Plan {
    rows: Range<usize>,
    images: usize,
    pub planes: Planes,
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
        let planes = Planes::new(lattice, band, channels, kernel.group, 0);
        let patch = |(index, phase): (usize, &Phase)| {
            let mut classes = match kernel.reading {
                Reading::Direct(..) => planes.classes(phase, size, kernel.rows),
                Reading::Packed(_) => planes.one_class(phase),
            };
            for Class { pixels, .. } in &mut classes {
                let place =
                    |pixel: &Pixel| lattice.place(band, index, pixel.index).map(|index| Pixel { index, ..*pixel });
                *pixels = pixels.iter().filter_map(place).collect();
                // The last tile of a class repeats its last pixel.
                if let Some(&last) = pixels.last() {
                    pixels.resize(pixels.len().next_multiple_of(kernel.rows), last);
                }
            }
            let whole = planes.depth().is_multiple_of(kernel.step);
            let even = if whole { evenly(&classes[0].pixels, kernel.rows / 2) } else { None };
            Patch { even, ..Patch::new(&planes.taps(phase), planes.depth(), classes, kernel.depth) }
        };
        let patches = lattice.phases.iter().enumerate().map(patch).collect();
        Self { rows: band.rows.clone(), images: band.images.len(), patches, planes }
    }
}
