//! The behaviours that PyTorch's own tests pin down, under the numbers of the project's list of them.
//!
//! Not here, because the thing does not exist: 6 (a raw kernel call takes F32 gradients of one device by contract),
//! 9 and 31 (a sparse gradient is F32, see 8 and 10), 11 (a loss is scaled one by one:
//! `scale` takes no containers), 14 in Python's form (the state is a value, see 13), 15 (an old calling convention),
//! 19 and 20 (there is one implementation of every optimizer, the fused one, which all tests here use), 22 (clipping
//! scaled gradients does not compile), 28 (one device per optimizer), 30 to 35 (one process), 60 to 65 (a precision is
//! a type: there are no device strings, no default and no deprecated names).
//!
//! Elsewhere: 25 with gradient penalties (`train`); 36 to 42 and 44 for every operation in `tests/contract`; 43, a banned
//! operation, in `tests/ui`; 45, 46, 49, 52, 56, 59, 66 and 67 in `tests/scenarios.rs`. Of those about casts, 47 (a layer
//! refuses mixed precisions: they do not compile), 48 and 50 (functions that ask for the ambient precision: there is none),
//! 51 (a scripted path) and 53 (a cache to register tensors with) do not exist.

mod calls;
mod one_pass;
mod scale;
mod sparse;
mod training;
mod unscale;

use super::*;
use crate::nn::{BatchNorm1d, Linear, Module};
use crate::optim::{Adam, AdamW, Sgd};
use crate::precision::{BF16, F16, F32, Float};
use crate::raw::RawTensor;
use crate::{Tensor, manual_seed, no_grad};
use amp_cpu::{DType, Dims, Layout};

type Net = (Linear, Linear);

fn cpu() -> Device {
    Device::cpu()
}

fn net() -> Net {
    (Linear::new(8, 8, &cpu()).unwrap(), Linear::new(8, 8, &cpu()).unwrap())
}

/// Two nets with equal weights, and four batches.
type Batches = Vec<(Tensor<F32>, Tensor<F32>)>;

fn fixture(seed: u64) -> (Net, Net, Batches) {
    manual_seed(seed);
    let (control, scaled) = (net(), net());
    for (a, b) in control.parameters().iter().zip(scaled.parameters()) {
        b.set(&a.tensor()).unwrap();
    }
    let random = || Tensor::<F32>::randn([8, 8], &cpu()).unwrap();
    let batches = (0..4).map(|_| (random(), random())).collect();
    (control, scaled, batches)
}

fn forward<P: Float>(net: &Net, x: &Tensor<F32>) -> Tensor<F32> {
    let h = net.0.forward(&x.to::<P>().unwrap()).unwrap();
    net.1.forward(&h).unwrap().to().unwrap()
}

fn mse(y: &Tensor<F32>, target: &Tensor<F32>) -> Tensor<F32> {
    let error = (y - target).unwrap();
    (&error * &error).unwrap().mean_all().unwrap()
}

/// The loss, plus a term that makes the gradient of the second layer's weight infinite and leaves the others alone.
fn poisoned(loss: Tensor<F32>, net: &Net) -> Tensor<F32> {
    (loss + (net.1.weight().tensor() * f32::INFINITY).unwrap().sum_all().unwrap()).unwrap()
}

fn scaler(init: f32) -> GradScaler {
    GradScaler::builder().init_scale(init).growth_interval(1).build(&cpu()).unwrap()
}

fn values(net: &impl Module) -> Vec<Vec<f32>> {
    net.parameters().iter().map(|p| p.to_vec().unwrap()).collect()
}

fn assert_close(a: &impl Module, b: &impl Module, atol: f32) {
    for (a, b) in values(a).iter().flatten().zip(values(b).iter().flatten()) {
        let diff = (a - b).abs();
        assert!(diff <= atol + 1e-5 * a.abs(), "{a} and {b} differ by {diff}");
    }
}

/// A parameter and its gradient `grad`, as a scaled set.
fn gradient(scaler: &GradScaler, p: &Parameter, grad: RawTensor) -> Gradients<Scaled> {
    let mut collected = crate::autograd::Collected::default();
    collected.grads.insert(p.id(), grad);
    Gradients::new(collected, scaler.tag(), Some(scaler.factors().unwrap().inverse))
}

fn step_with(scaler: &mut GradScaler, opt: &mut Sgd, values: &[f32]) -> Result<Step> {
    let p = opt.parameters()[0].clone();
    let grad = Tensor::<F32>::from_slice(values, p.dims(), &cpu())?.raw;
    let grads = gradient(scaler, &p, grad);
    scaler.step(opt, grads)
}

fn one_parameter(dims: &[usize]) -> (Parameter, Sgd) {
    let p = Parameter::new(&Tensor::zeros(dims, &cpu()).unwrap()).unwrap();
    (p.clone(), Sgd::new([p], 1.0))
}
