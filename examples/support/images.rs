//! Labelled images: split, augmented, made into batches.

use super::Failure;
use super::digits::{self, Digit};
use amp::prelude::*;
use std::path::Path;

/// One image with its class.
#[derive(Clone, Debug)]
pub struct Image {
    /// `[C, side, side]` in row-major order.
    pub pixels: Vec<f32>,
    /// Its class.
    pub class: i64,
}

/// A labelled data set of square images.
#[derive(Debug)]
pub struct Images {
    /// Channels of an image.
    pub channels: usize,
    /// Height and width.
    pub side: usize,
    /// Number of classes.
    pub classes: usize,
    /// To train on.
    pub train: Vec<Image>,
    /// Held out.
    pub test: Vec<Image>,
    /// Whether the mirror image of a thing is such a thing (not so for digits).
    pub flips: bool,
}

impl Images {
    /// CIFAR-10 of a directory, or without one the shipped digits enlarged to 32 × 32 in three channels.
    pub fn load(directory: Option<&Path>, seed: u64, device: &Device) -> Result<Self, Failure> {
        match directory {
            Some(directory) => super::cifar::load(directory),
            None => Self::enlarged_digits(seed, device),
        }
    }

    fn enlarged_digits(seed: u64, device: &Device) -> Result<Self, Failure> {
        let all = digits::load(&super::shipped_data())?;
        let digits::Split { train, test } = digits::split(&all, seed, device)?;
        let enlarge = |digits: Vec<Digit>| digits.iter().map(enlarged).collect();
        let (train, test) = (enlarge(train), enlarge(test));
        Ok(Self { channels: 3, side: 32, classes: digits::CLASSES, train, test, flips: false })
    }

    /// Images `[N, C, side, side]` and classes `[N]`, moved by up to an eighth and mirrored at random.
    pub fn augmented(&self, chosen: &[usize], device: &Device) -> Result<(Tensor<F32>, Tensor<I64>)> {
        let most = (self.side / 8) as f64 + 0.5;
        let moves = Tensor::<F32>::uniform([chosen.len(), 3], -most, most, device)?.to_vec()?;
        let pick = |(&i, by): (&usize, &[f32])| {
            let image = &self.train[i];
            let flip = self.flips && by[2] < 0.0;
            Image { pixels: self.moved(&image.pixels, by[0].round() as isize, by[1].round() as isize, flip), ..*image }
        };
        let images: Vec<_> = chosen.iter().zip(moves.chunks(3)).map(pick).collect();
        self.batch(images.iter(), device)
    }

    /// Images `[N, C, side, side]` and classes `[N]` as they are.
    pub fn batch<'a>(
        &self,
        images: impl ExactSizeIterator<Item = &'a Image> + Clone,
        device: &Device,
    ) -> Result<(Tensor<F32>, Tensor<I64>)> {
        let count = images.len();
        let pixels = images.clone().flat_map(|image| image.pixels.iter().copied()).collect();
        let classes = images.map(|image| image.class).collect();
        let images = Tensor::from_vec(pixels, [count, self.channels, self.side, self.side], device)?;
        Ok((images, Tensor::from_vec(classes, [count], device)?))
    }

    fn moved(&self, pixels: &[f32], down: isize, right: isize, flip: bool) -> Vec<f32> {
        let side = self.side;
        let pixel = |i: usize| {
            let (c, y, x) = (i / (side * side), i / side % side, i % side);
            let x = if flip { side - 1 - x } else { x };
            let (y, x) = (y.checked_add_signed(-down)?, x.checked_add_signed(-right)?);
            (y < side && x < side).then(|| pixels[(c * side + y) * side + x])
        };
        (0..pixels.len()).map(|i| pixel(i).unwrap_or(0.0)).collect()
    }
}

/// Each pixel becomes a square of 4 × 4, in three equal channels around zero.
fn enlarged(digit: &Digit) -> Image {
    let pixel = |i: usize| digit.pixels[i / 32 % 32 / 4 * digits::SIDE + i % 32 / 4] * 2.0 - 1.0;
    Image { pixels: (0..3 * 32 * 32).map(pixel).collect(), class: digit.class }
}
