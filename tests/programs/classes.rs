//! Classes that an attribute lists hold for operators and for what joins lists, as for methods.

use amp::DType;
use amp::nn::{Gelu, LayerNorm, Linear, Relu};
use amp::prelude::*;

use super::T;

fn dtype<P: Float>(_: &Tensor<P>) -> DType {
    P::DTYPE
}

#[autocast(f16, full(cat, stack, neg, add))]
fn full(x: &Tensor<F32>) -> Result<[DType; 5]> {
    let h = x.matmul(x)?;
    let (joined, stacked) = (Tensor::cat(&[&h, &h], 0)?, Tensor::stack(&[h.clone(), h.clone()], 0)?);
    let (negated, sum, method) = ((-&h)?, (&h + &h)?, h.neg()?);
    Ok([dtype(&joined), dtype(&stacked), dtype(&negated), dtype(&sum), dtype(&method)])
}

#[autocast(f16, lower(cat, stack, neg, sub))]
fn lower(x: &Tensor<F32>, h: &Tensor<F16>) -> Result<[DType; 5]> {
    let (joined, stacked) = (Tensor::cat(&[x, x], 0)?, Tensor::stack(&[x.clone(), x.matmul(x)?.exp()?], 0)?);
    let mixed = Tensor::cat(&[&h.clone(), &x.exp()?], 0)?;
    let (negated, difference) = ((-x)?, (1.0 - x)?);
    Ok([dtype(&joined), dtype(&stacked), dtype(&mixed), dtype(&negated), dtype(&difference)])
}

/// Numbers are no tensors, whatever the class of an operator is.
#[autocast(f16, lower(add, neg))]
fn numbers(x: &Tensor<F32>, n: i64) -> Result<(Tensor<F32>, i64)> {
    let n = -n + 1;
    Ok(((x + n as f64)?.to::<F32>()?, -n))
}

#[test]
fn listed_classes_hold_for_operators_and_lists() -> Result<()> {
    let x = T::ones([2, 2], &Device::cpu())?;
    assert_eq!(full(&x)?, [DType::F32; 5]);
    assert_eq!(lower(&x, &x.to()?)?, [DType::F16; 5]);
    let (y, n) = numbers(&x, 3)?;
    assert_eq!((y.to_vec()?, n), (vec![-1.0; 4], 2));
    Ok(())
}

/// References that a variable holds are cast as what they refer to.
#[autocast(f16, full(cat), lower(stack))]
fn of_references(x: &Tensor<F32>, ids: &Tensor<I64>) -> Result<([DType; 5], Vec<i64>)> {
    let (h, e) = (x.matmul(x)?, x.exp()?);
    let (vector, array) = (vec![&h, &h], [&h, &h]);
    let collected: Vec<_> = [&e, &e].into_iter().collect();
    let full =
        [dtype(&Tensor::cat(&vector, 0)?), dtype(&Tensor::cat(&array, 0)?), dtype(&Tensor::cat(&vector[1..], 0)?)];
    let lower = [dtype(&Tensor::stack(&collected, 0)?), dtype(&amp::functional::stack(collected.as_slice(), 0)?)];
    let indices = vec![ids, ids];
    Ok(([full[0], full[1], full[2], lower[0], lower[1]], Tensor::cat(&indices, 0)?.to_vec()?))
}

#[autocast(f16, lower(cat))]
fn in_a_loop(xs: &[&Tensor<F32>], boxed: Box<[Tensor<F32>]>) -> Result<Vec<DType>> {
    let mut dtypes = Vec::new();
    for _ in 0..2 {
        dtypes.extend([dtype(&Tensor::cat(xs, 0)?), dtype(&Tensor::cat(&boxed, 0)?)]);
    }
    Ok(dtypes)
}

#[test]
fn listed_classes_hold_for_references_in_variables() -> Result<()> {
    let cpu = Device::cpu();
    let (dtypes, ids) = of_references(&T::ones([2, 2], &cpu)?, &Tensor::arange(0, 2, &cpu)?)?;
    assert_eq!(dtypes, [DType::F32, DType::F32, DType::F32, DType::F16, DType::F16]);
    assert_eq!(ids, [0, 1, 0, 1]);
    let x = T::ones([2, 2], &cpu)?;
    assert_eq!(in_a_loop(&[&x, &x], Box::from([x.clone()]))?, [DType::F16; 4]);
    Ok(())
}

struct Activated(Relu);

impl Activated {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.0.forward(x)
    }
}

struct Net {
    fc: Linear,
    norm: LayerNorm,
    relu: Relu,
    gelu: Gelu,
    own: Activated,
}

impl Net {
    /// Of what the user cast, modules that compute anew and those of one's own give what is cast as ever.
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>, smooth: bool) -> Result<[DType; 4]> {
        let h = self.fc.forward(x)?.to::<F32>()?;
        let normed = self.fc.forward(&self.norm.forward(&h)?)?;
        let h = if smooth { self.gelu.forward(&h)? } else { self.relu.forward(&h)? };
        let chosen = self.fc.forward(&self.norm.forward(&h)?)?;
        let own = self.fc.forward(&self.own.forward(&h)?)?;
        let mut last = self.relu.forward(&h)?;
        for _ in 0..2 {
            last = self.norm.forward(&last)?;
        }
        Ok([dtype(&normed), dtype(&chosen), dtype(&own), dtype(&last)])
    }
}

#[test]
fn modules_that_compute_anew_give_what_is_narrowed() -> Result<()> {
    let device = Device::cpu();
    let (fc, norm) = (Linear::new(2, 2, &device)?, LayerNorm::new(2, &device)?);
    let net = Net { fc, norm, relu: Relu, gelu: Gelu, own: Activated(Relu) };
    for smooth in [false, true] {
        assert_eq!(
            net.forward(&T::ones([2, 2], &Device::cpu())?, smooth)?,
            [DType::F16, DType::F16, DType::F16, DType::F32]
        );
    }
    Ok(())
}

enum State {
    Ready(Tensor<F32>),
    Raw(Tensor<F32>, usize),
}

/// What the user cast lies in one variant: of the others nothing is known.
#[autocast(f16)]
fn of_variants(x: &Tensor<F32>, ready: bool) -> Result<DType> {
    let state = if ready { State::Ready(x.matmul(x)?.to::<F32>()?) } else { State::Raw(x.clone(), 1) };
    match state {
        State::Ready(h) => Ok(dtype(&h.exp()?)),
        State::Raw(h, n) => Ok(dtype(&(h.matmul(x)? * n as f64)?)),
    }
}

#[test]
fn variants_hold_what_they_are_given() -> Result<()> {
    let x = T::ones([2, 2], &Device::cpu())?;
    assert_eq!([of_variants(&x, true)?, of_variants(&x, false)?], [DType::F32, DType::F16]);
    Ok(())
}
