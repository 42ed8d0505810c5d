//! Whole training loops on the best device.

use amp::nn::Linear;
use amp::optim::Sgd;
use amp::prelude::*;

#[derive(Module)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
    width: usize,
}

impl Mlp {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self { fc1: Linear::new(8, 16, device)?, fc2: Linear::new(16, 1, device)?, width: 16 })
    }

    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.fc1.forward(&x.to::<P>()?)?.relu()?;
        self.fc2.forward(&h)?.to()
    }
}

fn train<P: AutocastPrecision>(scaled: bool) -> Result<(f32, f32)> {
    amp::manual_seed(7);
    let device = Device::best();
    let net = Mlp::new(&device)?;
    assert_eq!(net.parameters().len(), 4);
    assert_eq!(net.width, 16);
    let mut opt = Sgd::new(net.parameters(), 0.05).momentum(0.9);
    let mut scaler = GradScaler::builder().enabled(scaled).build(&device)?;
    let x = Tensor::<F32>::randn([64, 8], &device)?;
    let target = x.sum([1], true)?.tanh()?;
    let (mut first, mut last) = (f32::NAN, f32::NAN);
    for i in 0..30 {
        let error = (net.forward::<P>(&x)? - &target)?;
        let loss = (&error * &error)?.mean_all()?;
        let grads = scaler.scale(&loss)?.backward()?;
        let step = scaler.step(&mut opt, grads)?;
        assert!(step.was_taken()?);
        scaler.update()?;
        last = loss.item()?;
        if i == 0 {
            first = last;
        }
    }
    Ok((first, last))
}

#[test]
fn mixed_precision_follows_full_precision() {
    let (first, full) = train::<F32>(false).unwrap();
    let (_, half) = train::<F16>(true).unwrap();
    let (_, brain) = train::<BF16>(false).unwrap();
    assert!(full < 0.5 * first, "the loss fell from {first} to {full} only");
    assert!((half - full).abs() <= 0.02 * first, "f16 ends at {half}, f32 at {full}");
    assert!((brain - full).abs() <= 0.1 * first, "bf16 ends at {brain}, f32 at {full}");
}
