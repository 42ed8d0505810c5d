//! Gradients of sparse embeddings.

use super::*;
use crate::nn::Embedding;
use crate::optim::{Adadelta, Adagrad, RmsProp, SparseAdam};
use crate::{I64, checkpoint};

/// A table `[4, 2]` of 0.0, 0.1 to 0.7.
fn table() -> Embedding {
    let table = Embedding::new(4, 2, &cpu()).unwrap().sparse(true);
    table.weight().set(&Tensor::from_fn([4, 2], |i| (2 * i[0] + i[1]) as f32 / 10.0, &cpu()).unwrap()).unwrap();
    table
}

fn ids(rows: &[i64]) -> Tensor<I64> {
    Tensor::from_slice(rows, [rows.len()], &cpu()).unwrap()
}

/// `Σ rows · slope`
fn loss(table: &Embedding, rows: &[i64], slope: &[f32]) -> Tensor<F32> {
    let slope = Tensor::<F32>::from_slice(slope, [slope.len() / 2, 2], &cpu()).unwrap();
    (table.forward(&ids(rows)).unwrap() * slope).unwrap().sum_all().unwrap()
}

fn step_is_taken(slope: &[f32]) -> bool {
    let (table, mut scaler) = (table(), scaler(4.0));
    let before = table.weight().to_vec().unwrap();
    let grads = scaler.scale(&loss(&table, &[2, 0, 2], slope)).unwrap().backward().unwrap();
    let step = scaler.step(&mut Sgd::new([table.weight().clone()], 1.0), grads).unwrap();
    let taken = step.was_taken().unwrap();
    assert_eq!(table.weight().to_vec().unwrap() != before, taken);
    taken
}

#[test]
fn s08_sparse_gradients_are_unscaled_and_checked() {
    let (table, mut scaler) = (table(), scaler(4.0));
    let scaled = scaler.scale(&loss(&table, &[3, 1, 2], &[16.0, 1.0, 32.0, 2.0, 64.0, 4.0])).unwrap();
    let grads = scaler.unscale(scaled.backward().unwrap()).unwrap();
    let (rows, values) = grads.rows(table.weight()).unwrap().expect("sparse");
    assert_eq!(rows.to_vec().unwrap(), [1, 2, 3]);
    assert_eq!(values.to_vec().unwrap(), [32.0, 2.0, 64.0, 4.0, 16.0, 1.0]);
    let whole = grads.get(table.weight()).unwrap().unwrap().to_vec().unwrap();
    assert_eq!(whole, [0.0, 0.0, 32.0, 2.0, 64.0, 4.0, 16.0, 1.0]);
    assert!(step_is_taken(&[1.0; 6]));
    for bad in [f32::INFINITY, f32::NAN] {
        assert!(!step_is_taken(&[1.0, 1.0, 1.0, bad, 1.0, 1.0]));
    }
}

#[test]
fn s10_rows_that_overflow_only_in_their_sum_are_found() {
    // Times 4, either alone is finite.
    assert!(!step_is_taken(&[6e37, 0.0, 0.0, 0.0, 6e37, 0.0]));
    assert!(step_is_taken(&[6e37, 0.0, 6e37, 0.0, -6e37, 0.0]));
    // What overflows F16 does not overflow here: rows are summed in F32.
    assert!(step_is_taken(&[64_000.0, 0.0, 32.0, 0.0, 64_000.0, 0.0]));
}

/// What PyTorch 2.15 makes of the same three steps.
const SGD: [f32; 8] = [0.2, 0.5, 0.2, 0.3, 0.4, 0.5, 0.45, 0.4];
const MOMENTUM: [f32; 8] = [0.38, 0.86, 0.038, -0.024, 0.4, 0.5, 0.279, 0.058];
const SPARSE_ADAM: [f32; 8] = [0.07441367, 0.17441368, 0.10526318, 0.2052632, 0.4, 0.5, 0.41997597, 0.519_975_9];
const ADAGRAD: [f32; 8] = [0.1, 0.2, 0.17071068, 0.270_710_7, 0.4, 0.5, 0.45527864, 0.5552786];

/// Three steps from the same table.
fn trained(mut opt: impl Optimizer) -> impl FnOnce(&Embedding) -> Vec<f32> {
    move |table| {
        for (rows, k) in [(vec![1, 3, 1], 1.0), (vec![0, 1], -2.0), (vec![3], 0.5)] {
            let slope = [k, 2.0 * k].repeat(rows.len());
            opt.step(&loss(table, &rows, &slope).backward().unwrap()).unwrap();
        }
        table.weight().to_vec().unwrap()
    }
}

fn assert_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        let diff = (f - e).abs();
        assert!(diff <= 1e-6, "{found:?} is not {expected:?}");
    }
}

#[test]
fn sparse_updates_are_pytorchs() {
    let weight = |t: &Embedding| [t.weight().clone()];
    let t = table();
    assert_near(&trained(Sgd::new(weight(&t), 0.1))(&t), &SGD);
    let t = table();
    assert_near(&trained(Sgd::new(weight(&t), 0.1).momentum(0.9))(&t), &MOMENTUM);
    let t = table();
    assert_near(&trained(SparseAdam::new(weight(&t), 0.1))(&t), &SPARSE_ADAM);
    let t = table();
    assert_near(&trained(Adagrad::new(weight(&t), 0.1))(&t), &ADAGRAD);
    let t = table().sparse(false);
    assert_near(&trained(Adagrad::new(weight(&t), 0.1))(&t), &ADAGRAD);
}

#[test]
fn a_sparse_update_rewrites_the_copies_of_its_rows() {
    let t = table();
    let half = || t.weight().to::<F16>().unwrap().contiguous().unwrap().to::<F32>().unwrap().to_vec().unwrap();
    half();
    Sgd::new([t.weight().clone()], 0.5).step(&loss(&t, &[2, 0], &[1.0; 4]).backward().unwrap()).unwrap();
    let rounded: Vec<f32> = t.weight().to_vec().unwrap().into_iter().map(|v| half::f16::from_f32(v).to_f32()).collect();
    assert_eq!(half(), rounded);
}

#[test]
fn optimizers_that_move_every_row_say_so() {
    let t = table();
    let grads = || loss(&t, &[1], &[1.0, 1.0]).backward().unwrap();
    let weight = || [t.weight().clone()];
    let expected = "AdamW: the gradient of a parameter of shape [4, 2] must be dense";
    for result in [
        AdamW::new(weight(), 0.1).step(&grads()),
        Adam::new(weight(), 0.1).step(&grads()),
        RmsProp::new(weight(), 0.1).step(&grads()),
        Adadelta::new(weight(), 0.1).step(&grads()),
        Sgd::new(weight(), 0.1).weight_decay(0.1).step(&grads()),
        Adagrad::new(weight(), 0.1).weight_decay(0.1).step(&grads()),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::SparseGradient { .. }), "{error}");
    }
    let error = AdamW::new(weight(), 0.1).step(&grads()).unwrap_err().to_string();
    assert!(error.starts_with(expected) && error.ends_with("or Adagrad or Sgd without weight decay"), "{error}");
    let mut scaler = scaler(4.0);
    let scaled = scaler.scale(&loss(&t, &[1], &[1.0, 1.0])).unwrap().backward().unwrap();
    let error = scaler.step(&mut AdamW::new(weight(), 0.1), scaled).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn sparse_shares_add_up_to_the_dense_gradient() {
    let gradient = |sparse: bool| {
        let t = table().sparse(sparse);
        let x = Tensor::<F32>::ones([1], &cpu()).unwrap().tracked();
        let part = |rows: &[i64]| loss(&t, rows, &[1.5, -2.0].repeat(rows.len()));
        let inner = t.weight().clone();
        let inside = checkpoint(
            move |_: &Tensor<F32>| match sparse {
                true => inner.tensor().embedding_sparse(&ids(&[3, 3])),
                false => inner.tensor().embedding(&ids(&[3, 3])),
            },
            &x,
        );
        let mut scaler = scaler(2.0);
        let mut total = Gradients::accumulator();
        for loss in [part(&[1, 1, 0]), (part(&[2]) + part(&[1, 2])).unwrap(), inside.unwrap().sum_all().unwrap()] {
            total.add(scaler.scale(&loss).unwrap().backward().unwrap()).unwrap();
        }
        let mut grads = scaler.unscale(total).unwrap();
        assert_eq!(grads.rows(t.weight()).unwrap().is_some(), sparse);
        let norm = grads.clip_norm(1.0).unwrap().item().unwrap();
        grads.clip_value(0.3).unwrap();
        let clipped = grads.get(t.weight()).unwrap().unwrap().to_vec().unwrap();
        // The output layer uses the table too.
        let both = (part(&[1]) + t.weight().tensor().sum_all().unwrap()).unwrap();
        let both = scaler.scale(&both).unwrap().backward().unwrap();
        assert_eq!(both.peak(t.weight().id()), Some(5.0));
        let mut both = scaler.unscale(both).unwrap();
        assert!(both.rows(t.weight()).unwrap().is_none());
        let mixed = both.get(t.weight()).unwrap().unwrap().to_vec().unwrap();
        both.set(t.weight(), &Tensor::zeros([4, 2], &cpu()).unwrap()).unwrap();
        (norm, clipped, mixed)
    };
    assert_eq!(gradient(true), gradient(false));
}
