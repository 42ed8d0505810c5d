//! CPU kernels of amp.
//!
//! A kernel reads [`View`]s (strided, any stored precision, rounded on load to the logical one), computes in F32
//! (F64 for F64 operands) and writes one contiguous [`Storage`]. Nothing here knows of tensors or gradients.
//!
//! The crate imports no sibling; `amp-core` is its only caller and checks shapes before it calls.

mod convert;
mod dtype;
mod elementwise;
mod layout;
mod math;
mod op;
mod parallel;
mod random;
pub mod simd;
mod source;
mod storage;
mod walk;

pub use dtype::DType;
pub use elementwise::{binary, compare, copy, copy_into, fill, select, ternary, unary, unary_grad};
pub use layout::{Dims, Layout, MAX_RANK};
pub use op::{Binary, Compare, Reduce, Scan, Ternary, Unary};
pub use random::{random_mask, random_normal, random_uniform};
pub use storage::{Slice, SliceMut, Storage, View};
