//! The CPU backend: a thin layer over amp-cpu's kernels on slices.

mod attention;
mod convolution;
mod elementwise;
mod factorization;
mod indexing;
mod matmul;
mod memory;
mod normalization;
mod optimizer;
mod pooling;
mod random;
mod recurrent;
mod reduction;
mod softmax;

pub use memory::cast_kernels;

use super::{Backend, Buffer, Operand};
use crate::{Error, Result};
use amp_cpu::{DType, Storage, View};

/// Runs every kernel on the calling machine's CPU.
#[derive(Debug)]
pub struct CpuBackend;

impl Backend for CpuBackend {
    fn name(&self) -> String {
        "cpu".into()
    }
}

/// The operand as the kernels' own view type.
fn view<'a>(op: &'static str, x: Operand<'a>) -> Result<View<'a>> {
    let storage = x.buffer.downcast::<Storage>().ok_or_else(|| foreign(op))?;
    // A broadcast operand may have any number of elements, and what is computed from it as many.
    if x.layout.count() > storage.len() {
        room(op, x.layout.count(), x.logical)?;
    }
    Ok(View { data: storage.as_slice(), layout: x.layout, logical: x.logical })
}

/// An error when there is no memory for a result of `count` elements.
fn room(op: &'static str, count: usize, dtype: DType) -> Result<()> {
    let bytes = count.saturating_mul(dtype.size());
    if amp_cpu::has_room(bytes) { Ok(()) } else { Err(Error::OutOfMemory { op, bytes }) }
}

/// The buffer for writing; callers made sure that it is theirs alone.
fn storage_mut<'a>(op: &'static str, buffer: &'a mut Buffer) -> Result<&'a mut Storage> {
    buffer.downcast_mut::<Storage>().ok_or_else(|| foreign(op))
}

fn foreign(op: &'static str) -> Error {
    Error::Device { op, left: "cpu".into(), right: "another device".into() }
}
