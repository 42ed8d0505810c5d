//! Activations and dropout as modules: all but softplus and the softmaxes keep the precision of their input.

use super::{Mode, Module, Visitor, init};
use crate::ops::softmax;
use crate::param::Parameter;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Result};

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident, |$x:ident| $forward:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl $name {
            /// Same shape and precision.
            #[track_caller]
            pub fn forward<P: Float>(&self, $x: &Tensor<P>) -> Result<Tensor<P>> {
                $forward
            }
        }

        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )* };
}
activations! {
    /// `max(x, 0)` (`torch.nn.ReLU`).
    Relu, |x| x.relu();
    /// Gelu in its erf form (`torch.nn.GELU`).
    Gelu, |x| x.gelu();
    /// `x * sigmoid(x)` (`torch.nn.SiLU`).
    Silu, |x| x.silu();
    /// Hyperbolic tangent (`torch.nn.Tanh`).
    Tanh, |x| x.tanh();
    /// `1 / (1 + e^-x)` (`torch.nn.Sigmoid`).
    Sigmoid, |x| x.sigmoid();
    /// `x * clamp(x + 3, 0, 6) / 6` (`torch.nn.Hardswish`).
    Hardswish, |x| x.hardswish();
    /// `x` limited to `0..=6` (`torch.nn.ReLU6`).
    Relu6, |x| x.relu6();
    /// `clamp(x + 3, 0, 6) / 6` (`torch.nn.Hardsigmoid`).
    Hardsigmoid, |x| x.hardsigmoid();
    /// Elu whose results keep mean 0 and variance 1 (`torch.nn.SELU`).
    Selu, |x| x.selu();
    /// `x * tanh(softplus(x))` (`torch.nn.Mish`).
    Mish, |x| x.mish();
    /// `ln(sigmoid(x))` (`torch.nn.LogSigmoid`).
    LogSigmoid, |x| x.log_sigmoid();
    /// `x / (1 + |x|)` (`torch.nn.Softsign`).
    Softsign, |x| x.softsign();
    /// `x - tanh(x)` (`torch.nn.Tanhshrink`).
    Tanhshrink, |x| x.tanhshrink();
    /// What comes in, as a placeholder for a layer (`torch.nn.Identity`).
    Identity, |x| Ok(x.clone());
    /// `[N, ..]` to `[N, everything else]` (`torch.nn.Flatten`).
    Flatten, |x| x.flatten(1, -1);
}

/// `x` above 0, a fraction of it below (`torch.nn.LeakyReLU`).
#[derive(Clone, Copy, Debug)]
pub struct LeakyRelu(f64);

impl LeakyRelu {
    /// The fraction below 0 (0.01 in PyTorch).
    pub fn new(negative_slope: f64) -> Self {
        Self(negative_slope)
    }

    /// Same shape and precision.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.leaky_relu(self.0)
    }
}

/// `x` above 0, `alpha * (e^x - 1)` below (`torch.nn.ELU`).
#[derive(Clone, Copy, Debug)]
pub struct Elu(f64);

impl Elu {
    /// Minus the limit far below 0 (1 in PyTorch).
    pub fn new(alpha: f64) -> Self {
        Self(alpha)
    }

    /// Same shape and precision.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.elu(self.0)
    }
}

/// `x` above 0, a learned fraction of it below (`torch.nn.PReLU`).
#[derive(Debug)]
pub struct PRelu {
    weight: Parameter,
}

impl PRelu {
    /// Fractions of 0.25: with 1 of them all elements share it, otherwise each of so many channels of `[N, C, ..]` has its
    /// own.
    pub fn new(weights: usize, device: &Device) -> Result<Self> {
        Ok(Self { weight: init::constant([weights], 0.25, device)? })
    }

    /// The fractions, `[weights]`.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// Same shape and precision.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) when the channels of `x` are not as many as the fractions.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.prelu(&self.weight.to::<P>()?)
    }
}

impl Module for PRelu {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
    }
}

/// Zeroes each element with probability `p` in training and scales the others up (`torch.nn.Dropout`).
#[derive(Debug)]
pub struct Dropout {
    p: f64,
    mode: Mode,
}

impl Dropout {
    /// The probability to be zeroed; a value outside `[0, 1]` is an error of the forward pass.
    pub fn new(p: f64) -> Self {
        Self { p, mode: Mode::new() }
    }

    /// Same shape and precision; the identity in evaluation.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.dropout(self.p, self.mode.is_training())
    }
}

impl Module for Dropout {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("mode", &self.mode);
    }
}

/// `ln(1 + e^x)`, in F32 (`torch.nn.Softplus`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Softplus;

impl Softplus {
    /// Same shape, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        x.to::<F32>()?.softplus()
    }
}

macro_rules! softmaxes {
    ($($(#[$doc:meta])* $name:ident, $op:literal, $log:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(isize);

        impl $name {
            /// Along `axis`, negative from the end.
            pub fn new(axis: isize) -> Self {
                Self(axis)
            }

            /// Same shape, in F32.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
                softmax($op, $log, &x.to::<F32>()?.raw, self.0, P::WRITES).map(Tensor::from_raw)
            }
        }
    )* };
}
softmaxes! {
    /// Softmax along an axis, in F32 (`torch.nn.Softmax`).
    Softmax, "softmax", false;
    /// Logarithm of the softmax along an axis, in F32 (`torch.nn.LogSoftmax`).
    LogSoftmax, "log_softmax", true;
}

macro_rules! without_state {
    ($($name:ident),*) => { $(
        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )* };
}
without_state!(LeakyRelu, Elu, Softplus, Softmax, LogSoftmax);
