//! CPU kernels of amp.
//!
//! A kernel reads [`View`]s (strided, any stored precision, rounded on load to the logical one), computes in F32
//! (F64 for F64 operands) and writes one contiguous [`Storage`]. Nothing here knows of tensors or gradients.
//!
//! The crate imports no sibling; `amp-core` is its only caller and checks shapes before it calls.

mod arg_reduce;
mod convert;
mod cross_entropy;
mod dtype;
mod elementwise;
mod fold;
mod index;
mod layout;
mod line;
mod math;
mod norm;
mod norm_grad;
mod num;
mod op;
mod parallel;
mod random;
mod reduce;
mod scan;
pub mod simd;
mod softmax;
mod sort;
mod source;
mod span;
mod split;
mod storage;
mod variance;
mod walk;

pub use arg_reduce::arg_reduce;
pub use cross_entropy::{CrossEntropy, Labels, cross_entropy, cross_entropy_grad};
pub use dtype::DType;
pub use elementwise::{binary, compare, copy, copy_into, fill, select, ternary, unary, unary_grad};
pub use index::{gather, index_add, index_bounds, index_select, indices, scatter_add};
pub use layout::{Dims, Layout, MAX_RANK};
pub use norm::{NormKind, Normalized, normalize, normalize_with};
pub use norm_grad::{NormGrads, normalize_grad};
pub use op::{Binary, Compare, Reduce, Scan, Ternary, Unary};
pub use random::{random_mask, random_normal, random_uniform};
pub use reduce::reduce;
pub use scan::scan;
pub use softmax::{logsumexp, softmax, softmax_grad};
pub use sort::sort;
pub use storage::{Slice, SliceMut, Storage, View};
pub use variance::variance;
