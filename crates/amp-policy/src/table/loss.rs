//! Losses.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("mse_loss", Family::Loss, Class::Full, "squares and mean; loss must stay representable before scaling")
        .tensors(&[0, 1])
        .implemented(),
    Op::new(
        "mse_loss_with",
        Family::Loss,
        Class::Full,
        "squares and mean; loss must stay representable before scaling",
    )
    .torch("mse_loss")
    .tensors(&[0, 1])
    .implemented(),
    Op::new("l1_loss", Family::Loss, Class::Full, "reduction accuracy").tensors(&[0, 1]).implemented(),
    Op::new("l1_loss_with", Family::Loss, Class::Full, "reduction accuracy")
        .torch("l1_loss")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("smooth_l1_loss", Family::Loss, Class::Full, "squares and reduction").tensors(&[0, 1]).implemented(),
    Op::new("smooth_l1_loss_with", Family::Loss, Class::Full, "squares and reduction")
        .torch("smooth_l1_loss")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("huber_loss", Family::Loss, Class::Full, "squares and reduction").tensors(&[0, 1]).implemented(),
    Op::new("huber_loss_with", Family::Loss, Class::Full, "squares and reduction")
        .torch("huber_loss")
        .tensors(&[0, 1])
        .implemented(),
    // Labels are integers: what gets its type from here must not be cast.
    Op::new("nll_loss", Family::Loss, Class::Full, "log-prob gather and mean").implemented(),
    Op::new("nll_loss_with", Family::Loss, Class::Full, "log-prob gather and mean").torch("nll_loss").implemented(),
    Op::new("nll_loss2d", Family::Loss, Class::Full, "log-prob gather and mean").instead("`nll_loss`"),
    Op::new(
        "cross_entropy_loss",
        Family::Loss,
        Class::Full,
        "CPU registers it; CUDA gets fp32 from log_softmax+nll_loss",
    )
    .instead("`cross_entropy`")
    .tensors(&[0, 1])
    .departs("all losses are full: PyTorch reaches the same through log_softmax"),
    Op::new("cross_entropy", Family::Loss, Class::Full, "public name; composite of log_softmax and nll_loss")
        .implemented(),
    Op::new("cross_entropy_with", Family::Loss, Class::Full, "public name; composite of log_softmax and nll_loss")
        .torch("cross_entropy")
        .implemented(),
    Op::new("soft_cross_entropy", Family::Loss, Class::Full, "log_softmax and sums over classes")
        .torch("cross_entropy")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("soft_cross_entropy_with", Family::Loss, Class::Full, "log_softmax and sums over classes")
        .torch("cross_entropy")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("kl_div", Family::Loss, Class::Full, "log/exp terms").tensors(&[0, 1]).implemented(),
    Op::new("kl_div_with", Family::Loss, Class::Full, "log/exp terms").torch("kl_div").tensors(&[0, 1]).implemented(),
    Op::new("poisson_nll_loss", Family::Loss, Class::Full, "exp of input").tensors(&[0, 1]).implemented(),
    Op::new("poisson_nll_loss_with", Family::Loss, Class::Full, "exp of input")
        .torch("poisson_nll_loss")
        .tensors(&[0, 1])
        .implemented(),
    Op::new(
        "binary_cross_entropy",
        Family::Loss,
        Class::Banned,
        "CUDA bans it: its gradient 1/(p(1-p)) must fit fp16 when input is fp16; CPU bf16 just upcasts",
    )
    .tensors(&[0, 1])
    .replaced_by("bce_with_logits")
    .implemented(),
    Op::new(
        "binary_cross_entropy_with",
        Family::Loss,
        Class::Banned,
        "CUDA bans it: its gradient 1/(p(1-p)) must fit fp16 when input is fp16; CPU bf16 just upcasts",
    )
    .torch("binary_cross_entropy")
    .tensors(&[0, 1, 2])
    .replaced_by("bce_with_logits")
    .implemented(),
    Op::new(
        "binary_cross_entropy_with_logits",
        Family::Loss,
        Class::Full,
        "fused sigmoid keeps gradients bounded; fp32",
    )
    .instead("`bce_with_logits`")
    .tensors(&[0, 1]),
    Op::new("bce_with_logits", Family::Loss, Class::Full, "fused sigmoid keeps gradients bounded; fp32")
        .torch("binary_cross_entropy_with_logits")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("bce_with_logits_with", Family::Loss, Class::Full, "fused sigmoid keeps gradients bounded; fp32")
        .torch("binary_cross_entropy_with_logits")
        .tensors(&[0, 1, 2, 3])
        .implemented(),
    Op::new("hinge_embedding_loss", Family::Loss, Class::Full, "reduction accuracy").tensors(&[0, 1]).implemented(),
    Op::new("hinge_embedding_loss_with", Family::Loss, Class::Full, "reduction accuracy")
        .torch("hinge_embedding_loss")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("margin_ranking_loss", Family::Loss, Class::Full, "reduction accuracy").tensors(&[0, 1, 2]).implemented(),
    Op::new("soft_margin_loss", Family::Loss, Class::Full, "exp inside").tensors(&[0, 1]).implemented(),
    Op::new("soft_margin_loss_with", Family::Loss, Class::Full, "exp inside")
        .torch("soft_margin_loss")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("multi_margin_loss", Family::Loss, Class::Full, "reduction accuracy").implemented(),
    Op::new("multi_margin_loss_with", Family::Loss, Class::Full, "reduction accuracy")
        .torch("multi_margin_loss")
        .implemented(),
    Op::new("multilabel_margin_loss", Family::Loss, Class::Full, "reduction accuracy").implemented(),
    Op::new("multilabel_margin_loss_with", Family::Loss, Class::Full, "reduction accuracy")
        .torch("multilabel_margin_loss")
        .implemented(),
    Op::new("multilabel_margin_loss_forward", Family::Loss, Class::Full, "CPU internal entry")
        .instead("`multilabel_margin_loss`")
        .departs("all losses are full"),
    Op::new("multilabel_soft_margin_loss", Family::Loss, Class::Full, "not registered: CUDA result fp32 through sum")
        .tensors(&[0, 1])
        .implemented(),
    Op::new(
        "multilabel_soft_margin_loss_with",
        Family::Loss,
        Class::Full,
        "not registered: CUDA result fp32 through sum",
    )
    .torch("multilabel_soft_margin_loss")
    .tensors(&[0, 1])
    .implemented(),
    Op::new("cosine_embedding_loss", Family::Loss, Class::Full, "norms and division").tensors(&[0, 1, 2]).implemented(),
    Op::new("triplet_margin_loss", Family::Loss, Class::Full, "pairwise norm").tensors(&[0, 1, 2]).implemented(),
    Op::new("ctc_loss", Family::Loss, Class::Full, "long log-space recursions")
        .departs("all losses are full; PyTorch lists it on the CPU only")
        .implemented(),
    Op::new("ctc_loss_with", Family::Loss, Class::Full, "long log-space recursions")
        .torch("ctc_loss")
        .departs("all losses are full; PyTorch lists it on the CPU only")
        .implemented(),
    Op::new("gaussian_nll_loss", Family::Loss, Class::Full, "unlisted composite (log is fp32 on CUDA)")
        .tensors(&[0, 1, 2])
        .departs("all losses are full; PyTorch omitted it from the list")
        .implemented(),
    Op::new("gaussian_nll_loss_with", Family::Loss, Class::Full, "unlisted composite (log is fp32 on CUDA)")
        .torch("gaussian_nll_loss")
        .tensors(&[0, 1, 2])
        .departs("all losses are full; PyTorch omitted it from the list")
        .implemented(),
];
