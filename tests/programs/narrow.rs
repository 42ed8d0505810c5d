//! Narrow values that others are given stay narrow where it is seen who takes them.

use amp::DType;
use amp::nn::Linear;
use amp::prelude::*;
use std::mem::{swap, take};

struct Cell {
    h: Tensor<F16>,
}

impl Cell {
    fn new(h: Tensor<F16>) -> Self {
        Self { h }
    }
}

struct Head {
    seen: Vec<f64>,
}

impl Head {
    fn softmax(&mut self, log: &mut Vec<f64>, by: f64) {
        self.seen.push(by);
        log.push(by);
    }
}

fn temperature() -> f64 {
    0.5
}

#[autocast(f16)]
fn state(state: &mut Tensor<F16>, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut next = x.matmul(w)?;
    std::mem::swap(&mut next, state);
    next.matmul(w)
}

#[autocast(f16)]
fn swapped(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    let (mut a, mut b) = (x.matmul(w)?, w.matmul(w)?);
    swap(&mut a, &mut b);
    a + b
}

#[autocast(f16)]
fn taken(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Vec<Tensor<F16>>> {
    let mut list = vec![x.matmul(w)?];
    Ok(take(&mut list))
}

#[autocast(f16)]
fn by_closure(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    let halve = |h: &mut Tensor<F16>| -> Result<()> {
        *h = (&*h * 0.5)?;
        Ok(())
    };
    let mut h = x.matmul(w)?;
    halve(&mut h)?;
    Ok(h)
}

#[autocast(f16)]
fn zipped(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Vec<Tensor<F16>>> {
    let mut hs = vec![w.matmul(w)?, w.matmul(w)?];
    for (x, h) in xs.iter().zip(&mut hs) {
        *h = h.matmul(x)?;
    }
    Ok(hs)
}

#[autocast(f16)]
fn of_ones_own(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Cell> {
    let cell = Cell::new(x.matmul(w)?);
    Ok(cell)
}

#[autocast(f16)]
fn logged(head: &mut Head, log: &mut Vec<f64>, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    head.softmax(log, temperature());
    log.push(1.0);
    x.matmul(x)
}

#[autocast(f16)]
fn pieces(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    fn skip_one(it: &mut impl Iterator) {
        it.next();
    }
    let hs = x.matmul(w)?.chunk(2, 0)?;
    let mut it = hs.chunks(1);
    skip_one(&mut it);
    Ok(it.next().expect("two")[0].clone())
}

#[test]
fn runs() -> Result<()> {
    let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
    let mut half = x.to::<F16>()?;
    assert_eq!(state(&mut half, &x, &x)?.to_vec()?, [2.0; 4]);
    assert_eq!(half.to::<F32>()?.to_vec()?, [2.0; 4]);
    assert_eq!(swapped(&x, &x)?.to::<F32>()?.to_vec()?, [4.0; 4]);
    assert_eq!(taken(&x, &x)?.len(), 1);
    assert_eq!(by_closure(&x, &x)?.to::<F32>()?.to_vec()?, [1.0; 4]);
    assert_eq!(zipped(&[x.clone(), x.clone()], &x)?[1].to::<F32>()?.to_vec()?, [4.0; 4]);
    assert_eq!(of_ones_own(&x, &x)?.h.to::<F32>()?.to_vec()?, [2.0; 4]);
    let (mut head, mut log) = (Head { seen: Vec::new() }, Vec::new());
    logged(&mut head, &mut log, &x)?;
    assert_eq!((head.seen, log), (vec![0.5], vec![0.5, 1.0]));
    assert_eq!(pieces(&x, &x)?.dims(), [1, 2]);
    Ok(())
}

/// Holds what it is given, in its precision.
struct State<P: Float> {
    h: Tensor<P>,
}

#[autocast(f16)]
fn activated_in_a_field(fc: &Linear, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut state = State { h: fc.forward(x)? };
    state.h = state.h.relu()?;
    state.h = state.h.abs()?;
    state.h.matmul(w)
}

/// Notes the precision that it runs in.
#[derive(Default)]
struct Noting(std::cell::Cell<Option<DType>>);

impl Noting {
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        self.0.set(Some(P::DTYPE));
        Ok(x.clone())
    }
}

#[autocast(f16)]
fn activated_for_a_module(fc: &Linear, module: &Noting, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = fc.forward(x)?.relu()?;
    module.forward(&h)
}

#[test]
fn an_activation_of_what_a_module_gave_keeps_its_precision() -> Result<()> {
    let cpu = Device::cpu();
    let (fc, x, w) = (Linear::new(4, 4, &cpu)?, Tensor::randn([3, 4], &cpu)?, Tensor::randn([4, 2], &cpu)?);
    let h = fc.forward(&x.to::<F16>()?)?.relu()?;
    let by_hand = h.matmul(&w.to::<F16>()?)?.to::<F32>()?;
    assert_eq!(activated_in_a_field(&fc, &x, &w)?.to_vec()?, by_hand.to_vec()?);
    let noting = Noting::default();
    assert_eq!(activated_for_a_module(&fc, &noting, &x)?.to_vec()?, h.to::<F32>()?.to_vec()?);
    assert_eq!(noting.0.get(), Some(DType::F16));
    Ok(())
}
