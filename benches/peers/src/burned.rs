//! burn's side: its CPU backend, with automatic differentiation where gradients are taken.

use crate::timer::Report;
use crate::{BATCH, CONVOLUTIONS, PRODUCTS, label};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, Distribution, Int, Tensor};
use std::convert::Infallible;

type Result<T> = std::result::Result<T, Infallible>;

pub fn run(case: &str, precision: &str, report: &mut Report) -> Result<()> {
    let dtype = match precision {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        _ => DType::F32,
    };
    match case {
        "matmul" => products(dtype, report),
        "conv" => convolutions(dtype, report),
        _ if dtype == DType::F32 => step(report),
        _ => Ok(()),
    }
}

fn randn<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    Tensor::<D>::random(shape, Distribution::Normal(0.0, 1.0), device).cast(dtype)
}

fn products(dtype: DType, report: &mut Report) -> Result<()> {
    let device = Device::flex();
    for shape in PRODUCTS {
        let [batch, m, k, n] = shape;
        let (a, b) = (randn([batch, m, k], dtype, &device), randn([batch, k, n], dtype, &device));
        report.time(&label(shape), || Result::Ok(a.clone().matmul(b.clone())))?;
    }
    Ok(())
}

fn convolutions(dtype: DType, report: &mut Report) -> Result<()> {
    let device = Device::flex().autodiff();
    for (name, c_in, c_out, size, kernel, stride, groups) in CONVOLUTIONS {
        let x = randn([BATCH, c_in, size, size], dtype, &device);
        let w = randn([c_out, c_in / groups, kernel, kernel], dtype, &device);
        let options = || ConvOptions::new([stride; 2], [kernel / 2; 2], [1; 2], groups);
        report.time(&format!("{name} fwd"), || Result::Ok(conv2d(x.clone(), w.clone(), None, options())))?;
        let (x, w) = (x.require_grad(), w.require_grad());
        let both = || conv2d(x.clone(), w.clone(), None, options()).sum().backward();
        report.time(&format!("{name} fwd+bwd"), || Result::Ok(both()))?;
    }
    Ok(())
}

#[derive(Module, Debug)]
struct Mlp {
    a: Linear,
    b: Linear,
    c: Linear,
}

fn step(report: &mut Report) -> Result<()> {
    let device = Device::flex().autodiff();
    let layer = |from, to| LinearConfig::new(from, to).init(&device);
    let mut model = Some(Mlp { a: layer(784, 1024), b: layer(1024, 1024), c: layer(1024, 10) });
    let mut optimizer = AdamConfig::new().init();
    let x = randn([256, 784], DType::F32, &device);
    let y = Tensor::<1, Int>::arange(0..256, &device).remainder_scalar(10);
    let loss = CrossEntropyLossConfig::new().init(&device);
    report.time("step-mlp", || {
        let mlp = model.take().expect("put back after each step");
        let h = relu(mlp.b.forward(relu(mlp.a.forward(x.clone()))));
        let gradients = loss.forward(mlp.c.forward(h), y.clone()).backward();
        let gradients = GradientsParams::from_grads(gradients, &mlp);
        model = Some(optimizer.step(1e-3, mlp, gradients));
        Ok(())
    })
}
