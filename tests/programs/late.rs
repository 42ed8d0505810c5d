//! Values whose type the compiler finds out only behind the place where they are cast.

use super::*;

#[autocast(f16)]
fn sum(xs: &[Tensor<F32>]) -> Result<Option<T>> {
    xs.iter().try_fold(None, |sum, x| match sum {
        None => Ok(Some(x.clone())),
        Some(sum) => Ok(Some((sum + x)?)),
    })
}

#[autocast(f16)]
fn sum_of_products(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Option<T>> {
    let mut h = None;
    for x in xs {
        h = Some(match h {
            None => x.matmul(w)?,
            Some(h) => x.add(&h)?.matmul(w)?,
        });
    }
    h.map(|h| h.to()).transpose()
}

#[test]
fn sums_begin_with_nothing() -> Result<()> {
    let (xs, w) = ([random([2, 4])?, random([2, 4])?, random([2, 4])?], random([4, 4])?);
    let expected = ((&xs[0] + &xs[1])? + &xs[2])?;
    assert_eq!(sum(&xs)?.expect("three of them").to_vec()?, expected.to_vec()?);
    let w16 = w.to::<F16>()?;
    let product = |x: &T| x.to::<F16>()?.matmul(&w16);
    let h = product(&xs[0])?;
    let h = product(&(&xs[1] + h.to::<F32>()?)?)?;
    let h = product(&(&xs[2] + h.to::<F32>()?)?)?;
    assert_eq!(sum_of_products(&xs, &w)?.expect("three of them").to_vec()?, h.to::<F32>()?.to_vec()?);
    Ok(())
}

#[autocast(f16)]
fn closures(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(T, T, T, T)> {
    let product = |x| w.matmul(x);
    let added = |y| w.add(y);
    let scaled = |s| x * s;
    let probable = |y| amp::functional::softmax(y, -1);
    Ok((product(x)?, added(x)?, scaled(0.5)?, probable(w)?))
}

#[test]
fn closures_take_what_they_are_given_later() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let (product, added, scaled, probable) = closures(&x, &w)?;
    assert_eq!(product.to_vec()?, w.to::<F16>()?.matmul(&x.to::<F16>()?)?.to::<F32>()?.to_vec()?);
    assert_eq!(added.to_vec()?, (&w + &x)?.to_vec()?);
    assert_eq!(scaled.to_vec()?, (&x * 0.5)?.to_vec()?);
    assert_eq!(probable.to_vec()?, w.softmax(-1)?.to_vec()?);
    Ok(())
}

fn doubled(x: &Tensor<F32>) -> Result<T> {
    x * 2.0
}

struct Doubled;

impl Doubled {
    fn forward(&self, x: &Tensor<F32>) -> Result<T> {
        doubled(x)
    }
}

/// Parameters without a type that are given to modules of every class.
#[autocast(f16, max_casts = 6)]
fn closures_of_modules(fc: &Linear, norm: &LayerNorm, relu: &Relu, x: &Tensor<F32>) -> Result<Vec<T>> {
    let borrowed = |h| fc.forward(h)?.matmul(x);
    let owned = |h| fc.forward(&h);
    let full = |h| fc.forward(&norm.forward(h)?);
    let kept = |h| relu.forward(&h);
    let own = |h| Doubled.forward(h);
    let any = |fc: &Linear, h| fc.forward(h)?.gelu();
    Ok(vec![borrowed(x)?, owned(x.clone())?, full(x)?, kept(x.matmul(x)?)?, own(x)?, any(fc, x)?])
}

#[test]
fn closures_give_what_they_take_to_modules() -> Result<()> {
    let (x, fc, norm) = (random([4, 4])?, Linear::new(4, 4, &Device::cpu())?, LayerNorm::new(4, &Device::cpu())?);
    let x16 = x.to::<F16>()?;
    let y = fc.forward(&x16)?;
    let by_hand = [
        y.matmul(&x16)?,
        y.clone(),
        fc.forward(&norm.forward(&x)?.to::<F16>()?)?,
        x16.matmul(&x16)?.relu()?,
        y.gelu()?,
    ];
    let mut by_hand = by_hand.iter().map(|y| y.to()).collect::<Result<Vec<T>>>()?;
    by_hand.insert(4, doubled(&x)?);
    for (cast, by_hand) in closures_of_modules(&fc, &norm, &Relu, &x)?.iter().zip(&by_hand) {
        assert_eq!(cast.to_vec()?, by_hand.to_vec()?);
    }
    Ok(())
}

/// The value of `shift` is F32; that of `h` is told by its type alone.
#[autocast(f16)]
fn meets_a_later_value(x: &Tensor<F32>, w: &Tensor<F32>, up: bool) -> Result<Tensor<F32>> {
    let shift;
    if up {
        shift = (x + w)?;
    } else {
        shift = (x - w)?;
    }
    let held = Rc::new(x.matmul(w)?);
    let h = held.matmul(w)?;
    h.mul(&shift)?.add(&shift)
}

#[test]
fn a_later_value_meets_at_f32() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let w16 = w.to::<F16>()?;
    let h = x.to::<F16>()?.matmul(&w16)?.matmul(&w16)?.to::<F32>()?;
    for up in [false, true] {
        let shift = if up { (&x + &w)? } else { (&x - &w)? };
        let by_hand = ((&h * &shift)? + &shift)?;
        assert_eq!(meets_a_later_value(&x, &w, up)?.to_vec()?, by_hand.to_vec()?);
    }
    Ok(())
}

/// `to` gives what the variable holds.
#[autocast(f16)]
fn rounded(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut h = x.matmul(w)?;
    for _ in 0..2 {
        h = h.exp()?.to()?;
        h = h.matmul(w)?;
    }
    Ok(h)
}

/// Labels get their type from the loss.
#[autocast(f16)]
fn first_of_all(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let scores = x.matmul(w)?;
    let labels = Tensor::zeros([4], x.device())?;
    scores.cross_entropy(&labels)? + scores.log_softmax(-1)?.nll_loss(&Tensor::zeros([4], x.device())?)?
}

#[test]
fn types_come_from_where_values_go() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let w16 = w.to::<F16>()?;
    let scores = x.to::<F16>()?.matmul(&w16)?;
    let again = |h: &Tensor<F16>| h.to::<F32>()?.exp()?.to::<F16>()?.matmul(&w16);
    assert_eq!(bits(&rounded(&x, &w)?), bits(&again(&again(&scores)?)?.to()?));
    let (wide, labels) = (scores.to::<F32>()?, Tensor::<I64>::zeros([4], x.device())?);
    let by_hand = (wide.cross_entropy(&labels)? + wide.log_softmax(-1)?.nll_loss(&labels)?)?;
    assert_eq!(bits(&first_of_all(&x, &w)?), bits(&by_hand));
    Ok(())
}

/// A cast whose precision the other arms tell is one to that.
#[autocast(f16)]
fn as_the_others(fc: &Linear, x: &Tensor<F32>, stage: usize) -> Result<Tensor<F32>> {
    let h = match stage {
        0 => x.matmul(x)?,
        _ => x.to()?,
    };
    fc.forward(&h)
}

#[autocast(f16)]
fn as_the_widest(fc: &Linear, x: &Tensor<F32>, stage: usize) -> Result<Tensor<F32>> {
    let h = match stage {
        0 => x.exp()?,
        1 => fc.forward(x)?,
        _ => x.matmul(x)?.to()?,
    };
    h.add(&h)
}

#[test]
fn casts_in_arms_are_to_what_the_others_are() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let half = x.to::<F16>()?;
    let (given, product) = (fc.forward(&half)?, half.matmul(&half)?);
    assert_eq!(bits(&as_the_others(&fc, &x, 0)?), bits(&fc.forward(&product)?.to()?));
    assert_eq!(bits(&as_the_others(&fc, &x, 1)?), bits(&given.to()?));
    for (stage, h) in [x.exp()?, given.to()?, product.to()?].iter().enumerate() {
        assert_eq!(bits(&as_the_widest(&fc, &x, stage)?), bits(&h.add(h)?));
    }
    Ok(())
}

/// A macro writes functions under one attribute: not all call what it lists.
macro_rules! activated {
    ($($name:ident)*) => { $(
        #[autocast(f16, full(gelu))]
        fn $name(x: &Tensor<F32>) -> Result<Tensor<F32>> {
            x.matmul(x)?.$name()
        }
    )* };
}
activated!(gelu relu);

#[test]
fn functions_of_a_macro_share_an_attribute() -> Result<()> {
    let x = random([4, 4])?;
    let product = x.to::<F16>()?.matmul(&x.to::<F16>()?)?;
    assert_eq!(bits(&gelu(&x)?), bits(&product.to::<F32>()?.gelu()?));
    assert_eq!(bits(&relu(&x)?), bits(&product.relu()?.to()?));
    Ok(())
}

struct Scaled;

impl Scaled {
    fn forward(&self, x: &Tensor<F32>) -> Result<T> {
        x * 0.75
    }
}

#[autocast(f16)]
fn declared_first(fc: &Linear, x: &Tensor<F32>, product: bool) -> Result<T> {
    let h;
    if product {
        h = x.matmul(x)?;
    } else {
        h = x.clone();
    }
    fc.forward(&h.neg()?)? + Scaled.forward(&(&h - x)?)?
}

/// What is borrowed for a call lives as long as the call, though its type was not known.
#[test]
fn modules_borrow_what_a_variable_that_was_declared_first_makes() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    for product in [false, true] {
        let half = x.to::<F16>()?;
        let h = if product { half.matmul(&half)?.to::<F32>()? } else { x.clone() };
        let linear = fc.forward(&h.neg()?.to::<F16>()?)?.to::<F32>()?;
        let sum = (linear + Scaled.forward(&(&h - &x)?)?)?;
        assert_eq!(declared_first(&fc, &x, product)?.to_vec()?, sum.to_vec()?);
    }
    Ok(())
}

/// What a pattern takes out of a variable that begins as `None`, and that is assigned F32 there.
#[autocast(f16)]
fn delayed(xs: &[T], w: &T, sharp: bool) -> Result<Vec<T>> {
    let (mut out, mut before) = (Vec::new(), None);
    for x in xs {
        if let Some(mut h) = before.take() {
            if sharp {
                h = x.softmax(-1)?;
            }
            out.push(h.matmul(w)?);
            out.push(h);
        }
        before = Some(x.matmul(w)?);
    }
    Ok(out)
}

/// The same in an arm of a `match`.
#[autocast(f16)]
fn delayed_in_an_arm(xs: &[T], w: &T, sharp: bool) -> Result<Vec<T>> {
    let (mut out, mut before) = (Vec::new(), None);
    for x in xs {
        match before.take() {
            Some(mut h) => {
                if sharp {
                    h = x.softmax(-1)?;
                }
                out.push(h.matmul(w)?);
                out.push(h);
            }
            None => assert!(out.is_empty()),
        }
        before = Some(x.matmul(w)?);
    }
    Ok(out)
}

#[test]
fn variables_of_patterns_whose_type_comes_later_are_assigned_f32() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    let xs = [x.clone(), x.clone()];
    let product = |x: &T| -> Result<T> { x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to::<F32>() };
    for (sharp, h) in [(false, product(&x)?), (true, x.softmax(-1)?)] {
        for out in [delayed(&xs, &w, sharp)?, delayed_in_an_arm(&xs, &w, sharp)?] {
            assert_eq!((bits(&out[0]), bits(&out[1])), (bits(&product(&h)?), bits(&h)));
        }
    }
    Ok(())
}
