//! Closures that variables hold, called with what is narrow and with F32: each parameter has one type.

use super::*;
use amp::DType;

#[autocast(f16)]
fn lent(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let heads = |t: &Tensor<_>| t.reshape([2, 2, 4])?.transpose(0, 1);
    let (h, s) = (x.matmul(x)?, x.softmax(-1)?);
    let product = heads(&h)?.matmul(&heads(&s)?.transpose(-1, -2)?)?;
    fc.forward(&product.reshape((.., 2))?)
}

#[autocast(f16)]
fn moved(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let act = |t: Tensor<_>, slope: f64| t.leaky_relu(slope);
    let wide = act(x.clone(), 0.1)?;
    act(x.matmul(x)?, 0.2)? + wide
}

/// One that is called with what is narrow alone takes that.
#[autocast(f16)]
fn narrow(x: &Tensor<F32>) -> Result<DType> {
    let act = |t: &Tensor<_>| t.relu();
    let h = act(&x.matmul(x)?)?;
    Ok(act(&h)?.dtype())
}

#[test]
fn closures_that_are_called_with_both_take_f32() -> Result<()> {
    let (fc, x) = (Linear::new(2, 2, &Device::cpu())?, random([4, 4])?);
    let h = x.to::<F16>()?.matmul(&x.to::<F16>()?)?;
    let heads = |t: &Tensor<F16>| t.reshape([2, 2, 4])?.transpose(0, 1);
    let product = heads(&h)?.matmul(&heads(&x.softmax(-1)?.to()?)?.transpose(-1, -2)?)?;
    assert_eq!(bits(&lent(&fc, &x)?), bits(&fc.forward(&product.reshape((.., 2))?)?.to()?));
    let h = h.to::<F32>()?;
    assert_eq!(bits(&moved(&x)?), bits(&(h.leaky_relu(0.2)? + x.leaky_relu(0.1)?)?));
    assert_eq!(narrow(&x)?, DType::F16);
    Ok(())
}
