//! The digits data set: 8 × 8 grey-scale images, one a line, in a gzip-compressed CSV file.

use super::Failure;
use amp::prelude::*;
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Height and width of an image.
pub const SIDE: usize = 8;
/// Number of classes.
pub const CLASSES: usize = 10;

const FILE: &str = "digits.csv.gz";
const PIXELS: usize = SIDE * SIDE;
const WHITEST: u8 = 16;
/// Far above the real file (258 KiB): a hostile archive must not fill the memory.
const LARGEST: u64 = 64 << 20;
/// Enough for a split into training and test data.
const FEWEST: usize = 10;

/// One image with its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Digit {
    /// Brightness of each pixel, row by row, in `0..=1`.
    pub pixels: [f32; PIXELS],
    /// `0..=9`.
    pub class: i64,
}

/// Reads `digits.csv.gz` of a directory.
pub fn load(directory: &Path) -> Result<Vec<Digit>, Failure> {
    let path = directory.join(FILE);
    let file = File::open(&path).map_err(|e| Failure::file(&path, format_args!("cannot be opened: {e}")))?;
    let mut text = String::new();
    let mut unpacked = GzDecoder::new(file).take(LARGEST);
    unpacked.read_to_string(&mut text).map_err(|e| Failure::file(&path, format_args!("cannot be unpacked: {e}")))?;
    parse(&text).map_err(|problem| Failure::file(&path, problem))
}

/// Reads one image per line: 64 pixels of `0..=16`, then the class.
pub fn parse(text: &str) -> Result<Vec<Digit>, String> {
    let numbered = text.lines().enumerate();
    let digits: Vec<_> =
        numbered.map(|(i, line)| digit(line).map_err(|e| format!("line {}: {e}", i + 1))).collect::<Result<_, _>>()?;
    if digits.len() < FEWEST {
        return Err(format!("has {} images, at least {FEWEST} are needed", digits.len()));
    }
    Ok(digits)
}

fn digit(line: &str) -> Result<Digit, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let Some((class, pixels)) = fields.split_last().filter(|(_, pixels)| pixels.len() == PIXELS) else {
        return Err(format!("has {} values, expected {PIXELS} pixels and a class", fields.len()));
    };
    let mut digit = Digit { pixels: [0.0; PIXELS], class: number(class, CLASSES as u8 - 1)?.into() };
    for (to, from) in digit.pixels.iter_mut().zip(pixels) {
        *to = f32::from(number(from, WHITEST)?) / f32::from(WHITEST);
    }
    Ok(digit)
}

fn number(text: &str, largest: u8) -> Result<u8, String> {
    let value = text.parse().ok().filter(|&value: &u8| value <= largest);
    value.ok_or_else(|| format!("`{text}` is not a number of 0..={largest}"))
}

/// Training images and the held-out fifth.
#[derive(Debug)]
pub struct Split {
    /// Four fifths.
    pub train: Vec<Digit>,
    /// One fifth.
    pub test: Vec<Digit>,
}

/// Restarts the global generator and splits by it, so that one seed always holds out the same images.
pub fn split(digits: &[Digit], seed: u64, device: &Device) -> Result<Split> {
    amp::manual_seed(seed);
    let order = shuffled(digits.len(), device)?;
    let (test, train) = order.split_at(digits.len() / 5);
    let pick = |indices: &[usize]| indices.iter().map(|&i| digits[i].clone()).collect();
    Ok(Split { train: pick(train), test: pick(test) })
}

/// `0..count` in random order from the global generator.
pub fn shuffled(count: usize, device: &Device) -> Result<Vec<usize>> {
    let keys = Tensor::<F64>::rand([count], device)?.to_vec()?;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    Ok(order)
}

/// Images `[N, 1, 8, 8]` and classes `[N]` of some digits.
pub fn batch<'a>(digits: impl Iterator<Item = &'a Digit>, device: &Device) -> Result<(Tensor<F32>, Tensor<I64>)> {
    let (pixels, classes): (Vec<_>, Vec<_>) = digits.map(|digit| (digit.pixels, digit.class)).unzip();
    let count = classes.len();
    let images = Tensor::from_vec(pixels.into_flattened(), [count, 1, SIDE, SIDE], device)?;
    Ok((images, Tensor::from_vec(classes, [count], device)?))
}

/// A batch in which every digit has moved by up to one pixel in each direction: more training data for nothing.
pub fn moved_batch(digits: &[Digit], chosen: &[usize], device: &Device) -> Result<(Tensor<F32>, Tensor<I64>)> {
    let moves = Tensor::<F32>::uniform([chosen.len(), 2], -1.5, 1.5, device)?.to_vec()?;
    let moved = |(&i, by): (&usize, &[f32])| digits[i].moved(by[0].round() as isize, by[1].round() as isize);
    let moved: Vec<_> = chosen.iter().zip(moves.chunks(2)).map(moved).collect();
    batch(moved.iter(), device)
}

impl Digit {
    /// The same digit shifted; black comes in from the edge.
    pub fn moved(&self, down: isize, right: isize) -> Self {
        let pixel = |y: usize, x: usize| {
            let (from_y, from_x) = (y.checked_add_signed(-down)?, x.checked_add_signed(-right)?);
            (from_y < SIDE && from_x < SIDE).then(|| self.pixels[from_y * SIDE + from_x])
        };
        let pixels = std::array::from_fn(|i| pixel(i / SIDE, i % SIDE).unwrap_or(0.0));
        Self { pixels, class: self.class }
    }
}
