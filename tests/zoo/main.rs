//! Models and training loops as people write them, from vision to reinforcement learning: losses fall, and those of F16 and
//! BF16 follow those of F32.

use amp::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

mod attention;
mod generative;
mod learning;
mod loops;
mod machinery;
mod places;
mod sequence;
mod signals;
mod vision;

/// Seeds the global random generator, which belongs to the caller until the guard is dropped.
fn seed(seed: u64) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    amp::manual_seed(seed);
    guard
}

/// The last losses are less than the first ones.
fn falls(what: &str, losses: &[f32]) {
    let n = losses.len();
    let first = losses[..2].iter().sum::<f32>() / 2.0;
    let last = losses[n - 2..].iter().sum::<f32>() / 2.0;
    assert!(last < first, "{what}: {losses:?}");
}

/// Losses of two precisions stay within `tol` of each other.
fn agree(what: &str, a: &[f32], b: &[f32], tol: f32) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tol * (1.0 + a.abs()), "{what}, step {i}: {a} and {b}");
    }
}

/// The losses of `steps` steps with a scaler, which may be switched off.
fn train<O: Optimizer>(
    opt: &mut O,
    scaled: bool,
    steps: usize,
    mut loss: impl FnMut(usize) -> Result<Tensor<F32>>,
) -> Result<Vec<f32>> {
    let mut scaler = GradScaler::builder().init_scale(256.0).enabled(scaled).build(&Device::best())?;
    (0..steps)
        .map(|i| {
            let loss = loss(i)?;
            let grads = scaler.scale(&loss)?.backward()?;
            scaler.step(opt, grads)?;
            scaler.update()?;
            loss.item()
        })
        .collect()
}
