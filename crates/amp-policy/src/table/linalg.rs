//! Factorisations, solvers, transforms.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("linalg_matrix_exp", Family::Linalg, Class::Full, "not listed; stays in input dtype")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("inverse", Family::Linalg, Class::Full, "LAPACK has no 16-bit routines")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("pinverse", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_inv", Family::Linalg, Class::Full, "LAPACK only")
        .instead("`inverse`")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_inv_ex", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("solve", Family::Linalg, Class::Full, "LAPACK only")
        .torch("linalg_solve")
        .tensors(&[0, 1])
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("linalg_lstsq", Family::Linalg, Class::Full, "LAPACK only")
        .tensors(&[0, 1])
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("cholesky", Family::Linalg, Class::Full, "LAPACK only")
        .torch("linalg_cholesky")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("linalg_cholesky_ex", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("cholesky_inverse", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("cholesky_solve", Family::Linalg, Class::Full, "LAPACK only")
        .tensors(&[0, 1])
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("linalg_svd", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_svdvals", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("svd", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_eig", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_eigh", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_eigvals", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_eigvalsh", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_qr", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("geqrf", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("orgqr", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("ormqr", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_householder_product", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_cond", Family::Linalg, Class::Full, "SVD/inverse inside")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_matrix_rank", Family::Linalg, Class::Full, "SVD threshold")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_tensorinv", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("linalg_tensorsolve", Family::Linalg, Class::Full, "LAPACK only")
        .tensors(&[0, 1])
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new(
        "linalg_matrix_sqrth",
        Family::Linalg,
        Class::Full,
        "new in 2.15; eigen decomposition; fp32 on CUDA and CPU",
    ),
    Op::new("lu_solve", Family::Linalg, Class::Full, "LAPACK only")
        .tensors(&[0, 1])
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("_lu_with_info", Family::Linalg, Class::Full, "LAPACK only")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("solve_triangular", Family::Linalg, Class::Full, "LAPACK only")
        .torch("triangular_solve")
        .tensors(&[0, 1])
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("det", Family::Linalg, Class::Full, "unlisted: raises on 16-bit CPU input (no LU kernel)")
        .torch("linalg_det")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("slogdet", Family::Linalg, Class::Full, "unlisted: explicitly rejects 16-bit")
        .torch("linalg_slogdet")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("logdet", Family::Linalg, Class::Full, "unlisted: explicitly rejects 16-bit")
        .torch("linalg_slogdet")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only")
        .implemented(),
    Op::new("linalg_lu_factor", Family::Linalg, Class::Full, "unlisted: raises on 16-bit CPU input")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_fft", Family::Fft, Class::Full, "no 16-bit CPU FFT; half FFT needs power-of-two sizes")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_ifft", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_fft2", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_ifft2", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_fftn", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_ifftn", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_rfft", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_irfft", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_rfft2", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_irfft2", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_rfftn", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_irfftn", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_hfft", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("fft_ihfft", Family::Fft, Class::Full, "no 16-bit CPU FFT")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("stft", Family::Fft, Class::Full, "FFT inside")
        .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
    Op::new("polar", Family::Complex, Class::Keep, "no bf16 complex type"),
    Op::new("view_as_complex", Family::Complex, Class::Keep, "no bf16 complex type"),
    Op::new(
        "linalg_pinv",
        Family::Linalg,
        Class::Full,
        "unlisted under this name: on CPU fp32 input came back as bf16 because inner matmul lowers (accuracy trap)",
    )
    .departs("no 16-bit algorithm exists; PyTorch fails or is full on the CPU only"),
];
