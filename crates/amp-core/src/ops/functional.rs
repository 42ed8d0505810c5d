//! The most common operations as free functions: `functional::softmax(&x, -1)` (`torch.nn.functional`). All others are methods
//! of [`Tensor`] only.
//!
//! Each forwards to the method of the same name on its first argument; regions treat both spellings alike.

use super::window::{ConvOptions, PoolOptions};
use super::{AttentionOptions, CrossEntropy, Fill, Margin, Part};
use super::{loss, normalize, softmax as soft};
use crate::precision::{Bool, Element, Float, I64, SamePrecision};
use crate::shape::{Axes, IntoShape};
use crate::{Result, Tensor};

#[doc(hidden)]
pub use crate::private::OURS as __AMP_FUNCTIONS;

/// One line an operation: its arguments after the first, and the bound its method has.
macro_rules! functions {
    ($($name:ident $(<$q:ident>)? ($($arg:ident: $type:ty),*) $(where $bound:path)?;)*) => { $(
        #[doc = concat!("[`Tensor::", stringify!($name), "`] as a function.")]
        #[track_caller]
        pub fn $name<P $(, $q: Element)?>(x: &Tensor<P>, $($arg: $type),*) -> Result<Tensor<P>>
        where
            P: $(SamePrecision<$q> +)? $($bound +)? Float,
        {
            x.$name($($arg),*)
        }
    )* };
}

/// As `functions!`, for `full` operations that can write another precision than they compute in: by the type of the result
/// a region finds out that a function called by its bare name is one of these. For everybody else it is `P`.
macro_rules! writing_functions {
    ($($name:ident ($($arg:ident: $type:ty),*) where $bound:path;)*) => { $(
        #[doc = concat!("[`Tensor::", stringify!($name), "`] as a function; the result has the precision `P`.")]
        #[track_caller]
        pub fn $name<P: $bound>(x: &Tensor<P>, $($arg: $type),*) -> Result<Tensor<P::Written>> {
            x.$name($($arg),*).map(|y| Tensor::from_raw(y.raw))
        }
    )* };
}

writing_functions! {
    softmax(axis: isize) where soft::SoftmaxPrecision;
    log_softmax(axis: isize) where soft::LogSoftmaxPrecision;
    logsumexp(axes: impl Axes, keep: bool) where soft::LogsumexpPrecision;
    layer_norm(
        normalized: impl IntoShape, weight: Option<&Tensor<P>>, bias: Option<&Tensor<P>>, eps: f64
    ) where normalize::LayerNormPrecision;
    rms_norm(
        normalized: impl IntoShape, weight: Option<&Tensor<P>>, eps: f64
    ) where normalize::RmsNormPrecision;
    group_norm(
        groups: usize, weight: Option<&Tensor<P>>, bias: Option<&Tensor<P>>, eps: f64
    ) where normalize::GroupNormPrecision;
    instance_norm(
        weight: Option<&Tensor<P>>, bias: Option<&Tensor<P>>, eps: f64
    ) where normalize::InstanceNormPrecision;
}

functions! {
    relu();
    gelu();
    gelu_tanh();
    silu();
    hardswish();
    relu6();
    hardsigmoid();
    selu();
    mish();
    softsign();
    glu(axis: isize);
    sigmoid();
    tanh();
    leaky_relu(negative_slope: f64);
    elu(alpha: f64);
    dropout(p: f64, training: bool);
    matmul<Q>(other: &Tensor<Q>);
    mm<Q>(other: &Tensor<Q>);
    bmm<Q>(other: &Tensor<Q>);
    mv<Q>(other: &Tensor<Q>);
    einsum<Q>(equation: &str, other: &Tensor<Q>);
    linear<Q>(weight: &Tensor<Q>, bias: Option<&Tensor<P>>);
    conv1d<Q>(weight: &Tensor<Q>, bias: Option<&Tensor<P>>, options: ConvOptions<1>);
    conv2d<Q>(weight: &Tensor<Q>, bias: Option<&Tensor<P>>, options: ConvOptions<2>);
    conv_transpose2d<Q>(weight: &Tensor<Q>, bias: Option<&Tensor<P>>, options: ConvOptions<2>);
    scaled_dot_product_attention<Q>(
        key: &Tensor<Q>, value: &Tensor<Q>, mask: Option<&Tensor<Bool>>, options: AttentionOptions
    );
    embedding(indices: &Tensor<I64>);
    max_pool2d(windows: impl Into<PoolOptions<2>>);
    avg_pool2d(windows: impl Into<PoolOptions<2>>);
    masked_fill(mask: &Tensor<Bool>, value: impl Into<Fill>);
    pad(padding: impl AsRef<[usize]>, value: f64);
    mse_loss<Q>(target: &Tensor<Q>) where loss::distance::MsePrecision;
    l1_loss<Q>(target: &Tensor<Q>) where loss::distance::L1Precision;
    smooth_l1_loss<Q>(target: &Tensor<Q>, beta: f64) where loss::distance::SmoothL1Precision;
    huber_loss<Q>(target: &Tensor<Q>, delta: f64) where loss::distance::HuberPrecision;
    cross_entropy(labels: &Tensor<I64>) where loss::cross_entropy::CrossEntropyPrecision;
    cross_entropy_with(labels: &Tensor<I64>, options: &CrossEntropy<P>) where loss::cross_entropy::CrossEntropyPrecision;
    soft_cross_entropy<Q>(target: &Tensor<Q>) where loss::soft::SoftCrossEntropyPrecision;
    nll_loss(labels: &Tensor<I64>) where loss::nll::NllPrecision;
    bce_with_logits<Q>(target: &Tensor<Q>) where loss::binary::BceWithLogitsPrecision;
    binary_cross_entropy<Q>(target: &Tensor<Q>) where loss::binary::BinaryCrossEntropyPrecision;
    kl_div<Q>(target: &Tensor<Q>) where loss::divergence::KlDivPrecision;
    cosine_embedding_loss<Q>(
        other: &Tensor<Q>, labels: &Tensor<I64>, margin: impl Into<Margin>
    ) where loss::divergence::CosineEmbeddingPrecision;
}

/// [`Tensor::cat`] as a function.
#[track_caller]
pub fn cat<P: Element>(tensors: &[impl Part<P>], axis: isize) -> Result<Tensor<P>> {
    Tensor::cat(tensors, axis)
}

/// [`Tensor::stack`] as a function.
#[track_caller]
pub fn stack<P: Element>(tensors: &[impl Part<P>], axis: isize) -> Result<Tensor<P>> {
    Tensor::stack(tensors, axis)
}

/// [`Tensor::one_hot`] as a function.
#[track_caller]
pub fn one_hot(indices: &Tensor<I64>, classes: usize) -> Result<Tensor<I64>> {
    indices.one_hot(classes)
}
