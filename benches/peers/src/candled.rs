//! candle's side.

use crate::timer::Report;
use crate::{BATCH, CONVOLUTIONS, PRODUCTS, label};
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap, linear, loss};

pub fn run(case: &str, precision: &str, report: &mut Report) -> Result<()> {
    let dtype = match precision {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        _ => DType::F32,
    };
    match case {
        "matmul" => products(dtype, report),
        "conv" => convolutions(dtype, report),
        _ => step(dtype, report),
    }
}

fn randn(shape: &[usize], dtype: DType) -> Result<Tensor> {
    Tensor::randn(0f32, 1f32, shape, &Device::Cpu)?.to_dtype(dtype)
}

fn products(dtype: DType, report: &mut Report) -> Result<()> {
    for shape in PRODUCTS {
        let [batch, m, k, n] = shape;
        let (a, b) = (randn(&[batch, m, k], dtype)?, randn(&[batch, k, n], dtype)?);
        report.time(&label(shape), || a.matmul(&b))?;
    }
    Ok(())
}

fn convolutions(dtype: DType, report: &mut Report) -> Result<()> {
    for (name, c_in, c_out, size, kernel, stride, groups) in CONVOLUTIONS {
        let x = Var::from_tensor(&randn(&[BATCH, c_in, size, size], dtype)?)?;
        let w = Var::from_tensor(&randn(&[c_out, c_in / groups, kernel, kernel], dtype)?)?;
        let conv = || x.conv2d(&w, kernel / 2, stride, 1, groups);
        report.time(&format!("{name} fwd"), conv)?;
        // Its gradients have no support for groups.
        if groups == 1 {
            report.time(&format!("{name} fwd+bwd"), || conv()?.sum_all()?.backward())?;
        }
    }
    Ok(())
}

fn step(dtype: DType, report: &mut Report) -> Result<()> {
    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, dtype, &Device::Cpu);
    let layer = |from, to, name: &str| linear(from, to, builder.pp(name));
    let layers: [Linear; 3] = [layer(784, 1024, "a")?, layer(1024, 1024, "b")?, layer(1024, 10, "c")?];
    let settings = ParamsAdamW { lr: 1e-3, weight_decay: 0.0, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), settings)?;
    let x = randn(&[256, 784], dtype)?;
    let y = Tensor::from_vec((0..256u32).map(|i| i % 10).collect(), 256, &Device::Cpu)?;
    report.time("step-mlp", || {
        let h = layers[1].forward(&layers[0].forward(&x)?.relu()?)?.relu()?;
        let logits = layers[2].forward(&h)?.to_dtype(DType::F32)?;
        optimizer.backward_step(&loss::cross_entropy(&logits, &y)?)
    })
}
