//! Activations, softmax, normalisation and cross-entropy on `[4096, 1024]`, from and to one precision as PyTorch's side.

use super::randn;
use crate::report::Report;
use crate::timer::Timer;
use amp::prelude::*;

const ROWS: usize = 4096;
const COLUMNS: usize = 1024;

pub fn run<P: AutocastPrecision + Float>(timer: &Timer, report: &mut Report, device: &Device) -> Result<()> {
    let x = randn::<P>(&[ROWS, COLUMNS], device)?.tracked();
    let g = randn::<P>(&[ROWS, COLUMNS], device)?;
    let weight = Tensor::<F32>::ones([COLUMNS], device)?.tracked();
    let bias = Tensor::<F32>::zeros([COLUMNS], device)?.tracked();
    let classes = classes(ROWS, COLUMNS, device)?;
    let mut both = Both { timer, report };

    both.measure("relu [4096,1024]", || x.relu(), |y| y.backward_with(&g))?;
    both.measure("add [4096,1024]", || &x + &g, |y| y.backward_with(&g))?;
    both.measure("gelu [4096,1024]", || x.gelu(), |y| y.backward_with(&g))?;
    both.measure("gelu-tanh [4096,1024]", || x.gelu_tanh(), |y| y.backward_with(&g))?;
    both.measure("softmax [4096,1024]", || softmax(&x), |y| y.backward_with(&g))?;
    both.measure("layer_norm [4096,1024]", || layer_norm(&x, &weight, &bias), |y| y.backward_with(&g))?;
    both.measure("cross_entropy [4096,1024]", || x.to::<F32>()?.cross_entropy(&classes), |y| y.backward_retained())?;

    let big = randn::<P>(&[2048, 50257], device)?.tracked();
    let big_classes = self::classes(2048, 50257, device)?;
    let loss = || big.to::<F32>()?.cross_entropy(&big_classes);
    both.measure("cross_entropy [2048,50257]", loss, |y| y.backward_retained())
}

#[autocast(P)]
fn softmax<P: AutocastPrecision + Float>(x: &Tensor<P>) -> Result<Tensor<P>> {
    x.softmax(-1)?.to::<P>()
}

#[autocast(P)]
fn layer_norm<P>(x: &Tensor<P>, weight: &Tensor<F32>, bias: &Tensor<F32>) -> Result<Tensor<P>>
where
    P: AutocastPrecision + Float,
{
    x.layer_norm([COLUMNS], Some(weight), Some(bias), 1e-5)?.to::<P>()
}

struct Both<'a> {
    timer: &'a Timer,
    report: &'a mut Report,
}

impl Both<'_> {
    /// Measures the forward pass alone, then together with the backward pass.
    fn measure<Y, G>(
        &mut self,
        name: &str,
        forward: impl Fn() -> Result<Y>,
        backward: impl Fn(&Y) -> Result<G>,
    ) -> Result<()> {
        let time = self.timer.time(|| no_grad(&forward))?;
        self.report.add(&format!("{name} fwd"), &time, &[]);
        let time = self.timer.time(|| backward(&forward()?))?;
        self.report.add(&format!("{name} fwd+bwd"), &time, &[]);
        Ok(())
    }
}

fn classes(count: usize, classes: usize, device: &Device) -> Result<Tensor<I64>> {
    Tensor::<F32>::uniform([count], 0.0, classes as f64, device)?.to::<I64>()
}
