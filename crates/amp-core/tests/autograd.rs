//! The graph: what it records, what it frees, what it refuses.

use amp_core::nn::{BatchNorm2d, LayerNorm};
use amp_core::optim::Sgd;
use amp_core::{
    BF16, ConvOptions, Device, Error, F16, F32, Float, GradScaler, Gradients, Optimizer, Parameter, Result, Tensor,
    Unscaled, grad_enabled, no_grad, saved_bytes,
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
    assert!(error.to_string().contains("autograd.rs"), "names the user's line: {error}");
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
fn parameters_share_one_16_bit_copy_and_keep_f32_gradients() -> Result<()> {
    let _turn = turn();
    let w = Parameter::new(&vector(&[1.0, 2.0, 3.0]))?;
    let loss = (w.to::<BF16>()?.tanh()? * 2.0)?.to::<F32>()?.sum_all()?;
    let grad = loss.backward()?.get(&w)?.unwrap();
    assert_eq!((grad.dtype(), grad.stored_dtype()), (w.tensor().dtype(), w.tensor().dtype()));
    let before = w.tensor();
    w.set(&vector(&[4.0, 5.0, 6.0]))?;
    assert_eq!(before.to_vec()?, [1.0, 2.0, 3.0], "a tensor taken earlier does not change");
    assert_eq!(w.to::<BF16>()?.to_vec()?.iter().map(|v| v.to_f32()).collect::<Vec<_>>(), [4.0, 5.0, 6.0]);
    w.set_trainable(false);
    assert!(!w.tensor().requires_grad());
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

/// Gradients of `x` and of the weight, bytes held before the product, after it, and after the output is dropped.
fn rectified(x: &Tensor<F32>, w: &Parameter, narrow: bool) -> Result<(Vec<f32>, Vec<f32>, usize)> {
    let before = saved_bytes().now;
    let y = (x * 1.0)?.relu()?;
    let product = match narrow {
        true => y.to::<BF16>()?.matmul(&w.tensor().to::<BF16>()?)?.to::<F32>()?,
        false => y.matmul(&w.tensor())?,
    };
    let loss = (product.sum_all()? + (&y * 0.5)?.sum_all()?)?;
    drop((y, product));
    let held = saved_bytes().now - before;
    let grads = loss.backward()?;
    Ok((grads.get(x)?.unwrap().to_vec()?, grads.get(w)?.unwrap().to_vec()?, held))
}

#[test]
fn relu_keeps_bits_where_a_16_bit_copy_takes_its_output() -> Result<()> {
    let _turn = turn();
    let device = Device::cpu();
    // Small integers are exact in BF16, so both runs compute the same numbers.
    let x = Tensor::<F32>::from_fn([32, 8], |i| ((i[0] * 7 + i[1] * 3) % 9) as f32 - 4.0, &device)?.tracked();
    let w = Parameter::new(&Tensor::from_fn([8, 4], |i| (i[0] + i[1]) as f32 - 3.0, &device)?)?;
    let (wide, narrow) = (rectified(&x, &w, false)?, rectified(&x, &w, true)?);
    assert_eq!((wide.0, wide.1), (narrow.0, narrow.1));
    assert_eq!(wide.2, 4 * 32 * 8);
    assert_eq!(narrow.2, 32 * 8 / 8 + 2 * 32 * 8, "bits for relu and the copy for the product");
    let odd = Tensor::<F32>::from_vec(vec![f32::NAN, -0.0, 1e-30, -1.0], [1, 4], &device)?.tracked();
    let y = odd.relu()?;
    let sum = (y.to::<F16>()?.to::<F32>()?.sum_all()? + y.sum_all()?)?;
    assert_eq!(sum.backward()?.get(&odd)?.unwrap().to_vec()?, [2.0, 0.0, 2.0, 0.0]);
    Ok(())
}

#[test]
fn a_product_keeps_the_input_of_an_activation_and_not_its_output() -> Result<()> {
    let _turn = turn();
    let device = Device::cpu();
    let [up, down] = [[48, 16], [16, 48]].map(|size| Parameter::new(&Tensor::<F32>::full(size, 0.1, &device).unwrap()));
    let (up, down) = (up?, down?);
    let x = Tensor::<F32>::full([32, 16], 1.0, &device)?.to::<BF16>()?;
    let before = saved_bytes().now;
    let hidden = x.linear(&up.to::<BF16>()?, None)?;
    let held = saved_bytes().now - before;
    let y = hidden.gelu()?.linear(&down.to::<BF16>()?, None)?;
    assert_eq!(saved_bytes().now - before, held + 2 * 32 * 48);
    drop(hidden);
    let grads = y.to::<F32>()?.sum_all()?.backward()?;
    assert_eq!(saved_bytes().now, before);
    assert!(grads.get(&up)?.is_some() && grads.get(&down)?.is_some());
    Ok(())
}

#[test]
fn a_convolution_of_volumes_keeps_them_and_not_the_slices_under_its_kernel() -> Result<()> {
    let _turn = turn();
    let x = ramp::<BF16>(&[2, 8, 6, 8], 0.25)?.reshape([1, 2, 8, 6, 8])?.tracked();
    let w = Parameter::new(&ramp(&[4, 2, 3, 3], 0.125)?.reshape([4, 2, 3, 3, 1])?)?;
    for transposed in [false, true] {
        let before = saved_bytes().now;
        let y = x.relu()?;
        let held = saved_bytes().now - before;
        let options = ConvOptions::<3>::default().padding(1);
        let w = w.to::<BF16>()?;
        let z = if transposed {
            y.conv_transpose3d(&w.permute([1, 0, 2, 3, 4])?, None, options)?
        } else {
            y.conv3d(&w, None, options)?
        };
        // Relu keeps its output, too.
        let bytes = 2 * (w.count() + y.count());
        assert!(saved_bytes().now - before <= held + bytes, "{} bytes", saved_bytes().now - before - held);
        drop(y);
        let grads = z.to::<F32>()?.sum_all()?.backward()?;
        assert_eq!(saved_bytes().now, before);
        assert!(grads.get(&x)?.is_some());
    }
    Ok(())
}

/// `scale * (i mod 11 - 5)`: exact in BF16 for the scales used here.
fn ramp<P: Float>(shape: &[usize], scale: f32) -> Result<Tensor<P>> {
    let strides = [7, 3, 5, 2];
    let at = |i: &[usize]| scale * ((i.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>() % 11) as f32 - 5.0);
    Tensor::<F32>::from_fn(shape, at, &Device::cpu())?.to::<P>()
}

/// The weight's gradient of what `product` makes of `y`, and the bytes that are held for it.
fn through<P: Float>(
    y: &Tensor<P>,
    w: &Parameter,
    product: impl Fn(&Tensor<P>, &Tensor<P>) -> Result<Tensor<P>>,
) -> Result<(Vec<f32>, usize)> {
    let before = saved_bytes().now;
    let z = product(y, &w.to::<P>()?)?;
    let held = saved_bytes().now - before;
    let slopes = ramp::<F32>(z.dims(), 0.5)?;
    let grads = z.to::<F32>()?.backward_with(&slopes)?;
    Ok((grads.get(w)?.unwrap().to_vec()?, held))
}

fn normalised_again<P: Float>(computed: bool) -> Result<()> {
    let device = Device::cpu();
    let image = ramp::<P>(&[4, 8, 6, 5], 0.25)?.tracked();
    let norm = BatchNorm2d::new(8, &device)?;
    let w = Parameter::new(&ramp(&[4, 8, 3, 3], 0.125)?)?;
    let conv = |x: &Tensor<P>, w: &Tensor<P>| x.conv2d(w, None, ConvOptions::default().padding(1));
    let y = norm.forward_relu(&image)?.to::<P>()?;
    let held = y.to::<F32>()?.to_vec()?;
    let held = Tensor::<F32>::from_vec(held, y.dims(), &device)?.to::<P>()?;
    let bytes = y.count() * P::DTYPE.size();
    let (again, kept) = (through(&y, &w, conv)?, through(&held, &w, conv)?);
    assert_eq!((again.0, again.1, kept.1), (kept.0, if computed { 0 } else { bytes }, bytes));

    let lines = ramp::<P>(&[3, 10, 48], 0.25)?.tracked();
    let norm = LayerNorm::new([48], &device)?;
    let w = Parameter::new(&ramp(&[24, 48], 0.125)?)?;
    let linear = |x: &Tensor<P>, w: &Tensor<P>| x.linear(w, None);
    let y = norm.forward(&lines)?.to::<P>()?;
    let held = Tensor::<F32>::from_vec(y.to::<F32>()?.to_vec()?, y.dims(), &device)?.to::<P>()?;
    let bytes = y.count() * P::DTYPE.size();
    let (again, kept) = (through(&y, &w, linear)?, through(&held, &w, linear)?);
    assert_eq!((again.0, again.1, kept.1), (kept.0, if computed { 0 } else { bytes }, bytes));
    Ok(())
}

#[test]
fn a_product_computes_what_was_normalised_in_16_bits_again_to_the_same_bits() -> Result<()> {
    let _turn = turn();
    normalised_again::<F16>(true)?;
    normalised_again::<BF16>(true)?;
    normalised_again::<F32>(false)
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
