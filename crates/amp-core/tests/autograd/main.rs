//! The graph: what it records, what it frees, what it refuses.

mod saved;

use amp_core::optim::Sgd;
use amp_core::{
    BF16, Device, Error, F16, F32, GradScaler, Gradients, Optimizer, Parameter, Result, Tensor, Unscaled, grad_enabled,
    no_grad, saved_bytes,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Saved bytes are counted per process, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static COUNTING: Mutex<()> = Mutex::new(());
    COUNTING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn vector(values: &[f32]) -> Tensor<F32> {
    Tensor::from_slice(values, [values.len()], &Device::cpu()).unwrap()
}

#[test]
fn ten_thousand_chained_operations_neither_overflow_the_stack_nor_leak() -> Result<()> {
    let _turn = turn();
    let before = saved_bytes().now;
    let x = vector(&[0.5; 8]).tracked();
    // A small stack makes any recursion visible.
    let run = move || -> Result<()> {
        let chain = |x: &Tensor<F32>| (0..10_000).try_fold(x.clone(), |h, _| (h * 1.0001)?.tanh());
        let grads = chain(&x)?.sum_all()?.backward()?;
        assert!(grads.get(&x)?.unwrap().to_vec()?.iter().all(|g| g.is_finite()));
        drop(chain(&x)?); // a graph that is never walked is taken apart without recursion too
        Ok(())
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(run).unwrap().join().unwrap()?;
    assert_eq!(saved_bytes().now, before);
    Ok(())
}

#[test]
fn a_graph_is_freed_by_backward_unless_retained() -> Result<()> {
    let _turn = turn();
    let x = vector(&[1.0, 2.0]).tracked();
    let loss = x.exp()?.sum_all()?;
    let first = loss.backward_retained()?;
    let second = loss.backward()?;
    assert_eq!(first.get(&x)?.unwrap().to_vec()?, second.get(&x)?.unwrap().to_vec()?);
    let error = loss.backward().unwrap_err();
    assert!(matches!(error, Error::GraphFreed { .. }), "{error}");
    assert!(error.to_string().contains(file!()), "names the user's line: {error}");
    Ok(())
}

#[test]
fn backward_for_walks_only_towards_its_targets() -> Result<()> {
    let _turn = turn();
    let (a, b) = (vector(&[1.0]).tracked(), vector(&[2.0]).tracked());
    let (ya, yb) = (a.tanh()?, b.tanh()?);
    let loss = (&ya * &yb)?.sum_all()?;
    let other = (&ya + &yb)?.sum_all()?;
    let grads = loss.backward_for([&a])?;
    assert!(grads.get(&a)?.is_some() && grads.get(&b)?.is_none());
    // The part of the graph that leads to `b` only is still there for another loss.
    assert!(other.backward_for([&b])?.get(&b)?.is_some());
    Ok(())
}

#[test]
fn backward_for_gives_the_gradient_of_what_was_computed_and_leaves_what_lies_behind_it() -> Result<()> {
    let _turn = turn();
    let x = vector(&[1.0, -2.0, 3.0]).tracked();
    let h = x.tanh()?.relu()?;
    let product = h.reshape([1, 3])?.matmul(&vector(&[0.5, 1.0, -1.0]).reshape([3, 1])?)?;
    let loss = (product.sum_all()? + h.sqr()?.sum_all()?)?;
    let h_grad = |grads: &Gradients<Unscaled>| grads.get(&h)?.expect("the target has one").to_vec();
    let want = [0.5 + 2.0 * 1.0_f32.tanh(), 1.0, -1.0 + 2.0 * 3.0_f32.tanh()];
    let near = |found: Vec<f32>| found.iter().zip(want).all(|(a, b)| (a - b).abs() <= 4.0 * f32::EPSILON);
    assert!(near(h_grad(&loss.backward_for_retained([&h])?)?));
    // Behind it too: relu's output is on the way, and its gradient is whole all the same.
    let both = loss.backward_for_retained([&h, &x])?;
    assert!(near(h_grad(&both)?) && both.get(&x)?.is_some());
    assert!(near(h_grad(&loss.backward_for([&h])?)?));
    // What `h` was made of was not walked.
    assert!(h.sum_all()?.backward()?.get(&x)?.is_some());
    Ok(())
}

#[test]
fn losses_are_weighed_by_gradients_of_a_layer_before_their_sum_is_walked() -> Result<()> {
    let _turn = turn();
    let (a, b) = (vector(&[1.0, 0.5]).tracked(), vector(&[2.0, -1.0]).tracked());
    let losses = || -> Result<_> {
        let y = (a.exp()? * &b)?;
        Ok((y.sqr()?.sum_all()?, y.tanh()?.sum_all()?))
    };
    let (one, other) = losses()?;
    let norm = |loss: &Tensor<F32>| loss.backward_for_retained([&b])?.norm()?.item();
    let share = norm(&one)? / norm(&other)?;
    let mut scaler = GradScaler::new(&Device::cpu())?;
    let again = scaler.scale(&other)?.backward_for_retained([&b])?;
    assert!((scaler.unscale(again)?.norm()?.item()? * share / norm(&one)? - 1.0).abs() < 1e-6);
    let grads = (one + (other * share)?)?.backward()?;
    let (one, other) = losses()?;
    let want = (one + (other * share)?)?.backward()?;
    for of in [&a, &b] {
        assert_eq!(grads.get(of)?.unwrap().to_vec()?, want.get(of)?.unwrap().to_vec()?);
    }
    Ok(())
}

#[test]
fn intermediate_gradients_are_reported_on_request() -> Result<()> {
    let _turn = turn();
    let x = vector(&[1.0, -1.0]).tracked();
    let h = (&x * 3.0)?;
    h.retain_grad();
    let grads = (&h * &h)?.sum_all()?.backward()?;
    assert_eq!(grads.get(&h)?.unwrap().to_vec()?, [6.0, -6.0]);
    assert_eq!(grads.get(&x)?.unwrap().to_vec()?, [18.0, -18.0]);
    Ok(())
}

#[test]
fn no_grad_records_nothing_and_ends_with_a_panic_too() {
    let _turn = turn();
    let x = vector(&[1.0]).tracked();
    assert!(!no_grad(|| x.tanh()).unwrap().requires_grad());
    let _ = std::panic::catch_unwind(|| no_grad(|| panic!("inside")));
    assert!(grad_enabled() && x.tanh().unwrap().requires_grad());
}

#[test]
fn an_f16_graph_needs_a_scaler_before_any_arithmetic() -> Result<()> {
    let _turn = turn();
    let x = vector(&[1.0]).tracked();
    let loss = x.to::<F16>()?.tanh()?.to::<F32>()?.sum_all()?;
    let error = loss.backward().unwrap_err();
    assert!(matches!(error, Error::NeedsScaler { op: "tanh", .. }), "{error}");
    let loss = x.to::<BF16>()?.tanh()?.to::<F32>()?.sum_all()?;
    assert!(loss.backward().is_ok(), "BF16 has the range of F32");
    Ok(())
}

#[test]
fn losses_must_be_single_values_with_a_graph() -> Result<()> {
    let _turn = turn();
    let x = vector(&[1.0, 2.0]);
    assert!(matches!(x.tracked().backward().unwrap_err(), Error::LossNotScalar { .. }));
    assert!(matches!(x.sum_all()?.backward().unwrap_err(), Error::NoGraph));
    Ok(())
}

#[test]
fn gradients_are_given_to_what_has_none() -> Result<()> {
    let _turn = turn();
    let (a, b) = (Parameter::new(&vector(&[1.0, 2.0]))?, Parameter::new(&vector(&[3.0]))?);
    let mut grads: Gradients = Gradients::accumulator();
    grads.set(&a, &vector(&[0.5, -0.5]))?;
    let mut others = (a.tensor() * 2.0)?.sum_all()?.backward()?;
    others.set(&b, &vector(&[4.0]))?;
    grads.add(others)?;
    assert_eq!(grads.get(&a)?.unwrap().to_vec()?, [2.5, 1.5]);
    let mut opt = Sgd::new([a.clone(), b.clone()], 0.5);
    opt.step(&grads)?;
    assert_eq!((a.to_vec()?, b.to_vec()?), (vec![-0.25, 1.25], vec![1.0]));

    let error = grads.set(&a, &vector(&[1.0])).unwrap_err();
    assert_eq!(error.to_string(), "set: the new gradient must have shape [2], found [1]");
    let error = grads.set(&vector(&[1.0]), &vector(&[1.0])).unwrap_err();
    assert_eq!(error.to_string(), "set: of must be a parameter or a tracked tensor, found one that is not tracked");
    Ok(())
}

#[test]
fn a_gradient_that_is_given_hides_no_overflow() -> Result<()> {
    let _turn = turn();
    let (a, b) = (Parameter::new(&vector(&[1.0]))?, Parameter::new(&vector(&[3.0]))?);
    let mut opt = Sgd::new([a.clone(), b.clone()], 0.5);
    let mut scaler = GradScaler::new(&Device::cpu())?;
    for (factor, taken) in [(f64::INFINITY, false), (1.0, true)] {
        for replaced in [false, true] {
            let loss = (a.tensor() * factor)?.sum_all()?;
            let mut grads = scaler.unscale(scaler.scale(&loss)?.backward()?)?;
            if replaced {
                grads.set(&a, &vector(&[0.0]))?;
            }
            grads.set(&b, &vector(&[1.0]))?;
            assert_eq!(scaler.step(&mut opt, grads)?.was_taken()?, taken, "{factor} {replaced}");
            scaler.update()?;
        }
    }
    assert_eq!((a.to_vec()?, b.to_vec()?), (vec![0.5], vec![2.0]));
    Ok(())
}

#[test]
fn what_is_broadcast_gets_the_rounded_sum_of_its_gradient() -> Result<()> {
    let _turn = turn();
    let device = Device::cpu();
    let leaf = Tensor::<BF16>::full([1], half::bf16::ONE, &device)?.tracked();
    // Rounded to BF16, the seeds would cancel.
    let seeds = Tensor::<F32>::from_slice(&[1.001, -1.0], [2, 1], &device)?;
    let sum = half::bf16::from_f32(1.001f32 - 1.0);
    let ones = Tensor::<F32>::full([2, 1], 1.0, &device)?;
    let zeros = Tensor::<F32>::zeros([2, 1], &device)?;
    let twice = (&ones * 2.0)?;
    let yes = twice.gt(&ones)?;
    let b = leaf.to::<F32>()?;
    for (name, y, slope) in [
        ("add", (&ones + &b)?, 1.0),
        ("sub", (&ones - &b)?, -1.0),
        ("mul", (&ones * &b)?, 1.0),
        ("div", (&b / &ones)?, 1.0),
        ("div by it", (&ones / &b)?, -1.0),
        ("pow", b.pow(&ones)?, 1.0),
        ("pow by it", (&ones * 1f32.exp())?.pow(&b)?, 1f32.exp()),
        ("maximum", zeros.maximum(&b)?, 1.0),
        ("where", yes.where_(&b, &ones)?, 1.0),
        ("masked_fill", b.masked_fill(&twice.lt(&ones)?, 0.0)?, 1.0),
        ("prelu", (-&ones)?.prelu(&b)?, -1.0),
        ("lerp from it", b.lerp(&ones, &zeros)?, 1.0),
        ("lerp to it", ones.lerp(&b, &ones)?, 1.0),
        ("lerp by it", ones.lerp(&twice, &b)?, 1.0),
        ("addcmul", ones.addcmul(&b, &ones, 1.0)?, 1.0),
        ("addcdiv", ones.addcdiv(&b, &ones, 1.0)?, 1.0),
        ("addcdiv by it", ones.addcdiv(&ones, &b, 1.0)?, -1.0),
    ] {
        let grad = y.backward_with(&seeds)?.get(&leaf)?.unwrap().to_vec()?[0].to_f32();
        let expected = sum.to_f32() * slope;
        // Half a unit of BF16 from the sum's rounding, and the slope's own.
        assert!((grad - expected).abs() <= expected.abs() / 256.0, "{name}: {grad} instead of {expected}");
    }
    Ok(())
}

#[test]
fn a_trunk_that_saves_nothing_serves_a_second_loss() -> Result<()> {
    let _turn = turn();
    type Trunk = fn(&Tensor<F32>) -> Result<Tensor<F32>>;
    let trunks: [(&str, Trunk); 20] = [
        ("add", |x| x + 1.0),
        ("mul", |x| x * 3.0),
        ("div", |x| x / 3.0),
        ("neg", |x| x.neg()),
        ("sub", |x| x - &x.detach()),
        ("sum", |x| x.sum([0], true)),
        ("mean", |x| x.mean([1], true)),
        ("reshape", |x| x.reshape([3, 2])),
        ("permute", |x| x.permute([1, 0])),
        ("narrow", |x| x.narrow(1, 1, 2)),
        ("select", |x| x.select(0, 1)),
        ("expand", |x| x.unsqueeze(0)?.expand([4, 2, 3])),
        ("contiguous", |x| x.transpose(0, 1)?.contiguous()),
        ("cat", |x| Tensor::cat(&[x, &x.detach(), x], 1)),
        ("stack", |x| Tensor::stack(&[x, x], 0)),
        ("flip", |x| x.flip([1])),
        ("roll", |x| x.roll([1], [1])),
        ("pad", |x| x.pad([1, 2], 0.0)),
        ("repeat", |x| x.repeat([2, 1])),
        ("to", |x| x.to::<BF16>()?.to::<F32>()),
    ];
    for (name, trunk) in trunks {
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &Device::cpu())?.tracked();
        let once = trunk(&x)?.sum_all()?.backward()?.get(&x)?.unwrap().to_vec()?;
        let h = trunk(&x)?;
        let (first, second) = ((&h * 2.0)?.sum_all()?, h.sum_all()?);
        let _ = first.backward()?;
        let again = second.backward().unwrap_or_else(|error| panic!("{name}: {error}")).get(&x)?.unwrap().to_vec()?;
        assert_eq!(once, again, "{name}");
    }
    Ok(())
}
