//! Values given to places without a name, and to functions and closures that say what they take.

use super::*;

struct Context {
    current: RefCell<Option<Tensor<F32>>>,
    last: Mutex<Tensor<F32>>,
}

#[autocast(f16)]
fn behind_guards(fc: &Linear, x: &Tensor<F32>, context: &Context) -> Result<()> {
    let y = fc.forward(x)?;
    *context.current.borrow_mut() = Some(y.clone());
    *context.last.lock().expect("one thread") = y;
    Ok(())
}

#[autocast(f16)]
fn behind_an_entry(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut map = HashMap::new();
    let y = fc.forward(x)?;
    *map.entry(0).or_insert_with(|| x.clone()) = y;
    Ok(map[&0].clone())
}

#[autocast(f16)]
fn borrowed_or_owned<'x>(fc: &Linear, x: &'x Tensor<F32>, as_it_is: bool) -> Result<Cow<'x, Tensor<F32>>> {
    if as_it_is { Ok(Cow::Borrowed(x)) } else { Ok(Cow::Owned(fc.forward(x)?)) }
}

#[autocast(f16)]
fn broken_off(fc: &Linear, x: &Tensor<F32>) -> std::ops::ControlFlow<Tensor<F32>, Error> {
    match fc.forward(x) {
        Ok(y) => std::ops::ControlFlow::Break(y),
        Err(error) => std::ops::ControlFlow::Continue(error),
    }
}

#[autocast(f16)]
fn converted(fc: &Linear, x: &Tensor<F32>) -> Result<[Tensor<F32>; 2]> {
    let [a, b]: [Tensor<F32>; 2] = fc.forward(x)?.chunk(2, -1)?.try_into().expect("two halves");
    assert_eq!(a.dims(), b.dims());
    Ok(fc.forward(x)?.chunk(2, -1)?.try_into().expect("two halves"))
}

#[autocast(f16)]
fn by_closures(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let layers: [&dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>>; 2] = [&|x| fc.forward(x), &|x| x.exp()];
    let mut boxed: Vec<Box<dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>> + '_>> = vec![Box::new(|x| fc.forward(x))];
    boxed.push(Box::new(|x| x.exp()));
    let y = boxed.iter().try_fold(x.clone(), |h, layer| layer(&h))?;
    assert_eq!(layers[1](&layers[0](x)?)?.to_vec()?, y.to_vec()?);
    Ok(y)
}

#[autocast(f16)]
fn by_functions_of_its_own(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    fn inner(x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.exp()
    }
    let y = linear(x, fc)?;
    return inner(&y);

    fn linear(x: &Tensor<F32>, fc: &Linear) -> Result<Tensor<F32>> {
        fc.forward(&x.to::<F16>()?)?.to()
    }
}

#[test]
fn places_that_are_not_named_take_f32() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let y: T = fc.forward(&x.to::<F16>()?)?.to()?;
    let context = Context { current: RefCell::new(None), last: Mutex::new(x.clone()) };
    behind_guards(&fc, &x, &context)?;
    let current = context.current.borrow().clone().expect("it was written");
    let last = context.last.lock().expect("one thread").clone();
    let owned = borrowed_or_owned(&fc, &x, false)?.into_owned();
    for (form, value) in [
        ("cell", current),
        ("lock", last),
        ("entry", behind_an_entry(&fc, &x)?),
        ("owned", owned),
        ("broken off", broken_off(&fc, &x).break_value().expect("shapes fit")),
    ] {
        assert_eq!(value.to_vec()?, y.to_vec()?, "{form}");
    }
    assert_eq!(borrowed_or_owned(&fc, &x, true)?.to_vec()?, x.to_vec()?);
    let [a, b] = converted(&fc, &x)?;
    assert_eq!(Tensor::cat(&[&a, &b], -1)?.to_vec()?, y.to_vec()?);
    assert_eq!(by_closures(&fc, &x)?.to_vec()?, y.exp()?.to_vec()?);
    assert_eq!(by_functions_of_its_own(&fc, &x)?.to_vec()?, y.exp()?.to_vec()?);
    Ok(())
}
