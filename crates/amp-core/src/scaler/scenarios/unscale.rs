//! What the check of gradients finds.

use super::*;

/// A 10x10 gradient of fours (and `bad` at [2, 2]) in memory of several layouts.
fn layouts(bad: Option<f32>) -> Vec<RawTensor> {
    let square = |columns: usize| {
        let at = move |i: &[usize]| if i == [2, 2] { bad.unwrap_or(4.0) } else { 4.0 };
        Tensor::<F32>::from_fn([10, columns], at, &cpu()).unwrap()
    };
    let whole = square(10);
    let sliced = square(20).slice(1, ..10).unwrap();
    vec![whole.raw.clone(), whole.t().unwrap().raw, sliced.raw.clone(), sliced.t().unwrap().raw]
}

#[test]
fn s04_unscale_reads_any_dense_layout() {
    for grad in layouts(None) {
        let mut scaler = scaler(4.0);
        let (p, _) = one_parameter(&[10, 10]);
        let scaled = gradient(&scaler, &p, grad);
        let grads = scaler.unscale(scaled).unwrap();
        assert_eq!(grads.get(&p).unwrap().unwrap().to_vec().unwrap(), [1.0; 100]);
    }
}

#[test]
fn s05_unscale_finds_infinity_and_nan_in_any_layout() {
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for grad in layouts(Some(bad)) {
            let mut scaler = scaler(4.0);
            let (p, mut opt) = one_parameter(&[10, 10]);
            let grads = gradient(&scaler, &p, grad);
            assert!(!scaler.step(&mut opt, grads).unwrap().was_taken().unwrap());
            assert_eq!(p.to_vec().unwrap(), [0.0; 100]);
        }
    }
}

#[test]
fn s07_one_infinity_in_any_gradient_of_any_storage_skips_the_step() {
    let half = |bad: bool| {
        let v = Tensor::<F32>::full([10, 10], if bad { 1e6 } else { 4.0 }, &cpu()).unwrap();
        v.to::<F16>().unwrap().contiguous().unwrap().to::<F32>().unwrap().raw
    };
    let full = |bad: bool, at: usize| layouts(bad.then_some(f32::INFINITY))[at].clone();
    for poisoned in [None, Some(0), Some(1), Some(2), Some(3)] {
        let mut scaler = scaler(4.0);
        let parameters: Vec<_> = (0..4).map(|_| one_parameter(&[10, 10]).0).collect();
        let mut opt = Sgd::new(parameters.clone(), 1.0);
        let mut grads = Gradients::<Scaled>::accumulator();
        for (i, p) in parameters.iter().enumerate() {
            let bad = poisoned == Some(i);
            let grad = if i < 2 { full(bad, 2 * i) } else { half(bad) };
            grads.add(gradient(&scaler, p, grad)).unwrap();
        }
        assert_eq!(scaler.step(&mut opt, grads).unwrap().was_taken().unwrap(), poisoned.is_none());
        let expected = if poisoned.is_none() { -1.0 } else { 0.0 };
        assert!(parameters.iter().all(|p| p.to_vec().unwrap() == [expected; 100]), "{poisoned:?}");
    }
}

#[test]
fn a_gradient_that_overflows_only_when_unscaled_is_found() {
    let builder = GradScaler::builder().floor(2f32.powi(-10)).init_scale(2f32.powi(-10));
    let mut scaler = builder.build(&cpu()).unwrap();
    let (p, mut opt) = one_parameter(&[1]);
    assert!(!step_with(&mut scaler, &mut opt, &[1e36]).unwrap().was_taken().unwrap());
    assert_eq!(p.to_vec().unwrap(), [0.0]);
}

#[test]
fn empty_gradients_are_finite() {
    let layout = Layout::contiguous(Dims::new(&[0, 3]).unwrap());
    let grad = Tensor::<F32>::zeros([0, 3], &cpu()).unwrap().raw.with_layout(layout);
    let mut scaler = scaler(4.0);
    let (p, mut opt) = one_parameter(&[0, 3]);
    let grads = gradient(&scaler, &p, grad);
    assert!(scaler.step(&mut opt, grads).unwrap().was_taken().unwrap());
}

#[test]
fn a_parameter_of_two_optimizers_is_unscaled_once() {
    let (p, mut a) = one_parameter(&[1]);
    let mut b = Sgd::new([p.clone()], 1.0);
    let mut scaler = scaler(4.0);
    let scaled = gradient(&scaler, &p, Tensor::<F32>::full([1], 16.0, &cpu()).unwrap().raw);
    let grads = scaler.unscale(scaled).unwrap();
    scaler.step(&mut a, &grads).unwrap();
    scaler.step(&mut b, &grads).unwrap();
    scaler.update().unwrap();
    assert_eq!(p.to_vec().unwrap(), [-8.0]);
}

/// Gradients of one parameter, unscaled.
fn unscaled(scaler: &mut GradScaler, p: &Parameter, values: [f32; 2]) -> Gradients<Unscaled> {
    let scaled = gradient(scaler, p, Tensor::<F32>::from_slice(&values, [2], &cpu()).unwrap().raw);
    scaler.unscale(scaled).unwrap()
}

#[test]
fn what_was_found_stays_with_gradients_that_are_added_later() {
    type Change = fn(&mut Gradients, &Parameter) -> Result<()>;
    let changes: [Change; 4] = [
        |_, _| Ok(()),
        |grads, _| grads.clip_value(1.0),
        |grads, _| grads.clip_norm(1.0).map(drop),
        |grads, p| grads.set(p, &Tensor::ones([2], &cpu())?),
    ];
    for change in changes {
        for bad in [None, Some(0), Some(1), Some(2)] {
            let (p, mut opt) = one_parameter(&[2]);
            let mut scaler = scaler(4.0);
            let mut total = Gradients::accumulator();
            for i in 0..3 {
                let first = if bad == Some(i) { f32::INFINITY } else { 2.0 };
                let mut grads = unscaled(&mut scaler, &p, [first, 4.0]);
                change(&mut grads, &p).unwrap();
                total.add(grads).unwrap();
            }
            assert_eq!(scaler.step(&mut opt, total).unwrap().was_taken().unwrap(), bad.is_none(), "{bad:?}");
            assert_eq!(p.to_vec().unwrap() == [0.0; 2], bad.is_some());
            scaler.update().unwrap();
            assert_eq!(scaler.scale_value().unwrap(), if bad.is_none() { 8.0 } else { 2.0 });
        }
    }
}

#[test]
fn an_optimizer_refuses_what_a_scaler_has_unscaled() {
    let (p, mut opt) = one_parameter(&[2]);
    let plain = || (p.tensor().sum_all().unwrap()).backward().unwrap();
    let mut scaler = scaler(4.0);
    for values in [[4.0, 8.0], [4.0, f32::INFINITY]] {
        let (mut first, mut last) = (Gradients::accumulator(), plain());
        first.add(unscaled(&mut scaler, &p, values)).unwrap();
        first.add(plain()).unwrap();
        last.add(unscaled(&mut scaler, &p, values)).unwrap();
        for grads in [unscaled(&mut scaler, &p, values), first, last] {
            assert!(matches!(opt.step(&grads), Err(Error::PastScaler)));
        }
    }
    assert_eq!(p.to_vec().unwrap(), [0.0; 2]);
    let mut none = GradScaler::builder().enabled(false).build(&cpu()).unwrap();
    let scaled = none.scale(&p.tensor().sum_all().unwrap()).unwrap().backward().unwrap();
    opt.step(&none.unscale(scaled).unwrap()).unwrap();
    assert_eq!(p.to_vec().unwrap(), [-1.0; 2]);
}

/// Without a scaler nothing decides about steps: clipping limits an infinity, added or not.
#[test]
fn clipped_infinities_without_a_scaler_stay_clipped() {
    let (p, mut opt) = one_parameter(&[2]);
    let mut grads = (p.tensor() * f32::INFINITY).unwrap().sum_all().unwrap().backward().unwrap();
    grads.clip_value(1.0).unwrap();
    let mut total = Gradients::accumulator();
    total.add(grads).unwrap();
    opt.step(&total).unwrap();
    assert_eq!(p.to_vec().unwrap(), [-1.0; 2]);
}
