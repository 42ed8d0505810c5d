//! Fully connected layers.

use super::{Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};

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

    /// Leaves the bias away.
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
            return Err(Error::Rank { op: "Linear", what: "the weight", expected: "2 dimensions", found });
        };
        if let Some(b) = bias.as_ref().filter(|b| b.dims() != [outputs]) {
            let (expected, found) = (format!("[{outputs}]"), *b.tensor().raw.shape());
            return Err(Error::Shape { op: "Linear", what: "the bias", expected, found });
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
}

impl Module for Linear {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
        visitor.field("bias", &self.bias);
    }
}
