//! Optimizers of one's own, disabled scalers, 16-bit copies, and wrong calls.

use super::*;

#[test]
fn s12_equal_devices_are_equal() {
    assert_eq!(Device::cpu(), Device::cpu());
    assert_eq!(Tensor::<F32>::zeros((), &cpu()).unwrap().device(), &Device::cpu());
}

/// An optimizer that is not one of ours.
struct Descent {
    parameters: Vec<Parameter>,
    calls: usize,
}

impl Optimizer for Descent {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn apply(&mut self, grads: &Gradients) -> Result<()> {
        self.calls += 1;
        for p in &self.parameters {
            if let Some(grad) = grads.get(p)? {
                p.set(&(p.tensor().detach() - grad)?)?;
            }
        }
        Ok(())
    }

    fn schedule(&mut self, _factor: f64) {}

    fn learning_rate(&self) -> f64 {
        1.0
    }
}

#[test]
fn s16_an_optimizer_of_ones_own_is_called_with_unscaled_finite_gradients_only() {
    let (p, _) = one_parameter(&[2]);
    let mut opt = Descent { parameters: vec![p.clone()], calls: 0 };
    let mut scaler = scaler(4.0);
    for (grad, calls) in [([4.0, 8.0], 1), ([4.0, f32::NAN], 1)] {
        let grad = Tensor::<F32>::from_slice(&grad, [2], &cpu()).unwrap().raw;
        let grads = gradient(&scaler, &p, grad);
        scaler.step(&mut opt, grads).unwrap();
        assert_eq!(opt.calls, calls);
        assert_eq!(p.to_vec().unwrap(), [-1.0, -2.0]);
    }
}

#[test]
fn s29_a_disabled_scaler_is_the_identity() {
    let mut scaler = GradScaler::builder().enabled(false).init_scale(3.0).build(&cpu()).unwrap();
    let (p, mut opt) = one_parameter(&[1]);
    assert_eq!((scaler.scale_value().unwrap(), scaler.state().unwrap()), (1.0, None));
    scaler.update().unwrap();
    scaler.update_to(0.0).unwrap();
    // An F16 graph is allowed through, and nothing is ever skipped.
    let loss = (p.to::<F16>().unwrap() * f32::INFINITY).unwrap().to::<F32>().unwrap().sum_all().unwrap();
    let grads = scaler.scale(&loss).unwrap().backward().unwrap();
    assert!(scaler.step(&mut opt, grads).unwrap().was_taken().unwrap());
    assert!(!p.to_vec().unwrap()[0].is_finite());
}

#[test]
fn s54_evaluation_makes_no_further_copies() {
    let layer = Linear::new(10, 10, &cpu()).unwrap();
    let x = Tensor::<F16>::zeros([1, 10], &cpu()).unwrap();
    let copy = || layer.weight().to::<F16>().unwrap().raw.operand().unwrap().buffer.clone();
    let first = copy();
    for _ in 0..3 {
        no_grad(|| layer.forward(&x)).unwrap();
        assert!(copy().ptr_eq(&first));
    }
}

#[test]
fn s55_s57_s58_a_copy_made_without_gradients_serves_training_too() {
    let layer = Linear::new(4, 4, &cpu()).unwrap();
    let x = Tensor::<BF16>::ones([2, 4], &cpu()).unwrap();
    let first = no_grad(|| layer.forward(&x)).unwrap();
    let second = layer.forward(&x).unwrap();
    let third = no_grad(|| layer.forward(&x)).unwrap();
    let fourth = layer.forward(&x).unwrap();
    assert_eq!([&first, &second, &third, &fourth].map(Tensor::requires_grad), [false, true, false, true]);
    let sum = (second + fourth).unwrap().to::<F32>().unwrap().sum_all().unwrap();
    let grads = sum.backward().unwrap();
    for p in layer.parameters() {
        let expected = 4.0;
        assert!(grads.get(&p).unwrap().unwrap().to_vec().unwrap().iter().all(|&g| g == expected));
    }
}

#[test]
fn a_step_that_failed_can_be_taken_again() {
    let (p, opt) = one_parameter(&[1]);
    let (mut scaler, mut opt) = (scaler(4.0), opt.lr(f64::NAN));
    let grads = scaler.scale(&p.tensor().sum_all().unwrap()).unwrap().backward().unwrap();
    let grads = scaler.unscale(grads).unwrap();
    assert!(matches!(scaler.step(&mut opt, &grads), Err(Error::Argument { .. })));
    let mut opt = opt.lr(0.5);
    assert!(scaler.step(&mut opt, &grads).unwrap().was_taken().unwrap());
    assert!(matches!(scaler.step(&mut opt, &grads), Err(Error::SteppedTwice)));
    scaler.update().unwrap();
}

#[test]
fn misuse_is_an_error() {
    let (p, mut opt) = one_parameter(&[1]);
    let (mut a, mut b) = (scaler(4.0), scaler(4.0));
    assert!(matches!(a.update(), Err(Error::NothingChecked)));
    let loss = || p.tensor().sum_all().unwrap();
    let of_b = b.scale(&loss()).unwrap().backward().unwrap();
    assert!(matches!(a.step(&mut opt, of_b), Err(Error::ForeignGradients { op: "step" })));
    let mut of_a = a.scale(&loss()).unwrap().backward().unwrap();
    assert!(matches!(of_a.add(b.scale(&loss()).unwrap().backward().unwrap()), Err(Error::MixedScales)));
    let (_, mut other) = one_parameter(&[1]);
    assert!(matches!(a.step(&mut other, of_a), Err(Error::NoGradients { parameters: 1, .. })));
    assert!(matches!(a.update(), Err(Error::NothingChecked)));
    let of_a = a.scale(&loss()).unwrap().backward().unwrap();
    let unscaled = a.unscale(of_a).unwrap();
    assert!(matches!(b.step(&mut opt, &unscaled), Err(Error::ForeignGradients { .. })));
    assert!(a.step(&mut opt, &unscaled).is_ok());
    assert!(matches!(a.step(&mut opt, &unscaled), Err(Error::SteppedTwice)));
    assert!(matches!(opt.step(&unscaled), Err(Error::PastScaler)));
    a.update().unwrap();
    let plain = loss().backward().unwrap();
    assert!(matches!(a.step(&mut opt, &plain), Err(Error::NotScaled)));
    assert!(matches!(a.update(), Err(Error::NothingChecked)));
    let mut chosen: Box<dyn Optimizer> = Box::new(one_parameter(&[1]).1);
    assert!(matches!(chosen.step(&unscaled), Err(Error::PastScaler)));
    assert!(opt.step(&plain).is_ok() && chosen.step(&plain).is_ok());
    let half = (p.to::<F16>().unwrap() * 2.0).unwrap().to::<F32>().unwrap().sum_all().unwrap();
    assert!(matches!(half.backward(), Err(Error::NeedsScaler { .. })));
    for builder in [
        GradScaler::builder().init_scale(1000.0),
        GradScaler::builder().init_scale(0.5),
        GradScaler::builder().init_scale(-2.0),
        GradScaler::builder().growth_factor(1.0),
        GradScaler::builder().backoff_factor(2.0),
        GradScaler::builder().backoff_factor(-0.5),
        GradScaler::builder().hysteresis(0),
        GradScaler::builder().floor(f32::NAN),
    ] {
        assert!(matches!(builder.clone().build(&cpu()), Err(Error::Argument { .. })), "{builder:?}");
    }
    let least = GradScaler::builder().init_scale(2f32.powi(-140)).build(&cpu()).unwrap_err().to_string();
    assert!(least.contains("init_scale must be at least 2^-126"), "{least}");
}

/// One iteration with a gradient that is not finite, at a scale that cannot fall.
fn stuck(scaler: &mut GradScaler) -> Result<()> {
    let (w, mut opt) = one_parameter(&[1]);
    let loss = (w.tensor() + 1e3)?.exp()?.sum_all()?;
    let grads = scaler.scale(&loss)?.backward()?;
    scaler.step(&mut opt, grads)?;
    scaler.update()
}

#[test]
fn a_scaler_in_trouble_takes_nothing_from_a_diagnosis() {
    let scaler = || GradScaler::builder().static_scale(1.0).build(&cpu()).unwrap();
    let mut one = scaler();
    let (result, culprit) = crate::diagnose(|| stuck(&mut one));
    assert!(result.is_ok() && culprit.is_some_and(|culprit| culprit.op == "exp"));
    let (_, culprit) = crate::diagnose(|| {
        drop(one);
        (cpu_ones() * f32::INFINITY).map(drop)
    });
    assert!(culprit.is_some(), "a scaler that is dropped ends its own watch only");
}

#[test]
fn a_watch_ends_with_its_scaler_on_whichever_thread() {
    let mut scaler = GradScaler::builder().static_scale(1.0).build(&cpu()).unwrap();
    stuck(&mut scaler).unwrap();
    assert!(crate::autograd::watching());
    std::thread::spawn(move || drop(scaler)).join().unwrap();
    assert!(!crate::autograd::watching());
}

fn cpu_ones() -> Tensor<F32> {
    Tensor::ones([2], &cpu()).unwrap()
}

#[test]
fn a_scaler_shows_its_scale() {
    let scaler = |enabled| GradScaler::builder().init_scale(8.0).enabled(enabled).build(&cpu()).unwrap();
    let shown = format!("{:?}", scaler(true));
    assert_eq!(shown, "GradScaler { scale: 8.0, growth_tracker: 0, enabled: true, device: Device(cpu), .. }");
    assert_eq!(format!("{:?}", scaler(false)), "GradScaler { enabled: false, device: Device(cpu), .. }");
}
