//! Normalisation, pooling, resampling.

use amp::prelude::*;
use amp::{GridMode, GridOptions, GridPadding, PoolOptions};

use crate::case::Tolerance::{Accumulated, Chosen};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "layer_norm" => {
            let y = c.x(0).layer_norm(c.sizes("shape"), c.maybe(1).as_ref(), c.maybe(2).as_ref(), eps(c, 1e-5))?;
            (Accumulated, y.into())
        }
        "rms_norm" => (Accumulated, c.x(0).rms_norm(c.sizes("shape"), c.maybe(1).as_ref(), eps(c, 1e-6))?.into()),
        "group_norm" => {
            let y = c.x(0).group_norm(c.size("groups"), c.maybe(1).as_ref(), c.maybe(2).as_ref(), eps(c, 1e-5))?;
            (Accumulated, y.into())
        }
        "instance_norm" => {
            (Accumulated, c.x(0).instance_norm(c.maybe(1).as_ref(), c.maybe(2).as_ref(), eps(c, 1e-5))?.into())
        }
        "batch_norm_train" => {
            (Accumulated, c.x(0).batch_norm_train(c.maybe(1).as_ref(), c.maybe(2).as_ref(), eps(c, 1e-5))?.0.into())
        }
        "batch_norm_eval" => {
            let (mean, var) = (c.x(1).detach(), c.x(2).detach());
            let y = c.x(0).batch_norm_eval(&mean, &var, c.maybe(3).as_ref(), c.maybe(4).as_ref(), eps(c, 1e-5))?;
            (Accumulated, y.into())
        }
        "fractional_max_pool2d" => {
            let samples = c.x(1).detach();
            (Chosen, c.x(0).fractional_max_pool2d_with(c.pair("kernel"), c.pair("size"), &samples)?.into())
        }
        "fractional_max_pool3d" => {
            let (kernel, size, samples) = (c.extent::<3>("kernel"), c.extent::<3>("size"), c.x(1).detach());
            (Chosen, c.x(0).fractional_max_pool3d_with(kernel, size, &samples)?.into())
        }
        "max_pool2d" => (Chosen, c.x(0).max_pool2d(pool(c))?.into()),
        "avg_pool2d" => (Accumulated, c.x(0).avg_pool2d(pool(c))?.into()),
        "adaptive_max_pool2d" => (Chosen, c.x(0).adaptive_max_pool2d(c.pair("size"))?.into()),
        "adaptive_avg_pool2d" => (Accumulated, c.x(0).adaptive_avg_pool2d(c.pair("size"))?.into()),
        "upsample_nearest2d" => (Chosen, c.x(0).upsample_nearest(c.pair("size"))?.into()),
        "upsample_bilinear2d" => {
            (Accumulated, c.x(0).upsample_bilinear(c.pair("size"), c.flag("align_corners"))?.into())
        }
        "upsample_nearest1d" => (Chosen, c.x(0).upsample_nearest1d(c.extent::<1>("size")[0])?.into()),
        "upsample_nearest3d" => (Chosen, c.x(0).upsample_nearest3d(c.extent::<3>("size"))?.into()),
        "upsample_linear1d" => {
            (Accumulated, c.x(0).upsample_linear1d(c.extent::<1>("size")[0], c.flag("align_corners"))?.into())
        }
        "upsample_trilinear3d" => {
            (Accumulated, c.x(0).upsample_trilinear3d(c.extent::<3>("size"), c.flag("align_corners"))?.into())
        }
        "upsample_bicubic2d" => {
            (Accumulated, c.x(0).upsample_bicubic2d(c.pair("size"), c.flag("align_corners"))?.into())
        }
        "affine_grid" => (Accumulated, c.x(0).affine_grid(c.pair("size"), c.flag("align_corners"))?.into()),
        "grid_sample" => (Accumulated, c.x(0).grid_sample(&c.x(1), grid(c))?.into()),
        "local_response_norm" => {
            let y = c.x(0).local_response_norm(c.size("size"), c.float("alpha"), c.float("beta"), c.float("k"))?;
            (Accumulated, y.into())
        }
        _ => return Ok(None),
    }))
}

fn grid(c: &Case) -> GridOptions {
    let mode = match c.text("mode") {
        "bilinear" => GridMode::Bilinear,
        "nearest" => GridMode::Nearest,
        _ => GridMode::Bicubic,
    };
    let padding = match c.text("padding") {
        "zeros" => GridPadding::Zeros,
        "border" => GridPadding::Border,
        _ => GridPadding::Reflection,
    };
    GridOptions::default().mode(mode).padding(padding).align_corners(c.flag("align_corners"))
}

fn eps(c: &Case, default: f64) -> f64 {
    c.float_or("eps", default)
}

fn pool(c: &Case) -> PoolOptions<2> {
    let options = PoolOptions::new(c.pair("kernel")).stride(c.pair("stride")).padding(c.pair("padding"));
    let options = if c.given("dilation") { options.dilation(c.pair("dilation")) } else { options };
    let count = !c.given("count_include_pad") || c.flag("count_include_pad");
    options.ceil_mode(c.flag("ceil_mode")).count_include_pad(count)
}
