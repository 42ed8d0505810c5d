//! What iterators collect goes where F32 is declared: elements are widened one by one, ahead of the collection.

use super::*;

#[autocast(P)]
fn tail<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    xs.iter().map(|x| fc.forward(x)).collect()
}

#[autocast(P)]
fn annotated<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    let ys: Vec<Tensor<F32>> = xs.iter().rev().map(|x| fc.forward(x)).rev().collect::<Result<_>>()?;
    assert_eq!(ys.len(), xs.len());
    Ok(ys)
}

#[autocast(P)]
fn of_a_block<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    xs.iter()
        .filter_map(|x| {
            if x.rank() == 7 {
                return None;
            }
            let y = fc.forward(x);
            Some(y)
        })
        .collect()
}

#[autocast(P)]
fn of_a_declared_closure<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    xs.iter()
        .map(|x| -> Result<_> {
            let y = fc.forward(x)?;
            Ok(y)
        })
        .collect()
}

#[autocast(P)]
fn of_an_open_list<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    let ys: Result<Vec<_>> = xs.iter().map(|x| fc.forward(x)).collect();
    ys
}

#[autocast(P)]
fn without_results<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Vec<Tensor<F32>> {
    let sizes: Vec<usize> = xs.iter().map(|x| x.dims()[0]).collect();
    assert_eq!(sizes.len(), xs.len());
    xs.iter().map(|x| fc.forward(x).expect("shapes fit")).collect()
}

#[autocast(P)]
fn named<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    let ys = xs.iter().enumerate().map(|(_, x)| fc.forward(x)).collect::<Result<Vec<Tensor<F32>>>>()?;
    assert_eq!(ys.len(), xs.len());
    Ok(ys)
}

fn agree<P: AutocastPrecision>() -> Result<()> {
    let fc = Linear::new(4, 4, &Device::cpu())?;
    let xs = [random([3, 4])?, random([2, 4])?];
    let by_hand: Vec<T> = xs.iter().map(|x| fc.forward(&x.to::<P>()?)?.to()).collect::<Result<_>>()?;
    let by_hand: Vec<Vec<f32>> = by_hand.iter().map(T::to_vec).collect::<Result<_>>()?;
    for (form, ys) in [
        ("tail", tail::<P>(&fc, &xs)?),
        ("annotated", annotated::<P>(&fc, &xs)?),
        ("block", of_a_block::<P>(&fc, &xs)?),
        ("declared closure", of_a_declared_closure::<P>(&fc, &xs)?),
        ("open list", of_an_open_list::<P>(&fc, &xs)?),
        ("named", named::<P>(&fc, &xs)?),
        ("without results", without_results::<P>(&fc, &xs)),
    ] {
        let ys: Vec<Vec<f32>> = ys.iter().map(T::to_vec).collect::<Result<_>>()?;
        assert_eq!(ys, by_hand, "{form}");
    }
    Ok(())
}

#[test]
fn elements_are_widened() -> Result<()> {
    agree::<F16>()?;
    agree::<BF16>()?;
    agree::<F32>()
}

#[autocast(f16)]
fn made_one_by_one(x: &Tensor<F32>, count: usize) -> Result<Vec<Tensor<F32>>> {
    let mut left = count;
    std::iter::from_fn(|| {
        left = left.checked_sub(1)?;
        Some(x.matmul(x))
    })
    .take(3)
    .collect()
}

#[autocast(f16)]
fn made_again(x: &Tensor<F32>) -> Vec<Tensor<F32>> {
    std::iter::repeat_with(|| x.matmul(x).expect("square")).take(2).collect()
}

#[test]
fn iterators_of_what_closures_make_are_collected_in_f32() -> Result<()> {
    let x = random([4, 4])?;
    let h = x.to::<F16>()?.matmul(&x.to::<F16>()?)?.to::<F32>()?;
    let all = [made_one_by_one(&x, 5)?, made_one_by_one(&x, 2)?, made_again(&x)];
    assert_eq!(all.each_ref().map(Vec::len), [3, 2, 2]);
    for y in all.iter().flatten() {
        assert_eq!(bits(y), bits(&h));
    }
    Ok(())
}
