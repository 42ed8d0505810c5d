//! Layers one after the other, with the precision between them known to the compiler.

use super::*;
use crate::Result;
use crate::precision::{AutocastPrecision, F32, Float};
use crate::private::{Full, FullDirect, KeepClass, KeepCommuting, KeepSigns, Lower, ModuleClass};
use crate::tensor::Tensor;

/// A module of one tensor that can stand in a [`Sequential`] of precision `P` and be given a tensor of precision `In`.
///
/// Layers of class `lower` cast to `P`, those of class `full` to F32, the others take what comes.
pub trait Layer<In: Float, P: AutocastPrecision>: Module {
    /// Precision of what the layer returns.
    type Out: Float;

    /// The layer's forward pass.
    #[track_caller]
    fn apply(&self, x: &Tensor<In>) -> Result<Tensor<Self::Out>>;
}

/// Gives each module its class, for calls in regions, and makes a layer of it where it takes one tensor.
macro_rules! classes {
    ($class:ident: $($name:ident),*; $in:ident, $p:ident => $out:ty, |$x:ident| $cast:expr) => { $(
        impl ModuleClass for $name {
            type Class = $class;
        }

        impl<$in: Float, $p: AutocastPrecision> Layer<$in, $p> for $name {
            type Out = $out;

            fn apply(&self, $x: &Tensor<$in>) -> Result<Tensor<$out>> {
                self.forward(&$cast)
            }
        }
    )* };
}
classes! { Lower: Linear, FeedForward, PRelu, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d; In, P => P, |x| x.to::<P>()? }
classes! { FullDirect: LayerNorm, RmsNorm, GroupNorm, InstanceNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, Softmax, LogSoftmax; In, P => F32, |x| x.to::<F32>()? }
classes! { Full: LocalResponseNorm, Softplus, Upsample; In, P => F32, |x| x.to::<F32>()? }
classes! {
    KeepClass: Gelu, Silu, Tanh, Sigmoid, Relu6, Hardsigmoid, Hardswish, Selu, Mish, Elu, LeakyRelu, LogSigmoid, Softsign, Tanhshrink, AlphaDropout, Dropout, Dropout1d,
        Dropout2d, Dropout3d, Celu, Glu, Hardshrink, Hardtanh, RRelu, Softshrink, Threshold;
    In, P => In, |x| x.clone()
}
classes! {
    KeepClass: MaxPool1d, MaxPool2d, MaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
        AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d;
    In, P => In, |x| x.clone()
}
classes! {
    KeepClass: CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad1d,
        ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d;
    In, P => In, |x| x.clone()
}
classes! { KeepSigns: Relu; In, P => In, |x| x.clone() }
classes! { KeepCommuting: Flatten, Identity, ChannelShuffle, PixelShuffle, PixelUnshuffle, Unflatten; In, P => In, |x| x.clone() }
classes! { KeepClass: Fold, Unfold; In, P => In, |x| x.clone() }

macro_rules! lower {
    ($($name:ident),*) => { $(
        impl ModuleClass for $name {
            type Class = Lower;
        }
    )* };
}
lower! { MultiHeadAttention, TransformerEncoderLayer, TransformerDecoderLayer, Lstm, LstmCell, Gru, GruCell, Rnn, RnnCell }

impl ModuleClass for Bilinear {
    type Class = Full;
}

macro_rules! tables {
    ($($name:ident),*) => { $(
        impl ModuleClass for $name {
            type Class = KeepClass;
        }
    )* };
}
tables! { Embedding, EmbeddingBag }

impl<L> ModuleClass for Sequential<L> {
    type Class = Lower;
}

/// Layers that are called one after the other (`torch.nn.Sequential`).
///
/// It works in the precision of its input, as an autocast region would: after a normalisation returned F32, the next
/// linear layer narrows again. In a region its input is narrowed.
///
/// ```
/// # use amp_core::{nn::{LayerNorm, Linear, Relu, Sequential}, Device, F16, F32, Tensor};
/// # let device = Device::cpu();
/// let net = Sequential((Linear::new(8, 16, &device)?, LayerNorm::new([16], &device)?, Relu, Linear::new(16, 4, &device)?));
/// let y: Tensor<F16> = net.forward(&Tensor::<F16>::zeros([2, 8], &device)?)?;
/// # assert_eq!(y.dims(), [2, 4]);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Sequential<L>(pub L);

impl<L> Sequential<L> {
    /// Calls the layers in turn.
    #[track_caller]
    pub fn forward<P: AutocastPrecision>(&self, x: &Tensor<P>) -> Result<Tensor<L::Out>>
    where
        L: Layer<P, P>,
    {
        self.0.apply(x)
    }
}

impl<L: Module> Module for Sequential<L> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}

impl<In: Float, P: AutocastPrecision, L: Layer<In, P>> Layer<In, P> for Sequential<L> {
    type Out = L::Out;

    fn apply(&self, x: &Tensor<In>) -> Result<Tensor<L::Out>> {
        self.0.apply(x)
    }
}

/// Blocks of one kind.
impl<In: Float, P: AutocastPrecision, L: Layer<In, P, Out = In>> Layer<In, P> for Vec<L> {
    type Out = In;

    fn apply(&self, x: &Tensor<In>) -> Result<Tensor<In>> {
        self.iter().try_fold(x.clone(), |x, layer| layer.apply(&x))
    }
}

macro_rules! chains {
    ($($($layer:ident $i:tt $from:ident $to:ident),+ => $last:ident;)*) => { $(
        impl<In: Float, P: AutocastPrecision, $($layer, $to: Float),+> Layer<In, P> for ($($layer,)+)
        where
            $($layer: Layer<$from, P, Out = $to>,)+
        {
            type Out = $last;

            fn apply(&self, x: &Tensor<In>) -> Result<Tensor<$last>> {
                $(let x = &self.$i.apply(x)?;)+
                Ok(x.clone())
            }
        }
    )* };
}
chains! {
    A 0 In T1 => T1;
    A 0 In T1, B 1 T1 T2 => T2;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3 => T3;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4 => T4;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5 => T5;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6 => T6;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6, G 6 T6 T7 => T7;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6, G 6 T6 T7, H 7 T7 T8 => T8;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6, G 6 T6 T7, H 7 T7 T8, I 8 T8 T9 => T9;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6, G 6 T6 T7, H 7 T7 T8, I 8 T8 T9, J 9 T9 T10 => T10;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6, G 6 T6 T7, H 7 T7 T8, I 8 T8 T9, J 9 T9 T10, K 10 T10 T11 => T11;
    A 0 In T1, B 1 T1 T2, C 2 T2 T3, D 3 T3 T4, E 4 T4 T5, F 5 T5 T6, G 6 T6 T7, H 7 T7 T8, I 8 T8 T9, J 9 T9 T10, K 10 T10 T11, L 11 T11 T12 => T12;
}
