//! Typed tensors, autograd, modules, optimizers and the gradient scaler of amp.
//!
//! Module map: [`precision`] and `tensor` are the typed shell; `raw` is the erased tensor below it; [`backend`] is the
//! seam to the devices; [`autograd`] records and walks graphs; `ops` holds one file per family of operations.

#![forbid(unsafe_code)]

#[macro_use]
mod tuples;

pub mod autograd;
pub mod backend;
mod device;
mod error;
pub mod io;
mod locks;
pub mod memory;
pub mod nn;
mod ops;
pub mod optim;
mod order;
mod param;
pub mod plan;
pub mod precision;
#[doc(hidden)]
pub mod private;
mod random;
mod raw;
mod replay;
mod scaler;
mod shape;
mod tensor;
#[cfg(test)]
mod testing;
pub mod train;

pub use amp_cpu::{DType, Dims, num_threads, set_num_threads, with_num_threads};
pub use autograd::{
    Culprit, Differentiable, GradCheck, Gradients, IsScaled, IsUnscaled, SavedBytes, ScaleState, Scaled, Unscaled,
    checkpoint, diagnose, grad_enabled, gradcheck, no_grad, saved_bytes,
};
pub use device::Device;
pub use error::{Error, Mismatch, Result};
pub use nn::Module;
pub use ops::functional;
pub use ops::{
    AttentionOptions, BagMode, BatchStatistics, ConvOptions, CrossEntropy, Cuts, Fill, GridMode, GridOptions,
    GridPadding, IntegerSums, IntoExtent, LossReduction, Margin, MatrixNorm, Operand, Part, PoolOptions, Repeats,
    ScatterReduce, Sections, TripletMargin,
};
pub use optim::{Optimizer, Step};
pub use param::Parameter;
pub use precision::{
    AutocastPrecision, BF16, Bool, Element, F16, F32, F64, Float, FullRange, HalfPrecision, I64, Numeric, Promote,
    SamePrecision, U8,
};
pub use random::{RandomState, manual_seed, random_state, set_random_state};
pub use scaler::{GradScaler, GradScalerBuilder, LossPrecision, ScaledLoss, ScalerState, StepGradients};
pub use shape::{Axes, IntoReshape, IntoShape, Position};
pub use tensor::{FloatRange, Indexing, Number, Tensor};

/// What only GPUs have.
pub mod cuda {
    pub use crate::replay::{Graph, Input, Results};
}
