//! The rows, a file for each group of families.

mod activation;
mod gemm;
mod linalg;
mod loss;
mod network;
mod other;
mod pointwise;
mod pool;
mod reduction;
mod shape;

use crate::Op;

/// The groups in the order of the reference table.
pub(crate) const GROUPS: &[&[Op]] = &[
    gemm::OPS,
    linalg::OPS,
    reduction::OPS,
    network::OPS,
    activation::OPS,
    pointwise::OPS,
    loss::OPS,
    pool::OPS,
    shape::OPS,
    other::OPS,
];
