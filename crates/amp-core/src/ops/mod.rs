//! Operations on typed tensors: one file per family, with forward, backward and tests together.
//!
//! A method checks its arguments, asks the backend for the result and records how gradients flow back. Broadcasting and
//! rounding of gradients to the precision of what they belong to is the engine's business ([`crate::autograd`]).

mod arithmetic;
mod arrange;
mod attention;
mod batch_norm;
mod conv;
mod cumulative;
mod extreme;
mod index;
mod join;
mod kernel;
mod linear;
mod logical;
mod loss;
mod matmul;
mod normalize;
mod pointwise;
mod pool;
mod reduce;
mod softmax;
mod sort;
mod upsample;
mod variance;
mod vector_norm;
mod window;

pub use arithmetic::Operand;
pub use attention::AttentionOptions;
pub use batch_norm::BatchStatistics;
pub use loss::{CrossEntropy, LossReduction};
pub use window::{ConvOptions, IntoExtent, PoolOptions};

use crate::raw::RawTensor;
use crate::{Result, shape};

/// Both operands as views of the shape they broadcast to, out of the graph.
fn broadcast_pair(op: &'static str, a: &RawTensor, b: &RawTensor) -> Result<(RawTensor, RawTensor)> {
    a.device().check_same(b.device(), op)?;
    let shape = shape::broadcast(op, a.shape(), b.shape())?;
    Ok((a.broadcast_to(op, &shape)?, b.broadcast_to(op, &shape)?))
}
