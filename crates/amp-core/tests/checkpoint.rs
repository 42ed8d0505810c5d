//! A part of a graph that runs again behaves as if it had been kept.

use amp_core::nn::{BatchNorm1d, Module};
use amp_core::optim::{Optimizer, Sgd};
use amp_core::{
    Device, Error, F16, F32, GradScaler, Parameter, Result, Tensor, checkpoint, manual_seed, no_grad, random_state,
    saved_bytes, set_random_state,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Saved bytes are counted per process, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static COUNTING: Mutex<()> = Mutex::new(());
    COUNTING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parameter(size: [usize; 2], from: f32) -> Parameter {
    let fill = |i: &[usize]| from + 0.25 * (i[0] as f32) - 0.375 * (i[1] as f32);
    Parameter::new(&Tensor::<F32>::from_fn(size, fill, &Device::cpu()).unwrap()).unwrap()
}

/// Runs `f` kept, or as a part that runs again.
fn part<F>(kept: bool, f: F, x: &Tensor<F32>) -> Result<Tensor<F32>>
where
    F: Fn(&Tensor<F32>) -> Result<Tensor<F32>> + Send + Sync + 'static,
{
    if kept { f(x) } else { checkpoint(f, x) }
}

#[test]
fn a_second_run_of_another_shape_is_an_error() -> Result<()> {
    let _turn = turn();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let x = Tensor::<F32>::ones([2], &Device::cpu())?.tracked();
    let y = checkpoint(|x: &Tensor<F32>| x.narrow(0, 0, 2 - RUNS.fetch_add(1, Ordering::Relaxed)), &x)?;
    let error = y.sum_all()?.backward().unwrap_err().to_string();
    assert_eq!(error, "checkpoint: the result of the second run must have shape [2], as it had, found [1]");
    Ok(())
}

#[test]
fn gradients_are_the_same_with_less_memory() -> Result<()> {
    let _turn = turn();
    manual_seed(11);
    let device = Device::cpu();
    let x = Tensor::<F32>::randn([64], &device)?.tracked();
    let w = Parameter::new(&Tensor::randn([64], &device)?)?;
    let block = {
        let w = w.clone();
        move |x: &Tensor<F32>| -> Result<Tensor<F32>> {
            let noise = Tensor::<F32>::randn([64], x.device())?;
            (0..20).try_fold(((x * &w.tensor())? + noise)?, |h, _| h.tanh())
        }
    };
    let start = random_state();
    let plain = block(&x)?.sum_all()?;
    let held = saved_bytes().now;
    let expected = plain.backward()?;
    set_random_state(start);
    let before = saved_bytes().now;
    let loss = checkpoint(block, &x)?.sum_all()?;
    assert!(saved_bytes().now - before < (held - before) / 4);
    let found = loss.backward()?;
    assert_eq!(found.get(&x)?.unwrap().to_vec()?, expected.get(&x)?.unwrap().to_vec()?);
    assert_eq!(found.get(&w)?.unwrap().to_vec()?, expected.get(&w)?.unwrap().to_vec()?);
    Ok(())
}

/// A loss over two parts, one inside the other, that share a hidden tensor with what stands outside, and its parameters.
fn entangled(kept: bool) -> Result<(Tensor<F32>, Vec<Parameter>)> {
    let [a, b, c] = [([2, 4], 0.5), ([4, 4], -0.25), ([4, 2], 0.125)].map(|(size, from)| parameter(size, from));
    let x = Tensor::<F32>::from_fn([3, 2], |i| 0.3 * i[0] as f32 - 0.2 * i[1] as f32, &Device::cpu())?;
    let hidden = x.matmul(&a.tensor())?.relu()?;
    let (seen, inner, outer) = (hidden.clone(), b.clone(), c.clone());
    let y = part(
        kept,
        move |h| {
            let (halves, inner) = ([seen.narrow(1, 0, 2)?, seen.narrow(1, 2, 2)?], inner.clone());
            let deeper = part(kept, move |h| (h.matmul(&inner.tensor())? + h)?.tanh(), h)?;
            let all = Tensor::cat(&[&deeper, &halves[1], &halves[0]], 1)?.narrow(1, 1, 4)?;
            (all + &seen)?.matmul(&outer.tensor())
        },
        &(&hidden * 0.5)?,
    )?;
    Ok(((y.exp()?.mean_all()? + hidden.mean_all()?)?, vec![a, b, c]))
}

#[test]
fn captured_tensors_and_parts_in_parts_get_the_gradients_of_a_kept_graph() -> Result<()> {
    let _turn = turn();
    let [expected, found] = [true, false].map(|kept| {
        let (loss, parameters) = entangled(kept)?;
        let (first, second) = (loss.backward_retained()?, loss.backward()?);
        let of = |grads: &amp_core::Gradients<_>| -> Result<Vec<Vec<f32>>> {
            parameters.iter().map(|p| grads.get(p)?.expect("a gradient").to_vec()).collect()
        };
        assert_eq!(of(&first)?, of(&second)?);
        of(&first)
    });
    assert_eq!(found?, expected?);
    Ok(())
}

#[test]
fn backward_for_gives_those_inside_that_are_asked_for() -> Result<()> {
    let _turn = turn();
    for target in 0..3 {
        let [(expected, _), (found, count)] = [true, false].map(|kept| {
            let (loss, parameters) = entangled(kept).unwrap();
            let grads = loss.backward_for([&parameters[target]]).unwrap();
            (grads.get(&parameters[target]).unwrap().expect("a gradient").to_vec().unwrap(), grads.len())
        });
        assert_eq!((found, count), (expected, 1), "parameter {target}");
    }
    Ok(())
}

#[test]
fn a_part_in_f16_needs_a_scaler() -> Result<()> {
    let _turn = turn();
    let w = parameter([2, 2], 1.0);
    let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
    let run = || {
        let w = w.clone();
        checkpoint(move |x| x.to::<F16>()?.matmul(&w.tensor().to::<F16>()?)?.to::<F32>(), &x)?.mean_all()
    };
    let error = run()?.backward().unwrap_err();
    assert!(matches!(error, Error::NeedsScaler { op: "matmul", .. }), "{error}");
    let mut scaler = GradScaler::new(&Device::cpu())?;
    let grads = scaler.scale(&run()?)?.backward()?;
    assert_eq!(scaler.unscale(grads)?.get(&w)?.unwrap().to_vec()?, [0.5; 4]);
    Ok(())
}

#[test]
fn nothing_runs_again_for_what_needs_no_gradient() -> Result<()> {
    let _turn = turn();
    let runs = Arc::new(AtomicUsize::new(0));
    let (w, counted) = (parameter([2, 2], 1.0), runs.clone());
    let f = {
        let w = w.clone();
        move |x: &Tensor<F32>| {
            counted.fetch_add(1, Ordering::Relaxed);
            x.matmul(&w.tensor())
        }
    };
    let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
    assert!(!no_grad(|| checkpoint(f.clone(), &x))?.requires_grad());
    w.set_trainable(false);
    assert!(!checkpoint(f.clone(), &x)?.requires_grad());
    let other = parameter([2, 2], 0.0);
    let loss = (checkpoint(f, &x.tracked())? + other.tensor())?.sum_all()?;
    assert_eq!(loss.backward_for([&other])?.len(), 1);
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    Ok(())
}

#[test]
fn running_statistics_change_once() -> Result<()> {
    let _turn = turn();
    let x = Tensor::<F32>::from_fn([4, 3], |i| (i[0] * 3 + i[1]) as f32, &Device::cpu())?;
    let [expected, found] = [true, false].map(|kept| -> Result<_> {
        let norm = Arc::new(BatchNorm1d::new(3, &Device::cpu())?);
        let mut optimizer = Sgd::new(norm.parameters(), 0.1);
        for _ in 0..2 {
            let inside = norm.clone();
            optimizer.step(&part(kept, move |x| inside.forward(x)?.exp(), &x)?.mean_all()?.backward()?)?;
        }
        Ok((norm.running_mean().tensor().to_vec()?, norm.running_var().tensor().to_vec()?))
    });
    assert_eq!(found?, expected?);
    Ok(())
}
