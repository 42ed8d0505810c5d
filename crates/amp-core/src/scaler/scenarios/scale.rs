//! How the scale moves, and how its state is kept.

use super::*;

#[test]
fn s01_update_scale() {
    let builder = GradScaler::builder().init_scale(4.0).backoff_factor(0.25).growth_interval(2);
    let mut scaler = builder.build(&cpu()).unwrap();
    let (_, mut opt) = one_parameter(&[2]);
    let mut after = |grad: f32| {
        step_with(&mut scaler, &mut opt, &[grad, 1.0]).unwrap();
        scaler.update().unwrap();
        let state = scaler.state().unwrap().unwrap();
        (state.growth_tracker, state.scale)
    };
    assert_eq!(after(1.0), (1, 4.0));
    assert_eq!(after(1.0), (0, 8.0));
    assert_eq!(after(f32::INFINITY), (0, 2.0));
}

#[test]
fn s02_the_scale_does_not_overflow() {
    let builder = GradScaler::builder().init_scale(2f32.powi(126)).growth_factor(16.0).growth_interval(1);
    let mut scaler = builder.build(&cpu()).unwrap();
    let layer = Linear::new(5, 1, &cpu()).unwrap();
    let mut opt = Adam::new(layer.parameters(), 1.0);
    let x = Tensor::<F32>::full([1, 5], 1e-3, &cpu()).unwrap();
    for _ in 0..3 {
        let loss = (layer.forward(&x).unwrap() * 1e-30).unwrap().sum_all().unwrap();
        let grads = scaler.scale(&loss).unwrap().backward().unwrap();
        scaler.step(&mut opt, grads).unwrap();
        scaler.update().unwrap();
        assert_eq!(scaler.scale_value().unwrap(), 2f32.powi(127));
    }
}

#[test]
fn s03_half_activation_gradients_overflow_and_recover() {
    let w = Parameter::new(&Tensor::ones([100], &cpu()).unwrap()).unwrap();
    let mut opt = Sgd::new([w.clone()], 0.0);
    let mut scaler = GradScaler::builder().init_scale(4.0).build(&cpu()).unwrap();
    let mut seen = Vec::new();
    for (x, largest) in [(5.0f32, 20.0f32), (20_000.0, f32::INFINITY), (5.0, 10.0), (40_000.0, f32::INFINITY)] {
        // The gradient of the product is an F16 activation's; a weight's own would be F32 and could not overflow.
        let half = (w.to::<F16>().unwrap() * 1.0).unwrap();
        let x = Tensor::<F32>::full([100], x, &cpu()).unwrap().to::<F16>().unwrap();
        let loss = (half * x).unwrap().to::<F32>().unwrap().sum_all().unwrap();
        let grads = scaler.scale(&loss).unwrap().backward().unwrap();
        assert_eq!(
            Tensor::<F32>::from_raw(grads.grads[&w.id()].cast_view(DType::F32).unwrap()).to_vec().unwrap()[0],
            largest
        );
        scaler.step(&mut opt, grads).unwrap();
        scaler.update().unwrap();
        let state = scaler.state().unwrap().unwrap();
        seen.push((state.scale, state.growth_tracker));
    }
    assert_eq!(seen, [(4.0, 1), (2.0, 0), (2.0, 1), (1.0, 0)]);
}

#[test]
fn s13_state_dict_before_and_after_use() {
    let build = |init, growth, interval| {
        GradScaler::builder().init_scale(init).growth_factor(growth).growth_interval(interval).build(&cpu()).unwrap()
    };
    let source = build(2.0, 4.0, 2).state().unwrap().unwrap();
    for used in [false, true] {
        let mut target = build(8.0, 8.0, 1);
        if used {
            let (_, mut opt) = one_parameter(&[1]);
            step_with(&mut target, &mut opt, &[1.0]).unwrap();
            target.update().unwrap();
        }
        target.load_state(&ScalerState::from_json(&source.to_json()).unwrap()).unwrap();
        let state = target.state().unwrap().unwrap();
        assert_eq!(state, source);
        assert_eq!((state.scale, state.growth_factor, state.growth_interval, state.growth_tracker), (2.0, 4.0, 2, 0));
    }
    let pytorch = r#"{"scale": 48.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 7}"#;
    let mut target = build(8.0, 8.0, 1);
    target.load_state(&ScalerState::from_json(pytorch).unwrap()).unwrap();
    assert_eq!((target.scale_value().unwrap(), target.state().unwrap().unwrap().growth_tracker), (32.0, 7));
    let empty = ScalerState::from_json("{}").unwrap_err().to_string();
    assert!(empty.contains("disabled scaler"), "{empty}");
    for broken in ["", "[]", r#"{"scale": "x"}"#, r#"{"scale": 1.0}"#] {
        assert!(ScalerState::from_json(broken).is_err(), "{broken}");
    }
}

#[test]
fn a_static_scale_never_moves_but_skips() {
    let mut scaler = GradScaler::builder().static_scale(64.0).build(&cpu()).unwrap();
    let (_, mut opt) = one_parameter(&[1]);
    for grad in [1.0, f32::NAN, 1.0] {
        let step = step_with(&mut scaler, &mut opt, &[grad]).unwrap();
        assert_eq!(step.was_taken().unwrap(), !grad.is_nan());
        scaler.update().unwrap();
        assert_eq!(scaler.scale_value().unwrap(), 64.0);
    }
}

#[test]
fn a_static_scale_is_where_others_go_on_from() -> Result<()> {
    let mut fixed = GradScaler::builder().static_scale(64.0).build(&cpu())?;
    let (_, mut opt) = one_parameter(&[1]);
    for grad in [1.0, 1.0, f32::NAN] {
        step_with(&mut fixed, &mut opt, &[grad])?;
        fixed.update()?;
    }
    let saved = ScalerState::from_json(&fixed.state()?.expect("enabled").to_json())?;
    let mut scaler = GradScaler::builder().init_scale(8.0).growth_factor(4.0).growth_interval(3).build(&cpu())?;
    let settings = scaler.state()?.expect("enabled");
    scaler.load_state(&saved)?;
    assert_eq!(scaler.state()?, Some(ScalerState { scale: 64.0, ..settings }));
    let mut other = GradScaler::builder().static_scale(8.0).build(&cpu())?;
    other.load_state(&saved)?;
    assert_eq!(other.state()?, Some(ScalerState { scale: 8.0, ..saved.clone() }));
    assert!(scaler.load_state(&ScalerState { backoff_factor: 0.5, ..saved }).is_err());
    Ok(())
}

#[test]
fn a_scale_that_cannot_fall_further_names_the_parameter() {
    let (net, _, batches) = fixture(8);
    let mut opt = Sgd::new(net.parameters(), 1.0);
    let mut scaler = GradScaler::builder().init_scale(2.0).give_up_after(3).build(&cpu()).unwrap();
    let mut errors = Vec::new();
    for _ in 0..4 {
        let loss = poisoned(mse(&forward::<F32>(&net, &batches[0].0), &batches[0].1), &net);
        let grads = scaler.scale(&loss).unwrap().backward().unwrap();
        scaler.step(&mut opt, grads).unwrap();
        errors.push(scaler.update().err().map(|e| e.to_string()));
    }
    assert_eq!(errors[..3], [None, None, None]);
    let error = errors[3].clone().expect("three refused backoffs");
    let expected = "update: gradients were not finite 3 times running at the least loss scale 1; \
                    the first such parameter is `1.weight` of shape [8, 8]; it began with the result of `mul` at ";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains("scenarios") && error.ends_with("; affects `1.weight`"), "{error}");
}

/// A scale that was set anew has nothing to answer for that happened at the floor.
#[test]
fn a_scale_set_above_its_floor_may_be_lowered_again() -> Result<()> {
    let mut scaler = GradScaler::builder().init_scale(1.0).build(&cpu())?;
    let (p, mut opt) = one_parameter(&[1]);
    let mut overflow = |scaler: &mut GradScaler| {
        let bad = Tensor::<F32>::full([1], f32::INFINITY, &cpu())?.raw;
        let grads = gradient(scaler, &p, bad);
        scaler.step(&mut opt, grads)?;
        scaler.update()
    };
    let mut refused = 0;
    while overflow(&mut scaler).is_ok() {
        refused += 1;
        assert!(refused < 100, "the floor is not reported");
    }
    scaler.update_to(1024.0)?;
    assert_eq!(scaler.state()?.expect("enabled").refused, 0);
    for exponent in (0..10).rev() {
        overflow(&mut scaler)?;
        assert_eq!(scaler.scale_value()?, (exponent as f32).exp2());
    }
    Ok(())
}
