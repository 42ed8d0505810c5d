//! Lists that are joined hold tensors or references to them, and what is counted is no tensor of floats.

use super::*;
use amp::DType;

fn dtype<P: Float>(x: &Tensor<P>) -> DType {
    x.dtype()
}

#[autocast(f16)]
fn owned(fc: &Linear, x: &Tensor<F32>) -> Result<[DType; 5]> {
    let (h, g) = (fc.forward(x)?, fc.forward(x)?);
    let (n, m) = (h.softmax(-1)?, h.softmax(-1)?);
    let narrow = Tensor::cat(&[h.clone(), g], -1)?;
    let mixed = Tensor::cat(&[h.clone(), n], -1)?;
    let literal = Tensor::stack(&[fc.forward(x)?, fc.forward(x)?.softmax(-1)?, m], 0)?;
    let list = vec![h.clone(), fc.forward(x)?];
    let of_list = Tensor::stack(&list, 0)?;
    let collected = (0..3).map(|_| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    let of_collected = amp::functional::cat(&collected, 0)?;
    Ok([dtype(&narrow), dtype(&mixed), dtype(&literal), dtype(&of_list), dtype(&of_collected)])
}

#[autocast(f16)]
fn references(fc: &Linear, x: &Tensor<F32>) -> Result<[DType; 3]> {
    let (h, y) = (fc.forward(x)?, &fc.forward(x)?);
    let narrow = Tensor::cat(&[y, &h], -1)?;
    let mixed = Tensor::cat(&[x, &h], -1)?;
    let twice = Tensor::cat(&[&y, &y], -1)?;
    Ok([dtype(&narrow), dtype(&mixed), dtype(&twice)])
}

#[test]
fn lists_hold_tensors_or_references_to_them() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, Tensor::randn([3, 4], &Device::cpu())?);
    assert_eq!(owned(&fc, &x)?, [DType::F16, DType::F32, DType::F32, DType::F16, DType::F16]);
    assert_eq!(references(&fc, &x)?, [DType::F16, DType::F32, DType::F16]);
    Ok(())
}

#[autocast(f16)]
fn summed(fc: &Linear, x: &Tensor<F32>) -> Result<[DType; 4]> {
    let narrow = [fc.forward(x)?, fc.forward(x)?];
    let wide = vec![fc.forward(x)?.softmax(-1)?, x.clone()];
    let a = narrow.iter().sum::<Result<Tensor<F16>>>()?;
    let b = wide.iter().sum::<Result<Tensor<F32>>>()?;
    let c: Result<_> = wide.into_iter().sum();
    let d = (0..3).map(|_| x.matmul(x)).sum::<Result<Result<_>>>()??;
    Ok([dtype(&a), dtype(&b), dtype(&c?), dtype(&d)])
}

#[autocast(f16)]
fn summed_wide(layers: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let narrow = layers.iter().map(|fc| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    let named = narrow.iter().sum::<Result<Tensor<F32>>>()?;
    let typed: Tensor<F32> = narrow.iter().rev().sum::<Result<Tensor<F32>>>()?;
    let result: Result<Tensor<F32>> = narrow.clone().into_iter().sum();
    let fallible = layers.iter().map(|fc| fc.forward(x)).sum::<Result<Result<Tensor<F32>>>>()??;
    let by_name = layers.iter().map(|fc| fc.forward(x)).sum::<Result<Result<T>>>()??;
    let all = [named, typed, result?, fallible, by_name];
    all.iter().chain(&[summed_at_the_end(layers, x)?]).sum()
}

#[autocast(f16)]
fn summed_at_the_end(layers: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let narrow = layers.iter().map(|fc| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    narrow.iter().sum()
}

#[test]
fn lists_are_summed_in_f32_where_that_is_written() -> Result<()> {
    let layers = (0..3).map(|_| Linear::new(4, 4, &Device::cpu())).collect::<Result<Vec<_>>>()?;
    let x = Tensor::randn([4, 4], &Device::cpu())?;
    let parts = layers.iter().map(|fc| fc.forward(&x.to::<F16>()?)?.to::<F32>()).collect::<Result<Vec<_>>>()?;
    let (once, back): (Result<Tensor<F32>>, Result<Tensor<F32>>) = (parts.iter().sum(), parts.iter().rev().sum());
    let once = once?;
    let by_hand =
        [once.clone(), back?, once.clone(), once.clone(), once.clone(), once].iter().sum::<Result<Tensor<F32>>>()?;
    assert_eq!(summed_wide(&layers, &x)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}

#[test]
fn lists_are_summed_in_their_precision() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, Tensor::randn([4, 4], &Device::cpu())?);
    assert_eq!(summed(&fc, &x)?, [DType::F16, DType::F32, DType::F32, DType::F16]);
    Ok(())
}

#[autocast(f16)]
fn counted(fc: &Linear, x: &Tensor<F32>, classes: &Tensor<I64>) -> Result<(i64, f64)> {
    let scores = fc.forward(x)?;
    let found = scores.argmax(-1, false)?;
    let right = found.eq(classes)?.sum_all()?.item()?;
    let each = classes.one_hot(4)?.sum(0, false)?;
    let so_far = each.cumsum(0)?.to_vec()?;
    let share = (each.to::<F32>()? / so_far[3] as f32)?.sum_all()?.item()?;
    Ok((right, f64::from(share)))
}

#[test]
fn integers_are_counted_in_regions_as_outside() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, Tensor::randn([5, 4], &Device::cpu())?);
    let classes = fc.forward(&x.to::<F16>()?)?.argmax(-1, false)?;
    assert_eq!(counted(&fc, &x, &classes)?, (5, 1.0));
    Ok(())
}

#[autocast(f16)]
fn moved_in(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut out: Option<T> = None;
    let mut open = None;
    for _ in 0..2 {
        let (y, z) = (fc.forward(x)?, fc.forward(x)?);
        out = Some(match out.take() {
            Some(so_far) => Tensor::cat(&[so_far, y], 0)?,
            None => y,
        });
        open = match open {
            Some(so_far) => Some(Tensor::cat(&[so_far, z], 0)?),
            None => Some(z),
        };
    }
    out.expect("two") + open.expect("two")
}

#[test]
fn what_is_moved_into_a_list_stands_beside_what_is_widened() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let h: T = fc.forward(&x.to::<F16>()?)?.to()?;
    assert_eq!(bits(&moved_in(&fc, &x)?), bits(&(Tensor::cat(&[&h, &h], 0)? * 2.0)?));
    Ok(())
}

/// The type of `x` is only named.
#[autocast(f16)]
fn listed(fc: &Linear, x: &T) -> Result<Tensor<F32>> {
    let h = fc.forward(x)?;
    let (array, list) = ([x, &h], vec![&h, x]);
    let sum = array.into_iter().try_fold(x.zeros_like()?, |sum, y| sum + y)?;
    list.iter().try_fold(sum, |sum, y| sum + *y)
}

#[test]
fn references_in_a_list_meet_at_f32() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let h: T = fc.forward(&x.to::<F16>()?)?.to()?;
    let by_hand = (((x.zeros_like()? + &x)? + &h)? + &h)? + &x;
    assert_eq!(bits(&listed(&fc, &x)?), bits(&by_hand?));
    Ok(())
}

#[autocast(f16)]
fn both_halves_beside_f32(b: &Tensor<BF16>, x: &Tensor<F32>) -> Result<[Tensor<F32>; 5]> {
    let h = x.matmul(x)?;
    let joined = Tensor::cat(&[&h, b, x], 0)?;
    let list = [x.matmul(x)?, b.clone(), x.exp()?];
    let declared: Vec<Tensor<F32>> = vec![x.matmul(x)?, b.clone()];
    let mut held = x.matmul(x)?;
    for _ in 0..2 {
        held = held.exp()?;
        held = held.add(b)?;
    }
    let mut sum: Tensor<F32> = h;
    sum = (sum + b)?;
    Ok([joined, list[1].clone(), declared[1].clone(), held, sum])
}

#[test]
fn both_halves_meet_where_f32_is_beside_them_or_declared() -> Result<()> {
    let x = Tensor::full([1, 1], 0.5, &Device::cpu())?;
    let b = Tensor::<F32>::full([1, 1], 1e30, &Device::cpu())?.to::<BF16>()?;
    let wide = b.to::<F32>()?.item()?;
    let [joined, listed, declared, held, sum] = both_halves_beside_f32(&b, &x)?;
    assert_eq!(joined.to_vec()?, [0.25, wide, 0.5]);
    assert_eq!([listed.item()?, declared.item()?, sum.item()?], [wide; 3]);
    assert_eq!(held.item()?, f32::INFINITY, "the exponential of 1e30");
    Ok(())
}
