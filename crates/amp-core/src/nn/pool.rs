//! Pooling as modules: they keep the precision of their input.

use super::{Module, Visitor};
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{IntoExtent, PoolOptions, Result};

macro_rules! without_state {
    ($name:ident) => {
        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    };
}

macro_rules! pools {
    ($($name:ident, $op:ident, $dims:literal, $shape:literal, $what:literal;)*) => { $(
        #[doc = concat!($what, " of each window of `", $shape, "` (`torch.nn.", stringify!($name), "`).")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name(PoolOptions<$dims>);

        impl $name {
            /// Windows: a size, or [`PoolOptions`] for stride, padding and the rest.
            pub fn new(windows: impl Into<PoolOptions<$dims>>) -> Self {
                Self(windows.into())
            }

            /// The same number of images and channels, in the precision of `x`.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                x.$op(self.0)
            }
        }
        without_state!($name);
    )* };
}
pools! {
    MaxPool1d, max_pool1d, 1, "[N, C, L]", "Greatest value";
    MaxPool2d, max_pool2d, 2, "[N, C, H, W]", "Greatest value";
    MaxPool3d, max_pool3d, 3, "[N, C, D, H, W]", "Greatest value";
    AvgPool1d, avg_pool1d, 1, "[N, C, L]", "Mean";
    AvgPool2d, avg_pool2d, 2, "[N, C, H, W]", "Mean";
    AvgPool3d, avg_pool3d, 3, "[N, C, D, H, W]", "Mean";
}

macro_rules! adaptive {
    ($($name:ident, $op:ident, $dims:literal, $shape:literal, $what:literal;)*) => { $(
        #[doc = concat!($what, " of each of as many parts of `", $shape, "` as asked for (`torch.nn.", stringify!($name), "`).")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name([usize; $dims]);

        impl $name {
            /// Size of the result; 1 is one value of each channel.
            pub fn new(size: impl IntoExtent<$dims>) -> Self {
                Self(size.into_extent())
            }

            /// The same number of images and channels, in the precision of `x`.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                x.$op(self.0)
            }
        }
        without_state!($name);
    )* };
}
adaptive! {
    AdaptiveMaxPool1d, adaptive_max_pool1d, 1, "[N, C, L]", "Greatest value";
    AdaptiveMaxPool2d, adaptive_max_pool2d, 2, "[N, C, H, W]", "Greatest value";
    AdaptiveMaxPool3d, adaptive_max_pool3d, 3, "[N, C, D, H, W]", "Greatest value";
    AdaptiveAvgPool1d, adaptive_avg_pool1d, 1, "[N, C, L]", "Mean";
    AdaptiveAvgPool2d, adaptive_avg_pool2d, 2, "[N, C, H, W]", "Mean";
    AdaptiveAvgPool3d, adaptive_avg_pool3d, 3, "[N, C, D, H, W]", "Mean";
}
