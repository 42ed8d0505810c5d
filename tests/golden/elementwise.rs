//! Pointwise operations, activations, comparisons.

use amp::Fill;
use amp::prelude::*;

use crate::case::Tolerance::{Accumulated, Chosen, Exact, Pointwise};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "sqr" => (Pointwise, c.x(0).sqr()?.into()),
        "sqrt" => (Pointwise, c.x(0).sqrt()?.into()),
        "rsqrt" => (Pointwise, c.x(0).rsqrt()?.into()),
        "recip" => (Pointwise, c.x(0).recip()?.into()),
        "exp" => (Pointwise, c.x(0).exp()?.into()),
        "expm1" => (Pointwise, c.x(0).expm1()?.into()),
        "log" => (Pointwise, c.x(0).log()?.into()),
        "log1p" => (Pointwise, c.x(0).log1p()?.into()),
        "log2" => (Pointwise, c.x(0).log2()?.into()),
        "sin" => (Pointwise, c.x(0).sin()?.into()),
        "cos" => (Pointwise, c.x(0).cos()?.into()),
        "tanh" => (Pointwise, c.x(0).tanh()?.into()),
        "sigmoid" => (Pointwise, c.x(0).sigmoid()?.into()),
        "erf" => (Pointwise, c.x(0).erf()?.into()),
        "gelu" => (Pointwise, c.x(0).gelu()?.into()),
        "gelu_tanh" => (Pointwise, c.x(0).gelu_tanh()?.into()),
        "silu" => (Pointwise, c.x(0).silu()?.into()),
        "hardswish" => (Pointwise, c.x(0).hardswish()?.into()),
        "relu6" => (Exact, c.x(0).relu6()?.into()),
        "hardtanh" => (Exact, c.x(0).hardtanh(c.float_or("min", -1.0), c.float_or("max", 1.0))?.into()),
        "hardsigmoid" => (Pointwise, c.x(0).hardsigmoid()?.into()),
        "selu" => (Pointwise, c.x(0).selu()?.into()),
        "celu" => (Pointwise, c.x(0).celu(c.float_or("alpha", 1.0))?.into()),
        "mish" => (Pointwise, c.x(0).mish()?.into()),
        "softsign" => (Pointwise, c.x(0).softsign()?.into()),
        "glu" => (Pointwise, c.x(0).glu(c.axis())?.into()),
        "abs" => (Exact, c.x(0).abs()?.into()),
        "neg" => (Exact, (-c.x(0))?.into()),
        "sign" => (Exact, c.x(0).sign()?.into()),
        "relu" => (Exact, c.x(0).relu()?.into()),
        "leaky_relu" => (Pointwise, c.x(0).leaky_relu(c.float_or("negative_slope", 0.01))?.into()),
        "elu" => (Pointwise, c.x(0).elu(c.float_or("alpha", 1.0))?.into()),
        "softplus" => (Pointwise, c.x(0).softplus_with(c.float_or("beta", 1.0), c.float_or("threshold", 20.0))?.into()),
        "prelu" => (Pointwise, c.x(0).prelu(&c.x(1))?.into()),
        "clamp" => (Exact, c.x(0).clamp(c.float("min"), c.float("max"))?.into()),
        "add" => (Pointwise, (c.x(0) + c.x(1))?.into()),
        "sub" => (Pointwise, (c.x(0) - c.x(1))?.into()),
        "mul" => (Pointwise, (c.x(0) * c.x(1))?.into()),
        "div" => (Pointwise, (c.x(0) / c.x(1))?.into()),
        "add_scalar" => (Pointwise, (c.x(0) + scalar(c))?.into()),
        "sub_scalar" => (Pointwise, (c.x(0) - scalar(c))?.into()),
        "mul_scalar" => (Pointwise, (c.x(0) * scalar(c))?.into()),
        "div_scalar" => (Pointwise, (c.x(0) / scalar(c))?.into()),
        "rsub_scalar" => (Pointwise, (c.float("scalar") - c.x(0))?.into()),
        "rdiv_scalar" => (Pointwise, (c.float("scalar") / c.x(0))?.into()),
        "minimum" => (Chosen, c.x(0).minimum(c.x(1))?.into()),
        "maximum" => (Chosen, c.x(0).maximum(c.x(1))?.into()),
        "pow" => (Pointwise, c.x(0).pow(c.x(1))?.into()),
        "powf" => (Pointwise, c.x(0).pow(c.float("exponent") as f32)?.into()),
        "lerp" => (Accumulated, c.x(0).lerp(&c.x(1), c.x(2))?.into()),
        "lerp_scalar" => (Accumulated, c.x(0).lerp(&c.x(1), c.float("weight") as f32)?.into()),
        "addcmul" => (Accumulated, c.x(0).addcmul(&c.x(1), &c.x(2), c.float("value"))?.into()),
        "addcdiv" => (Accumulated, c.x(0).addcdiv(&c.x(1), &c.x(2), c.float("value"))?.into()),
        "where" => (Chosen, c.mask(0).where_(&c.x(1), c.x(2))?.into()),
        "masked_select" => (Chosen, c.x(0).masked_select(&c.mask(1))?.into()),
        "nonzero" => (Exact, c.x(0).relu()?.nonzero()?.into()),
        "masked_fill" => (Exact, c.x(0).masked_fill(&c.mask(1), c.float("value") as f32)?.into()),
        "masked_fill_neg_inf" => (Exact, c.x(0).masked_fill(&c.mask(1), Fill::NegInf)?.into()),
        "masked_fill_lowest" => (Exact, c.x(0).masked_fill(&c.mask(1), Fill::Lowest)?.into()),
        "eq" => (Exact, c.x(0).eq(c.x(1))?.into()),
        "ne" => (Exact, c.x(0).ne(c.x(1))?.into()),
        "lt" => (Exact, c.x(0).lt(c.x(1))?.into()),
        "le" => (Exact, c.x(0).le(c.x(1))?.into()),
        "gt" => (Exact, c.x(0).gt(c.x(1))?.into()),
        "ge" => (Exact, c.x(0).ge(c.x(1))?.into()),
        _ => return Ok(None),
    }))
}

fn scalar(c: &Case) -> f32 {
    c.float("scalar") as f32
}
