//! Modules that move channels and pixels; they keep the precision of their input.

use super::{Module, Visitor};
use crate::Result;
use crate::precision::Float;
use crate::tensor::Tensor;

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident, $op:ident, $number:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(usize);

        impl $name {
            #[doc = $number]
            pub fn new(number: usize) -> Self {
                Self(number)
            }

            /// The same elements, in the precision of `x`.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                x.$op(self.0)
            }
        }

        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )* };
}
shuffles! {
    /// `[.., C r², H, W]` to `[.., C, H r, W r]` (`torch.nn.PixelShuffle`).
    PixelShuffle, pixel_shuffle, "The factor r.";
    /// `[.., C, H r, W r]` to `[.., C r², H, W]` (`torch.nn.PixelUnshuffle`).
    PixelUnshuffle, pixel_unshuffle, "The factor r.";
    /// `[N, C, ..]` with the channels of groups in turns (`torch.nn.ChannelShuffle`).
    ChannelShuffle, channel_shuffle, "The number of groups.";
}

/// One axis divided into several (`torch.nn.Unflatten`).
#[derive(Clone, Debug)]
pub struct Unflatten {
    axis: isize,
    sizes: Vec<usize>,
}

impl Unflatten {
    /// `axis`, negative from the end, into axes of these sizes.
    pub fn new(axis: isize, sizes: impl Into<Vec<usize>>) -> Self {
        Self { axis, sizes: sizes.into() }
    }

    /// The same elements, in the precision of `x`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) unless the sizes make up that of the axis.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let at = crate::shape::axis("Unflatten", self.axis, x.rank())?;
        let (before, after) = (&x.dims()[..at], &x.dims()[at + 1..]);
        x.reshape([before, &self.sizes, after].concat())
    }
}

impl Module for Unflatten {
    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}
