//! PyTorch's own tests of autocast, under the numbers of the project's list, where the behaviour can exist here. (Those of
//! the scaler stand with it; 36 to 44, that each operation of a region is the operation on operands cast by hand, are
//! `tests/contract`.)

use amp::nn::{Gru, Linear, Lstm};
use amp::prelude::*;
use amp::{DType, checkpoint, manual_seed};
use std::sync::Mutex;

fn device() -> Device {
    Device::best()
}

#[autocast(f16)]
fn product(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    x.matmul(w)
}

#[test]
fn s45_f64_is_never_touched() -> Result<()> {
    #[autocast(f16)]
    fn region(x: &Tensor<F64>, y: &Tensor<F64>) -> Result<Tensor<F64>> {
        x.matmul(y)?.pow(2.0)?.sum_all()
    }
    let x = Tensor::<F64>::from_vec(vec![1e-9, 1.0, 3.0, 1e9], [2, 2], &device())?;
    let by_hand = x.matmul(&x)?.pow(2.0)?.sum_all()?;
    assert_eq!(region(&x, &x)?.item()?.to_bits(), by_hand.item()?.to_bits());
    Ok(())
}

#[test]
fn s46_recurrent_layers_run_in_the_regions_precision() -> Result<()> {
    #[autocast(P)]
    fn run<P: AutocastPrecision>(lstm: &Lstm, gru: &Gru, x: &Tensor<F32>) -> Result<(Tensor<P>, Tensor<P>)> {
        let (y, _) = lstm.forward(x)?;
        gru.forward(&y)
    }
    manual_seed(46);
    for both in [false, true] {
        let sides = 1 + usize::from(both);
        let lstm = Lstm::stacked(5, 6, 2, both, &device())?;
        let gru = Gru::stacked(6 * sides, 6, 2, both, &device())?;
        let x = Tensor::<F32>::randn([4, 3, 5], &device())?;
        let (full, _) = run::<F32>(&lstm, &gru, &x)?;
        let (half, state) = run::<F16>(&lstm, &gru, &x)?;
        assert_eq!(
            (half.stored_dtype(), half.dims(), state.dims()),
            (DType::F16, full.dims(), [2 * sides, 4, 6].as_slice())
        );
        let by_hand = gru.forward(&lstm.forward(&x.to::<F16>()?)?.0)?.0;
        assert_eq!(half.to_vec()?, by_hand.to_vec()?, "bit for bit");
        for (h, f) in half.to::<F32>()?.to_vec()?.iter().zip(full.to_vec()?) {
            let diff = (h - f).abs();
            assert!(diff <= 1e-2, "{h} and {f}");
        }
    }
    Ok(())
}

#[test]
fn s49_a_function_of_its_own_precision_inside_a_region() -> Result<()> {
    fn in_full(x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(x)
    }
    #[autocast(f16)]
    fn region(x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.matmul(x)?;
        let wide = amp_region!(f32, { in_full(&h.to::<F32>()?)? });
        wide.sqr()
    }
    let x = Tensor::<F32>::full([2, 2], 128.0, &device())?;
    // 2^15 still fits in F16; its product with itself does not.
    assert_eq!(region(&x)?.to_vec()?, [2f32.powi(62); 4]);
    Ok(())
}

#[test]
fn s52_a_weight_is_cast_once() -> Result<()> {
    let layer = Linear::new(4, 4, &device())?;
    #[autocast(f16)]
    fn twice(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F16>> {
        layer.forward(&layer.forward(x)?)
    }
    let x = Tensor::<F32>::ones([1, 4], &device())?;
    let (a, b) = (twice(&layer, &x)?, twice(&layer, &x)?);
    assert_eq!(a.to_vec()?, b.to_vec()?);
    // A new value is seen at once.
    layer.weight().set(&Tensor::zeros([4, 4], &device())?)?;
    let bias = layer.bias().expect("by default").to::<F16>()?.to_vec()?;
    assert_eq!(twice(&layer, &x)?.to_vec()?, bias);
    Ok(())
}

#[test]
fn s56_no_gradients_inside_and_around_a_region() -> Result<()> {
    let w = Parameter::new(&Tensor::ones([2, 2], &device())?)?;
    let x = Tensor::<F32>::ones([2, 2], &device())?;
    let around = no_grad(|| product(&x, &w.tensor()))?;
    assert!(!around.requires_grad() && around.dtype() == DType::F16);
    let trained = product(&x, &w.tensor())?;
    assert!(trained.requires_grad());
    Ok(())
}

#[test]
fn s59_scattered_values_meet_at_one_precision_in_the_backward_pass_too() -> Result<()> {
    #[autocast(bf16)]
    fn region(base: &Tensor<F32>, index: &Tensor<I64>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let src = w.matmul(w)?;
        base.scatter_add(0, index, &src)?.sum_all()
    }
    let w = Parameter::new(&Tensor::ones([2, 2], &device())?)?;
    let base = Tensor::<F32>::zeros([3, 2], &device())?.tracked();
    let index = Tensor::<I64>::from_vec(vec![0, 2, 0, 1], [2, 2], &device())?;
    let grads = region(&base, &index, &w.tensor())?.backward()?;
    assert_eq!(grads.get(&base)?.expect("tracked").to_vec()?, [1.0; 6]);
    assert_eq!(grads.get(&w)?.expect("a parameter").to_vec()?, [4.0; 4]);
    Ok(())
}

/// The precisions in which a checkpointed part ran, first and again.
static RAN: Mutex<Vec<DType>> = Mutex::new(Vec::new());

#[test]
fn s66_s67_recomputation_runs_in_the_same_precision() -> Result<()> {
    #[autocast(bf16)]
    fn part(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<BF16>> {
        x.matmul(w)
    }
    let w = Parameter::new(&Tensor::full([8, 8], 0.1, &device())?)?;
    let x = Tensor::<F32>::ones([1, 8], &device())?;
    let gradient = |checked: bool| -> Result<Vec<f32>> {
        let inner = w.clone();
        let f = move |x: &Tensor<F32>| {
            let y = part(x, &inner.tensor())?;
            RAN.lock().expect("no panic while locked").push(y.stored_dtype());
            Ok(y)
        };
        let y = if checked { checkpoint(f, &x)? } else { f(&x)? };
        assert!(y.requires_grad() && y.dtype() == DType::BF16);
        let grads = y.to::<F32>()?.sqr()?.sum_all()?.backward()?;
        grads.get(&w)?.expect("a parameter").to_vec()
    };
    assert_eq!(gradient(true)?, gradient(false)?);
    assert_eq!(*RAN.lock().expect("no panic while locked"), [DType::BF16; 3]);
    Ok(())
}
