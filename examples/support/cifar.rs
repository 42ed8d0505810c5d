//! CIFAR-10 in its binary format: files of records of one class byte and 3 × 32 × 32 pixel bytes, channel by channel.

use super::Failure;
use super::images::{Image, Images};
use std::fs;
use std::path::Path;

const CLASSES: usize = 10;
const SIDE: usize = 32;
const CHANNELS: usize = 3;
const RECORD: usize = 1 + CHANNELS * SIDE * SIDE;
/// Mean and standard deviation of each channel over the training images.
const MEAN: [f32; CHANNELS] = [0.4914, 0.4822, 0.4465];
const DEVIATION: [f32; CHANNELS] = [0.2470, 0.2435, 0.2616];

/// Reads `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin` of a directory.
pub fn load(directory: &Path) -> Result<Images, Failure> {
    let mut train = Vec::new();
    for i in 1..=5 {
        train.extend(read(&directory.join(format!("data_batch_{i}.bin")))?);
    }
    let test = read(&directory.join("test_batch.bin"))?;
    Ok(Images { channels: CHANNELS, side: SIDE, classes: CLASSES, train, test, flips: true })
}

fn read(path: &Path) -> Result<Vec<Image>, Failure> {
    let bytes = fs::read(path).map_err(|e| Failure::file(path, format_args!("cannot be read: {e}")))?;
    parse(&bytes).map_err(|problem| Failure::file(path, problem))
}

/// Reads records; pixels become zero mean and unit deviation.
pub fn parse(bytes: &[u8]) -> Result<Vec<Image>, String> {
    if bytes.is_empty() || !bytes.len().is_multiple_of(RECORD) {
        return Err(format!("has {} bytes, expected a multiple of {RECORD}", bytes.len()));
    }
    bytes.chunks_exact(RECORD).enumerate().map(|(i, record)| image(i, record)).collect()
}

fn image(index: usize, record: &[u8]) -> Result<Image, String> {
    let class = record[0];
    if usize::from(class) >= CLASSES {
        return Err(format!("image {index} has class {class}, expected 0..=9"));
    }
    let channels = record[1..].chunks_exact(SIDE * SIDE).zip(MEAN).zip(DEVIATION);
    let pixels = channels.flat_map(|((channel, mean), deviation)| {
        channel.iter().map(move |&v| (f32::from(v) / 255.0 - mean) / deviation)
    });
    Ok(Image { pixels: pixels.collect(), class: class.into() })
}
