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

/// `dropout` of ones is its own gradient, if the second run has the masks of the first.
fn masks_agree() -> Result<bool> {
    let x = Tensor::<F32>::ones([64], &Device::cpu())?.tracked();
    let y = checkpoint(|x: &Tensor<F32>| x.dropout(0.3, true)?.dropout(0.3, true), &x)?;
    let masks = y.to_vec()?;
    Ok(y.sum_all()?.backward()?.get(&x)?.unwrap().to_vec()? == masks)
}

#[test]
fn masks_are_the_same_whatever_other_threads_draw() -> Result<()> {
    let _turn = turn();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| -> Result<Vec<f32>> {
            let mut drawn = Vec::new();
            while !over.load(Ordering::Relaxed) {
                drawn.extend(Tensor::<F32>::rand([4], &Device::cpu())?.to_vec()?);
            }
            Ok(drawn)
        });
        let agree = (0..300).map(|_| masks_agree()).collect::<Result<Vec<bool>>>();
        over.store(true, Ordering::Relaxed);
        let drawn = drawing.join().expect("no panic")?;
        assert!(agree?.into_iter().all(|agree| agree));
        // Four numbers are drawn from one counter: were a counter used twice, all four would come again.
        let mut fours: Vec<[u32; 4]> = drawn.chunks_exact(4).map(|x| [0, 1, 2, 3].map(|i| x[i].to_bits())).collect();
        let count = fours.len();
        fours.sort_unstable();
        fours.dedup();
        assert_eq!(fours.len(), count);
        Ok(())
    })
}

#[test]
fn parts_within_parts_draw_the_same_again() -> Result<()> {
    let _turn = turn();
    let part = |x: &Tensor<F32>| {
        checkpoint(|x: &Tensor<F32>| x.dropout(0.5, true), &x.dropout(0.5, true)?)?.dropout(0.5, true)
    };
    let x = Tensor::<F32>::ones([256], &Device::cpu())?.tracked();
    let y = checkpoint(part, &x)?;
    let (masks, before) = (y.to_vec()?, random_state());
    assert_eq!(y.sum_all()?.backward()?.get(&x)?.unwrap().to_vec()?, masks);
    assert_eq!(random_state(), before);
    Ok(())
}

#[test]
fn a_panic_in_the_second_run_leaves_the_generator_where_it_was() -> Result<()> {
    let _turn = turn();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let x = Tensor::<F32>::ones([8], &Device::cpu())?.tracked();
    let part = |x: &Tensor<F32>| {
        let y = x.dropout(0.5, true);
        assert!(RUNS.fetch_add(1, Ordering::Relaxed) == 0, "the second run");
        y
    };
    let loss = checkpoint(part, &x)?.sum_all()?;
    let before = random_state();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loss.backward())).is_err();
    assert!(panicked && random_state() == before);
    let next = Tensor::<F32>::rand([8], &Device::cpu())?.to_vec()?;
    set_random_state(before);
    assert_eq!(Tensor::<F32>::rand([8], &Device::cpu())?.to_vec()?, next);
    Ok(())
}
