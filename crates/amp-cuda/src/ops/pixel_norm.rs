//! Batch normalisation of images whose channels lie together, `[pixels, channels]`, in packs of neighbouring channels.

use super::reduction::{JOINING, Moments};
use super::{PACK, team};
use crate::args::{PixelMomentsArgs, PixelNormArgs, PixelNormGradArgs};
use crate::device::{Gpu, Memory, THREADS};
use crate::module::Family::PixelNorm as FAMILY;
use crate::operand::{Compute, Operand, in_packs};
use amp_core::Result;
use amp_core::backend::DType;

/// Blocks that add up the pixels of the same channels: enough to keep all multiprocessors busy, and few enough to be joined soon.
const PARTS: usize = 256;
/// Packs of a thread that are worth what it reads for its channels first.
const PER_THREAD: usize = 4;

/// Images as a matrix `[pixels, channels]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pixels {
    pixels: usize,
    channels: usize,
}

impl Pixels {
    /// `[pixels, channels]`, if all tensors of the call and vectors of channels lie in whole packs of channels; `out` is the type of
    /// the result.
    pub fn new([pixels, channels]: [usize; 2], compute: Compute, read: &[&Operand], out: i32) -> Option<Self> {
        let lies = |x: &&Operand| x.data == 0 || x.is_in_packs();
        let whole = pixels > 0 && channels > 0 && channels.is_multiple_of(PACK) && compute == Compute::F32;
        (whole && read.iter().all(lies) && in_packs(out)).then_some(Self { pixels, channels })
    }

    /// Blocks side by side, and pixels that one takes at a time; `Pixels` of `pixel_norm.cu`.
    fn blocks(self) -> (usize, usize) {
        let (packs, threads) = (self.channels / PACK, THREADS as usize);
        (packs.div_ceil(threads), (threads / packs).max(1))
    }

    /// Parts that are added up apart, and pixels of one.
    fn parts(self) -> (usize, usize) {
        let per_split = self.pixels.div_ceil(PARTS).max(self.blocks().1 * PER_THREAD);
        (self.pixels.div_ceil(per_split), per_split)
    }

    fn grid(self, parts: usize) -> ([u64; 3], u32) {
        ([self.blocks().0 as u64, parts as u64, 1], THREADS)
    }
}

impl Gpu {
    /// Blocks for a loop over all pixels: as many as run at a time, so that none waits to read what belongs to its channels while
    /// others have nothing on their way.
    fn all(&self, of: Pixels) -> ([u64; 3], u32) {
        const PER_MULTIPROCESSOR: usize = 4;
        let (beside, rows) = of.blocks();
        let most = (self.multiprocessors() * PER_MULTIPROCESSOR).div_ceil(beside);
        of.grid(of.pixels.div_ceil(rows * PER_THREAD).min(most))
    }

    /// Mean and squared deviations of each channel, in parts.
    pub(super) fn pixel_moments(&self, of: Pixels, x: Operand) -> Result<Moments> {
        let (splits, per_split) = of.parts();
        let partial = || self.memory("normalize", splits * of.channels, DType::F32);
        let made = Moments {
            mean: partial()?,
            squares: partial()?,
            outputs: of.channels,
            count: of.pixels,
            per_split,
            splits,
        };
        let args = PixelMomentsArgs {
            x,
            mean: made.mean.address(),
            squares: made.squares.address(),
            pixels: of.pixels as i64,
            channels: of.channels as i64,
            per_split: per_split as i64,
        };
        self.launch(FAMILY, "pixel_moments", Some(Compute::F32), of.grid(splits), args)?;
        Ok(made)
    }

    /// Normalises, with a residual and relu behind it or without; sizes are filled in.
    pub(super) fn pixel_norm(&self, of: Pixels, args: PixelNormArgs) -> Result<()> {
        let args = PixelNormArgs { pixels: of.pixels as i64, channels: of.channels as i64, ..args };
        self.launch(FAMILY, "pixel_norm", Some(Compute::F32), self.all(of), args)
    }

    /// Gradient of the input, and sums over each channel of `grad * normal` and of `grad`; sizes, parts and sums are filled in.
    pub(super) fn pixel_norm_grad(&self, of: Pixels, args: PixelNormGradArgs) -> Result<(Memory, Memory)> {
        let ((splits, per_split), compute) = (of.parts(), Some(Compute::F32));
        let memory = |len| self.memory("normalize", len, DType::F32);
        let (parts, normal, grad) = (memory(2 * splits * of.channels)?, memory(of.channels)?, memory(of.channels)?);
        let args = PixelNormGradArgs {
            sum_normal: normal.address(),
            sum_grad: grad.address(),
            parts: parts.address(),
            pixels: of.pixels as i64,
            channels: of.channels as i64,
            per_split: per_split as i64,
            splits: splits as i64,
            ..args
        };
        self.launch(FAMILY, "pixel_norm_sums", compute, of.grid(splits), args)?;
        self.launch(FAMILY, "pixel_norm_join", compute, team(2 * of.channels * JOINING, true), args)?;
        self.launch(FAMILY, "pixel_norm_grad", compute, self.all(of), args)?;
        Ok((normal, grad))
    }
}
