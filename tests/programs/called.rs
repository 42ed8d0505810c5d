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

struct Halves {
    upper: T,
    lower: Option<T>,
}

fn doubled(x: T) -> Result<T> {
    x * 2.0
}

/// What the closures are given are no tensors.
#[autocast(f16)]
fn of_closures(fc: &Linear, x: &T) -> Result<Vec<T>> {
    let row = |i: usize| fc.forward(&x.select(0, i)?);
    let halves = || fc.forward(x)?.chunk(2, 0);
    let pair = |i| -> Result<_> { Ok((row(i)?, i)) };
    let of_fields = Halves { upper: halves()?[0].clone(), lower: Some(row(0)?) };
    let mut best: Option<T> = None;
    for i in 0..2 {
        let y = row(i)?;
        best = Some(match best {
            Some(best) => (best + y)?,
            None => y,
        });
    }
    let mut all: Vec<T> = (0..2).map(row).collect::<Result<_>>()?;
    all.extend([doubled(row(0)?)?, best.expect("two"), pair(1)?.0, of_fields.upper]);
    all.extend(of_fields.lower);
    Ok(all)
}

#[test]
fn what_closures_give_is_widened_where_it_goes() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let rows = [0, 1].map(|i| -> Result<T> { fc.forward(&x.select(0, i)?.to::<F16>()?)?.to() });
    let [a, b] = rows.map(|row| row.expect("shapes fit"));
    let upper: T = fc.forward(&x.to::<F16>()?)?.chunk(2, 0)?[0].to()?;
    let by_hand = [&a, &b, &(&a * 2.0)?, &(&a + &b)?, &b, &upper, &a].map(bits);
    assert_eq!(of_closures(&fc, &x)?.iter().map(bits).collect::<Vec<_>>(), by_hand);
    Ok(())
}
