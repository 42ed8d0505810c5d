//! Recurrent layers, whose steps have kernels of their own on every device.

use crate::{devices, seeding};
use amp::nn::{Gru, Lstm, Module};
use amp::prelude::*;

/// What a layer makes of a sequence on a device, and the gradients of its input and its parameters.
fn results<P: Float, M: Module>(
    new: impl Fn(&Device) -> Result<M>,
    forward: impl Fn(&M, &Tensor<P>) -> Result<Tensor<P>>,
    device: &Device,
) -> Result<Vec<f32>> {
    amp::manual_seed(17);
    let layer = new(device)?;
    let x = Tensor::<F32>::randn([3, 5, 4], device)?.tracked();
    let y = forward(&layer, &x.to()?)?.to::<F32>()?;
    let grads = (&y.sqr()? * &y)?.sum_all()?.backward()?;
    let mut all = [y.to_vec()?, grads.get(&x)?.expect("x takes part").to_vec()?].concat();
    for parameter in layer.parameters() {
        all.extend(grads.get(&parameter)?.expect("every parameter takes part").to_vec()?);
    }
    Ok(all)
}

fn check<P: Float, M: Module>(
    name: &str,
    new: impl Fn(&Device) -> Result<M>,
    forward: impl Fn(&M, &Tensor<P>) -> Result<Tensor<P>>,
    allowed: f32,
) -> Result<()> {
    let expected = results(&new, &forward, &Device::cpu())?;
    for device in &devices() {
        for (found, expected) in results(&new, &forward, device)?.into_iter().zip(&expected) {
            let allowed = allowed * (1.0 + expected.abs());
            let near = (found - expected).abs() <= allowed;
            assert!(near, "{name} in {:?} on {device}: {found} instead of {expected}", P::DTYPE);
        }
    }
    Ok(())
}

#[test]
fn steps_are_the_same_on_every_device() -> Result<()> {
    let _alone = seeding();
    let lstm = |device: &Device| Lstm::stacked(4, 7, 2, true, device);
    let gru = |device: &Device| Gru::stacked(4, 7, 2, true, device);
    // Five steps of two layers each round some sums of a few terms, and states and gradients in 16 bits.
    check::<F32, _>("Lstm", lstm, |layer, x| Ok(layer.forward(x)?.0), 1e-5)?;
    check::<F32, _>("Gru", gru, |layer, x| Ok(layer.forward(x)?.0), 1e-5)?;
    let padded = |layer: &Gru, x: &Tensor<F32>| Ok(layer.forward_padded(x, &[2, 5, 4])?.0);
    check::<F32, _>("Gru over padded sequences", gru, padded, 1e-5)?;
    check::<BF16, _>("Lstm", lstm, |layer, x| Ok(layer.forward(x)?.0), 1.0 / 32.0)?;
    check::<BF16, _>("Gru", gru, |layer, x| Ok(layer.forward(x)?.0), 1.0 / 32.0)
}
