//! How each operation of the file is called here, and how exact it must be: one line each.

use amp::prelude::*;

use crate::case::Tolerance::{Accumulated, Exact, Pointwise};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when the table has no such operation.
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
        "sum" => (Accumulated, c.x(0).sum(axes(c), c.flag("keepdim"))?.into()),
        "mean" => (Accumulated, c.x(0).mean(axes(c), c.flag("keepdim"))?.into()),
        "permute" => (Exact, c.x(0).permute(c.axes("axes"))?.into()),
        "transpose" => (Exact, c.x(0).transpose(c.int("a") as isize, c.int("b") as isize)?.into()),
        "narrow" => (Exact, c.x(0).narrow(c.axis(), c.size("start"), c.size("length"))?.into()),
        "expand" => (Accumulated, c.x(0).expand(c.sizes("shape"))?.into()),
        "reshape" if c.name.ends_with("of_transposed") => (Exact, c.x(0).t()?.reshape(c.sizes("shape"))?.into()),
        "reshape" => (Exact, c.x(0).reshape(c.sizes("shape"))?.into()),
        _ => return Ok(None),
    }))
}

/// The axes of a reduction; none given means all.
fn axes(c: &Case) -> Vec<isize> {
    if c.given("axes") { c.axes("axes") } else { Vec::new() }
}
