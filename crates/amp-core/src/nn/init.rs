//! Initial values of parameters.

use crate::param::Parameter;
use crate::shape::IntoShape;
use crate::tensor::Tensor;
use crate::{Device, Result};

/// Uniform values of `[-bound, bound)`.
pub fn uniform(shape: impl IntoShape, bound: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::uniform(shape, -bound, bound, device)?)
}

/// Uniform values of `±1 / sqrt(fan_in)`, which is what PyTorch's Linear and convolutions start from
/// (`kaiming_uniform_` with `a = sqrt(5)`). All zeros where nothing comes in.
pub fn fan_in(shape: impl IntoShape, fan_in: usize, device: &Device) -> Result<Parameter> {
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    uniform(shape, bound, device)
}

/// Normal values.
pub fn normal(shape: impl IntoShape, mean: f64, std: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::normal(shape, mean, std, device)?)
}

/// Uniform values of `±sqrt(6 / (fan_in + fan_out))` (`xavier_uniform_`).
pub fn xavier_uniform(shape: impl IntoShape, fan_in: usize, fan_out: usize, device: &Device) -> Result<Parameter> {
    let fans = fan_in.saturating_add(fan_out).max(1);
    uniform(shape, (6.0 / fans as f64).sqrt(), device)
}

/// Equal values.
pub fn constant(shape: impl IntoShape, value: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::full(shape, value as f32, device)?)
}

/// All zeros.
pub fn zeros(shape: impl IntoShape, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::zeros(shape, device)?)
}

/// All ones.
pub fn ones(shape: impl IntoShape, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::ones(shape, device)?)
}
