//! Every kernel on the emulated device: the same bits under several orders of threads, and the values of the CPU's F64.

#![allow(clippy::cloned_ref_to_slice_refs, reason = "lists of inputs read alike whether they hold one or several")]

#[path = "../standin/mod.rs"]
mod standin;

mod attention;
mod case;
mod convolve;
mod elementwise;
mod factorization;
mod indexing;
mod lines;
mod memory;
mod mutants;
mod normalisation;
mod products;
mod recurrent;
mod training;

use amp_core::Dims;
use amp_core::backend::{Backend, Buffer, DType, Layout, Operand};

/// What kernels compute with.
pub const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// The precision that statistics of `dtype` have.
pub fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The bits of two results, one of which was rounded from the other.
pub fn rounded_alike(b: &dyn Backend, wide: &Buffer, narrow: &Buffer) {
    let layout = Layout::contiguous(Dims::new(&[wide.len()]).expect("rank 1"));
    let wide = Operand { buffer: wide, layout: &layout, logical: DType::F32 };
    let cast = b.copy(wide, narrow.dtype()).expect("a copy");
    let [cast, written] = [&cast, narrow].map(|x| format!("{:?}", b.download(x).expect("a download")));
    assert_eq!(cast, written);
}
