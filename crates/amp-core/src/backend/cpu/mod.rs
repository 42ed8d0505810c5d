//! The CPU backend: a thin layer over amp-cpu's kernels on slices.

mod attention;
mod convolution;
mod elementwise;
mod indexing;
mod matmul;
mod memory;
mod normalization;
mod optimizer;
mod pooling;
mod random;
mod reduction;
mod softmax;

pub use memory::cast_kernels;

use super::{Backend, Buffer, Operand};
use crate::{Error, Result};
use amp_cpu::{Storage, View};

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
    Ok(View { data: storage.as_slice(), layout: x.layout, logical: x.logical })
}

/// The buffer for writing; callers made sure that it is theirs alone.
fn storage_mut<'a>(op: &'static str, buffer: &'a mut Buffer) -> Result<&'a mut Storage> {
    buffer.downcast_mut::<Storage>().ok_or_else(|| foreign(op))
}

fn foreign(op: &'static str) -> Error {
    Error::Device { op, left: "cpu".into(), right: "another device".into() }
}
