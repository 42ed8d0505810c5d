"""Losses."""

import torch
import torch.nn.functional as F

from record import case, ints, labels, uniform, vec


def losses():
    for op in ("mse_loss", "l1_loss"):
        f = getattr(F, op)
        for reduction in ("mean", "sum", "none"):
            case(f"{op}/{reduction}", f, (3, 4), (3, 4), reduction=reduction)
    case("l1_loss/ties", F.l1_loss, vec(1.0, 2.0), vec(1.0, 3.0), reduction="mean")
    near = uniform(-2.0, 2.0, 4, 5)
    case("smooth_l1_loss/mean", F.smooth_l1_loss, near, near, beta=1.0, reduction="mean")
    case("smooth_l1_loss/beta", F.smooth_l1_loss, near, near, beta=0.3, reduction="sum")
    case("smooth_l1_loss/at_beta", F.smooth_l1_loss, vec(0.0, 1.0, -1.0), vec(0.0, 0.0, 0.0), beta=1.0, reduction="none")
    case("huber_loss/mean", F.huber_loss, near, near, delta=1.0, reduction="mean")
    case("huber_loss/delta", F.huber_loss, near, near, delta=0.3, reduction="sum")
    constant = lambda w: None if w is None else w.detach()  # PyTorch has no gradient for class weights
    ce = lambda x, t, w=None, **o: F.cross_entropy(x, t, constant(w), **o)
    plain = dict(ignore_index=-100, label_smoothing=0.0, reduction="mean")
    case("cross_entropy/mean", ce, (5, 7), labels(7, 5), **plain)
    case("cross_entropy/sum", ce, (5, 7), labels(7, 5), **{**plain, "reduction": "sum"})
    case("cross_entropy/none", ce, (5, 7), labels(7, 5), **{**plain, "reduction": "none"})
    case("cross_entropy/ignore_index", ce, (5, 4), ints([0, 3, -100, 1, -100]), **plain)
    case("cross_entropy/ignore_class", ce, (5, 4), ints([0, 3, 2, 1, 2]), **{**plain, "ignore_index": 2})
    case("cross_entropy/smoothing", ce, (5, 7), labels(7, 5), **{**plain, "label_smoothing": 0.1})
    case("cross_entropy/smoothing_ignored", ce, (4, 3), ints([0, -100, 2, 1]), **{**plain, "label_smoothing": 0.2})
    case("cross_entropy/weights", ce, (5, 4), labels(4, 5), uniform(0.5, 2.0, 4), **plain)
    case("cross_entropy/everything", ce, (6, 4), ints([0, 3, -100, 1, 2, 0]), uniform(0.5, 2.0, 4), **{**plain, "label_smoothing": 0.1})
    case("cross_entropy/images", ce, (2, 3, 2, 4), labels(3, 2, 2, 4), **plain)
    case("cross_entropy/one_class", ce, (3, 1), ints([0, 0, 0]), **plain)
    case("cross_entropy/large_logits", ce, torch.tensor([[1000.0, -1000.0, 0.0], [65504.0, 65504.0, 0.0]]), ints([1, 0]), **plain)
    nll = lambda x, t, w=None, **o: F.nll_loss(F.log_softmax(x, 1), t, constant(w), **o)
    plain = dict(ignore_index=-100, reduction="mean")
    case("nll_loss/mean", nll, (5, 7), labels(7, 5), **plain)
    case("nll_loss/none", nll, (5, 7), labels(7, 5), **{**plain, "reduction": "none"})
    case("nll_loss/ignore_index", nll, (5, 4), ints([0, 3, -100, 1, -100]), **plain)
    case("nll_loss/weights", nll, (5, 4), labels(4, 5), uniform(0.5, 2.0, 4), **{**plain, "reduction": "mean"})
    bce = lambda x, t, w=None, pos_weight=None, reduction="mean": F.binary_cross_entropy_with_logits(x, t, w, None, None, reduction, pos_weight)
    for reduction in ("mean", "sum", "none"):
        case(f"bce_with_logits/{reduction}", bce, (3, 4), uniform(0.0, 1.0, 3, 4), reduction=reduction)
    case("bce_with_logits/large", bce, vec(100.0, -100.0, 100.0, -100.0), vec(1.0, 0.0, 0.0, 1.0), reduction="mean")
    p = uniform(0.05, 0.95, 3, 4)
    case("binary_cross_entropy/mean", F.binary_cross_entropy, p, uniform(0.0, 1.0, 3, 4), reduction="mean")
    case("binary_cross_entropy/sure", F.binary_cross_entropy, vec(0.0, 1.0, 0.0, 1.0), vec(0.0, 1.0, 1.0, 0.0), reduction="none", grad=False)
    kl = lambda x, t, log_target, reduction: F.kl_div(F.log_softmax(x, -1), t, reduction=reduction, log_target=log_target)
    probabilities = lambda: torch.softmax(torch.randn(3, 5), -1)
    case("kl_div/mean", kl, (3, 5), probabilities, log_target=False, reduction="mean")
    case("kl_div/batchmean", kl, (3, 5), probabilities, log_target=False, reduction="batchmean")
    case("kl_div/sum", kl, (3, 5), probabilities, log_target=False, reduction="sum")
    case("kl_div/log_target", kl, (3, 5), (3, 5), log_target=True, reduction="batchmean")
    zero = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    case("kl_div/zero_target", lambda x, t, **o: kl(x, t.detach(), **o), (2, 3), zero, log_target=False, reduction="sum")
    triplet = lambda a, p, n, margin: F.triplet_margin_loss(a, p, n, margin)
    case("triplet_margin_loss/mean", triplet, (5, 3), (5, 3), (5, 3), margin=1.0)
    case("triplet_margin_loss/one_row", triplet, (7,), (7,), (7,), margin=0.2)
    ranking = lambda a, b, order, margin: F.margin_ranking_loss(a, b, order.detach(), margin)
    case("margin_ranking_loss/mean", ranking, (5,), (5,), vec(1.0, -1.0, 1.0, -1.0, 1.0), margin=0.3)
    cos = lambda a, b, t, margin, reduction: F.cosine_embedding_loss(a, b, t, margin, reduction=reduction)
    sides = ints([1, -1, 1, -1])
    case("cosine_embedding_loss/mean", cos, (4, 5), (4, 5), sides, margin=0.0, reduction="mean")
    case("cosine_embedding_loss/margin", cos, (4, 5), (4, 5), sides, margin=-0.5, reduction="mean")
    case("cosine_embedding_loss/one_row", cos, (5,), (5,), ints(-1), margin=-0.2, reduction="mean")
