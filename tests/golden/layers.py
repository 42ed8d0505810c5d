"""Normalisation, pooling, resampling."""

import torch
import torch.nn.functional as F

from record import case, nan, record, uniform


def norms():
    ln = lambda x, w=None, b=None, shape=None, eps=1e-5: F.layer_norm(x, shape, w, b, eps)
    case("layer_norm/plain", ln, (3, 8), shape=[8])
    case("layer_norm/affine", ln, (2, 3, 5), (5,), (5,), shape=[5])
    case("layer_norm/two_axes", ln, (2, 3, 4), (3, 4), (3, 4), shape=[3, 4])
    case("layer_norm/eps", ln, (3, 7), (7,), (7,), shape=[7], eps=0.1)
    case("layer_norm/constant_row", ln, torch.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]), (3,), (3,), shape=[3])
    case("layer_norm/size_one", ln, (4, 1), (1,), (1,), shape=[1])
    case("layer_norm/far_from_zero", ln, uniform(100.0, 101.0, 2, 64), shape=[64], agrees=1e-4)
    case("layer_norm/empty", ln, (0, 5), (5,), (5,), shape=[5])
    rms = lambda x, w=None, shape=None, eps=1e-6: F.rms_norm(x, shape, w, eps)
    case("rms_norm/plain", rms, (3, 8), shape=[8])
    case("rms_norm/affine", rms, (2, 3, 5), (5,), shape=[5])
    case("rms_norm/eps", rms, (3, 7), (7,), shape=[7], eps=0.1)
    case("rms_norm/zero_row", rms, torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 4.0]]), (3,), shape=[3], eps=1e-2)
    gn = lambda x, w=None, b=None, groups=1, eps=1e-5: F.group_norm(x, groups, w, b, eps)
    case("group_norm/plain", gn, (2, 4, 3), groups=2)
    case("group_norm/affine", gn, (2, 6, 3, 2), (6,), (6,), groups=3)
    case("group_norm/one_group", gn, (2, 3, 4), (3,), (3,), groups=1, eps=1e-3)
    case("group_norm/per_channel", gn, (2, 3, 4), (3,), (3,), groups=3)
    inst = lambda x, w=None, b=None, eps=1e-5: F.instance_norm(x, weight=w, bias=b, eps=eps)
    case("instance_norm/plain", inst, (2, 3, 4, 5))
    case("instance_norm/affine", inst, (2, 3, 7), (3,), (3,), eps=1e-3)
    train = lambda x, w=None, b=None, eps=1e-5: F.batch_norm(x, None, None, w, b, True, 0.1, eps)
    case("batch_norm_train/rank_2", train, (6, 3), (3,), (3,))
    case("batch_norm_train/rank_4", train, (2, 3, 4, 5), (3,), (3,))
    case("batch_norm_train/no_affine", train, (5, 2, 3), eps=1e-2)
    case("batch_norm_train/far_from_zero", train, uniform(100.0, 101.0, 16, 2, 4), (2,), (2,), agrees=1e-4)
    evaluation = lambda x, mean, var, w=None, b=None, eps=1e-5: F.batch_norm(x, mean.detach(), var.detach(), w, b, False, 0.1, eps)
    case("batch_norm_eval/rank_2", evaluation, (6, 3), (3,), uniform(0.5, 2.0, 3), (3,), (3,))
    case("batch_norm_eval/rank_4", evaluation, (2, 3, 4, 5), (3,), uniform(0.5, 2.0, 3), (3,), (3,))
    # Running statistics after three training batches, then one evaluation.
    torch.manual_seed(1)
    bn = torch.nn.BatchNorm2d(3, momentum=0.1)
    batches = torch.randn(3, 4, 3, 2, 5) * 2 + 1
    for batch in batches:
        bn(batch)
    probe = torch.randn(2, 3, 2, 2)
    outs = dict(out0=bn.running_mean, out1=bn.running_var, out2=bn.eval()(probe))
    record("batch_norm_running/three_batches", dict(in0=batches, in1=probe, **outs), momentum=0.1)


def pools():
    mp = lambda x, kernel, stride, padding, dilation=[1, 1], ceil_mode=False: F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)
    base = dict(kernel=[2, 2], stride=[2, 2], padding=[0, 0])
    case("max_pool2d/plain", mp, (2, 3, 6, 6), **base)
    case("max_pool2d/odd", mp, (1, 2, 7, 5), **base)
    case("max_pool2d/overlap", mp, (1, 2, 7, 6), kernel=[3, 2], stride=[1, 2], padding=[1, 0])
    case("max_pool2d/dilation", mp, (1, 1, 8, 8), kernel=[2, 3], stride=[2, 1], padding=[1, 1], dilation=[2, 2])
    case("max_pool2d/ceil", mp, (1, 2, 7, 5), **base, ceil_mode=True)
    case("max_pool2d/ties", mp, torch.tensor([[[[1.0, 1.0], [1.0, 1.0]]]]), **base)
    case("max_pool2d/nan", mp, torch.tensor([[[[1.0, nan], [2.0, 1.0]]]]), **base, grad=False)
    case("max_pool2d/negative_padded", mp, torch.tensor([[[[-1.0, -2.0], [-3.0, -4.0]]]]), kernel=[2, 2], stride=[1, 1], padding=[1, 1])
    ap = lambda x, kernel, stride, padding, ceil_mode=False, count_include_pad=True: F.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad)
    case("avg_pool2d/plain", ap, (2, 3, 6, 6), **base)
    case("avg_pool2d/overlap", ap, (1, 2, 7, 6), kernel=[3, 2], stride=[2, 1], padding=[0, 0])
    case("avg_pool2d/padding", ap, (1, 2, 5, 5), kernel=[3, 3], stride=[2, 2], padding=[1, 1])
    case("avg_pool2d/padding_not_counted", ap, (1, 2, 5, 5), kernel=[3, 3], stride=[2, 2], padding=[1, 1], count_include_pad=False)
    case("avg_pool2d/ceil", ap, (1, 1, 7, 5), **base, ceil_mode=True)
    for op in ("max", "avg"):
        f = lambda x, size, op=op: getattr(F, f"adaptive_{op}_pool2d")(x, size)
        case(f"adaptive_{op}_pool2d/global", f, (2, 3, 5, 4), size=[1, 1])
        case(f"adaptive_{op}_pool2d/uneven", f, (1, 2, 7, 5), size=[3, 2])
        case(f"adaptive_{op}_pool2d/larger", f, (1, 1, 3, 3), size=[5, 4])
    near = lambda x, size: F.interpolate(x, size=size, mode="nearest")
    case("upsample_nearest2d/twice", near, (1, 2, 3, 4), size=[6, 8])
    case("upsample_nearest2d/uneven", near, (1, 2, 3, 5), size=[7, 4])
    case("upsample_nearest2d/down", near, (1, 1, 7, 6), size=[3, 2])
    bil = lambda x, size, align_corners: F.interpolate(x, size=size, mode="bilinear", align_corners=align_corners)
    for align in (False, True):
        tag = "aligned" if align else "plain"
        case(f"upsample_bilinear2d/twice_{tag}", bil, (1, 2, 3, 4), size=[6, 8], align_corners=align)
        case(f"upsample_bilinear2d/uneven_{tag}", bil, (1, 2, 3, 5), size=[7, 4], align_corners=align)
        case(f"upsample_bilinear2d/to_one_{tag}", bil, (1, 1, 3, 3), size=[1, 1], align_corners=align)
        case(f"upsample_bilinear2d/from_one_{tag}", bil, (1, 2, 1, 1), size=[3, 2], align_corners=align)
        size = lambda mode: lambda x, size, align_corners: F.interpolate(x, size=size, mode=mode, align_corners=align_corners)
        case(f"upsample_linear1d/longer_{tag}", size("linear"), (2, 3, 5), size=[8], align_corners=align)
        case(f"upsample_linear1d/shorter_{tag}", size("linear"), (2, 3, 5), size=[3], align_corners=align)
        case(f"upsample_trilinear3d/uneven_{tag}", size("trilinear"), (1, 2, 3, 2, 4), size=[5, 4, 3], align_corners=align)
        case(f"upsample_bicubic2d/twice_{tag}", size("bicubic"), (1, 2, 3, 4), size=[6, 8], align_corners=align)
        case(f"upsample_bicubic2d/uneven_{tag}", size("bicubic"), (1, 2, 5, 4), size=[3, 7], align_corners=align)
        case(f"upsample_bicubic2d/to_one_{tag}", size("bicubic"), (1, 1, 3, 3), size=[1, 1], align_corners=align)
        case(f"upsample_bicubic2d/from_one_{tag}", size("bicubic"), (1, 2, 1, 1), size=[3, 2], align_corners=align)
        maps = lambda theta, size, align_corners: F.affine_grid(theta, [theta.shape[0], 1, *size], align_corners=align_corners)
        case(f"affine_grid/uneven_{tag}", maps, (2, 2, 3), size=[3, 4], align_corners=align)
        case(f"affine_grid/one_{tag}", maps, (1, 2, 3), size=[1, 1], align_corners=align)
        sample = lambda x, grid, mode, padding, align_corners: F.grid_sample(x, grid, mode, padding, align_corners)
        for mode in ("bilinear", "nearest", "bicubic"):
            for padding in ("zeros", "border", "reflection"):
                options = dict(mode=mode, padding=padding, align_corners=align)
                case(f"grid_sample/{mode}_{padding}_{tag}", sample, (2, 2, 4, 5), (2, 3, 4, 2), **options)
        case(f"grid_sample/one_pixel_{tag}", sample, (1, 2, 1, 1), (1, 2, 3, 2), mode="bilinear", padding="reflection", align_corners=align)
        still = F.affine_grid(torch.eye(2, 3)[None], [1, 1, 4, 5], align_corners=align)
        case(f"grid_sample/still_{tag}", sample, (1, 2, 4, 5), still, mode="bilinear", padding="border", align_corners=align, grad=False)
    case("upsample_nearest1d/uneven", near, (2, 3, 5), size=[7])
    case("upsample_nearest3d/uneven", near, (1, 2, 3, 5, 2), size=[7, 4, 3])
    response = lambda x, size, alpha, beta, k: F.local_response_norm(x, size, alpha, beta, k)
    for size in (1, 2, 5):
        case(f"local_response_norm/size_{size}", response, (2, 4, 3, 2), size=size, alpha=0.3, beta=0.75, k=1.5)
    case("local_response_norm/line", response, (2, 4, 3), size=3, alpha=1e-4, beta=0.75, k=1.0)
