//! Regions whose precision is an associated type, and tensors behind other names.

use amp::prelude::*;
use std::marker::PhantomData;

trait Runs {
    type P: AutocastPrecision;

    fn weight(&self) -> &Tensor<F32>;

    #[autocast(Self::P, max_casts = 3)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let y: Tensor<Self::P> = x.matmul(self.weight())?;
        y.matmul(self.weight())?.softmax(-1)
    }
}

struct Model<P>(Tensor<F32>, PhantomData<P>);

impl<P: AutocastPrecision> Runs for Model<P> {
    type P = P;

    fn weight(&self) -> &Tensor<F32> {
        &self.0
    }
}

#[autocast(T::P)]
fn twice<T: Runs>(model: &T, x: &Tensor<F32>) -> Result<Tensor<T::P>> {
    let mut h = amp_region!(f32, x.exp()?).to::<T::P>()?;
    for _ in 0..2 {
        h = h.matmul(model.weight())?;
    }
    Ok(h)
}

fn by_hand<P: AutocastPrecision>(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (x, w) = (x.to::<P>()?, w.to::<P>()?);
    x.matmul(&w)?.matmul(&w)?.to::<F32>()?.softmax(-1)
}

fn agrees<P: AutocastPrecision>() -> Result<()> {
    let device = Device::best();
    let w = Tensor::from_vec(vec![0.1f32, 0.7, -0.3, 1.1], [2, 2], &device)?;
    let x = Tensor::from_vec(vec![0.3f32, -0.9, 2.2, 0.4], [2, 2], &device)?;
    let model = Model::<P>(w.clone(), PhantomData);
    assert_eq!(model.forward(&x)?.to_vec()?, by_hand::<P>(&x, &w)?.to_vec()?);
    let (h, w) = (x.exp()?.to::<P>()?, w.to::<P>()?);
    let expected = h.matmul(&w)?.matmul(&w)?;
    assert_eq!(twice(&model, &x)?.to::<F32>()?.to_vec()?, expected.to::<F32>()?.to_vec()?);
    Ok(())
}

#[test]
fn an_associated_type_is_the_precision_of_a_region() -> Result<()> {
    agrees::<F16>()?;
    agrees::<BF16>()?;
    agrees::<F32>()
}

type Full = Tensor<F32>;

#[autocast(f16)]
fn named(x: &Full, w: &Full) -> Result<Full> {
    let h: Full = x.matmul(w)?;
    h.matmul(w)
}

#[test]
fn a_declared_type_may_have_another_name() -> Result<()> {
    let device = Device::best();
    let x = Tensor::from_vec(vec![0.3f32, -0.9, 2.2, 0.4], [2, 2], &device)?;
    let h = x.to::<F16>()?;
    let expected = h.matmul(&h)?.matmul(&h)?.to::<F32>()?;
    assert_eq!(named(&x, &x)?.to_vec()?, expected.to_vec()?);
    Ok(())
}

/// What must run in full precision, in either of the two.
fn spread<P: FullRange>(x: &Tensor<P>) -> Result<[Tensor<P>; 3]> {
    let p = x.softmax(-1)?;
    let entropy = p.mul(p.log()?)?.sum_all()?.neg()?;
    Ok([entropy, x.var([0, 1], false)?, x.exp()?.log1p()?.mean_all()?])
}

fn slope<P: FullRange>(x: &Tensor<P>) -> Result<Tensor<P>> {
    let x = x.tracked();
    let grads = x.exp()?.mse_loss(&x)?.backward()?;
    Ok(grads.get(&x)?.expect("x takes part"))
}

#[test]
fn a_function_of_either_full_precision_is_written_once() -> Result<()> {
    let x = Tensor::<F32>::from_vec(vec![0.5, -1.0, 2.0, 0.25], [2, 2], &Device::cpu())?;
    let wide = x.to::<F64>()?;
    let (a, b) = (spread(&x)?, spread(&wide)?);
    let pairs =
        a.iter().zip(&b).map(|(a, b)| Ok((a.item()?.into(), b.item()?))).collect::<Result<Vec<(f64, f64)>>>()?;
    let (a, b) = (slope(&x)?.to_vec()?, slope(&wide)?.to_vec()?);
    for (a, b) in pairs.into_iter().chain(a.into_iter().map(f64::from).zip(b)) {
        let difference = (a - b).abs();
        assert!(difference <= 1e-5 * b.abs().max(1.0), "{a} is not {b}");
    }
    Ok(())
}
