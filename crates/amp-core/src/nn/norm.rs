//! Layer, RMS, group, instance and local response normalisation: statistics, arithmetic and result are F32 whatever the input is stored in.

use super::{Module, Visitor, init};
use crate::ops::{Affine, group_norm, instance_norm, layer_norm, rms_norm};
use crate::param::Parameter;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Error, IntoShape, Result};

/// Normalises over the trailing dimensions (`torch.nn.LayerNorm`).
#[derive(Debug)]
pub struct LayerNorm {
    weight: Option<Parameter>,
    bias: Option<Parameter>,
    normalized: Vec<usize>,
    eps: f64,
}

impl LayerNorm {
    /// Over trailing dimensions of these sizes, with weight 1 and bias 0 of that shape.
    pub fn new(normalized: impl IntoShape, device: &Device) -> Result<Self> {
        let normalized = normalized.into_shape("LayerNorm")?.to_vec();
        let weight = Some(init::ones(&normalized, device)?);
        Ok(Self { weight, bias: Some(init::zeros(&normalized, device)?), normalized, eps: 1e-5 })
    }

    /// Added to the variance (1e-5 by default).
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Removes the bias.
    pub fn without_bias(mut self) -> Self {
        self.bias = None;
        self
    }

    /// Removes weight and bias.
    pub fn without_affine(mut self) -> Self {
        (self.weight, self.bias) = (None, None);
        self
    }

    /// Weight.
    pub fn weight(&self) -> Option<&Parameter> {
        self.weight.as_ref()
    }

    /// Bias.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
    }

    /// Same shape, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        let (weight, bias) = (tensor(&self.weight), tensor(&self.bias));
        let affine = Affine::new(weight.as_ref(), bias.as_ref());
        layer_norm(&x.to::<F32>()?.raw, &self.normalized, affine, self.eps, P::WRITES).map(Tensor::from_raw)
    }
}

/// Divides by the root mean square over the trailing dimensions (`torch.nn.RMSNorm`).
#[derive(Debug)]
pub struct RmsNorm {
    weight: Option<Parameter>,
    normalized: Vec<usize>,
    eps: f64,
}

impl RmsNorm {
    /// Over trailing dimensions of these sizes, with weight 1 of that shape.
    pub fn new(normalized: impl IntoShape, device: &Device) -> Result<Self> {
        let normalized = normalized.into_shape("RmsNorm")?.to_vec();
        let weight = Some(init::ones(&normalized, device)?);
        Ok(Self { weight, normalized, eps: f64::from(f32::EPSILON) })
    }

    /// Added to the mean square (1.19e-7 by default, the resolution of F32).
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Removes the weight.
    pub fn without_affine(mut self) -> Self {
        self.weight = None;
        self
    }

    /// Weight.
    pub fn weight(&self) -> Option<&Parameter> {
        self.weight.as_ref()
    }

    /// Same shape, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        let weight = tensor(&self.weight);
        let affine = Affine::new(weight.as_ref(), None);
        rms_norm(&x.to::<F32>()?.raw, &self.normalized, affine, self.eps, P::WRITES).map(Tensor::from_raw)
    }
}

/// Divides by a power of the response of neighbouring channels (`torch.nn.LocalResponseNorm`).
#[derive(Clone, Copy, Debug)]
pub struct LocalResponseNorm {
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
}

impl LocalResponseNorm {
    /// Over `size` channels, with PyTorch's alpha 1e-4, beta 0.75 and k 1.
    pub fn new(size: usize) -> Self {
        Self { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }

    /// Factor of the mean of squares (1e-4 by default).
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// Exponent (0.75 by default).
    pub fn beta(mut self, beta: f64) -> Self {
        self.beta = beta;
        self
    }

    /// Added to the mean of squares (1 by default).
    pub fn k(mut self, k: f64) -> Self {
        self.k = k;
        self
    }

    /// `[N, C, ..]`, same shape, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        x.to::<F32>()?.local_response_norm(self.size, self.alpha, self.beta, self.k)
    }
}

impl Module for LocalResponseNorm {
    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}

/// Normalises groups of channels of each sample (`torch.nn.GroupNorm`).
#[derive(Debug)]
pub struct GroupNorm {
    weight: Option<Parameter>,
    bias: Option<Parameter>,
    groups: usize,
    eps: f64,
}

impl GroupNorm {
    /// `channels` in `groups`, with weight 1 and bias 0 for each channel.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `groups` divides `channels`.
    pub fn new(groups: usize, channels: usize, device: &Device) -> Result<Self> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            let expected = format!("a divisor of the {channels} channels");
            return Err(Error::argument("GroupNorm", "groups", expected, groups));
        }
        let weight = Some(init::ones([channels], device)?);
        Ok(Self { weight, bias: Some(init::zeros([channels], device)?), groups, eps: 1e-5 })
    }

    /// Added to the variance (1e-5 by default).
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Removes weight and bias.
    pub fn without_affine(mut self) -> Self {
        (self.weight, self.bias) = (None, None);
        self
    }

    /// `[N, C, ..]`, same shape, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        let (weight, bias) = (tensor(&self.weight), tensor(&self.bias));
        if let Some(channels) = weight.as_ref().map(Tensor::count)
            && x.dims().get(1).is_some_and(|&found| found != channels)
        {
            let (what, expected) = ("the input", format!("[N, {channels}, ..]"));
            return Err(Error::Shape { op: "GroupNorm", what, expected, found: x.raw.shape().into() });
        }
        let affine = Affine::new(weight.as_ref(), bias.as_ref());
        group_norm(&x.to::<F32>()?.raw, self.groups, affine, self.eps, P::WRITES).map(Tensor::from_raw)
    }
}

/// Normalises each channel of each sample over its positions (`torch.nn.InstanceNorm1d`, `2d` and `3d`, which by default have
/// neither weights nor running statistics either).
#[doc(alias("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"))]
#[derive(Debug)]
pub struct InstanceNorm {
    weight: Option<Parameter>,
    bias: Option<Parameter>,
    channels: usize,
    eps: f64,
}

impl InstanceNorm {
    /// `channels`, without weight and bias.
    pub fn new(channels: usize) -> Self {
        Self { weight: None, bias: None, channels, eps: 1e-5 }
    }

    /// Adds a weight of 1 and a bias of 0 for each channel (`affine=True`).
    pub fn affine(mut self, device: &Device) -> Result<Self> {
        self.weight = Some(init::ones([self.channels], device)?);
        self.bias = Some(init::zeros([self.channels], device)?);
        Ok(self)
    }

    /// Added to the variance (1e-5 by default).
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// `[N, C, ..]`, same shape, in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
        if x.rank() < 3 || x.dims()[1] != self.channels {
            let (what, expected) = ("the input", format!("[N, {}, positions ..]", self.channels));
            return Err(Error::Shape { op: "InstanceNorm", what, expected, found: x.raw.shape().into() });
        }
        let (weight, bias) = (tensor(&self.weight), tensor(&self.bias));
        let affine = Affine::new(weight.as_ref(), bias.as_ref());
        instance_norm(&x.to::<F32>()?.raw, affine, self.eps, P::WRITES).map(Tensor::from_raw)
    }
}

pub(super) fn tensor(parameter: &Option<Parameter>) -> Option<Tensor<F32>> {
    parameter.as_ref().map(Parameter::tensor)
}

macro_rules! modules {
    ($($name:ident: $($field:ident),*;)*) => { $(
        impl Module for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                $(visitor.field(stringify!($field), &self.$field);)*
            }
        }
    )* };
}
modules! {
    LayerNorm: weight, bias;
    RmsNorm: weight;
    GroupNorm: weight, bias;
    InstanceNorm: weight, bias;
}
