//! Matrix products.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("mm", Family::Gemm, Class::Lower, "tensor-core GEMM; products accumulate in fp32 inside the kernel")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("matmul", Family::Gemm, Class::Lower, "tensor-core GEMM; main speed win of AMP")
        .tensors(&[0, 1])
        .implemented(),
    Op::new(
        "mv",
        Family::Gemm,
        Class::Lower,
        "GEMV rides the GEMM list on CUDA; on CPU unregistered (matmul(mat vec) is lower but mv is not)",
    )
    .tensors(&[0, 1])
    .implemented(),
    Op::new("bmm", Family::Gemm, Class::Lower, "batched tensor-core GEMM (slow in fp16 before CUDA 9.1)")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("addmm", Family::Gemm, Class::Lower, "GEMM plus bias; fp32 accumulate").tensors(&[0, 1, 2]).implemented(),
    Op::new("addmv", Family::Gemm, Class::Lower, "GEMV plus add; CUDA only").tensors(&[0, 1, 2]).implemented(),
    Op::new("addr", Family::Gemm, Class::Lower, "rank-1 update treated as BLAS on CUDA")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("addbmm", Family::Gemm, Class::Lower, "batched GEMM reduced over batch").tensors(&[0, 1, 2]).implemented(),
    Op::new("baddbmm", Family::Gemm, Class::Lower, "batched GEMM plus add (attention scores)")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new("_addmm_activation", Family::Gemm, Class::Lower, "fused GEMM epilogue; CPU list only")
        .tensors(&[0, 1, 2])
        .departs("a GEMM with an epilogue; PyTorch lists it on the CPU only"),
    Op::new("linear", Family::Gemm, Class::Lower, "tensor-core GEMM of every dense layer")
        .tensors(&[0, 1, 2])
        .implemented(),
    Op::new(
        "chain_matmul",
        Family::Gemm,
        Class::Lower,
        "sequence of GEMMs; CPU not registered but inherits lower from matmul (mixed inputs raise)",
    )
    .list(),
    Op::new(
        "linalg_multi_dot",
        Family::Gemm,
        Class::Lower,
        "sequence of GEMMs; CPU not registered but inherits lower from matmul (mixed inputs raise)",
    )
    .list(),
    Op::new("vecdot", Family::Gemm, Class::Lower, "batched dot lowered as matmul")
        .torch("linalg_vecdot")
        .tensors(&[0, 1])
        .implemented(),
    Op::new(
        "einsum",
        Family::Gemm,
        Class::Lower,
        "decomposes to bmm; listed on CUDA so its inner sum does not promote; CPU inherits lower from bmm",
    )
    .tensors(&[0, 2])
    .implemented(),
    Op::new("einsum_of", Family::Gemm, Class::Lower, "decomposes to bmm, as einsum")
        .torch("einsum")
        .list()
        .implemented(),
    Op::new(
        "tensordot",
        Family::Gemm,
        Class::Widest,
        "CUDA: only a dtype match is needed (promote); CPU not registered: inherits lower from mm (mixed inputs raise)",
    )
    .tensors(&[0, 1])
    .implemented(),
    Op::new("tensordot_over", Family::Gemm, Class::Widest, "CUDA: only a dtype match is needed (promote)")
        .torch("tensordot")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("dot", Family::Gemm, Class::Widest, "1-D reduction; promote keeps user precision instead of forcing half")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("vdot", Family::Gemm, Class::Widest, "same as dot").tensors(&[0, 1]).implemented(),
    Op::new("outer", Family::Gemm, Class::Widest, "broadcast multiply; native type promotion")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("inner", Family::Gemm, Class::Widest, "composite; needs equal dtypes on CPU")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("kron", Family::Gemm, Class::Widest, "broadcast multiply").tensors(&[0, 1]).implemented(),
    Op::new(
        "matrix_power",
        Family::Gemm,
        Class::Lower,
        "not registered: inherits lower from inner matmul calls (error compounds with the exponent)",
    )
    .implemented(),
    Op::new("bilinear", Family::Gemm, Class::Widest, "inputs and weight must share a dtype")
        .tensors(&[0, 1, 2, 3])
        .implemented(),
];
