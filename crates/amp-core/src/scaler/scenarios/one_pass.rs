//! The decision is taken from what the backward pass saw: no gradient is read again for it.

use super::*;
use crate::nn::{Conv2d, Embedding};
use crate::{I64, checkpoint};

/// What was seen bounds the magnitude of every stored gradient, and is finite exactly when the gradient is.
fn assert_seen(grads: &Gradients<Scaled>, leaves: usize) {
    assert_eq!(grads.len(), leaves);
    for (id, grad) in &grads.grads {
        let values = Tensor::<F32>::from_raw(grad.cast_view(DType::F32).unwrap()).to_vec().unwrap();
        let seen = grads.peak(*id).expect("seen in the backward pass");
        let bounded = values.iter().all(|v| v.abs() <= seen);
        assert!(if seen.is_finite() { bounded } else { values.iter().any(|v| !v.is_finite()) }, "{seen}: {values:?}");
    }
}

#[test]
fn every_gradient_of_a_scaled_loss_is_seen() {
    manual_seed(9);
    let d = cpu();
    let (conv, table, layer) =
        (Conv2d::new(2, 3, 3, &d).unwrap(), Embedding::new(7, 4, &d).unwrap(), Linear::new(4, 4, &d).unwrap());
    let shared = layer.weight().clone();
    let x = Tensor::<F32>::randn([2, 2, 5, 5], &d).unwrap();
    let tracked = Tensor::<F16>::ones([4], &d).unwrap().tracked();
    let ids = Tensor::<I64>::from_vec(vec![1, 3, 3], [3], &d).unwrap();
    for (bad, parts) in [(1.0, 1), (f32::INFINITY, 2), (1.0, 3)] {
        let image = conv.forward(&x.to::<F16>().unwrap()).unwrap().to::<F32>().unwrap().sum_all().unwrap();
        let rows = layer.forward(&table.forward(&ids).unwrap()).unwrap();
        // The weight again: outside, and inside a part that is run anew.
        let (inside, outside) = (shared.clone(), (shared.tensor() * 0.5).unwrap().sum_all().unwrap());
        let rows = checkpoint(move |x: &Tensor<F32>| x.matmul(&inside.tensor()), &rows).unwrap();
        let half = (&tracked * 2.0).unwrap().to::<F32>().unwrap().sum_all().unwrap();
        let total = (rows.sum_all().unwrap() + (image * bad).unwrap()).unwrap();
        let loss = (((total + outside).unwrap() + half).unwrap() / parts as f32).unwrap();
        let grads = scaler(8.0).scale(&loss).unwrap().backward().unwrap();
        assert_seen(&grads, 6);
    }
}

#[test]
fn large_gradients_are_seen_while_the_pass_goes_on() {
    let parameters: Vec<_> = (0..4).map(|_| one_parameter(&[700, 1000]).0).collect();
    let sum = |bad: usize| {
        let parts = parameters
            .iter()
            .enumerate()
            .map(|(i, p)| (p.tensor() * if i == bad { f32::NAN } else { 0.5 + i as f32 }).unwrap().sum_all().unwrap());
        parts.reduce(|a, b| (a + b).unwrap()).unwrap()
    };
    for bad in 0..5 {
        let mut scaler = scaler(4.0);
        let grads = scaler.scale(&sum(bad)).unwrap().backward().unwrap();
        assert_seen(&grads, 4);
        let step = scaler.step(&mut Sgd::new(parameters.clone(), 1.0), grads).unwrap();
        assert_eq!(step.was_taken().unwrap(), bad == 4);
    }
}

#[test]
fn gradients_of_wide_layers_are_seen_when_they_come() {
    let (layer, d) = (Linear::new(600, 800, &cpu()).unwrap(), cpu());
    for (bad, infinite) in [(1.0, false), (f32::INFINITY, true), (f32::NAN, true)] {
        let x = Tensor::<F32>::from_fn([2, 600], |at| if at == [1, 7] { bad } else { 0.5 }, &d).unwrap();
        let y = layer.forward(&x.to::<F16>().unwrap()).unwrap();
        // What is not finite reaches the weight's gradient through the input alone.
        let loss = y.to::<F32>().unwrap().nan_to_num().unwrap().sum_all().unwrap();
        let mut scaler = scaler(8.0);
        let grads = scaler.scale(&loss).unwrap().backward().unwrap();
        assert_seen(&grads, 2);
        let step = scaler.step(&mut Sgd::new(layer.parameters(), 1.0), grads).unwrap();
        assert_eq!(step.was_taken().unwrap(), !infinite, "{bad}");
    }
}

#[test]
fn added_up_gradients_are_judged_by_their_sum() {
    let (p, _) = one_parameter(&[3]);
    // (micro-batches, whether the step is taken); the scale is 1
    for (parts, taken) in [
        (vec![[1.0, 2.0, 3.0], [1.0, -2.0, 3e38]], true),
        (vec![[3e38, 0.0, 0.0], [3e38, 0.0, 0.0]], false),
        (vec![[3e38, 0.0, 0.0], [-3e38, 1.0, 0.0]], true),
        (vec![[3e38, 0.0, 0.0], [0.0, 3e38, 0.0], [0.0, 0.0, 3e38]], true),
        (vec![[0.0, f32::INFINITY, 0.0], [1.0, 1.0, 1.0]], false),
        (vec![[0.0, f32::INFINITY, 0.0], [0.0, f32::NEG_INFINITY, 0.0], [1.0; 3]], false),
        (vec![[1.0; 3], [0.0, 0.0, f32::NAN]], false),
    ] {
        let mut scaler = scaler(1.0);
        let mut total = Gradients::accumulator();
        for part in &parts {
            let slope = Tensor::<F32>::from_slice(part, [3], &cpu()).unwrap();
            let loss = (p.tensor() * slope).unwrap().sum_all().unwrap();
            total.add(scaler.scale(&loss).unwrap().backward().unwrap()).unwrap();
        }
        let before = p.to_vec().unwrap();
        let step = scaler.step(&mut Sgd::new([p.clone()], 1.0), total).unwrap();
        assert_eq!(step.was_taken().unwrap(), taken, "{parts:?}");
        assert_eq!(p.to_vec().unwrap() == before, !taken, "{parts:?}");
    }
}

/// Ones, but for one element.
fn spoilt(shape: &[usize], at: usize, bad: f32) -> Tensor<F16> {
    let mut values = vec![1.0; shape.iter().product()];
    if let Some(value) = values.get_mut(at) {
        *value = bad;
    }
    Tensor::<F32>::from_vec(values, shape, &cpu()).unwrap().to::<F16>().unwrap().contiguous().unwrap()
}

/// The gradient of `w` from `x` and a slope of which one element is not finite, wherever that is.
fn assert_edges_tell(w: &[usize], x: &[usize], f: impl Fn(&Tensor<F16>, &Tensor<F16>) -> Result<Tensor<F16>>) {
    let (w, _) = one_parameter(w);
    let size = x.iter().product();
    let y = f(&spoilt(x, size, 0.0), &w.to().unwrap()).unwrap();
    for bad in [1.0, f32::INFINITY, f32::NAN, 1e6] {
        for at in 0..size + y.count() {
            // Before `size` the input is spoilt, after it the slope.
            let y = f(&spoilt(x, at, bad), &w.to().unwrap()).unwrap();
            let slope = spoilt(y.dims(), at.wrapping_sub(size), bad);
            let loss = (y.to::<F32>().unwrap() * slope.to::<F32>().unwrap()).unwrap().sum_all().unwrap();
            let loss = ScaledLoss::new(loss.raw, ScaleTag { scaler: 1, round: 0 }, None);
            let grads = loss.looked_at().unwrap();
            assert_seen(&grads, 1);
            let seen = grads.peak(w.id()).unwrap();
            assert!(!seen.is_finite() || seen >= 65504.0 * 65504.0, "{seen} was read, not concluded");
        }
    }
}

#[test]
fn the_edges_of_a_product_tell_of_all_of_it() {
    use crate::ConvOptions;
    assert_edges_tell(&[3, 2], &[4, 2], |x, w| x.linear(w, None));
    assert_edges_tell(&[3, 2], &[2, 2, 2], |x, w| x.linear(w, None));
    assert_edges_tell(&[2, 3], &[4, 2], |x, w| x.matmul(w));
    let plain = ConvOptions::<2>::default();
    for options in [plain, plain.padding(1), plain.stride(2).padding([1, 0]), plain.dilation([2, 1]), plain.padding(3)]
    {
        assert_edges_tell(&[3, 2, 2, 2], &[1, 2, 3, 4], |x, w| x.conv2d(w, None, options));
        assert_edges_tell(&[4, 2, 2, 2], &[1, 4, 3, 4], |x, w| x.conv2d(w, None, options.groups(2)));
        assert_edges_tell(&[4, 1, 2, 2], &[1, 4, 3, 4], |x, w| x.conv2d(w, None, options.groups(4)));
    }
    assert_edges_tell(&[4, 1, 2, 2], &[1, 4, 2, 3], |x, w| x.conv_transpose2d(w, None, plain.stride(2).groups(2)));
    assert_edges_tell(&[2, 3, 2], &[2, 2, 4], |x, w| x.conv_transpose1d(w, None, ConvOptions::default().padding(1)));
}

#[test]
fn an_edge_is_no_longer_enough_when_something_else_is_added() {
    let (w, _) = one_parameter(&[3, 3]);
    for at in 0..9 {
        let mut scaler = scaler(1.0);
        let y = spoilt(&[2, 3], 6, 0.0).linear(&w.to::<F16>().unwrap(), None).unwrap().to::<F32>().unwrap();
        let slope = Tensor::<F32>::from_fn([3, 3], |i| if 3 * i[0] + i[1] == at { f32::NAN } else { 1.0 }, &cpu());
        let other = (w.tensor() * slope.unwrap()).unwrap().sum_all().unwrap();
        for loss in [(y.sum_all().unwrap() + &other).unwrap(), (&other + y.sum_all().unwrap()).unwrap()] {
            let grads = scaler.scale(&loss).unwrap().backward_retained().unwrap();
            assert_seen(&grads, 1);
            assert!(!scaler.step(&mut Sgd::new([w.clone()], 1.0), grads).unwrap().was_taken().unwrap());
        }
    }
}
