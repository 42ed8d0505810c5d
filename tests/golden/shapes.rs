//! Shape operations and indexing.

use amp::prelude::*;

use crate::case::Tolerance::{Chosen, Exact};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "permute" => (Exact, c.x(0).permute(c.axes("axes"))?.into()),
        "transpose" => (Exact, c.x(0).transpose(c.int("a") as isize, c.int("b") as isize)?.into()),
        "narrow" => (Exact, c.x(0).narrow(c.axis(), c.size("start"), c.size("length"))?.into()),
        "expand" => (Chosen, c.x(0).expand(c.sizes("shape"))?.into()),
        "reshape" if c.name.ends_with("of_transposed") => (Exact, c.x(0).t()?.reshape(c.sizes("shape"))?.into()),
        "reshape" => (Exact, c.x(0).reshape(c.sizes("shape"))?.into()),
        _ => return Ok(None),
    }))
}
