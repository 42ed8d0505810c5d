//! Normalisation, pooling, resampling.

use amp::PoolOptions;
use amp::prelude::*;

use crate::case::Tolerance::{Accumulated, Chosen};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
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

fn pool(c: &Case) -> PoolOptions<2> {
    let options = PoolOptions::new(c.pair("kernel")).stride(c.pair("stride")).padding(c.pair("padding"));
    let options = if c.given("dilation") { options.dilation(c.pair("dilation")) } else { options };
    let count = !c.given("count_include_pad") || c.flag("count_include_pad");
    options.ceil_mode(c.flag("ceil_mode")).count_include_pad(count)
}
