//! Random forward functions: each equals its twin with casts by hand, bit for bit, values and gradients.

use amp::nn::{LayerNorm, Linear};
use amp::prelude::*;
use std::sync::{LazyLock, Mutex, PoisonError};

/// What every function looks like.
pub type Forward = fn(&Tensor<F32>, &Tensor<F32>, &Tensor<F32>, usize) -> Result<Tensor<F32>>;

#[allow(warnings, clippy::all)] // random code has needless clones, parentheses and unused variables
mod functions {
    use super::{Forward, Held, NET, Own, Pick, helper, log_softmax, now};
    use amp::functional::{rms_norm, softmax};
    use amp::prelude::*;
    use std::collections::HashMap;
    include!(concat!(env!("OUT_DIR"), "/functions.rs"));
}

/// What functions put tensors into.
struct Held {
    one: Tensor<F32>,
    boxed: Box<Tensor<F32>>,
    #[allow(dead_code)] // a field that is no tensor's own
    maybe: Option<Tensor<F32>>,
    all: Vec<Tensor<F32>>,
}

enum Pick {
    One(Tensor<F32>),
    Other { it: Tensor<F32> },
}

/// Modules that functions call.
struct Net {
    fc: Linear,
    norm: LayerNorm,
    layers: Vec<Linear>,
}

static NET: LazyLock<Net> = LazyLock::new(|| {
    let linear = || Linear::new(4, 4, &Device::cpu()).expect("a layer of 4 by 4");
    let norm = LayerNorm::new([4], &Device::cpu()).expect("a norm of 4");
    Net { fc: linear(), norm, layers: vec![linear(), linear()] }
});

/// What functions call that is no operation.
struct Own;

impl Own {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x * 0.75
    }

    fn apply(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x + 0.1
    }
}

fn helper(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

/// The user's own.
fn log_softmax(x: &Tensor<F32>, axis: isize) -> Result<Tensor<F32>> {
    x.log_softmax(axis)? * 0.3
}

/// What a future that never waits gives.
fn now<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => unreachable!("nothing to wait for"),
    }
}

/// Output and gradients as bits.
type Bits = Vec<Vec<u32>>;

fn bits(x: &Tensor<F32>) -> Result<Vec<u32>> {
    Ok(x.to_vec()?.into_iter().map(f32::to_bits).collect())
}

fn run(forward: Forward, k: usize, gradients: bool) -> Result<Bits> {
    amp::manual_seed(7);
    let leaf = || Ok(Tensor::<F32>::uniform([4, 4], -1.0, 1.0, &Device::cpu())?.tracked());
    let leaves: [Tensor<F32>; 3] = [leaf()?, leaf()?, leaf()?];
    let [a, b, c] = &leaves;
    let y = forward(a, b, c, k)?;
    let mut all = vec![bits(&y)?];
    if gradients && y.requires_grad() {
        let mut scaler = GradScaler::builder().init_scale(8.0).build(&Device::cpu())?;
        let grads = scaler.scale(&y.sum_all()?)?.backward()?;
        let grads = scaler.unscale(grads)?;
        for leaf in &leaves {
            all.push(grads.get(leaf)?.map_or(Ok(Vec::new()), |grad| bits(&grad))?);
        }
    }
    Ok(all)
}

/// The random state is the program's: one test at a time.
static RANDOM: Mutex<()> = Mutex::new(());

#[test]
fn every_function_equals_its_twin() {
    let _alone = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = env!("AMP_GENERATED_SEED");
    println!("AMP_SEED={seed}");
    let mut faults = Vec::new();
    for (name, region, by_hand, gradients) in functions::ALL {
        for k in 0..5 {
            let both = run(*region, k, *gradients).and_then(|one| Ok((one, run(*by_hand, k, *gradients)?)));
            match both {
                Ok((one, two)) if one == two => {}
                Ok((one, two)) => faults.push(format!("{name}({k}): {one:x?}, by hand {two:x?}")),
                Err(error) => faults.push(format!("{name}({k}): {error}")),
            }
        }
    }
    assert!(faults.is_empty(), "AMP_SEED={seed}\n{}", faults.join("\n"));
    let gradients = functions::ALL.iter().filter(|(.., gradients)| *gradients).count();
    assert!(gradients > functions::ALL.len() / 8, "only {gradients} functions compare gradients");
}

/// Allocations on this thread during one call, after one that fills what is kept between calls.
fn allocations(forward: Forward, leaves: &[Tensor<F32>; 3], k: usize) -> Result<u64> {
    let [a, b, c] = leaves;
    forward(a, b, c, k)?;
    let mut result = None;
    let counted = allocation_counter::measure(|| result = Some(forward(a, b, c, k)));
    result.expect("it was called").map(|_| counted.count_total)
}

/// A region allocates nothing that casts by hand would not: no more memory, no more nodes of the graph.
#[test]
fn no_function_allocates_more_than_its_twin() -> Result<()> {
    let _alone = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
    println!("AMP_SEED={}", env!("AMP_GENERATED_SEED"));
    let leaf = || Ok(Tensor::<F32>::uniform([4, 4], -1.0, 1.0, &Device::cpu())?.tracked());
    let leaves = [leaf()?, leaf()?, leaf()?];
    let (mut faults, mut all) = (Vec::new(), 0);
    for (name, region, by_hand, _) in functions::ALL {
        for k in 0..5 {
            let (one, two) = (allocations(*region, &leaves, k)?, allocations(*by_hand, &leaves, k)?);
            all += one;
            if one > two {
                faults.push(format!("{name}({k}): {one}, by hand {two}"));
            }
        }
    }
    assert!(faults.is_empty(), "AMP_SEED={}\n{}", env!("AMP_GENERATED_SEED"), faults.join("\n"));
    assert!(all > 0, "nothing was counted");
    Ok(())
}
