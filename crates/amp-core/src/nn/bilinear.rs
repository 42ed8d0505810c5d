//! Bilinear layers.

use super::{Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Result};

/// `y = a W b + bias` for each of the matrices of a weight (`torch.nn.Bilinear`), in F32, as PyTorch's under autocast.
#[derive(Debug)]
pub struct Bilinear {
    weight: Parameter,
    bias: Option<Parameter>,
}

impl Bilinear {
    /// Weight `[outputs, first, second]` and bias `[outputs]`, both uniform in `±1 / sqrt(first)`.
    pub fn new(first: usize, second: usize, outputs: usize, device: &Device) -> Result<Self> {
        let weight = init::fan_in([outputs, first, second], first, device)?;
        Ok(Self { weight, bias: Some(init::fan_in([outputs], first, device)?) })
    }

    /// Removes the bias.
    pub fn without_bias(mut self) -> Self {
        self.bias = None;
        self
    }

    /// Weight, `[outputs, first, second]`.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// Bias, `[outputs]`.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
    }

    /// `[.., first]` and `[.., second]` to `[.., outputs]`, in F32.
    #[track_caller]
    pub fn forward<P: Float, Q: Float>(&self, a: &Tensor<P>, b: &Tensor<Q>) -> Result<Tensor<F32>> {
        let bias = self.bias.as_ref().map(Parameter::tensor);
        a.to::<F32>()?.bilinear(&b.to::<F32>()?, &self.weight.tensor(), bias.as_ref())
    }
}

impl Module for Bilinear {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
        visitor.field("bias", &self.bias);
    }
}
