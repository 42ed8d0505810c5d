//! Reductions, norms, cumulative operations, softmax.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("cov", Family::Reduction, Class::Full, "CPU: inherits lower from inner matmul (accuracy trap)")
        .departs("a statistic of second order, accumulated in full range")
        .implemented(),
    Op::new("corrcoef", Family::Reduction, Class::Full, "CPU: inherits lower from inner matmul (accuracy trap)")
        .departs("a statistic of second order, accumulated in full range")
        .implemented(),
    Op::new("sum", Family::Reduction, Class::Full, "accumulation error and overflow; 2048+1=2048 in fp16")
        .implemented()
        .direct(),
    Op::new("sum_all", Family::Reduction, Class::Full, "accumulation error and overflow; 2048+1=2048 in fp16")
        .torch("sum")
        .implemented()
        .direct(),
    Op::new("prod", Family::Reduction, Class::Full, "product range overflow/underflow").implemented().direct(),
    Op::new("prod_all", Family::Reduction, Class::Full, "product range overflow/underflow")
        .torch("prod")
        .implemented()
        .direct(),
    Op::new("cumsum", Family::Reduction, Class::Full, "running accumulation error").implemented().direct(),
    Op::new("cumprod", Family::Reduction, Class::Full, "running product range").implemented().direct(),
    Op::new(
        "softmax",
        Family::Reduction,
        Class::Full,
        "exp overflow and denominator sum (Apex patches only the nn.functional name)",
    )
    .implemented()
    .direct(),
    Op::new("log_softmax", Family::Reduction, Class::Full, "exp/sum/log chain").implemented().direct(),
    Op::new("logsumexp", Family::Reduction, Class::Full, "exp/sum/log chain").implemented().direct(),
    Op::new("norm", Family::Reduction, Class::Full, "squares overflow fp16 at abs x > 256").implemented().direct(),
    Op::new("norm_all", Family::Reduction, Class::Full, "squares overflow fp16 at abs x > 256")
        .torch("norm")
        .implemented()
        .direct(),
    Op::new("vector_norm", Family::Reduction, Class::Full, "squares overflow")
        .torch("linalg_vector_norm")
        .implemented()
        .direct(),
    Op::new("matrix_norm", Family::Reduction, Class::Full, "squares overflow")
        .torch("linalg_matrix_norm")
        .implemented(),
    Op::new("frobenius_norm", Family::Reduction, Class::Full, "squares overflow").instead("`matrix_norm`"),
    Op::new("nuclear_norm", Family::Reduction, Class::Full, "needs an SVD; no half kernel"),
    Op::new("renorm", Family::Reduction, Class::Full, "norm inside").implemented(),
    Op::new("dist", Family::Reduction, Class::Full, "norm of a difference").tensors(&[0, 1]).implemented().direct(),
    Op::new("pairwise_distance", Family::Reduction, Class::Full, "norm of a difference")
        .torch("dist")
        .tensors(&[0, 1])
        .implemented()
        .direct(),
    Op::new("pdist", Family::Reduction, Class::Full, "pairwise norms").implemented(),
    Op::new("cdist", Family::Reduction, Class::Full, "pairwise norms; square then sqrt cancellation")
        .tensors(&[0, 1])
        .implemented()
        .direct(),
    Op::new("cosine_similarity", Family::Reduction, Class::Full, "norms and division")
        .tensors(&[0, 1])
        .implemented()
        .direct(),
    Op::new("normalize", Family::Reduction, Class::Full, "not registered in PyTorch: CUDA inherits fp32 from norm")
        .implemented()
        .direct(),
    Op::new("softmin", Family::Reduction, Class::Full, "softmax(-x)").implemented().direct(),
    Op::new("gumbel_softmax", Family::Reduction, Class::Full, "softmax inside").implemented(),
    Op::new("trace", Family::Reduction, Class::Full, "no 16-bit CPU kernel")
        .departs("a sum; PyTorch treats it as full on the CPU only")
        .implemented()
        .direct(),
    Op::new("quantile", Family::Reduction, Class::Full, "only fp32/fp64 accepted")
        .departs("interpolates between order statistics; PyTorch treats it as full on the CPU only")
        .implemented(),
    Op::new("quantile_all", Family::Reduction, Class::Full, "only fp32/fp64 accepted")
        .torch("quantile")
        .departs("interpolates between order statistics; PyTorch treats it as full on the CPU only")
        .implemented(),
    Op::new("nanquantile_all", Family::Reduction, Class::Full, "only fp32/fp64 accepted")
        .torch("nanquantile")
        .departs("interpolates between order statistics; PyTorch treats it as full on the CPU only")
        .implemented(),
    Op::new("nanquantile", Family::Reduction, Class::Full, "only fp32/fp64 accepted")
        .departs("interpolates between order statistics; PyTorch treats it as full on the CPU only")
        .implemented(),
    Op::new(
        "mean",
        Family::Reduction,
        Class::Full,
        "neutral in PyTorch because the kernel accumulates in fp32 and divides before storing; TF and MXNet force fp32",
    )
    .departs("a mean is a sum: PyTorch leaves it in half, where the sum behind it can overflow")
    .implemented()
    .direct(),
    Op::new(
        "mean_all",
        Family::Reduction,
        Class::Full,
        "neutral in PyTorch because the kernel accumulates in fp32 and divides before storing; TF and MXNet force fp32",
    )
    .torch("mean")
    .departs("a mean is a sum: PyTorch leaves it in half, where the sum behind it can overflow")
    .implemented()
    .direct(),
    Op::new("var", Family::Reduction, Class::Full, "kernel accumulates in fp32; Apex forces fp32")
        .departs("variance squares and sums, which half can neither hold nor resolve")
        .implemented()
        .direct(),
    Op::new("var_with", Family::Reduction, Class::Full, "kernel accumulates in fp32; Apex forces fp32")
        .torch("var")
        .departs("variance squares and sums, which half can neither hold nor resolve")
        .implemented()
        .direct(),
    Op::new("std", Family::Reduction, Class::Full, "kernel accumulates in fp32; Apex forces fp32")
        .departs("variance squares and sums, which half can neither hold nor resolve")
        .implemented()
        .direct(),
    Op::new("std_with", Family::Reduction, Class::Full, "kernel accumulates in fp32; Apex forces fp32")
        .torch("std")
        .departs("variance squares and sums, which half can neither hold nor resolve")
        .implemented()
        .direct(),
    Op::new("var_mean", Family::Reduction, Class::Full, "kernel accumulates in fp32; Apex forces fp32")
        .torch("var")
        .departs("variance squares and sums, which half can neither hold nor resolve")
        .implemented(),
    Op::new("std_mean", Family::Reduction, Class::Full, "kernel accumulates in fp32; Apex forces fp32")
        .torch("std")
        .departs("variance squares and sums, which half can neither hold nor resolve")
        .implemented(),
    Op::new("max", Family::Reduction, Class::Keep, "exact selection").implemented(),
    Op::new("max_all", Family::Reduction, Class::Keep, "exact selection").torch("max").implemented(),
    Op::new("min", Family::Reduction, Class::Keep, "exact selection").implemented(),
    Op::new("min_all", Family::Reduction, Class::Keep, "exact selection").torch("min").implemented(),
    Op::new("amax", Family::Reduction, Class::Keep, "exact selection").implemented(),
    Op::new("amin", Family::Reduction, Class::Keep, "exact selection").implemented(),
    Op::new("argmax", Family::Reduction, Class::Keep, "integer output").implemented(),
    Op::new("argmin", Family::Reduction, Class::Keep, "integer output").implemented(),
    Op::new("median", Family::Reduction, Class::Keep, "exact selection").implemented(),
    Op::new("median_all", Family::Reduction, Class::Keep, "exact selection").torch("median").implemented(),
    Op::new("nanmedian", Family::Reduction, Class::Keep, "exact selection").torch("median").implemented(),
    Op::new("aminmax", Family::Reduction, Class::Keep, "exact selection").torch("amax").implemented(),
    Op::new("count_nonzero", Family::Reduction, Class::Keep, "integer output").torch("argmax").implemented(),
    Op::new("nansum", Family::Reduction, Class::Full, "unlisted although it accumulates like sum (gap)")
        .departs("a sum like any other; PyTorch omitted it from the list")
        .implemented()
        .direct(),
    Op::new("nanmean", Family::Reduction, Class::Full, "unlisted").departs("a mean is a sum").implemented(),
    Op::new("trapezoid", Family::Reduction, Class::Full, "a sum of many terms").torch("sum").implemented(),
    Op::new("trapezoid_over", Family::Reduction, Class::Full, "a sum of many terms")
        .torch("sum")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("cumulative_trapezoid", Family::Reduction, Class::Full, "a running sum of many terms")
        .torch("cumsum")
        .implemented(),
    Op::new("cumulative_trapezoid_over", Family::Reduction, Class::Full, "a running sum of many terms")
        .torch("cumsum")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("logcumsumexp", Family::Reduction, Class::Full, "unlisted although it is exp-based (gap)")
        .departs("a cumulative sum of exponentials")
        .implemented(),
    Op::new("cummax", Family::Reduction, Class::Keep, "exact selection").implemented(),
    Op::new("cummin", Family::Reduction, Class::Keep, "exact selection").torch("cummax").implemented(),
    Op::new("all", Family::Reduction, Class::Keep, "bool output").implemented(),
    Op::new("any", Family::Reduction, Class::Keep, "bool output").implemented(),
];
