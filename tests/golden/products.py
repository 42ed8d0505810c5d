"""Matrix products, convolutions, attention, embedding."""

import torch
import torch.nn.functional as F

from record import case, inf, ints, mask, vec


def products():
    mm = torch.matmul
    case("matmul/square", mm, (4, 4), (4, 4))
    case("matmul/odd", mm, (17, 13), (13, 19))
    case("matmul/batched", mm, (2, 3, 4), (2, 4, 5))
    case("matmul/broadcast_right", mm, (2, 3, 4), (4, 5))
    case("matmul/broadcast_left", mm, (3, 4), (2, 4, 5))
    case("matmul/broadcast_batch", mm, (2, 1, 3, 4), (5, 4, 2))
    case("matmul/mat_vec", mm, (3, 4), (4,))
    case("matmul/vec_mat", mm, (3,), (3, 4))
    case("matmul/dot", mm, (7,), (7,))
    case("matmul/batch_vec", mm, (2, 3, 4), (4,))
    case("matmul/size_one", mm, (1, 1), (1, 1))
    case("matmul/outer", mm, (5, 1), (1, 7))
    case("matmul/no_rows", mm, (0, 3), (3, 2))
    case("matmul/no_inner", mm, (2, 0), (0, 3))
    case("matmul/empty_batch", mm, (0, 2, 3), (0, 3, 2))
    case("vdot/plain", torch.vdot, (7,), (7,))
    case("inner/matrices", torch.inner, (3, 4), (5, 4))
    case("inner/scalar", torch.inner, vec(1.5).reshape(()), (5, 4))
    case("vecdot/broadcast", lambda a, b, axis: torch.linalg.vecdot(a, b, dim=axis), (2, 3, 4), (3, 4), axis=-2)
    case("vecdot/lines", lambda a, b, axis: torch.linalg.vecdot(a, b, dim=axis), (5,), (5,), axis=0)
    eye = torch.eye(4)
    definite = lambda: (lambda x: x @ x.mT + eye)(torch.randn(2, 4, 4))
    regular = lambda *outer: lambda: torch.randn(*outer, 4, 4) + 3 * eye
    case("cholesky/batch", torch.linalg.cholesky, definite)
    case("cholesky/one", torch.linalg.cholesky, torch.tensor([[4.0]]))
    for upper in (False, True):
        # PyTorch gives gradients to the triangle that it does not read, too.
        f = lambda b, l, upper: torch.cholesky_solve(b, l.triu() if upper else l.tril(), upper=upper)
        case(f"cholesky_solve/upper_{upper}", f, (2, 4, 3), regular(2), upper=upper)
        for unit in (False, True):
            f = lambda a, b, upper, unit: torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
            case(f"solve_triangular/upper_{upper}_unit_{unit}", f, regular(2), (4, 3), upper=upper, unit=unit)
    case("solve/matrices", torch.linalg.solve, regular(2), (2, 4, 3))
    case("solve/broadcast", torch.linalg.solve, regular(2, 1), (3, 4, 2))
    case("solve/vector", torch.linalg.solve, regular(), (4,))
    case("solve/vectors", torch.linalg.solve, regular(4), (4, 4))
    case("inverse/batch", torch.linalg.inv, regular(2, 3))
    case("inverse/exchanged", torch.linalg.inv, torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0], [3.0, 0.0, 2.0]]))
    case("det/batch", torch.linalg.det, regular(2, 3))
    case("det/singular", torch.linalg.det, torch.tensor([[1.0, 2.0], [2.0, 4.0]]), grad=False)
    case("det/empty", torch.linalg.det, (2, 0, 0), grad=False)
    case("logdet/batch", torch.logdet, definite)
    case("logdet/none", torch.logdet, torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]), grad=False)
    case("slogdet/batch", torch.linalg.slogdet, regular(2, 3))
    case("slogdet/singular", torch.linalg.slogdet, torch.tensor([[1.0, 2.0], [2.0, 4.0]]), grad=False)
    case("tensordot/two", lambda a, b, axes: torch.tensordot(a, b, axes), (2, 3, 4), (3, 4, 5), axes=2)
    over = lambda a, b, left, right: torch.tensordot(a, b, (left, right))
    case("tensordot_over/crossed", over, (2, 3, 4), (4, 5, 2), left=[0, -1], right=[2, 0])
    case("kron/matrices", torch.kron, (2, 3), (3, 2))
    case("kron/ranks", torch.kron, (2,), (3, 1, 2))
    case("cross/broadcast", lambda a, b, axis: torch.linalg.cross(a, b, dim=axis), (4, 3, 1), (1, 3, 2), axis=-2)
    case("addmm/plain", torch.addmm, (4,), (3, 5), (5, 4))
    case("addmv/plain", torch.addmv, (3,), (3, 5), (5,))
    case("addmv/one", torch.addmv, (1,), (3, 5), (5,))
    case("addr/plain", torch.addr, (3, 4), (3,), (4,))
    case("addbmm/plain", torch.addbmm, (3, 5), (2, 3, 4), (2, 4, 5))
    case("matrix_power/five", torch.linalg.matrix_power, (2, 3, 3), n=5)
    case("dist/plain", lambda a, b, p: torch.dist(a, b, p), (3, 4), (4,), p=3.0)
    for p in (1.0, 2.0, 3.5):
        case(f"cdist/p_{p}", lambda a, b, p: torch.cdist(a, b, p), (2, 3, 4), (2, 5, 4), p=p)
    case("cdist/same", lambda a, b, p: torch.cdist(a, b, p), torch.ones(2, 3), torch.ones(1, 3), p=2.0)
    case("cdist/no_elements", lambda a, b, p: torch.cdist(a, b, p), (2, 0), (3, 0), p=inf, grad=False)
    case("pairwise_distance/rows", lambda a, b: F.pairwise_distance(a, b), (3, 4), (3, 4))
    case("trace/wide", torch.trace, (3, 5))
    case("linear/bias", F.linear, (5, 4), (3, 4), (3,))
    case("linear/no_bias", F.linear, (5, 4), (3, 4))
    case("linear/rank_3", F.linear, (2, 5, 4), (3, 4), (3,))
    case("linear/rank_1", F.linear, (4,), (3, 4), (3,))
    case("linear/odd", F.linear, (7, 31), (13, 31), (13,))
    case("linear/empty", F.linear, (0, 4), (3, 4), (3,))


def convolutions():
    c1 = F.conv1d
    case("conv1d/plain", c1, (2, 3, 9), (4, 3, 3), (4,), stride=1, padding=0, dilation=1, groups=1)
    case("conv1d/no_bias", c1, (2, 3, 9), (4, 3, 2), stride=1, padding=0, dilation=1, groups=1)
    case("conv1d/all_options", c1, (2, 4, 13), (6, 2, 3), (6,), stride=2, padding=2, dilation=2, groups=2)
    case("conv1d/depthwise", c1, (1, 3, 8), (3, 1, 3), (3,), stride=1, padding=1, dilation=1, groups=3)
    c3 = lambda x, w, b, stride, padding, dilation, groups: F.conv3d(x, w, b, stride, padding, dilation, groups)
    case("conv3d/plain", c3, (2, 3, 4, 5, 5), (4, 3, 2, 3, 3), (4,), stride=[1, 1, 1], padding=[0, 0, 0], dilation=[1, 1, 1], groups=1)
    case("conv3d/all_options", c3, (1, 4, 7, 6, 5), (6, 2, 2, 3, 2), (6,), stride=[2, 1, 2], padding=[2, 1, 0], dilation=[3, 1, 2], groups=2)
    t3 = lambda x, w, b, stride, padding, output_padding, dilation, groups: F.conv_transpose3d(x, w, b, stride, padding, output_padding, groups, dilation)
    case("conv_transpose3d/plain", t3, (2, 3, 3, 4, 4), (3, 4, 2, 3, 3), (4,), stride=[1, 1, 1], padding=[0, 0, 0], output_padding=[0, 0, 0], dilation=[1, 1, 1], groups=1)
    case("conv_transpose3d/all_options", t3, (1, 4, 3, 4, 3), (4, 3, 3, 3, 2), (6,), stride=[2, 1, 2], padding=[1, 1, 0], output_padding=[1, 0, 1], dilation=[2, 1, 2], groups=2)
    case("conv_transpose3d/spread", t3, (1, 4, 3, 4, 3), (4, 3, 3, 3, 2), (6,), stride=[1, 2, 1], padding=[1, 1, 0], output_padding=[2, 0, 1], dilation=[3, 1, 2], groups=2)
    for tag, size in (("fewer", [2, 3, 4]), ("one", [1, 1, 1]), ("more", [7, 5, 9])):
        case(f"adaptive_max_pool3d/{tag}", lambda x, size: F.adaptive_max_pool3d(x, size), (2, 3, 6, 5, 7), size=size)
        case(f"adaptive_avg_pool3d/{tag}", lambda x, size: F.adaptive_avg_pool3d(x, size), (2, 3, 6, 5, 7), size=size)
    case("bilinear/bias", F.bilinear, (2, 3, 4), (2, 3, 5), (6, 4, 5), (6,))
    case("bilinear/no_bias", F.bilinear, (3, 4), (3, 5), (6, 4, 5))
    bag = lambda i, w, offsets, mode: F.embedding_bag(i, w, torch.tensor(offsets), mode=mode)
    for mode in ("sum", "mean", "max"):
        case(f"embedding_bag/{mode}", bag, ints([1, 3, 3, 0, 4, 2]), (5, 3), offsets=[0, 3, 3, 4], mode=mode)
    case("max_pool3d/uneven", lambda x, kernel, stride, padding: F.max_pool3d(x, kernel, stride, padding), (2, 3, 6, 5, 7), kernel=[3, 2, 2], stride=[2, 2, 1], padding=[1, 0, 1])
    found = lambda x, kernel, stride, padding: F.max_pool3d(x, kernel, stride, padding, return_indices=True)
    case("max_pool3d_with_indices/uneven", found, (2, 3, 6, 5, 7), kernel=[3, 2, 2], stride=[2, 2, 1], padding=[1, 0, 1])
    case("avg_pool3d/uneven", lambda x, kernel, stride, padding: F.avg_pool3d(x, kernel, stride, padding), (2, 3, 6, 5, 7), kernel=[3, 2, 2], stride=[2, 2, 1], padding=[1, 0, 1])
    case("lp_pool2d/plain", lambda x, p, kernel: F.lp_pool2d(x, p, kernel), (2, 3, 6, 5), p=2.0, kernel=2)
    c2 = F.conv2d
    plain = dict(stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)
    case("conv2d/plain", c2, (2, 3, 6, 7), (4, 3, 3, 3), (4,), **plain)
    case("conv2d/no_bias", c2, (2, 3, 5, 5), (4, 3, 3, 2), **plain)
    case("conv2d/pointwise", c2, (2, 5, 3, 3), (4, 5, 1, 1), (4,), **plain)
    case("conv2d/whole_image", c2, (2, 2, 4, 5), (3, 2, 4, 5), (3,), **plain)
    case("conv2d/same_padding", c2, (1, 2, 5, 5), (3, 2, 3, 3), (3,), **{**plain, "padding": [1, 1]})
    case("conv2d/stride_2", c2, (2, 2, 7, 8), (3, 2, 3, 3), (3,), **{**plain, "stride": [2, 2], "padding": [1, 1]})
    case("conv2d/asymmetric", c2, (1, 2, 9, 8), (2, 2, 3, 2), (2,), stride=[2, 1], padding=[1, 2], dilation=[2, 1], groups=1)
    case("conv2d/dilation", c2, (1, 2, 9, 9), (2, 2, 3, 3), (2,), **{**plain, "dilation": [2, 3]})
    case("conv2d/groups", c2, (2, 4, 5, 5), (6, 2, 3, 3), (6,), **{**plain, "groups": 2})
    case("conv2d/depthwise", c2, (1, 3, 5, 6), (6, 1, 3, 3), (6,), **{**plain, "groups": 3, "padding": [1, 1]})
    case("conv2d/wide_padding", c2, (1, 1, 2, 2), (1, 1, 3, 3), (1,), **{**plain, "padding": [3, 3]})
    case("conv2d/stride_beyond_kernel", c2, (1, 2, 7, 7), (2, 2, 2, 2), (2,), **{**plain, "stride": [3, 3]})
    case("conv2d/empty_batch", c2, (0, 2, 5, 5), (3, 2, 3, 3), (3,), **plain)
    ct = lambda x, w, b=None, **o: F.conv_transpose2d(x, w, b, **o)
    base = dict(stride=[1, 1], padding=[0, 0], output_padding=[0, 0], groups=1, dilation=[1, 1])
    case("conv_transpose2d/plain", ct, (2, 3, 4, 5), (3, 4, 3, 3), (4,), **base)
    case("conv_transpose2d/no_bias", ct, (1, 3, 4, 4), (3, 2, 2, 2), **{**base, "stride": [2, 2]})
    case("conv_transpose2d/output_padding", ct, (2, 3, 4, 4), (3, 2, 3, 3), (2,), **{**base, "stride": [2, 2], "padding": [1, 1], "output_padding": [1, 1]})
    case("conv_transpose2d/groups", ct, (1, 4, 4, 3), (4, 3, 3, 3), (6,), **{**base, "groups": 2, "padding": [1, 0]})
    case("conv_transpose2d/dilation", ct, (1, 2, 4, 4), (2, 2, 3, 2), (2,), **{**base, "dilation": [2, 3], "stride": [1, 2]})


def attention():
    sdpa = lambda q, k, v, m=None, is_causal=False, scale=None: F.scaled_dot_product_attention(q, k, v, m, is_causal=is_causal, scale=scale)
    name = "scaled_dot_product_attention"
    case(f"{name}/plain", sdpa, (2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4))
    case(f"{name}/cross", sdpa, (2, 1, 5, 4), (2, 1, 7, 4), (2, 1, 7, 3))
    case(f"{name}/causal", sdpa, (1, 2, 7, 4), (1, 2, 7, 4), (1, 2, 7, 4), is_causal=True)
    case(f"{name}/causal_wide", sdpa, (1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4), is_causal=True)
    case(f"{name}/causal_tall", sdpa, (1, 1, 5, 4), (1, 1, 3, 4), (1, 1, 3, 4), is_causal=True)
    keep = torch.tril(torch.ones(5, 6, dtype=torch.bool), 1)
    case(f"{name}/mask", sdpa, (2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 4), keep)
    case(f"{name}/mask_per_batch", sdpa, (2, 1, 3, 4), (2, 1, 4, 4), (2, 1, 4, 4), torch.tensor([[1, 1, 1, 0], [1, 0, 1, 0]], dtype=torch.bool).reshape(2, 1, 1, 4))
    case(f"{name}/scale", sdpa, (1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 4), scale=0.3)
    case(f"{name}/odd", sdpa, (1, 1, 13, 7), (1, 1, 11, 7), (1, 1, 11, 7))
    case(f"{name}/one_key", sdpa, (1, 1, 3, 4), (1, 1, 1, 4), (1, 1, 1, 4))
    def biased(q, k, v, bias, is_causal=False):
        t, s = q.shape[-2], k.shape[-2]
        later = torch.ones(t, s, dtype=torch.bool).triu(1) & is_causal
        return F.scaled_dot_product_attention(q, k, v, bias.masked_fill(later, float("-inf")))

    name = "scaled_dot_product_attention_biased"
    case(f"{name}/heads", biased, (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 3), (3, 5, 6), is_causal=False)
    case(f"{name}/causal", biased, (1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 4), is_causal=True)
    case("embedding/plain", lambda i, w: F.embedding(i, w), ints([0, 2, 4]), (5, 3))
    case("embedding/repeated", lambda i, w: F.embedding(i, w), ints([[1, 1, 0], [3, 1, 4]]), (5, 3))
    case("embedding/empty", lambda i, w: F.embedding(i, w), ints([]), (5, 3))
