//! Telling images apart: the task of the image models.

use super::Failure;
use super::images::Images;
use super::training::{Task, accuracy};
use amp::nn::Module;
use amp::prelude::*;
use std::path::Path;

/// A model that scores the classes of images `[N, C, side, side]`, as `[N, classes]`.
pub trait Classifier: Module {
    /// The scores, with regions of precision `P`.
    fn scores<P: AutocastPrecision>(&self, images: &Tensor<F32>) -> Result<Tensor<F32>>;
}

/// A model and the images it learns.
#[derive(Debug)]
pub struct Classify<N> {
    /// The model.
    pub net: N,
    images: Images,
    device: Device,
}

impl<N: Classifier> Classify<N> {
    /// CIFAR-10 of a directory or else the shipped digits, and a fresh model for them; all of it follows from `seed`.
    pub fn new(
        data: Option<&Path>,
        seed: u64,
        device: &Device,
        net: impl FnOnce(&Images) -> Result<N>,
    ) -> Result<Self, Failure> {
        let images = Images::load(data, seed, device)?;
        amp::manual_seed(seed);
        Ok(Self { net: net(&images)?, images, device: device.clone() })
    }
}

impl<N: Classifier> Task for Classify<N> {
    type Batch = (Tensor<F32>, Tensor<I64>);

    fn count(&self) -> usize {
        self.images.train.len()
    }

    fn batch(&self, chosen: &[usize]) -> Result<Self::Batch> {
        self.images.augmented(chosen, &self.device)
    }

    fn loss<P: AutocastPrecision>(&self, (images, classes): &Self::Batch) -> Result<Tensor<F32>> {
        self.net.scores::<P>(images)?.cross_entropy(classes)
    }

    fn score<P: AutocastPrecision>(&self) -> Result<f64> {
        self.net.eval();
        accuracy(self.images.test.chunks(100).map(|chunk| {
            let (images, classes) = self.images.batch(chunk.iter(), &self.device)?;
            Ok((self.net.scores::<P>(&images)?, classes))
        }))
    }
}
