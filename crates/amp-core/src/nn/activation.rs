//! Activations and dropouts as modules: all but softplus and the softmaxes keep the precision of their input.

use super::{Mode, Module, Visitor, init};
use crate::ops::softmax;
use crate::param::Parameter;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Error, Result};

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
    /// The input as it is, as a placeholder for a layer (`torch.nn.Identity`).
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

macro_rules! with_numbers {
    ($($(#[$doc:meta])* $name:ident($($(#[$about:meta])* $number:ident: $type:ty),*), $op:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($number: $type,)*
        }

        impl $name {
            $($(#[$about])*)*
            pub fn new($($number: $type),*) -> Self {
                Self { $($number),* }
            }

            /// In the precision of `x`.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                x.$op($(self.$number),*)
            }
        }

        impl Module for $name {
            fn visit(&self, _visitor: &mut Visitor<'_>) {}
        }
    )* };
}
with_numbers! {
    /// `x` limited to a range (`torch.nn.Hardtanh`).
    Hardtanh(
        /// The least and the greatest value (-1 and 1 in PyTorch).
        min: f64, max: f64
    ), hardtanh;
    /// `x` above 0, `alpha * (e^(x / alpha) - 1)` below (`torch.nn.CELU`).
    Celu(
        /// Minus the limit far below 0 (1 in PyTorch).
        alpha: f64
    ), celu;
    /// The first half along an axis times the sigmoid of the second (`torch.nn.GLU`).
    Glu(
        /// The axis, negative from the end (-1 in PyTorch).
        axis: isize
    ), glu;
    /// `x` where its magnitude is above a number, else 0 (`torch.nn.Hardshrink`).
    Hardshrink(
        /// The number (0.5 in PyTorch).
        lambda: f64
    ), hardshrink;
    /// `x` brought nearer to 0 by a number, at most to 0 (`torch.nn.Softshrink`).
    Softshrink(
        /// The number (0.5 in PyTorch).
        lambda: f64
    ), softshrink;
    /// `x` above a number, else a value (`torch.nn.Threshold`).
    Threshold(
        /// The number and the value.
        threshold: f64, value: f64
    ), threshold;
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

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident, |$x:ident, $p:ident| $forward:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            p: f64,
            mode: Mode,
        }

        impl $name {
            /// The probability to be dropped; a value outside `[0, 1]` is an error of the forward pass.
            pub fn new(p: f64) -> Self {
                Self { p, mode: Mode::new() }
            }

            /// Same shape and precision; the identity in evaluation.
            #[track_caller]
            pub fn forward<P: Float>(&self, $x: &Tensor<P>) -> Result<Tensor<P>> {
                let $p = self.p;
                if self.mode.is_training() { $forward } else { Ok($x.unchanged()) }
            }
        }

        impl Module for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.field("mode", &self.mode);
            }
        }
    )* };
}
dropouts! {
    /// Zeroes each element with probability `p` in training and scales the others up (`torch.nn.Dropout`).
    Dropout, |x, p| x.dropout(p, true);
    /// Zeroes each channel of lines `[N, C, L]` with probability `p` in training and scales the others up
    /// (`torch.nn.Dropout1d`).
    Dropout1d, |x, p| drop_channels("Dropout1d", x, 3, p);
    /// Zeroes each channel of images `[N, C, H, W]` with probability `p` in training and scales the others up
    /// (`torch.nn.Dropout2d`).
    Dropout2d, |x, p| drop_channels("Dropout2d", x, 4, p);
    /// Zeroes each channel of volumes `[N, C, D, H, W]` with probability `p` in training and scales the others up
    /// (`torch.nn.Dropout3d`).
    Dropout3d, |x, p| drop_channels("Dropout3d", x, 5, p);
    /// Replaces elements with probability `p` in training so that mean 0 and variance 1 stay, behind [`Selu`]
    /// (`torch.nn.AlphaDropout`).
    AlphaDropout, |x, p| x.alpha_dropout(p, true);
}

/// One draw for each channel.
#[track_caller]
fn drop_channels<P: Float>(op: &'static str, x: &Tensor<P>, rank: usize, p: f64) -> Result<Tensor<P>> {
    if x.rank() != rank {
        let expected = ["3 dimensions", "4 dimensions", "5 dimensions"][rank - 3];
        return Err(Error::Rank { op, what: "the input", expected, found: x.raw.shape().into() });
    }
    let mut sizes = vec![1; rank];
    sizes[..2].copy_from_slice(&x.dims()[..2]);
    x.mul(&Tensor::<P>::ones(sizes, x.device())?.dropout(p, true)?)
}

/// `x` above 0, below it times a slope that is drawn in training and the mean of both limits in evaluation
/// (`torch.nn.RReLU`).
#[derive(Debug)]
pub struct RRelu {
    lower: f64,
    upper: f64,
    mode: Mode,
}

impl RRelu {
    /// Slopes between `lower` and `upper`; limits that [`Tensor::rrelu`] refuses are an error of the forward pass.
    pub fn new(lower: f64, upper: f64) -> Self {
        Self { lower, upper, mode: Mode::new() }
    }

    /// Same shape and precision.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.rrelu(self.lower, self.upper, self.mode.is_training())
    }
}

impl Default for RRelu {
    /// Slopes between 1/8 and 1/3.
    fn default() -> Self {
        Self::new(0.125, 1.0 / 3.0)
    }
}

impl Module for RRelu {
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
