"""Makes inputs, evaluates a case in F32 and in F64, checks one against the other, and keeps the result."""

import math
import zlib

import torch

F32_AGREES = 2e-5  # of the largest magnitude in the output, or among the gradients of the case

CASES = {}  # name -> options
TENSORS = {}  # name/what -> tensor

inf, nan = math.inf, math.nan


def vec(*values):
    return torch.tensor(values, dtype=torch.float32)


def ints(values):
    return torch.tensor(values, dtype=torch.int64)


def bools(values):
    return torch.tensor(values, dtype=torch.bool)


SPECIAL = vec(0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 1e-40, -1e-40, 65504.0, -65504.0, 1e30, 3e38)


def uniform(low, high, *shape):
    """Deferred, so that the draw comes from the case's own seed."""
    return lambda: torch.rand(shape) * (high - low) + low


def mask(*shape):
    return lambda: torch.rand(shape) < 0.4


def labels(classes, *shape):
    return lambda: torch.randint(0, classes, shape)


def material(spec):
    """A tuple is the shape of a standard normal input, a function draws its own, a tensor is itself."""
    if callable(spec):
        return spec()
    return torch.randn(spec) if isinstance(spec, tuple) else spec


def evaluate(f, inputs, options, dtype, grad_outs):
    """Outputs and gradients with every float input in `dtype`."""
    leaves = [t.to(dtype).requires_grad_() if t.is_floating_point() else t for t in inputs]
    out = f(*leaves, **options)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    grads = {}
    if grad_outs is not None:
        live = [(o, g) for o, g in zip(outs, grad_outs) if g is not None and o.requires_grad]
        wanted = [t for t in leaves if t.requires_grad]
        if live and wanted:
            given = torch.autograd.grad(
                [o for o, _ in live], wanted, [g.to(dtype) for _, g in live], allow_unused=True
            )
            places = [i for i, t in enumerate(leaves) if t.requires_grad]
            grads = {i: g for i, g in zip(places, given) if g is not None}
    return [o.detach() for o in outs], grads


def stored(value):
    value = value.detach().contiguous().clone()
    return value.to(torch.float32) if value.dtype == torch.float64 else value


def magnitude(t):
    """The largest finite magnitude; values near the end of F32's range do not count."""
    t = t.double()
    finite = t[torch.isfinite(t) & (t.abs() < 3e38)]
    return finite.abs().max().item() if finite.numel() else 0.0


def check_f32(name, what, single, double, agrees, scale):
    """PyTorch's own F32 result must be what is stored, to float tolerance."""
    if not double.is_floating_point():
        assert torch.equal(single, double), f"{name}/{what}: indices differ between F32 and F64"
        return
    finite = torch.isfinite(double) & (double.abs() < 3e38)
    close = torch.isclose(single[finite].double(), double[finite], rtol=agrees, atol=agrees * scale)
    assert close.all(), f"{name}/{what}: F32 {single} F64 {double}"
    rest = stored(double)[~finite]
    assert torch.equal(torch.nan_to_num(single[~finite], 7.0), torch.nan_to_num(rest, 7.0)), f"{name}/{what}: {single}"


def case(name, f, *specs, grad=True, agrees=F32_AGREES, **options):
    """Records `f(*inputs, **options)` and, unless told otherwise, its gradients.

    `agrees` is wider than usual where the inputs make the problem ill-conditioned (values far from zero).
    """
    assert name not in CASES, f"{name} is there twice"
    torch.manual_seed(zlib.crc32(name.encode()))
    inputs = [material(s) for s in specs]
    grad_outs = None
    if grad:
        probe, _ = evaluate(f, inputs, options, torch.float32, None)
        grad_outs = [torch.randn(o.shape) if o.is_floating_point() else None for o in probe]
    single, single_grads = evaluate(f, inputs, options, torch.float32, grad_outs)
    double, double_grads = evaluate(f, inputs, options, torch.float64, grad_outs)
    CASES[name] = options if agrees == F32_AGREES else {**options, "agrees": agrees}
    for i, t in enumerate(inputs):
        TENSORS[f"{name}/in{i}"] = stored(t)
    for i, (s, d) in enumerate(zip(single, double)):
        check_f32(name, f"out{i}", s, d, agrees, magnitude(d))
        TENSORS[f"{name}/out{i}"] = stored(d)
    if double_grads:
        for i, g in enumerate(grad_outs):
            if g is not None:
                TENSORS[f"{name}/grad_out{i}"] = stored(g)
    scale = max((magnitude(g) for g in double_grads.values()), default=0.0)
    for i, g in double_grads.items():
        check_f32(name, f"d_in{i}", single_grads[i], g, agrees, scale)
        TENSORS[f"{name}/d_in{i}"] = stored(g)


def record(name, tensors, **options):
    """Records tensors that were computed elsewhere."""
    CASES[name] = options
    for what, t in tensors.items():
        TENSORS[f"{name}/{what}"] = t.detach().contiguous().clone()
