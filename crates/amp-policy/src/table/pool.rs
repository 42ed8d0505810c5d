//! Pooling, padding and resampling.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("upsample_nearest1d", Family::Resample, Class::Full, "backward accumulates many pixels").implemented(),
    Op::new("upsample_nearest2d", Family::Resample, Class::Full, "backward accumulates many pixels")
        .instead("`upsample_nearest`"),
    Op::new("upsample_nearest", Family::Resample, Class::Full, "backward accumulates many pixels")
        .torch("upsample_nearest2d")
        .implemented()
        .direct(),
    Op::new("upsample_nearest3d", Family::Resample, Class::Full, "backward accumulates many pixels").implemented(),
    Op::new("_upsample_nearest_exact1d", Family::Resample, Class::Full, "same as nearest"),
    Op::new("_upsample_nearest_exact2d", Family::Resample, Class::Full, "same as nearest"),
    Op::new("_upsample_nearest_exact3d", Family::Resample, Class::Full, "same as nearest"),
    Op::new("upsample_linear1d", Family::Resample, Class::Full, "coordinate precision and backward accumulation")
        .implemented(),
    Op::new("upsample_bilinear2d", Family::Resample, Class::Full, "coordinate precision and backward accumulation")
        .instead("`upsample_bilinear`"),
    Op::new("upsample_bilinear", Family::Resample, Class::Full, "coordinate precision and backward accumulation")
        .torch("upsample_bilinear2d")
        .implemented()
        .direct(),
    Op::new("_upsample_bilinear2d_aa", Family::Resample, Class::Full, "filter weight accumulation"),
    Op::new("upsample_trilinear3d", Family::Resample, Class::Full, "coordinate precision").implemented(),
    Op::new("upsample_bicubic2d", Family::Resample, Class::Full, "coordinate precision").implemented(),
    Op::new("_upsample_bicubic2d_aa", Family::Resample, Class::Full, "filter weight accumulation"),
    Op::new(
        "grid_sample",
        Family::Resample,
        Class::Widest,
        "grid and input dtypes must match: promote on CUDA; fp32 on CPU",
    )
    .torch("grid_sampler")
    .tensors(&[0, 1])
    .implemented(),
    Op::new("grid_sampler_2d", Family::Resample, Class::Keep, "CPU internal entry")
        .instead("`grid_sample`")
        .tensors(&[0, 1]),
    Op::new("grid_sampler_3d", Family::Resample, Class::Keep, "CPU internal entry").tensors(&[0, 1]),
    Op::new("_grid_sampler_2d_cpu_fallback", Family::Resample, Class::Keep, "CPU internal entry"),
    Op::new(
        "affine_grid",
        Family::Resample,
        Class::Keep,
        "CPU inherits lower from its bmm so sampling coordinates become bf16 (accuracy trap)",
    )
    .implemented(),
    Op::new("pixel_shuffle", Family::Resample, Class::Keep, "data movement").implemented(),
    Op::new("pixel_unshuffle", Family::Resample, Class::Keep, "data movement").torch("pixel_shuffle").implemented(),
    Op::new("avg_pool3d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("adaptive_avg_pool3d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("max_pool3d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("max_pool3d_with_indices", Family::Pool, Class::Keep, "no 16-bit CPU kernel")
        .torch("max_pool3d")
        .implemented(),
    Op::new("adaptive_max_pool3d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("fractional_max_pool2d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("fractional_max_pool2d_with", Family::Pool, Class::Keep, "no 16-bit CPU kernel")
        .torch("fractional_max_pool2d")
        .implemented(),
    Op::new("fractional_max_pool3d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("fractional_max_pool3d_with", Family::Pool, Class::Keep, "no 16-bit CPU kernel")
        .torch("fractional_max_pool3d")
        .implemented(),
    Op::new("max_unpool2d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("max_unpool3d", Family::Pool, Class::Keep, "no 16-bit CPU kernel").implemented(),
    Op::new("reflection_pad1d", Family::Pad, Class::Keep, "no 16-bit CPU kernel when listed").implemented(),
    Op::new("reflection_pad2d", Family::Pad, Class::Keep, "no 16-bit CPU kernel when listed").implemented(),
    Op::new("replication_pad1d", Family::Pad, Class::Keep, "no 16-bit CPU kernel when listed").implemented(),
    Op::new("replication_pad2d", Family::Pad, Class::Keep, "no 16-bit CPU kernel when listed").implemented(),
    Op::new("replication_pad3d", Family::Pad, Class::Keep, "no 16-bit CPU kernel when listed").implemented(),
    Op::new("max_pool2d", Family::Pool, Class::Keep, "exact selection").implemented(),
    Op::new("max_pool1d", Family::Pool, Class::Keep, "exact selection").torch("max_pool2d").implemented(),
    Op::new("max_pool1d_with_indices", Family::Pool, Class::Keep, "exact selection").torch("max_pool2d").implemented(),
    Op::new("max_pool2d_with_indices", Family::Pool, Class::Keep, "exact selection").torch("max_pool2d").implemented(),
    Op::new("avg_pool1d", Family::Pool, Class::Keep, "kernel accumulates in fp32").implemented(),
    Op::new("avg_pool2d", Family::Pool, Class::Keep, "kernel accumulates in fp32").implemented(),
    Op::new("adaptive_avg_pool2d", Family::Pool, Class::Keep, "kernel accumulates in fp32").implemented(),
    Op::new("adaptive_avg_pool1d", Family::Pool, Class::Keep, "kernel accumulates in fp32")
        .torch("adaptive_avg_pool2d")
        .implemented(),
    Op::new("adaptive_max_pool2d", Family::Pool, Class::Keep, "exact selection").implemented(),
    Op::new("adaptive_max_pool1d", Family::Pool, Class::Keep, "exact selection")
        .torch("adaptive_max_pool2d")
        .implemented(),
    Op::new("adaptive_max_pool1d_with_indices", Family::Pool, Class::Keep, "exact selection")
        .torch("adaptive_max_pool2d")
        .implemented(),
    Op::new("adaptive_max_pool2d_with_indices", Family::Pool, Class::Keep, "exact selection")
        .torch("adaptive_max_pool2d")
        .implemented(),
    Op::new("lp_pool2d", Family::Pool, Class::Full, "not registered: CUDA inherits fp32 from pow").implemented(),
    Op::new("pad", Family::Pad, Class::Keep, "constant fill").implemented(),
    Op::new("reflection_pad3d", Family::Pad, Class::Keep, "not on the CPU list although 1d and 2d are").implemented(),
    Op::new("circular_pad1d", Family::Pad, Class::Keep, "data movement").torch("pad").implemented(),
    Op::new("circular_pad2d", Family::Pad, Class::Keep, "data movement").torch("pad").implemented(),
    Op::new("circular_pad3d", Family::Pad, Class::Keep, "data movement").torch("pad").implemented(),
];
