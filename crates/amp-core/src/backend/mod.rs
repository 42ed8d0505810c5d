//! The seam between tensors and devices: erased operands in, buffers out.
//!
//! A backend implements the traits of this module. It may assume that shapes fit, because operations check them first. It must
//! take operands of any stored and logical precision: kernels widen and round as they load, so that casts need no kernels.

mod attention;
mod convolution;
mod cpu;
mod elementwise;
mod factorization;
mod indexing;
mod matmul;
mod memory;
mod normalization;
mod optimizer;
mod pooling;
mod random;
mod recording;
mod recurrent;
mod reduction;
mod softmax;

pub use attention::{Attention, AttentionScores};
pub use convolution::Convolution;
pub use cpu::{CpuBackend, cast_kernels};

pub use elementwise::Elementwise;
pub use factorization::Factorization;
pub use indexing::Indexing;
pub use matmul::{MatMul, unary_after, unary_grad_after};
pub use memory::Memory;
pub use normalization::{NormGrads, Normalization, Normalized, Rectified, Statistics};
pub use optimizer::{Optimize, ScheduleMove, UpdateSettings, UpdateSlot};
pub use pooling::Pooling;
pub use random::Random;
pub use recording::Replay;
pub use recurrent::Recurrent;
pub use reduction::Reduction;
pub use softmax::{Labels, Softmax};

use crate::random::RandomState;
use crate::{Error, Result};
pub use amp_cpu::optim::{ScaleRule, UpdateRule};
pub use amp_cpu::{
    AttentionGrads, Binary, Compare, Conv2d, DType, Interpolation, Layout, MAX_RANK, MemoryOrder, NormKind, Pool2d,
    Reduce, Sampling, Scan, Storage, Stretch, Ternary, Triangle, Unary, take_apart, uniform_last,
};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// One device's kernels.
pub trait Backend:
    Memory
    + Elementwise
    + Random
    + Reduction
    + Softmax
    + Normalization
    + Indexing
    + MatMul
    + Convolution
    + Pooling
    + Attention
    + Recurrent
    + Factorization
    + Optimize
    + Debug
    + Send
    + Sync
{
    /// Name as printed: `cpu`, `cuda:0`.
    fn name(&self) -> String;

    /// Number of the recording of work that is in progress, 0 for none.
    fn recording(&self) -> u64 {
        0
    }

    /// From now on the calling thread's work is recorded instead of done; the random stream stands at `start`.
    fn begin_recording(&self, start: RandomState) -> Result<()> {
        let _ = start;
        let message = "work cannot be recorded on this device".into();
        Err(Error::Backend { op: "Graph", device: self.name().into(), message })
    }

    /// Ends the recording; the recorded work has not been done.
    fn end_recording(&self) -> Result<Box<dyn Replay>> {
        let message = "no graph is being captured".into();
        Err(Error::Backend { op: "Graph", device: self.name().into(), message })
    }
}

/// Device memory holding elements of one type.
pub trait DeviceBuffer: Any + Debug + Send + Sync {
    /// Element type.
    fn dtype(&self) -> DType;

    /// Number of elements.
    fn len(&self) -> usize;

    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For the backend to recover its own type.
    fn as_any(&self) -> &dyn Any;

    /// For the backend to recover its own type.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Called when the last handle goes: memory that a pool keeps is handed back here.
    fn release(&mut self) {}
}

impl DeviceBuffer for Storage {
    fn dtype(&self) -> DType {
        Storage::dtype(self)
    }

    fn len(&self) -> usize {
        Storage::len(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Calls [`DeviceBuffer::release`] when dropped.
#[derive(Debug)]
struct Released<M: DeviceBuffer>(M);

impl<M: DeviceBuffer> DeviceBuffer for Released<M> {
    fn dtype(&self) -> DType {
        self.0.dtype()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self.0.as_any_mut()
    }
}

impl<M: DeviceBuffer> Drop for Released<M> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Shared handle of device memory; written only while it is the sole handle.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<dyn DeviceBuffer>);

impl Buffer {
    /// Takes ownership of device memory.
    pub fn new(memory: impl DeviceBuffer) -> Self {
        Self(Arc::new(Released(memory)))
    }

    /// Element type of the stored data.
    pub fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype().size()
    }

    /// The memory as a backend's own type, or `None` when another backend made it.
    pub fn downcast<T: DeviceBuffer>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    /// The memory for writing, or `None` when it is shared or another backend's.
    pub fn downcast_mut<T: DeviceBuffer>(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.0)?.as_any_mut().downcast_mut()
    }

    /// Whether both are handles of the same memory.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether no other handle to this memory exists, so that it may be written.
    pub fn is_unique(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }
}

/// One argument of a kernel: elements `stored` in the buffer's type that count as `logical`.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// Which elements, in which order.
    pub layout: &'a Layout,
    /// The precision that the values count as; a kernel rounds on load where it is narrower than the buffer's type.
    pub logical: DType,
}
