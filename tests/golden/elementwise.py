"""Unary, binary and ternary pointwise operations, activations, comparisons."""

import torch
import torch.nn.functional as F

from record import F32_AGREES, SPECIAL, bools, case, inf, mask, nan, uniform, vec


def special(f):
    """The special values for which PyTorch gives one answer in F32 and in F64 (gelu and sin have none for some)."""
    single, double = f(SPECIAL), f(SPECIAL.double()).float()
    return SPECIAL[torch.isclose(single, double, rtol=F32_AGREES, atol=0.0, equal_nan=True)]


def unary():
    real = uniform(-3.0, 3.0, 5, 7)
    positive = uniform(0.1, 4.0, 5, 7)
    table = {
        "sqr": (torch.square, real),
        "sqrt": (torch.sqrt, positive),
        "rsqrt": (torch.rsqrt, positive),
        "recip": (torch.reciprocal, positive),
        "exp": (torch.exp, real),
        "expm1": (torch.expm1, real),
        "log": (torch.log, positive),
        "log1p": (torch.log1p, positive),
        "log2": (torch.log2, positive),
        "sin": (torch.sin, real),
        "cos": (torch.cos, real),
        "tanh": (torch.tanh, real),
        "sigmoid": (torch.sigmoid, real),
        "erf": (torch.erf, real),
        "abs": (torch.abs, real),
        "neg": (torch.neg, real),
        "sign": (torch.sign, real),
        "relu": (F.relu, real),
        "gelu": (F.gelu, real),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), real),
        "silu": (F.silu, real),
        "hardswish": (F.hardswish, real),
        "softplus": (F.softplus, real),
        "relu6": (F.relu6, real),
        "hardtanh": (F.hardtanh, real),
        "hardsigmoid": (F.hardsigmoid, real),
        "selu": (F.selu, real),
        "celu": (F.celu, real),
        "mish": (F.mish, real),
        "softsign": (F.softsign, real),
        "trunc": (torch.trunc, real),
        "frac": (torch.frac, real),
        "atan": (torch.atan, real),
        "asinh": (torch.asinh, real),
        "erfc": (torch.erfc, real),
        "sinc": (torch.sinc, real),
        "sgn": (torch.sgn, real),
        "deg2rad": (torch.deg2rad, real),
        "rad2deg": (torch.rad2deg, real),
        "log10": (torch.log10, positive),
        "exp2": (torch.exp2, real),
        "tan": (torch.tan, real),
        "sinh": (torch.sinh, real),
        "cosh": (torch.cosh, real),
        "hardshrink": (F.hardshrink, real),
        "softshrink": (F.softshrink, real),
        "tanhshrink": (F.tanhshrink, real),
        "leaky_relu": (F.leaky_relu, real),
        "rrelu": (F.rrelu, real),
        "elu": (F.elu, real),
    }
    for op, (f, values) in table.items():
        case(f"{op}/random", f, values)
        case(f"{op}/prime", f, uniform(0.1, 4.0, 67) if values is positive else uniform(-3.0, 3.0, 67))
        case(f"{op}/one", f, vec(0.75))
        case(f"{op}/empty", f, (0, 3))
        case(f"{op}/special", f, special(f), grad=False)
    unit = vec(-1.0, -0.97, -0.5, -1e-4, 0.0, 0.25, 0.8, 0.999)
    for op in ("asin", "acos"):
        case(f"{op}/unit", getattr(torch, op), unit[1:])
        case(f"{op}/ends", getattr(torch, op), vec(-1.0, 1.0, 1.5, inf, nan), grad=False)
    case("acosh/above_one", torch.acosh, vec(1.001, 1.25, 2.0, 30.0, 1e10))
    case("acosh/ends", torch.acosh, vec(1.0, 0.5, -3.0, -inf, inf, nan), grad=False)
    case("atanh/unit", torch.atanh, vec(-0.99, -0.5, 1e-4, 0.25, 0.8, 0.0))
    case("atanh/ends", torch.atanh, vec(-1.0, 1.0, 1.5, inf, nan), grad=False)
    case("asinh/edges", torch.asinh, vec(1e-6, -1e-3, 1e10, -3e38, 0.0))
    case("erfc/tail", torch.erfc, vec(2.9, 3.0, 3.1, 6.0, 9.0, -5.0))
    case("lgamma/random", torch.lgamma, uniform(2.5, 40.0, 41))
    case("lgamma/left", torch.lgamma, vec(-0.5, -1.7, -3.2, -12.4, 1e-3, -1e-3))
    case("lgamma/ends", torch.lgamma, vec(0.0, -1.0, -4.0, inf, -inf, nan, 3e38), grad=False)
    case("digamma/random", torch.digamma, uniform(2.0, 40.0, 41))
    case("digamma/left", torch.digamma, vec(-0.4, -1.7, -3.2, -12.4, 1e-3, -1e-3))
    case("digamma/ends", torch.digamma, vec(0.0, -0.0, -1.0, -4.0, inf, -inf, nan, 3e38), grad=False)
    case("erfinv/random", torch.erfinv, uniform(-0.99, 0.99, 41))
    case("erfinv/ends", torch.erfinv, vec(1.0, -1.0, 0.0, 1.5, -2.0, nan, inf), grad=False)
    case("sinh/edges", torch.sinh, vec(1e-6, -1e-3, 20.0, -80.0, 0.0))
    case("cosh/edges", torch.cosh, vec(1e-6, -1e-3, 20.0, -80.0, 0.0))
    case("exp2/edges", torch.exp2, vec(10.0, -20.0, 127.0, -126.0, 0.0, 15.9))
    case("logit/unit", torch.logit, uniform(0.05, 0.95, 12))
    case("logit/ends", torch.logit, vec(0.0, 1.0, 1.5, -0.5, nan), grad=False)
    case("logit_with/limits", lambda x, eps: torch.logit(x, eps), vec(0.0, 0.1, 0.25, 0.5, 0.8, 1.0, 1.5), eps=0.25)
    case("threshold/ties", lambda x, threshold, value: F.threshold(x, threshold, value), vec(-1.0, 0.5, 0.75, 2.0, nan), threshold=0.5, value=-3.0)
    case("nan_to_num/numbers", lambda x, nan, posinf, neginf: torch.nan_to_num(x, nan, posinf, neginf), SPECIAL, nan=0.5, posinf=7.0, neginf=-8.0)
    case("expm1/small", torch.expm1, vec(1e-7, -1e-7, 1e-4, -1e-3, 1e-20))
    case("log1p/small", torch.log1p, vec(1e-7, -1e-7, 1e-4, -1e-3, 1e-20))
    case("exp/edges", torch.exp, vec(88.5, -87.0, -100.0, 0.0, 11.1))
    case("sigmoid/edges", torch.sigmoid, vec(80.0, -80.0, 20.0, -20.0, 0.0))
    case("tanh/edges", torch.tanh, vec(1e-5, -1e-3, 9.5, -9.5, 0.0))
    case("erf/edges", torch.erf, vec(1e-6, -1e-3, 4.5, -4.5, 0.9, 1.1, 0.0))
    case("gelu/edges", F.gelu, vec(-4.5, -4.0, 0.0, 5.0, 8.0, 1e-6))
    case("gelu_tanh/edges", lambda x: F.gelu(x, approximate="tanh"), vec(-4.5, -4.0, 0.0, 5.0, 8.0, 1e-6))
    case("sin/wide", torch.sin, uniform(-200.0, 200.0, 40))
    case("cos/wide", torch.cos, uniform(-200.0, 200.0, 40))
    kinks = vec(-3.0, -1.0, -0.0, 0.0, 1.0, 3.0, -4.0, 4.0)
    for op in ("relu", "abs", "sign", "leaky_relu", "elu", "hardswish", "softplus", "relu6", "hardtanh", "hardsigmoid", "selu", "trunc", "frac", "hardshrink", "softshrink"):
        case(f"{op}/kinks", table[op][0], kinks)
    case("leaky_relu/slope", F.leaky_relu, (3, 5), negative_slope=0.2)
    case("elu/alpha", F.elu, (3, 5), alpha=1.7)
    case("softplus/beta", F.softplus, uniform(-30.0, 30.0, 12), beta=2.0, threshold=15.0)
    case("celu/alpha", F.celu, (3, 5), alpha=1.7)
    case("celu/negative_alpha", F.celu, (3, 5), alpha=-1.3)
    case("hardtanh/limits", lambda x, min, max: F.hardtanh(x, min, max), (3, 5), min=-0.5, max=0.25)
    for axis in (0, -1):
        case(f"glu/axis_{axis}", lambda x, axis: F.glu(x, axis), (4, 6), axis=axis)
    case("prelu/shared", F.prelu, (2, 3, 4), vec(0.25))
    case("prelu/per_channel", F.prelu, (2, 3, 4, 2), (3,))
    case("prelu/kinks", F.prelu, torch.tensor([[0.0, -0.0], [-1.0, 2.0]]), vec(0.25, -0.5))


def pointwise():
    for op in ("add", "sub", "mul", "div", "minimum", "maximum"):
        f = getattr(torch, op)
        right = uniform(0.5, 2.0, 3, 5) if op == "div" else (3, 5)
        case(f"{op}/same_shape", f, (3, 5), right)
        case(f"{op}/broadcast_row", f, (3, 5), uniform(0.5, 2.0, 5))
        case(f"{op}/broadcast_both", f, (4, 1, 3), uniform(0.5, 2.0, 2, 1))
        case(f"{op}/scalar_tensor", f, (2, 3), vec(1.5).reshape(()))
        case(f"{op}/empty", f, (0, 3), (1, 3))
        case(f"{op}/special", f, SPECIAL, SPECIAL.flip(0).clone(), grad=False)
    case("div/by_zero", torch.div, vec(1.0, -1.0, 0.0, nan), vec(0.0, 0.0, 0.0, 0.0), grad=False)
    case("minimum/ties", torch.minimum, vec(1.0, 2.0, 3.0), vec(1.0, 3.0, 2.0))
    case("maximum/ties", torch.maximum, vec(1.0, 2.0, 3.0), vec(1.0, 3.0, 2.0))
    for op in ("add", "sub", "mul", "div"):
        f = getattr(torch, op)
        case(f"{op}_scalar/right", lambda x, scalar, f=f: f(x, scalar), (3, 4), scalar=2.5)
    case("rsub_scalar/left", lambda x, scalar: scalar - x, (3, 4), scalar=2.5)
    case("rdiv_scalar/left", lambda x, scalar: scalar / x, uniform(0.5, 2.0, 3, 4), scalar=2.5)
    case("pow/tensor", torch.pow, uniform(0.3, 2.0, 3, 5), (3, 5))
    case("pow/broadcast", torch.pow, uniform(0.3, 2.0, 3, 5), vec(2.0, -1.0, 0.5, 0.0, 3.0))
    case("pow/special", torch.pow, vec(0.0, 0.0, -2.0, -2.0, inf, nan, 1.0), vec(0.0, 2.0, 3.0, 0.5, -1.0, 0.0, nan), grad=False)
    for p in (2.0, 3.0, 0.5, -1.0, -1.5, 0.0, 1.0):
        case(f"powf/{p}", lambda x, exponent: torch.pow(x, exponent), uniform(0.3, 2.0, 3, 4), exponent=p)
    case("powf/negative_base", lambda x, exponent: torch.pow(x, exponent), vec(-2.0, -0.5, 0.0, 1.5), exponent=3.0)
    clamp = lambda x, min=None, max=None: torch.clamp(x, min, max)
    case("clamp/both", clamp, uniform(-3.0, 3.0, 4, 5), min=-1.0, max=1.5)
    case("clamp/at_bounds", clamp, vec(-1.0, -2.0, 0.0, 1.5, 2.0), min=-1.0, max=1.5)
    case("clamp/special", clamp, SPECIAL, min=-1.0, max=1.5, grad=False)
    case("lerp/tensor", torch.lerp, (3, 4), (3, 4), uniform(0.0, 1.0, 3, 4))
    case("lerp/broadcast", torch.lerp, (3, 4), (4,), uniform(0.0, 1.0, 3, 1))
    case("lerp_scalar/half", lambda a, b, weight: torch.lerp(a, b, weight), (3, 4), (3, 4), weight=0.3)
    case("addcmul/plain", torch.addcmul, (3, 4), (3, 4), (3, 4), value=1.0)
    case("addcmul/broadcast", torch.addcmul, (3, 4), (4,), (3, 1), value=-0.5)
    case("addcdiv/plain", torch.addcdiv, (3, 4), (3, 4), uniform(0.5, 2.0, 3, 4), value=1.0)
    case("addcdiv/broadcast", torch.addcdiv, (3, 4), (4,), uniform(0.5, 2.0, 3, 1), value=-0.5)
    case("where/same_shape", torch.where, mask(3, 4), (3, 4), (3, 4))
    case("where/broadcast", torch.where, mask(3, 1), (1, 4), (2, 3, 4))
    case("where/keeps_nan_out", torch.where, bools([True, False]), vec(1.0, nan), vec(nan, 2.0))
    case("masked_select/same_shape", torch.masked_select, (3, 4), mask(3, 4))
    case("masked_select/broadcast", torch.masked_select, (2, 1, 4), mask(3, 1))
    case("nonzero/some", lambda x: torch.nonzero(x.relu()), (2, 3, 4), grad=False)
    fill = lambda x, m, value: x.masked_fill(m, value)
    case("masked_fill/value", fill, (3, 4), mask(3, 4), value=-2.5)
    case("masked_fill/broadcast", fill, (2, 3, 4), mask(4), value=0.0)
    case("masked_fill_neg_inf/plain", lambda x, m: x.masked_fill(m, -inf), (3, 4), mask(3, 4))
    case("masked_fill_lowest/plain", lambda x, m: x.masked_fill(m, torch.finfo(torch.float32).min), (3, 4), mask(3, 4))


def pairs():
    signed = vec(7.5, -7.5, 7.5, -7.5, 0.0, -1.0, 3.0)
    divisor = vec(2.0, 2.0, -2.0, -2.0, 3.0, inf, -0.7)
    for op in ("remainder", "fmod"):
        case(f"{op}/signs", getattr(torch, op), signed, divisor, grad=False)
        case(f"{op}/random", getattr(torch, op), (4, 5), uniform(0.5, 2.0, 5))
    case("floor_divide/signs", torch.floor_divide, signed, divisor, grad=False)
    case("floor_divide/by_zero", torch.floor_divide, vec(1.0, -1.0, 0.0), vec(0.0, 0.0, 0.0), grad=False)
    for op in ("fmax", "fmin", "copysign"):
        case(f"{op}/random", getattr(torch, op), (4, 5), (5,))
    for op in ("fmax", "fmin"):
        case(f"{op}/special", getattr(torch, op), SPECIAL, SPECIAL.flip(0).clone(), grad=False)
        case(f"{op}/ties", getattr(torch, op), vec(1.0, nan, 3.0, nan), vec(1.0, 2.0, nan, nan))
    case("hypot/random", torch.hypot, (4, 5), (5,))
    case("hypot/wide", torch.hypot, vec(3e30, 1e-30, -5.0, inf, 0.0), vec(4e30, 1e-30, 12.0, 1.0, 0.0), grad=False)
    case("xlogy/random", torch.xlogy, (4, 5), uniform(0.5, 2.0, 5))
    case("xlogy/zeros", torch.xlogy, vec(0.0, 0.0, 2.0, 0.0), vec(0.0, 3.0, 0.5, nan), grad=False)
    case("xlogy/zero_slopes", torch.xlogy, vec(0.0, 0.0, 2.0), vec(0.5, 3.0, 0.5))
    case("heaviside/special", torch.heaviside, SPECIAL, torch.full((13,), 0.25), grad=False)
    case("copysign/zeros", torch.copysign, vec(1.0, -2.0, 0.0, 3.0), vec(-0.0, 0.0, -1.0, -inf))
    case("logaddexp2/random", torch.logaddexp2, (4, 5), (5,))
    case("logaddexp2/wide", torch.logaddexp2, vec(1000.0, -1000.0, 3.0, 80.0), vec(1000.0, -999.0, -200.0, -80.0))
    case("clamp_between/broadcast", torch.clamp, (4, 5), uniform(-1.0, 0.0, 5), uniform(-0.2, 1.0, 4, 1))
    case("clamp_between/at_bounds", torch.clamp, vec(-1.0, -2.0, 0.0, 2.0, 2.5), vec(-1.0), vec(2.0))
    case("clamp_between/special", torch.clamp, SPECIAL, vec(-1.0), vec(1.5), grad=False)
    case("isin/some", torch.isin, torch.tensor([[1.0, -0.0, nan], [inf, 2.0, 3.0]]), vec(nan, 0.0, inf, 3.0), grad=False)
    case("logaddexp/random", torch.logaddexp, (4, 5), (5,))
    case("logaddexp/wide", torch.logaddexp, vec(1000.0, -1000.0, 3.0, 80.0), vec(1000.0, -999.0, -200.0, -80.0))
    case("logaddexp/special", torch.logaddexp, SPECIAL, SPECIAL.flip(0).clone(), grad=False)
    for op in ("isclose", "isclose_wide"):
        rtol, atol = (1e-5, 1e-8) if op == "isclose" else (0.1, 0.05)
        near = lambda a, b, rtol, atol: torch.isclose(a, b, rtol, atol)
        case(f"isclose/{op}", near, vec(1.0, 1.0, inf, inf, nan, 0.0), vec(1.00001, 1.1, inf, 1.0, nan, 0.04), grad=False, rtol=rtol, atol=atol)


def compare():
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        f = getattr(torch, op)
        case(f"{op}/special", f, SPECIAL, SPECIAL.roll(1).clone(), grad=False)
        case(f"{op}/broadcast", f, vec(1.0, 2.0, 3.0).reshape(3, 1), vec(1.0, 2.0, 3.0, 0.5), grad=False)
