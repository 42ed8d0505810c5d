//! Normalisation, pooling, resampling.

use amp::PoolOptions;
use amp::prelude::*;

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
        "max_pool2d" => (Chosen, c.x(0).max_pool2d(pool(c))?.into()),
        "avg_pool2d" => (Accumulated, c.x(0).avg_pool2d(pool(c))?.into()),
        "adaptive_max_pool2d" => (Chosen, c.x(0).adaptive_max_pool2d(c.pair("size"))?.into()),
        "adaptive_avg_pool2d" => (Accumulated, c.x(0).adaptive_avg_pool2d(c.pair("size"))?.into()),
        "upsample_nearest2d" => (Chosen, c.x(0).upsample_nearest(c.pair("size"))?.into()),
        "upsample_bilinear2d" => {
            (Accumulated, c.x(0).upsample_bilinear(c.pair("size"), c.flag("align_corners"))?.into())
        }
        _ => return Ok(None),
    }))
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
