//! Programs as people write them, each beside its twin with casts by hand: the same bits, and no cast more.

use amp::memory::cast_kernels;
use amp::nn::*;
use amp::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

mod backward;
mod models;

type T = Tensor<F32>;

/// The counter of casts is the program's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wave(shape: &[usize], phase: f32) -> T {
    let mut i = 0.0_f32;
    let next = |_: &[usize]| {
        i += 1.0;
        (i * 1.7 + phase).sin() + 0.1
    };
    Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
}

fn bits(x: &T) -> Vec<u32> {
    x.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

/// The bits of a result and of the gradients of its input, which is new, and the number of casts of the forward pass.
fn trace(shape: &[usize], f: impl Fn(&T) -> Result<T>) -> (Vec<Vec<u32>>, usize) {
    let x = wave(shape, 0.5).tracked();
    let casts = cast_kernels();
    let y = f(&x).unwrap();
    let casts = cast_kernels() - casts;
    let grads = y.backward_with(&wave(y.dims(), 9.0)).unwrap();
    (vec![bits(&y), bits(&grads.get(&x).unwrap().unwrap())], casts)
}

/// The region makes `fewer` casts than its twin. Each gets parameters of its own: a parameter's narrow copy is kept.
fn compare(
    name: &str,
    shape: &[usize],
    fewer: usize,
    region: impl Fn(&T) -> Result<T>,
    by_hand: impl Fn(&T) -> Result<T>,
) {
    let (region, by_hand) = (trace(shape, region), trace(shape, by_hand));
    assert!(region.0 == by_hand.0, "{name}: the bits differ");
    assert_eq!(region.1 + fewer, by_hand.1, "{name}: casts of the region and what it saves, casts by hand");
}

#[test]
fn a_weight_that_two_layers_and_two_passes_share_is_cast_once() -> Result<()> {
    #[autocast(f16)]
    fn twice(layer: &Linear, x: &T) -> Result<Tensor<F16>> {
        layer.forward(&layer.forward(x)?)
    }
    let _turn = alone();
    let (layer, x) = (Linear::new(4, 4, &Device::cpu())?, wave(&[1, 4], 0.0));
    let casts = || -> Result<usize> {
        let before = cast_kernels();
        twice(&layer, &x)?;
        Ok(cast_kernels() - before)
    };
    assert!(casts()? > 0, "the weight was in F32");
    assert_eq!(casts()?, 0);
    layer.weight().set(&Tensor::zeros([4, 4], &Device::cpu())?)?;
    assert_eq!(casts()?, 1, "only the weight is new");
    Ok(())
}
