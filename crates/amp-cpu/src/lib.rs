//! CPU kernels of amp.
//!
//! A kernel reads [`View`]s (strided, any stored precision, rounded on load to the logical one), computes in F32
//! (F64 for F64 operands) and writes one contiguous [`Storage`]. Nothing here knows of tensors or gradients.
//!
//! The crate imports no sibling; `amp-core` is its only caller and checks shapes before it calls.
//!
//! Words that recur in comments:
//!
//! * **Lanes** are the sixteen elements that a kernel works on at once ([`simd`]), in as many registers as the level needs.
//! * A **line** is what an operation along an axis works on; lines lie **side by side** where the axis is not the last.
//! * Images lie as **planes** (NCHW) or with the **channels** of a pixel **together** (NHWC, channels-last).
//! * What is **turned** is transposed, from one of these orders to the other most of all.
//! * A product has a **left** and a **right** side (A and B) and a **depth** (K). It is computed by **tiles** of the result, which
//!   stay in registers (the micro-kernel), from **panels**: vectors of a side that are packed and interleaved, as in BLIS. Left
//!   sides may also stay **lines**, rows that are not interleaved. A **strip** is as many rows as a tile has, all columns wide; a
//!   **sink** is the epilogue that takes finished rows.
//! * A **patch** is what a convolution reads for one output pixel (a row of im2col's matrix), a **tap** one element of the kernel
//!   and where it reads, a **band** some output pixels that a task computes.

// On other targets, nothing calls the code that only the kernels of these instruction sets use.
#![cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code, unused_imports, unused_variables))]

mod arena;
mod assemble;
mod attention;
mod block;
mod buffer;
mod cache;
mod conv;
mod convert;
mod distance;
mod dtype;
mod elementwise;
mod factor;
mod gemm;
mod grid;
mod index;
mod join;
mod layout;
mod line;
mod load;
mod lockstep;
mod math;
mod norm;
mod num;
mod op;
pub mod optim;
mod output;
mod pad;
mod parallel;
mod pixel;
mod plane;
mod pool;
mod random;
mod recurrent;
mod reduce;
mod scratch;
pub mod simd;
mod softmax;
mod source;
mod split;
mod storage;
#[cfg(test)]
mod testing;
mod threads;
mod transpose;
mod upsample;
mod walk;

pub use arena::lasting;
pub use assemble::{Stretch, assemble};
pub use attention::{Attended, AttentionGrads, Scores, attention, attention_grad, take_apart};
pub use block::Block;
pub use cache::{cached_bytes, empty_cache, has_room, set_cache_limit};
pub use conv::{
    Conv2d, conv_transpose2d, conv_transpose2d_acc, conv_transpose2d_order, conv2d, conv2d_grad_weight,
    conv2d_grad_weight_acc, conv2d_order,
};
pub use distance::{distances, distances_grad};
pub use dtype::DType;
pub use elementwise::{
    alive, binary, binary_narrowed, compare, copy, copy_into, dead, fill, glu, glu_grad, loss_grad, loss_total, losses,
    relu_grad_in_place, select, ternary, unary, unary_grad,
};
pub use factor::{Triangle, cholesky, lu, solve_triangular};
pub use gemm::{Epilogue, matmul, matmul_acc, matmul_sums};
pub use grid::{GridMode, GridPadding, Sampling, grid_sample, grid_sample_grad, grid_sample_grad_grid};
pub use index::{gather, index_add, index_select, indices, outside, scatter, scatter_add};
pub use join::join;
pub use layout::{Dims, Layout, MAX_RANK, MemoryOrder};
pub use line::{cumprod_grad, median, running_extreme, scan, sort, topk};
pub use norm::{
    NormGrads, NormKind, Normalized, batch_norm_relu, batch_norm_relu_grad, normalize, normalize_grad, normalize_with,
};
pub use op::{Binary, Compare, PairLoss, Reduce, Scan, Ternary, Unary};
pub use pad::pad;
pub use pool::{
    Pool2d, adaptive_avg_pool2d, adaptive_avg_pool2d_grad, adaptive_max_pool2d, avg_pool2d, avg_pool2d_grad,
    max_pool2d, max_pool2d_grad, max_pool2d_values,
};
pub use random::{random_mask, random_normal, random_uniform, uniform_last};
pub use recurrent::{gru_cell, gru_cell_grad, lstm_cell, lstm_cell_grad};
pub use reduce::{arg_reduce, reduce, variance};
pub use softmax::{
    CrossEntropy, Labels, cross_entropy, cross_entropy_grad, logsumexp, softmax, softmax_grad, softmax_grad_of_input,
};
pub use storage::{Slice, SliceMut, Storage, View};
pub use threads::{num_threads, set_num_threads, with_num_threads};
pub use upsample::{Interpolation, upsample2d, upsample2d_grad};
