//! Pointwise operations, activations, comparisons.

use amp::prelude::*;

use crate::case::Tolerance::{Exact, Pointwise};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "exp" => (Pointwise, c.x(0).exp()?.into()),
        "log" => (Pointwise, c.x(0).log()?.into()),
        "tanh" => (Pointwise, c.x(0).tanh()?.into()),
        "relu" => (Exact, c.x(0).relu()?.into()),
        "add" => (Pointwise, (c.x(0) + c.x(1))?.into()),
        "sub" => (Pointwise, (c.x(0) - c.x(1))?.into()),
        "mul" => (Pointwise, (c.x(0) * c.x(1))?.into()),
        "div" => (Pointwise, (c.x(0) / c.x(1))?.into()),
        "add_scalar" => (Pointwise, (c.x(0) + c.float("scalar") as f32)?.into()),
        "sub_scalar" => (Pointwise, (c.x(0) - c.float("scalar") as f32)?.into()),
        "mul_scalar" => (Pointwise, (c.x(0) * c.float("scalar") as f32)?.into()),
        "div_scalar" => (Pointwise, (c.x(0) / c.float("scalar") as f32)?.into()),
        _ => return Ok(None),
    }))
}
