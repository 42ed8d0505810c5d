//! Fully connected layers.

use super::{Module, Visitor, init};
use crate::autograd::watching;
use crate::ops::linear_add;
use crate::param::Parameter;
use crate::precision::Float;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{DType, Device, Error, Result};

/// `y = x Wᵀ + b` over the last dimension (`torch.nn.Linear`).
#[derive(Debug)]
pub struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
}

impl Linear {
    /// Weight `[outputs, inputs]` and bias `[outputs]`, both uniform in `±1 / sqrt(inputs)`.
    pub fn new(inputs: usize, outputs: usize, device: &Device) -> Result<Self> {
        let weight = init::fan_in([outputs, inputs], inputs, device)?;
        Ok(Self { weight, bias: Some(init::fan_in([outputs], inputs, device)?) })
    }

    /// Removes the bias.
    pub fn without_bias(mut self) -> Self {
        self.bias = None;
        self
    }

    /// From existing parameters: weight `[outputs, inputs]`, bias `[outputs]`. A weight may be shared with another module.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes do not fit together.
    pub fn from_parameters(weight: Parameter, bias: Option<Parameter>) -> Result<Self> {
        let found = *weight.tensor().raw.shape();
        let &[outputs, _] = &*found else {
            return Err(Error::Rank {
                op: "Linear",
                what: "the weight",
                expected: "2 dimensions",
                found: found.into(),
            });
        };
        if let Some(bias) = &bias {
            check_same("Linear", "the bias", &[outputs], bias.dims())?;
        }
        Ok(Self { weight, bias })
    }

    /// Weight, `[outputs, inputs]`.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// Bias, `[outputs]`.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
    }

    /// `[.., inputs]` to `[.., outputs]`, in the precision of `x`.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let bias = self.bias.as_ref().map(Parameter::to::<P>).transpose()?;
        x.linear(&self.weight.to::<P>()?, bias.as_ref())
    }

    /// `residual + forward(x)`, of which the sum is part of the product: `x` `[.., inputs]`, the result `[.., outputs]`, to which
    /// `residual` broadcasts. In a region `x` is narrowed, and `residual` stays in the precision that it and the result have.
    ///
    /// # Precision
    /// The residual is added to the accumulators, in F32 (F64 for F64), and the sum is rounded once; the layer's gradients are
    /// those of a layer in the precision of `x`. Where one of the two alone is F64, and where overflow is watched for, the layer's
    /// output is rounded to both precisions first.
    #[track_caller]
    pub fn forward_add<P: Float, R: Float>(&self, x: &Tensor<P>, residual: &Tensor<R>) -> Result<Tensor<R>> {
        if (P::DTYPE == DType::F64) != (R::DTYPE == DType::F64) || watching() {
            return residual.add(&self.forward(x)?.to::<R>()?);
        }
        let weight = self.weight.to::<P>()?;
        let bias = self.bias.as_ref().map(Parameter::to::<P>).transpose()?;
        Ok(Tensor::from_raw(linear_add(&residual.raw, &x.raw, &weight.raw, bias.as_ref().map(|bias| &bias.raw))?))
    }
}

impl Module for Linear {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
        visitor.field("bias", &self.bias);
    }
}
