//! Operations on typed tensors: one file per family, with forward, backward and tests together.
//!
//! A method checks its arguments, asks the backend for the result and records how gradients flow back. Broadcasting and
//! rounding of gradients to the precision of what they belong to is the engine's business ([`crate::autograd`]).

mod activation;
mod arithmetic;
mod arrange;
mod attention;
mod bag;
mod batch_norm;
mod batch_norm_relu;
mod bilinear;
mod blend;
mod border;
mod choice;
mod cholesky;
mod comparison;
mod composed;
mod contraction;
mod conv;
mod covariance;
mod cumulative;
mod determinant;
mod diagonal;
mod difference;
mod distance;
mod division;
mod dropout;
mod einsum;
mod elementary;
mod embedding;
mod extreme;
mod feed_forward;
mod fractional;
pub mod functional;
mod gamma;
mod grid;
mod grouped_attention;
mod gru_cell;
mod hyperbolic;
mod in_place;
mod index;
mod index_put;
mod integer_sums;
mod interpolate;
mod join;
mod kernel;
mod linear;
mod linear_add;
mod logical;
mod loss;
mod lstm_cell;
mod matmul;
mod matrix_norm;
mod missing;
#[cfg(test)]
mod naming;
mod normalize;
mod occurrences;
mod one_hot;
mod operand;
mod pairs;
mod parameter;
mod patches;
mod places;
mod pointwise;
mod pool;
mod pool3d;
mod power;
mod products;
mod quantile;
mod rearrange;
mod reduce;
mod response_norm;
mod rrelu;
mod running;
mod sampling;
mod scatter;
mod search;
mod selection;
mod shrink;
mod slices;
mod softmax;
mod solve;
mod sort;
mod special;
mod split;
mod stacks;
mod stored_attention;
mod triangular;
mod unpool;
mod upsample;
mod variance;
mod vector_norm;
mod volume;
mod window;

pub use attention::AttentionOptions;
pub use bag::BagMode;
pub(crate) use bag::Bags;
pub use batch_norm::BatchStatistics;
pub(crate) use batch_norm::{Moments, batch_norm_eval, batch_norm_train};
pub(crate) use batch_norm_relu::{Relu, batch_norm_eval_relu, batch_norm_train_relu};
pub use choice::Fill;
pub(crate) use feed_forward::feed_forward;
pub use grid::{GridMode, GridOptions, GridPadding};
pub(crate) use gru_cell::gru_cell;
pub use integer_sums::IntegerSums;
pub use join::{Part, Sections};
pub(crate) use linear_add::linear_add;
pub use loss::{CrossEntropy, LossReduction, Margin, TripletMargin};
pub(crate) use lstm_cell::lstm_cell;
pub(crate) use matmul::accumulate;
pub use matrix_norm::MatrixNorm;
pub(crate) use normalize::{Affine, group_norm, instance_norm, layer_norm, rms_norm};
pub use operand::Operand;
pub use places::ScatterReduce;
pub use rearrange::Repeats;
pub(crate) use softmax::softmax;
pub use split::Cuts;
pub use window::{ConvOptions, IntoExtent, PoolOptions};

use crate::raw::RawTensor;
use crate::{Result, shape};

/// Both operands as views of the shape they broadcast to, out of the graph.
fn broadcast_pair(op: &'static str, a: &RawTensor, b: &RawTensor) -> Result<(RawTensor, RawTensor)> {
    a.device().check_same(b.device(), op)?;
    let shape = shape::broadcast(op, a.shape(), b.shape())?;
    Ok((a.broadcast_to(op, &shape)?, b.broadcast_to(op, &shape)?))
}

/// Three operands as views of the shape they broadcast to, out of the graph.
fn broadcast_three(op: &'static str, operands: [&RawTensor; 3]) -> Result<[RawTensor; 3]> {
    let [a, b, c] = operands;
    a.device().check_same(b.device(), op)?;
    a.device().check_same(c.device(), op)?;
    let pair = shape::broadcast(op, a.shape(), b.shape())?;
    let shape = shape::broadcast(op, &pair, c.shape())?;
    Ok([a.broadcast_to(op, &shape)?, b.broadcast_to(op, &shape)?, c.broadcast_to(op, &shape)?])
}
