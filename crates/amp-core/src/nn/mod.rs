//! Modules: the layers that models are made of, with PyTorch's default initialisations.
//!
//! `forward` takes a tensor of any precision `P` and follows the module's class: Linear, convolutions, attention and
//! recurrent cells work in `P` (products of many rows round the F32 weights as they read them, other operations share a copy
//! in 16 bits that is made at most once per optimizer step); normalisations, softmaxes, softplus, upsampling, bilinear and
//! transformer layers return F32, as embeddings do; other activations, pooling and dropout keep `P`.

mod activation;
mod attention;
mod batch_norm;
mod bilinear;
mod conv;
#[doc(hidden)]
pub mod derive;
mod embedding;
mod feed_forward;
pub mod init;
mod linear;
mod load;
mod module;
mod norm;
mod padding;
mod patches;
mod pool;
mod reparametrized;
mod rnn;
mod sequential;
mod shuffle;
mod state;
#[cfg(test)]
mod tests;
mod transformer;
mod upsample;

pub use activation::{
    AlphaDropout, Celu, Dropout, Dropout1d, Dropout2d, Dropout3d, Elu, Flatten, Gelu, Glu, Hardshrink, Hardsigmoid,
    Hardswish, Hardtanh, Identity, LeakyRelu, LogSigmoid, LogSoftmax, Mish, PRelu, RRelu, Relu, Relu6, Selu, Sigmoid,
    Silu, Softmax, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use attention::MultiHeadAttention;
pub use batch_norm::{BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use bilinear::Bilinear;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use embedding::{Embedding, EmbeddingBag};
pub use feed_forward::{Activation, FeedForward};
pub use linear::Linear;
pub use load::Unmatched;
pub(crate) use load::{Staged, check_paths, stage};
use load::{in_file, load, load_matching};
pub use module::{Module, Visitor};
pub use norm::{GroupNorm, InstanceNorm, LayerNorm, LocalResponseNorm, RmsNorm};
pub use padding::{
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d,
    ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
    ZeroPad3d,
};
pub use patches::{Fold, Unfold};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use reparametrized::{SpectralNorm, WeightNorm};
pub use rnn::{Gru, GruCell, Lstm, LstmCell, LstmState, Rnn, RnnCell};
pub use sequential::{Layer, Sequential};
pub use shuffle::{ChannelShuffle, PixelShuffle, PixelUnshuffle, Unflatten};
pub use state::{Mode, Statistics, Waiting};
pub use transformer::{TransformerDecoderLayer, TransformerEncoderLayer};
pub use upsample::Upsample;
