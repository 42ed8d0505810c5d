"""Reductions, scans, sorting, softmax."""

import torch
import torch.nn.functional as F

from record import SPECIAL, bools, case, inf, ints, nan, uniform, vec


def dims(f):
    """Calls `f(x, axes, keepdim)`; no axes means all of them."""
    return lambda x, axes=None, keepdim=False: f(x, tuple(range(x.dim())) if axes is None else tuple(axes), keepdim)


def reductions():
    table = {
        "sum": dims(lambda x, a, k: torch.sum(x, a, k)),
        "mean": dims(lambda x, a, k: torch.mean(x, a, k)),
        "logsumexp": dims(lambda x, a, k: torch.logsumexp(x, a, k)),
        "max": dims(lambda x, a, k: torch.amax(x, a, k)),
        "min": dims(lambda x, a, k: torch.amin(x, a, k)),
    }
    for op, f in table.items():
        case(f"{op}/all", f, (3, 4))
        case(f"{op}/axis_0", f, (3, 4, 2), axes=[0])
        case(f"{op}/last", f, (3, 4, 2), axes=[-1])
        case(f"{op}/two_axes_keep", f, (3, 4, 2), axes=[0, 2], keepdim=True)
        case(f"{op}/keep", f, (3, 4), axes=[1], keepdim=True)
        case(f"{op}/size_one", f, (3, 1, 2), axes=[1])
        case(f"{op}/long", f, (2, 1009), axes=[1])
        case(f"{op}/empty_rows", f, (0, 3), axes=[1])
        case(f"{op}/special", f, torch.stack([SPECIAL[:6], SPECIAL[4:10], SPECIAL[7:13]]), axes=[1], grad=False)
    case("sum/empty_axis", table["sum"], (2, 0), axes=[1])
    case("sum/integers", table["sum"], ints([[3, -1, 1 << 60], [5, 2, 1]]), axes=[1], keepdim=True, grad=False)
    case("sum/truths", table["sum"], bools([[True, False, True], [False, False, True]]), grad=False)
    case("mean/empty_axis", table["mean"], (2, 0), axes=[1], grad=False)
    case("logsumexp/large", table["logsumexp"], torch.tensor([[1000.0, 1000.5], [-1000.0, -999.0]]), axes=[1])
    case("logsumexp/minus_infinity", table["logsumexp"], torch.tensor([[-inf, -inf], [-inf, 1.0]]), axes=[1], grad=False)
    normalize = lambda x, p, axis: F.normalize(x, p, axis)
    case("normalize/rows", normalize, (3, 4), p=2.0, axis=1)
    case("normalize/sums", normalize, (3, 4, 2), p=1.0, axis=0)
    case("normalize/zeros", normalize, torch.zeros(2, 3), p=2.0, axis=-1, grad=False)
    cosine = lambda a, b, axis: F.cosine_similarity(a, b, axis)
    case("cosine_similarity/rows", cosine, (3, 4), (3, 4), axis=1)
    case("cosine_similarity/broadcast", cosine, (3, 1, 4), (2, 4), axis=-1)
    case("renorm/rows", lambda x, p, axis, most: torch.renorm(x, p, axis, most), (3, 4, 2), p=2.0, axis=0, most=1.5)
    case("renorm/sums", lambda x, p, axis, most: torch.renorm(x, p, axis, most), (3, 4), p=1.0, axis=1, most=2.0)
    case("cov/rows", lambda x, correction: torch.cov(x, correction=correction), (3, 7), correction=1)
    case("cov/biased", lambda x, correction: torch.cov(x, correction=correction), (3, 7), correction=0)
    case("cov/one_row", lambda x, correction: torch.cov(x, correction=correction), (1, 7), correction=1)
    case("corrcoef/one_row", torch.corrcoef, (1, 7), grad=False)
    case("cov/one", lambda x, correction: torch.cov(x, correction=correction), (7,), correction=1)
    case("corrcoef/rows", torch.corrcoef, (3, 7))
    for p in (1.0, 2.0, 3.5):
        case(f"pdist/p_{p}", lambda x, p: F.pdist(x, p), (4, 3), p=p)
    for op, f in (("var", torch.var), ("std", torch.std)):
        g = dims(lambda x, a, k, f=f: f(x, dim=a, correction=1, keepdim=k))
        b = lambda x, axes, correction, f=f: f(x, dim=tuple(axes), correction=correction)
        case(f"{op}/all", g, (3, 4))
        case(f"{op}/axis_0", g, (5, 3, 2), axes=[0])
        case(f"{op}/two_axes_keep", g, (3, 4, 2), axes=[0, 2], keepdim=True)
        case(f"{op}/biased", b, (3, 5), axes=[1], correction=0)
        case(f"{op}/far_from_zero", b, uniform(1000.0, 1001.0, 2, 64), axes=[1], correction=1, agrees=1e-3)
    case("var/one_element", lambda x, axes: torch.var(x, dim=tuple(axes)), (2, 1), axes=[1], grad=False)
    for op in ("argmax", "argmin"):
        f = lambda x, axis=None, keepdim=False, op=op: getattr(torch, op)(x, dim=axis, keepdim=keepdim)
        case(f"{op}/all", f, (3, 4))
        case(f"{op}/axis_0", f, (3, 4), axis=0)
        case(f"{op}/last_keep", f, (2, 3, 4), axis=-1, keepdim=True)
        case(f"{op}/ties", f, torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -1.0, 5.0]]), axis=1)
        case(f"{op}/nan", f, torch.tensor([[1.0, nan, 3.0], [nan, nan, 2.0]]), axis=1)
    rows = torch.tensor([[3.0, nan, 1.0, 2.0], [5.0, 4.0, 2.5, 1.0], [nan, nan, nan, 7.0]])
    for op in ("median", "nanmedian"):
        f = lambda x, axis, keepdim=False, op=op: getattr(torch, op)(x, axis, keepdim)
        case(f"{op}/last", f, (3, 5), axis=-1)
        case(f"{op}/even_keep", f, (4, 3), axis=0, keepdim=True)
        case(f"{op}/nan", lambda x, axis, f=f: f(x, axis)[0], rows, axis=1, grad=False)
    kth = lambda x, k, axis, keepdim=False: torch.kthvalue(x, k, axis, keepdim)
    case("kthvalue/last", kth, (3, 5), k=2, axis=-1)
    case("kthvalue/columns_keep", kth, (4, 3), k=4, axis=0, keepdim=True)
    case("median_all/plain", torch.median, (3, 4))
    case("quantile_all/plain", torch.quantile, (3, 4), q=0.3)
    case("nanquantile_all/some", torch.nanquantile, torch.tensor([[0.5, nan, 2.0], [-1.0, 4.0, nan]]), q=0.7, grad=False)
    for op in ("quantile", "nanquantile"):
        f = lambda x, q, axis, keepdim=False, op=op: getattr(torch, op)(x, q, axis, keepdim)
        for q in (0.0, 0.3, 0.5, 1.0):
            case(f"{op}/q_{q}", f, (3, 5), q=q, axis=-1)
        case(f"{op}/keep", f, (4, 3), q=0.85, axis=0, keepdim=True)
        case(f"{op}/nan", f, rows, q=0.4, axis=1, grad=False)
    case("nansum/rows", dims(lambda x, a, k: torch.nansum(x, a, k)), rows, axes=[1], grad=False)
    case("nansum/plain", dims(lambda x, a, k: torch.nansum(x, a, k)), (3, 4), axes=[0], keepdim=True)
    case("nanmean/rows", dims(lambda x, a, k: torch.nanmean(x, a, k)), rows, axes=[1], grad=False)
    case("nanmean/plain", dims(lambda x, a, k: torch.nanmean(x, a, k)), (3, 4))
    case("count_nonzero/rows", lambda x, axes: torch.count_nonzero(x, axes), torch.tensor([[0.0, 2.0, nan], [0.0, -0.0, 1.0]]), axes=[1], grad=False)
    case("aminmax/rows", lambda x, axis: torch.aminmax(x, dim=axis), (3, 4), axis=1)
    case("var_mean/two_axes", dims(lambda x, a, k: torch.var_mean(x, a, keepdim=k)), (3, 4, 2), axes=[0, 2], keepdim=True)
    case("std_mean/all", dims(lambda x, a, k: torch.std_mean(x, a, keepdim=k)), (3, 4))
    for op in ("cummax", "cummin"):
        f = lambda x, axis, op=op: getattr(torch, op)(x, axis)
        case(f"{op}/rows", f, (3, 7), axis=1)
        case(f"{op}/columns", f, (9, 2), axis=0)
        case(f"{op}/ties", f, vec(1.0, 3.0, 1.0, 3.0, nan, 5.0, nan), axis=0, grad=False)
    case("logcumsumexp/rows", torch.logcumsumexp, (3, 7), dim=1)
    case("logcumsumexp/wide", torch.logcumsumexp, vec(-1000.0, 3.0, 1000.0, 999.0, -5.0), dim=0)
    prod = lambda x, axis=None, keepdim=False: torch.prod(x) if axis is None else torch.prod(x, axis, keepdim)
    case("prod/all", prod, (3, 4))
    case("prod/axis_0", prod, (3, 4), axis=0)
    case("prod/last_keep", prod, (2, 3, 4), axis=-1, keepdim=True)
    case("prod/one_zero", prod, torch.tensor([[2.0, 0.0, 3.0], [1.0, 4.0, 0.5]]), axis=1)
    case("prod/two_zeros", prod, torch.tensor([[0.0, 0.0, 3.0], [1.0, 0.0, 0.5]]), axis=1)
    case("prod/empty", prod, (2, 0), axis=1)
    norm = lambda x, axes=None, keepdim=False, p=2.0: torch.linalg.vector_norm(x, p, axes, keepdim)
    case("norm/all", norm, (3, 4))
    case("norm/axis_0", norm, (3, 4), axes=[0])
    case("norm/two_axes_keep", norm, (3, 4, 2), axes=[0, 2], keepdim=True)
    case("norm/p_1", norm, (3, 4), axes=[1], p=1.0)
    case("norm/p_3", norm, (3, 4), axes=[1], p=3.0)
    case("norm/p_half", norm, (3, 4), axes=[1], p=0.5)
    case("norm/p_half_zeros", norm, torch.tensor([[0.0, 1.0, -4.0], [0.0, 0.0, 0.0]]), axes=[1], p=0.5)
    case("norm/largest", norm, vec(1.0, -3.0, 3.0, 0.5), axes=[0], p=inf)
    case("norm/least", norm, vec(1.0, -0.5, 3.0, 0.5), axes=[0], p=-inf)
    case("norm/p_0", norm, torch.tensor([[0.0, 0.0], [3.0, 4.0]]), axes=[1], p=0.0)
    case("vector_norm/p_3", norm, (3, 4), axes=[1], p=3.0)
    matrices = lambda x, kind, axes, keepdim=False: torch.linalg.matrix_norm(x, kind, axes, keepdim)
    for kind in ("fro", 1, -1, inf, -inf):
        case(f"matrix_norm/{kind}", matrices, (2, 3, 4), kind=kind, axes=[-2, -1])
        case(f"matrix_norm/turned_{kind}", matrices, (3, 2, 4), kind=kind, axes=[2, 0], keepdim=True)
    case("norm/zero", norm, torch.tensor([[0.0, 0.0], [3.0, 4.0]]), axes=[1])
    case("norm/large", norm, torch.tensor([[300.0, 400.0], [65504.0, 65504.0]]), axes=[1])
    case("max/ties", table["max"], torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), axes=[1])
    case("min/ties", table["min"], torch.tensor([[1.0, 1.0, 3.0], [2.0, 2.0, 2.0]]), axes=[1])


def scans():
    case("trapezoid/spacing", lambda x, spacing, axis: torch.trapezoid(x, dx=spacing, dim=axis), (3, 5), spacing=0.3, axis=0)
    trapezoid = lambda x, points, axis: torch.trapezoid(x, points, dim=axis)
    case("trapezoid_over/line", trapezoid, (2, 5, 3), (5,), axis=1)
    case("trapezoid_over/points", trapezoid, (2, 5), (2, 5), axis=-1)
    case("cumulative_trapezoid/spacing", lambda x, spacing, axis: torch.cumulative_trapezoid(x, dx=spacing, dim=axis), (3, 5), spacing=0.3, axis=0)
    running = lambda x, points, axis: torch.cumulative_trapezoid(x, points, dim=axis)
    case("cumulative_trapezoid_over/line", running, (2, 5, 3), (5,), axis=1)
    case("cumulative_trapezoid_over/points", running, (2, 5), (2, 5), axis=-1)
    for op in ("cumsum", "cumprod"):
        f = lambda x, axis, op=op: getattr(torch, op)(x, axis)
        case(f"{op}/axis_0", f, (4, 3), axis=0)
        case(f"{op}/last", f, (2, 3, 5), axis=-1)
        case(f"{op}/middle", f, (2, 5, 3), axis=1)
        case(f"{op}/size_one", f, (3, 1), axis=1)
        case(f"{op}/empty", f, (0, 3), axis=1)
        case(f"{op}/zeros", f, torch.tensor([[2.0, 0.0, 3.0, 4.0], [0.0, 1.0, 0.0, 0.5]]), axis=1)
    case("cumsum/integers", lambda x, axis: torch.cumsum(x, axis), ints([[3, -1, 4], [5, 2, 1]]), axis=0, grad=False)
    case("cumsum/truths", lambda x, axis: torch.cumsum(x, axis), bools([[True, False, True], [False, False, True]]), axis=-1, grad=False)
    case("cumsum/special", lambda x, axis: torch.cumsum(x, axis), vec(1.0, inf, 2.0, -inf, 3.0), axis=0, grad=False)
    sort = lambda x, axis, descending: torch.sort(x, dim=axis, descending=descending, stable=True)
    case("sort/ascending", sort, (3, 7), axis=1, descending=False)
    case("sort/descending", sort, (3, 7), axis=-1, descending=True)
    case("sort/axis_0", sort, (5, 3), axis=0, descending=False)
    case("sort/ties", sort, vec(2.0, 1.0, 2.0, 1.0, 3.0, 2.0), axis=0, descending=False)
    case("sort/ties_descending", sort, vec(2.0, 1.0, 2.0, 1.0, 3.0, 2.0), axis=0, descending=True)
    case("sort/special", sort, vec(nan, 1.0, -inf, inf, -0.5, nan), axis=0, descending=False, grad=False)
    case("sort/special_descending", sort, vec(nan, 1.0, -inf, inf, -0.5, nan), axis=0, descending=True, grad=False)
    topk = lambda x, k, axis, largest: torch.topk(x, k, axis, largest)
    case("topk/largest", topk, (3, 7), k=3, axis=1, largest=True)
    case("topk/smallest", topk, (3, 7), k=2, axis=-1, largest=False)
    case("topk/axis_0", topk, (5, 3), k=2, axis=0, largest=True)
    case("topk/all", topk, (2, 4), k=4, axis=1, largest=True)
    case("topk/none", topk, (2, 4), k=0, axis=1, largest=True)


def softmaxes():
    for op in ("softmax", "log_softmax"):
        f = lambda x, axis, op=op: getattr(F, op)(x, axis)
        case(f"{op}/last", f, (3, 5), axis=-1)
        case(f"{op}/axis_0", f, (3, 5), axis=0)
        case(f"{op}/middle", f, (2, 5, 3), axis=1)
        case(f"{op}/size_one", f, (4, 1), axis=1)
        case(f"{op}/long", f, (2, 257), axis=1)
        case(f"{op}/large", f, torch.tensor([[1000.0, 999.0, -1000.0], [65504.0, 0.0, 65504.0]]), axis=1)
        case(f"{op}/empty", f, (0, 5), axis=1)
        case(f"{op}/masked", f, torch.tensor([[1.0, -inf, 2.0], [-inf, -inf, 0.5]]), axis=1, grad=op == "softmax")
        case(f"{op}/all_masked", f, torch.tensor([[-inf, -inf], [0.0, nan], [inf, 0.0]]), axis=1, grad=False)
