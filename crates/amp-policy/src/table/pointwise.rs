//! Element-wise arithmetic, functions and comparison.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("acos", Family::Pointwise, Class::Full, "derivative blows up near +-1").implemented().direct(),
    Op::new("asin", Family::Pointwise, Class::Full, "derivative blows up near +-1").implemented().direct(),
    Op::new("cosh", Family::Pointwise, Class::Full, "exponential range overflow (abs x > 11.8 in fp16)")
        .implemented()
        .direct(),
    Op::new("sinh", Family::Pointwise, Class::Full, "exponential range overflow").implemented().direct(),
    Op::new("tan", Family::Pointwise, Class::Full, "poles give huge values").implemented().direct(),
    Op::new("erfinv", Family::Pointwise, Class::Full, "unbounded near +-1").implemented().direct(),
    Op::new("exp", Family::Pointwise, Class::Full, "overflow: exp(11.1)>65504 in fp16").implemented().direct(),
    Op::new("expm1", Family::Pointwise, Class::Full, "overflow plus cancellation").implemented().direct(),
    Op::new("log", Family::Pointwise, Class::Full, "small arguments: fp16 flushes below 6e-8 to 0 giving -inf")
        .implemented()
        .direct(),
    Op::new("log10", Family::Pointwise, Class::Full, "same as log").implemented().direct(),
    Op::new("log2", Family::Pointwise, Class::Full, "same as log").implemented().direct(),
    Op::new("log1p", Family::Pointwise, Class::Full, "precision near 0").implemented().direct(),
    Op::new("reciprocal", Family::Pointwise, Class::Full, "1/x overflows fp16 for x<1.5e-5").implemented().direct(),
    Op::new("recip", Family::Pointwise, Class::Full, "1/x overflows fp16 for x<1.5e-5")
        .torch("reciprocal")
        .implemented()
        .direct(),
    Op::new("rsqrt", Family::Pointwise, Class::Full, "1/sqrt(x) overflow and eps underflow").implemented().direct(),
    Op::new(
        "pow",
        Family::Pointwise,
        Class::Full,
        "range overflow; all three overloads (T^s T^T s^T) incl. ** operator",
    )
    .tensors(&[0, 1])
    .implemented()
    .direct(),
    Op::new("square", Family::Pointwise, Class::Full, "not registered: implemented as pow(x 2) so CUDA inherits fp32")
        .implemented()
        .direct(),
    Op::new("sqr", Family::Pointwise, Class::Full, "not registered: implemented as pow(x 2) so CUDA inherits fp32")
        .torch("square")
        .implemented()
        .direct(),
    Op::new("__rpow__", Family::Pointwise, Class::Full, "scalar**tensor goes through pow"),
    Op::new("__rtruediv__", Family::Pointwise, Class::Full, "scalar/tensor goes through reciprocal")
        .instead("`1.0 / x`"),
    Op::new("addcdiv", Family::Pointwise, Class::Widest, "several inputs must share a dtype")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("addcmul", Family::Pointwise, Class::Widest, "several inputs must share a dtype")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("atan2", Family::Pointwise, Class::Widest, "two inputs must share a dtype").tensors(&[0, 1]).implemented(),
    Op::new("cross", Family::Pointwise, Class::Widest, "two inputs must share a dtype").tensors(&[0, 1]).implemented(),
    Op::new("add", Family::Pointwise, Class::Widest, "native type promotion to the widest operand")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("sub", Family::Pointwise, Class::Widest, "native type promotion").tensors(&[0, 1]).implemented(),
    Op::new("diff", Family::Pointwise, Class::Keep, "one subtraction").torch("sub").implemented(),
    Op::new("mul", Family::Pointwise, Class::Widest, "native type promotion").tensors(&[0, 1]).implemented(),
    Op::new("div", Family::Pointwise, Class::Widest, "native type promotion").tensors(&[0, 1]).implemented(),
    Op::new("floor_divide", Family::Pointwise, Class::Widest, "native type promotion").tensors(&[0, 1]).implemented(),
    Op::new("remainder", Family::Pointwise, Class::Widest, "native type promotion").tensors(&[0, 1]).implemented(),
    Op::new("fmod", Family::Pointwise, Class::Widest, "native type promotion").tensors(&[0, 1]).implemented(),
    Op::new("maximum", Family::Pointwise, Class::Widest, "exact selection").tensors(&[0, 1]).implemented(),
    Op::new("minimum", Family::Pointwise, Class::Widest, "exact selection").tensors(&[0, 1]).implemented(),
    Op::new("fmax", Family::Pointwise, Class::Widest, "exact selection").tensors(&[0, 1]).implemented(),
    Op::new("fmin", Family::Pointwise, Class::Widest, "exact selection").tensors(&[0, 1]).implemented(),
    Op::new("hypot", Family::Pointwise, Class::Widest, "unlisted although squares may overflow fp16")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("logaddexp", Family::Pointwise, Class::Full, "unlisted in PyTorch; MXNet forces fp32")
        .tensors(&[0, 1])
        .departs("exponentials are summed inside")
        .implemented()
        .direct(),
    Op::new("logaddexp2", Family::Pointwise, Class::Full, "unlisted in PyTorch; MXNet forces fp32")
        .torch("logaddexp")
        .tensors(&[0, 1])
        .departs("exponentials are summed inside")
        .implemented()
        .direct(),
    Op::new("xlogy", Family::Pointwise, Class::Widest, "unlisted").tensors(&[0, 1]).implemented(),
    Op::new("heaviside", Family::Pointwise, Class::Widest, "exact").torch("copysign").tensors(&[0, 1]).implemented(),
    Op::new("copysign", Family::Pointwise, Class::Widest, "exact").tensors(&[0, 1]).implemented(),
    Op::new("lerp", Family::Pointwise, Class::Widest, "requires equal dtypes; mixed inputs raise")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("where", Family::Pointwise, Class::Widest, "native type promotion").instead("`where_`").tensors(&[1, 2]),
    Op::new("where_", Family::Pointwise, Class::Widest, "native type promotion")
        .torch("where")
        .tensors(&[1, 2])
        .implemented(),
    Op::new("clamp", Family::Pointwise, Class::Keep, "exact selection").implemented(),
    Op::new("clamp_min", Family::Pointwise, Class::Keep, "exact selection").torch("clamp").implemented(),
    Op::new("clamp_max", Family::Pointwise, Class::Keep, "exact selection").torch("clamp").implemented(),
    Op::new("clamp_between", Family::Pointwise, Class::Widest, "exact selection")
        .torch("maximum")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("isin", Family::Compare, Class::Widest, "bool output; native promotion")
        .torch("eq")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("eq", Family::Compare, Class::Widest, "bool output; native promotion").tensors(&[0, 1]).implemented(),
    Op::new("ne", Family::Compare, Class::Widest, "bool output; native promotion").tensors(&[0, 1]).implemented(),
    Op::new("lt", Family::Compare, Class::Widest, "bool output; native promotion").tensors(&[0, 1]).implemented(),
    Op::new("le", Family::Compare, Class::Widest, "bool output; native promotion").tensors(&[0, 1]).implemented(),
    Op::new("gt", Family::Compare, Class::Widest, "bool output; native promotion").tensors(&[0, 1]).implemented(),
    Op::new("ge", Family::Compare, Class::Widest, "bool output; native promotion").tensors(&[0, 1]).implemented(),
    Op::new("equal", Family::Compare, Class::Widest, "returns a Python bool").tensors(&[0, 1]).implemented(),
    Op::new("isclose", Family::Compare, Class::Widest, "requires equal dtypes; mixed inputs raise")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("allclose", Family::Compare, Class::Widest, "requires equal dtypes; returns a Python bool")
        .torch("isclose")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("isnan", Family::Compare, Class::Keep, "bool output").implemented(),
    Op::new("isinf", Family::Compare, Class::Keep, "bool output").implemented(),
    Op::new("isfinite", Family::Compare, Class::Keep, "bool output").implemented(),
    Op::new("abs", Family::Pointwise, Class::Keep, "exact").implemented().commutes().direct(),
    Op::new("neg", Family::Pointwise, Class::Keep, "exact").implemented().commutes(),
    Op::new("sign", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("sgn", Family::Pointwise, Class::Keep, "exact").torch("sign").implemented(),
    Op::new("floor", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("ceil", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("round", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("trunc", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("frac", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("sqrt", Family::Pointwise, Class::Keep, "bounded growth").implemented(),
    Op::new("sin", Family::Pointwise, Class::Keep, "bounded output").implemented(),
    Op::new("sinc", Family::Pointwise, Class::Keep, "bounded output").torch("sin").implemented(),
    Op::new("deg2rad", Family::Pointwise, Class::Keep, "a product with a number").torch("mul").implemented(),
    Op::new("rad2deg", Family::Pointwise, Class::Keep, "a product with a number").torch("mul").implemented(),
    Op::new("cos", Family::Pointwise, Class::Keep, "bounded output").implemented(),
    Op::new("atan", Family::Pointwise, Class::Keep, "bounded output").implemented(),
    Op::new("asinh", Family::Pointwise, Class::Keep, "slow growth").implemented(),
    Op::new("acosh", Family::Pointwise, Class::Keep, "slow growth").implemented(),
    Op::new("atanh", Family::Pointwise, Class::Keep, "unlisted in PyTorch; MXNet forces fp32").implemented(),
    Op::new("erf", Family::Pointwise, Class::Keep, "bounded output").implemented(),
    Op::new("erfc", Family::Pointwise, Class::Keep, "bounded output").implemented(),
    Op::new("exp2", Family::Pointwise, Class::Full, "unlisted although it overflows fp16 at x>=16 (gap)")
        .departs("has the range of exp, which is on the list")
        .implemented()
        .direct(),
    Op::new("digamma", Family::Pointwise, Class::Full, "unlisted in PyTorch; MXNet forces fp32")
        .departs("has the poles of reciprocal, which is on the list")
        .implemented()
        .direct(),
    Op::new("lgamma", Family::Pointwise, Class::Full, "unlisted in PyTorch; MXNet forces fp32")
        .departs("overflows fp16 above 8e3, where exp is on the list for less")
        .implemented()
        .direct(),
    Op::new("logit", Family::Pointwise, Class::Keep, "unlisted").implemented(),
    Op::new("logit_with", Family::Pointwise, Class::Keep, "unlisted").torch("logit").implemented(),
    Op::new("linalg_cross", Family::Pointwise, Class::Widest, "unlisted although torch.cross promotes (gap)")
        .instead("`cross`")
        .tensors(&[0, 1]),
    Op::new("nan_to_num", Family::Pointwise, Class::Keep, "exact").implemented(),
    Op::new("nan_to_num_with", Family::Pointwise, Class::Keep, "exact").torch("nan_to_num").implemented(),
];
