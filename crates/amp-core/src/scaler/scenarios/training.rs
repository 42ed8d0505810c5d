//! Training with a scaler follows training without.

use super::*;

const SKIP: usize = 2;

/// The common training loop: control in F32 omits step 2, the scaled net meets an infinity there.
fn train<P: Float, O: Optimizer>(
    make: impl Fn(Vec<Parameter>) -> O,
    enabled: bool,
    atol: f32,
    mut step: impl FnMut(&mut GradScaler, &mut O, Gradients<Scaled>) -> Result<Step>,
) {
    let (control, scaled, batches) = fixture(1);
    let mut scaler = GradScaler::builder().init_scale(128.0).growth_interval(1).enabled(enabled).build(&cpu()).unwrap();
    let (mut control_opt, mut opt) = (make(control.parameters()), make(scaled.parameters()));
    for (i, (x, target)) in batches.iter().enumerate() {
        let grads = mse(&forward::<F32>(&control, x), target).backward().unwrap();
        if i != SKIP || !enabled {
            control_opt.step(&grads).unwrap();
        }
        let mut loss = mse(&forward::<P>(&scaled, x), target);
        if i == SKIP && enabled {
            loss = poisoned(loss, &scaled);
        }
        let grads = scaler.scale(&loss).unwrap().backward().unwrap();
        let taken = step(&mut scaler, &mut opt, grads).unwrap();
        assert_eq!(taken.was_taken().unwrap(), i != SKIP || !enabled);
        scaler.update().unwrap();
    }
    assert_eq!(scaler.scale_value().unwrap(), if enabled { 128.0 * 2f32.powi(3) * 0.5 } else { 1.0 });
    assert_close(&control, &scaled, atol);
}

#[test]
fn s17_mixed_precision_with_scaling_follows_full_precision() {
    for enabled in [true, false] {
        train::<F16, _>(|p| Sgd::new(p, 1.0), enabled, 2e-2, |s, o, g| s.step(o, g));
        train::<F32, _>(|p| Sgd::new(p, 1.0), enabled, 1e-6, |s, o, g| s.step(o, g));
        train::<F32, _>(|p| Adam::new(p, 1e-2), enabled, 1e-6, |s, o, g| s.step(o, g));
        train::<F32, _>(|p| AdamW::new(p, 1e-2), enabled, 1e-6, |s, o, g| s.step(o, g));
    }
}

#[test]
fn s18_the_state_may_be_saved_and_loaded_every_iteration() {
    train::<F32, _>(
        |p| Sgd::new(p, 1.0),
        true,
        1e-6,
        |scaler, opt, grads| {
            let step = scaler.step(opt, grads)?;
            let state = scaler.state()?.expect("enabled");
            let seen = std::mem::take(&mut scaler.seen);
            scaler.load_state(&ScalerState::from_json(&state.to_json())?)?;
            scaler.seen = seen;
            Ok(step)
        },
    );
}

#[test]
fn s21_explicit_unscaling_changes_nothing() {
    for amsgrad in [false, true] {
        let (a, b, batches) = fixture(3);
        let mut opts = [&a, &b].map(|net| Adam::new(net.parameters(), 0.1).amsgrad(amsgrad).weight_decay(0.01));
        let mut scalers = [scaler(128.0), scaler(128.0)];
        for (x, target) in &batches {
            for (i, net) in [&a, &b].into_iter().enumerate() {
                let loss = mse(&forward::<F32>(net, x), target);
                let grads = scalers[i].scale(&loss).unwrap().backward().unwrap();
                if i == 0 {
                    scalers[i].step(&mut opts[i], grads).unwrap();
                } else {
                    let grads = scalers[i].unscale(grads).unwrap();
                    scalers[i].step(&mut opts[i], grads).unwrap();
                }
                scalers[i].update().unwrap();
            }
            assert_eq!(values(&a), values(&b), "bit for bit");
        }
    }
}

#[test]
fn s23_clipping_after_unscaling() {
    for enabled in [true, false] {
        let clipped = std::cell::Cell::new(0);
        train::<F32, _>(
            |p| Sgd::new(p, 1.0),
            enabled,
            // The control does not clip, so the limit must not bind here; that it does bind is checked below.
            1e-6,
            |scaler, opt, grads| {
                let mut grads = scaler.unscale(grads)?;
                grads.clip_norm(1e4)?;
                clipped.set(clipped.get() + 1);
                scaler.step(opt, grads)
            },
        );
        assert_eq!(clipped.get(), 4);
    }
    let mut scaler = scaler(8.0);
    let (p, mut opt) = one_parameter(&[2]);
    let scaled = gradient(&scaler, &p, Tensor::<F32>::from_slice(&[24.0, 32.0], [2], &cpu()).unwrap().raw);
    let mut grads = scaler.unscale(scaled).unwrap();
    assert_eq!(grads.clip_norm(0.2).unwrap().item().unwrap(), 5.0);
    assert!((grads.norm().unwrap().item().unwrap() - 0.2).abs() <= 1e-6);
    grads.clip_value(0.15).unwrap();
    scaler.step(&mut opt, grads).unwrap();
    let moved = p.to_vec().unwrap();
    assert!((moved[0] + 0.12).abs() <= 1e-6 && (moved[1] + 0.15).abs() <= 1e-6, "{moved:?}");
}

#[test]
fn s24_gradients_spoilt_after_unscaling_are_stepped_with() {
    let (net, _, batches) = fixture(5);
    let mut opt = Adam::new(net.parameters(), 0.1);
    let mut scaler = scaler(128.0);
    let loss = mse(&forward::<F32>(&net, &batches[0].0), &batches[0].1);
    let scaled = scaler.scale(&loss).unwrap().backward().unwrap();
    let mut grads = scaler.unscale(scaled).unwrap();
    for (i, p) in net.parameters().iter().enumerate() {
        let bad = if i % 2 == 0 { f32::NAN } else { f32::INFINITY };
        grads.set(p, &Tensor::full(p.dims(), bad, &cpu()).unwrap()).unwrap();
    }
    assert!(scaler.step(&mut opt, grads).unwrap().was_taken().unwrap());
    assert!(values(&net).iter().flatten().all(|v| !v.is_finite()));
}

#[test]
fn s26_accumulation() {
    for enabled in [true, false] {
        let (control, scaled, batches) = fixture(6);
        let builder = GradScaler::builder().init_scale(128.0).growth_interval(1).enabled(enabled);
        let mut scaler = builder.build(&cpu()).unwrap();
        let (mut control_opt, mut opt) = (Sgd::new(control.parameters(), 1.0), Sgd::new(scaled.parameters(), 1.0));
        let (mut plain, mut total) = (Gradients::accumulator(), Gradients::accumulator());
        for (i, (x, target)) in batches.iter().enumerate() {
            let half = |net| (mse(&forward::<F32>(net, x), target) / 2.0).unwrap();
            plain.add(half(&control).backward().unwrap()).unwrap();
            total.add(scaler.scale(&half(&scaled)).unwrap().backward().unwrap()).unwrap();
            if i % 2 == 1 {
                control_opt.step(&std::mem::replace(&mut plain, Gradients::accumulator())).unwrap();
                scaler.step(&mut opt, std::mem::replace(&mut total, Gradients::accumulator())).unwrap();
                scaler.update().unwrap();
            }
        }
        assert_eq!(scaler.scale_value().unwrap(), if enabled { 512.0 } else { 1.0 });
        assert_close(&control, &scaled, 1e-6);
    }
}

/// Of gradients that are lent to two optimizers, each decides about the running statistics of its own layers.
#[test]
fn statistics_move_with_the_step_of_their_layers_optimizer() {
    for healthy_first in [true, false] {
        let norms = [(); 2].map(|()| BatchNorm1d::new(3, &cpu()).unwrap());
        let mut optimizers = norms.each_ref().map(|norm| Sgd::new(norm.parameters(), 0.1));
        let x = Tensor::<F32>::from_fn([4, 3], |i| (i[0] * 3 + i[1]) as f32, &cpu()).unwrap();
        let spoilt = (&x / 0.0).unwrap();
        let mut scaler = scaler(128.0);
        let loss = |norm: &BatchNorm1d, x: &Tensor<F32>| norm.forward(x).unwrap().sqr().unwrap().mean_all().unwrap();
        let gradients = |scaler: &GradScaler, norm, x| scaler.scale(&loss(norm, x)).unwrap().backward().unwrap();
        let mut grads = gradients(&scaler, &norms[0], &x);
        grads.add(gradients(&scaler, &norms[1], &spoilt)).unwrap();
        let grads = scaler.unscale(grads).unwrap();
        for k in if healthy_first { [0, 1] } else { [1, 0] } {
            let step = scaler.step(&mut optimizers[k], &grads).unwrap();
            assert_eq!(step.was_taken().unwrap(), k == 0);
        }
        let [moved, kept] = norms.map(|norm| norm.running_mean().tensor().to_vec().unwrap());
        assert!(moved.iter().zip([0.45, 0.55, 0.65]).all(|(a, b)| (a - b).abs() <= 1e-6), "{moved:?}");
        assert_eq!(kept, [0.0; 3]);
    }
}

/// Where the layer's parameters are not trained, any step decides; one that is given the gradients decides about all.
#[test]
fn statistics_of_other_layers_move_with_the_step() {
    for lent in [true, false] {
        let (below, norm) = (Linear::new(3, 3, &cpu()).unwrap(), BatchNorm1d::new(3, &cpu()).unwrap());
        norm.set_trainable(!lent);
        let (mut optimizer, mut scaler) = (Sgd::new(below.parameters(), 0.1), scaler(128.0));
        let x = Tensor::<F32>::from_fn([4, 3], |i| (i[0] * 3 + i[1]) as f32, &cpu()).unwrap();
        let loss = norm.forward(&below.forward(&x).unwrap()).unwrap().sqr().unwrap().mean_all().unwrap();
        let grads = scaler.scale(&loss).unwrap().backward().unwrap();
        let moved = || norm.running_mean().tensor().to_vec().unwrap().iter().all(|mean| *mean != 0.0);
        assert!(!moved());
        let step = match lent {
            true => {
                let grads = scaler.unscale(grads).unwrap();
                scaler.step(&mut optimizer, &grads)
            }
            false => scaler.step(&mut optimizer, grads),
        };
        assert!(step.unwrap().was_taken().unwrap() && moved());
    }
}

#[test]
fn s27_two_models_two_losses_two_optimizers() {
    let (control, scaled, batches) = fixture(7);
    let (control, scaled) = ([control, net()], [scaled, net()]);
    for (a, b) in control[1].parameters().iter().zip(scaled[1].parameters()) {
        b.set(&a.tensor()).unwrap();
    }
    let losses = |nets: &[Net; 2], (x, target): &(Tensor<F32>, Tensor<F32>)| {
        let y = [forward::<F32>(&nets[0], x), forward::<F32>(&nets[1], x)];
        let mixed = |a: f32, b: f32| mse(&((&y[0] * a).unwrap() + (&y[1] * b).unwrap()).unwrap(), target);
        [mixed(0.3, 0.7), mixed(0.6, -0.4)]
    };
    let optimizers = |nets: &[Net; 2]| [Sgd::new(nets[0].parameters(), 1.0), Sgd::new(nets[1].parameters(), 1.0)];
    let (mut control_opts, mut opts) = (optimizers(&control), optimizers(&scaled));
    let mut scaler = scaler(128.0);
    for (i, batch) in batches.iter().enumerate() {
        let [l0, l1] = losses(&control, batch);
        let grads = [l0.backward_for(control_opts[0].parameters()), l1.backward_for(control_opts[1].parameters())];
        for (k, grads) in grads.into_iter().enumerate() {
            if !(k == 1 && i == SKIP) {
                control_opts[k].step(&grads.unwrap()).unwrap();
            }
        }
        let [l0, mut l1] = losses(&scaled, batch);
        if i == SKIP {
            l1 = poisoned(l1, &scaled[1]);
        }
        let g0 = scaler.scale(&l0).unwrap().backward_for(opts[0].parameters()).unwrap();
        let g1 = scaler.scale(&l1).unwrap().backward_for(opts[1].parameters()).unwrap();
        let g0 = scaler.unscale(g0).unwrap();
        assert!(scaler.step(&mut opts[0], g0).unwrap().was_taken().unwrap());
        assert_eq!(scaler.step(&mut opts[1], g1).unwrap().was_taken().unwrap(), i != SKIP);
        scaler.update().unwrap();
    }
    assert_eq!(scaler.scale_value().unwrap(), 128.0 * 8.0 * 0.5);
    assert_close(&control[0], &scaled[0], 1e-6);
    assert_close(&control[1], &scaled[1], 1e-6);
}
