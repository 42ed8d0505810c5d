//! Padding as a layer.

use super::{Module, Visitor};
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{IntoExtent, Result};

macro_rules! paddings {
    ($($(#[$doc:meta])* $name:ident, $dims:literal, $op:ident $(($value:literal))?;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name([usize; 2 * $dims]);

        impl $name {
            /// One count for all sides, or a count before and one after for each dimension, the last dimension first:
            /// `[left, right, ..]`.
            pub fn new(padding: impl IntoExtent<{ 2 * $dims }>) -> Self {
                Self(padding.into_extent())
            }

            /// `[.., L]`, `[.., H, W]` or `[.., D, H, W]` to a larger one, in the precision of `x`.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                x.$op(self.0 $(, $value)?)
            }
        }

        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )* };
}
paddings! {
    /// Zeros around the last dimension (`torch.nn.ZeroPad1d`).
    ZeroPad1d, 1, pad(0.0);
    /// Zeros around the last two dimensions (`torch.nn.ZeroPad2d`).
    ZeroPad2d, 2, pad(0.0);
    /// Zeros around the last three dimensions (`torch.nn.ZeroPad3d`).
    ZeroPad3d, 3, pad(0.0);
    /// The last dimension mirrored about its ends (`torch.nn.ReflectionPad1d`).
    ReflectionPad1d, 1, reflection_pad1d;
    /// The last two dimensions mirrored about their ends (`torch.nn.ReflectionPad2d`).
    ReflectionPad2d, 2, reflection_pad2d;
    /// The last three dimensions mirrored about their ends (`torch.nn.ReflectionPad3d`).
    ReflectionPad3d, 3, reflection_pad3d;
    /// The ends of the last dimension repeated (`torch.nn.ReplicationPad1d`).
    ReplicationPad1d, 1, replication_pad1d;
    /// The ends of the last two dimensions repeated (`torch.nn.ReplicationPad2d`).
    ReplicationPad2d, 2, replication_pad2d;
    /// The ends of the last three dimensions repeated (`torch.nn.ReplicationPad3d`).
    ReplicationPad3d, 3, replication_pad3d;
    /// The last dimension continued with its other end (`torch.nn.CircularPad1d`).
    CircularPad1d, 1, circular_pad1d;
    /// The last two dimensions continued with their other ends (`torch.nn.CircularPad2d`).
    CircularPad2d, 2, circular_pad2d;
    /// The last three dimensions continued with their other ends (`torch.nn.CircularPad3d`).
    CircularPad3d, 3, circular_pad3d;
}

macro_rules! constants {
    ($($name:ident, $dims:literal, $what:literal;)*) => { $(
        #[doc = concat!("One value around the last ", $what, " (`torch.nn.", stringify!($name), "`).")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            padding: [usize; 2 * $dims],
            value: f64,
        }

        impl $name {
            /// One count for all sides, or a count before and one after for each dimension, the last dimension first; and the
            /// value, which is rounded to the precision of what is padded.
            pub fn new(padding: impl IntoExtent<{ 2 * $dims }>, value: f64) -> Self {
                Self { padding: padding.into_extent(), value }
            }

            /// To a larger one, in the precision of `x`.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                x.pad(self.padding, self.value)
            }
        }

        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )* };
}
constants! {
    ConstantPad1d, 1, "dimension";
    ConstantPad2d, 2, "two dimensions";
    ConstantPad3d, 3, "three dimensions";
}
