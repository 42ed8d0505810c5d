//! Small tensors for unit tests, the same in every run.

use crate::{Device, F32, F64, I64, Tensor};

/// A wave over all elements: neither ties nor symmetries, in any shape.
pub(crate) fn wave(shape: &[usize]) -> Tensor<F64> {
    let value = |i: &[usize]| (i.iter().fold(1, |all, i| all * 5 + i) as f64 * 0.37).sin();
    Tensor::from_fn(shape, value, &Device::cpu()).unwrap()
}

/// Numbers from -0.5 to 0.5 without an order; others for another `start`.
pub(crate) fn numbers(shape: &[usize], start: f64) -> Tensor<F64> {
    let mut value = start;
    let next = |_: &[usize]| {
        value = (value * 7.3 + 0.41).fract();
        value - 0.5
    };
    Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
}

/// These values in one dimension.
pub(crate) fn line(values: &[f32]) -> Tensor<F32> {
    Tensor::from_slice(values, [values.len()], &Device::cpu()).unwrap()
}

/// These indices or labels in a shape.
pub(crate) fn indices(data: &[i64], shape: &[usize]) -> Tensor<I64> {
    Tensor::from_slice(data, shape, &Device::cpu()).unwrap()
}
