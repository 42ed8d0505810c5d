//! Types that are written out, of variables and of what a function returns: what is narrower is widened to F32 there.

use super::*;

#[autocast(f16)]
fn variables(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let a: Tensor<F32> = fc.forward(x)?;
    let b: Tensor<F32> = if a.rank() == 2 { x.matmul(x)? } else { x.clone() };
    let c: [Tensor<F32>; 2] = [fc.forward(x)?, x.exp()?];
    let d: Option<Tensor<F32>> = fc.forward(x).ok();
    let e: Box<Tensor<F32>> = Box::new(fc.forward(x)?);
    let f: Vec<Tensor<F32>> = x.matmul(x)?.chunk(2, 0)?;
    let (g, n): (Tensor<F32>, usize) = (fc.forward(x)?, 3);
    let (i, _): (Tensor<F32>, Tensor<I64>) = fc.forward(x)?.sort(0, true)?;
    let narrow = fc.forward(x)?;
    let j: &Tensor<F32> = &narrow;
    let held = [fc.forward(x)?];
    let k: Option<&Tensor<F32>> = held.last();
    let l: &[Tensor<F32>] = &x.matmul(x)?.chunk(2, 0)?;
    assert_eq!((n, a.dtype()), (3, k.expect("some").dtype()));
    let [c0, c1] = c;
    let mut all = vec![a, b, c0, c1, d.expect("some"), *e, g, i, j.clone()];
    all.extend(f);
    all.extend(l.iter().cloned());
    Ok(all)
}

#[autocast(bf16)]
fn borrowed<'a>(skip: Option<&Linear>, x: &'a Tensor<F32>) -> Result<Cow<'a, Tensor<F32>>> {
    let identity: Cow<'_, Tensor<F32>> = match skip {
        Some(skip) => Cow::Owned(skip.forward(x)?),
        None => Cow::Borrowed(x),
    };
    Ok(identity)
}

#[autocast(f16)]
fn largest(fc: &Linear, x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<I64>)> {
    fc.forward(x)?.topk(2, 0, true)
}

#[autocast(f16)]
fn sorted(x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<I64>)> {
    let sorted = x.matmul(x)?.sort(1, false)?;
    Ok(sorted)
}

#[autocast(f16)]
fn turned(x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    Ok(x.matmul(x)?.chunk(2, 0)?.into_iter().rev().collect())
}

#[autocast(f16)]
fn labelled(x: &Tensor<F32>) -> Result<Vec<(String, Tensor<F32>)>> {
    let y = x.matmul(x)?;
    let mut all = vec![("first".to_string(), y.clone())];
    all.push(("second".into(), y.matmul(x)?));
    Ok(all)
}

#[autocast(f16)]
fn numbered(x: &Tensor<F32>) -> Result<[(Tensor<F32>, usize); 2]> {
    let y = x.matmul(x)?;
    Ok([(y.clone(), 1), (y.matmul(x)?, 2)])
}

struct Log {
    seen: Vec<Tensor<F32>>,
}

#[autocast(f16)]
fn noted(log: &mut Log, x: &Tensor<F32>) -> Result<()> {
    let h = x.matmul(x)?;
    log.seen.extend([h.clone()]);
    let Log { seen } = log;
    seen.extend(h.chunk(2, 0)?);
    seen.extend(Some(h));
    Ok(())
}

#[autocast(bf16)]
fn chained(norm: Option<&LayerNorm>, blocks: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = if let Some(norm) = norm { norm.forward(x)? } else { x.clone() };
    blocks.iter().try_fold(h, |h, block| block.forward(&h)?.relu())
}

fn exp(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.exp()
}

#[autocast(f16)]
fn split(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let [a, b]: [_; 2] = fc.forward(x)?.chunk(2, 0)?.try_into().unwrap_or_else(|_| unreachable!());
    let Ok([c, d]) = <[_; 2]>::try_from(fc.forward(x)?.chunk(2, 0)?) else { unreachable!() };
    let e: [_; 2] = std::array::from_fn(|_| fc.forward(x).expect("shapes fit"));
    Ok(vec![exp(&a)?, exp(&b)?, exp(&c)?, exp(&d)?, exp(&e[1])?])
}

#[autocast(f16)]
fn of_any_element(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (a, b) = (fc.forward(x)?, fc.forward(x)?.exp()?);
    let narrow: &[&Tensor<F16>] = &[&a, &a];
    let fresh: &[_] = &[fc.forward(x)?];
    let wide: &[&Tensor<_>] = &[&b, &b];
    let narrow = Tensor::cat(narrow, 0)?.matmul(&fresh[0])?;
    narrow + Tensor::cat(wide, 0)?
}

#[test]
fn holes_in_types_are_filled_by_what_is_there() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let y = fc.forward(&x.to::<F16>()?)?;
    let wide = y.to::<F32>()?;
    let halves = wide.exp()?.chunk(2, 0)?;
    let by_hand = [&halves[0], &halves[1], &halves[0], &halves[1], &wide.exp()?].map(bits);
    assert_eq!(split(&fc, &x)?.iter().map(bits).collect::<Vec<_>>(), by_hand);
    let product = Tensor::cat(&[&y, &y], 0)?.matmul(&y)?.to::<F32>()?;
    let exp = wide.exp()?;
    assert_eq!(bits(&of_any_element(&fc, &x)?), bits(&(product + Tensor::cat(&[&exp, &exp], 0)?)?));
    Ok(())
}

#[test]
fn variables_hold_what_their_types_say() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let x16 = x.to::<F16>()?;
    let (y, product) = (fc.forward(&x16)?.to::<F32>()?, x16.matmul(&x16)?.to::<F32>()?);
    let (sorted, halves) = (y.sort(0, true)?.0, product.chunk(2, 0)?);
    let exp = x.exp()?;
    let by_hand =
        [&y, &product, &y, &exp, &y, &y, &y, &sorted, &y, &halves[0], &halves[1], &halves[0], &halves[1]].map(bits);
    assert_eq!(variables(&fc, &x)?.iter().map(bits).collect::<Vec<_>>(), by_hand);
    let narrow = fc.forward(&x.to::<BF16>()?)?.to::<F32>()?;
    assert_eq!(bits(borrowed(Some(&fc), &x)?.as_ref()), bits(&narrow));
    assert_eq!(bits(borrowed(None, &x)?.as_ref()), bits(&x));
    Ok(())
}

#[test]
fn what_is_returned_in_one_piece_is_widened() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let x16 = x.to::<F16>()?;
    let y = x16.matmul(&x16)?;
    let ((values, indices), by_hand) = (largest(&fc, &x)?, fc.forward(&x16)?.topk(2, 0, true)?);
    assert_eq!((bits(&values), indices.to_vec()?), (bits(&by_hand.0.to()?), by_hand.1.to_vec()?));
    assert_eq!(bits(&sorted(&x)?.0), bits(&y.sort(1, false)?.0.to()?));
    let halves: Vec<_> = y.to::<F32>()?.chunk(2, 0)?.iter().rev().map(bits).collect();
    assert_eq!(turned(&x)?.iter().map(bits).collect::<Vec<_>>(), halves);
    let two = [bits(&y.to()?), bits(&y.matmul(&x16)?.to()?)];
    assert_eq!(labelled(&x)?.iter().map(|(_, y)| bits(y)).collect::<Vec<_>>(), two);
    assert_eq!(numbered(&x)?.map(|(y, _)| bits(&y)), two);
    Ok(())
}

#[test]
fn lists_of_f32_are_extended_by_f32() -> Result<()> {
    let (mut log, x) = (Log { seen: Vec::new() }, random([4, 4])?);
    noted(&mut log, &x)?;
    let h = x.to::<F16>()?.matmul(&x.to::<F16>()?)?.to::<F32>()?;
    let halves = h.chunk(2, 0)?;
    let by_hand = [&h, &halves[0], &halves[1], &h].map(bits);
    assert_eq!(log.seen.iter().map(bits).collect::<Vec<_>>(), by_hand);
    Ok(())
}

#[test]
fn folds_begin_with_what_branches_joined() -> Result<()> {
    let cpu = Device::cpu();
    let (norm, a, b) = (LayerNorm::new(4, &cpu)?, Linear::new(4, 4, &cpu)?, Linear::new(4, 4, &cpu)?);
    let x = random([3, 4])?;
    let through = |h: &Tensor<F32>| b.forward(&a.forward(&h.to::<BF16>()?)?.relu()?)?.relu()?.to::<F32>();
    let (plain, normed) = (through(&x)?, through(&norm.forward(&x)?)?);
    let blocks = [a, b];
    assert_eq!(bits(&chained(None, &blocks, &x)?), bits(&plain));
    assert_eq!(bits(&chained(Some(&norm), &blocks, &x)?), bits(&normed));
    Ok(())
}

#[autocast(f16)]
fn named_in_a_macro(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let s = x.softmax(-1)?;
    macro_rules! probabilities {
        () => {
            s.clone()
        };
    }
    s.matmul(w)?;
    Ok(probabilities!())
}

#[test]
fn what_a_macro_of_the_body_names_is_not_rounded() -> Result<()> {
    let x = random([4, 4])?;
    assert_eq!(bits(&named_in_a_macro(&x, &x)?), bits(&x.softmax(-1)?));
    Ok(())
}

/// What a module gives is F32 in a variable that is assigned to, unless its type is written.
#[autocast(bf16)]
fn cached(key: &Linear, x: &Tensor<F32>, past: Option<&Tensor<BF16>>) -> Result<(Tensor<F32>, Tensor<BF16>)> {
    let mut k: Tensor<BF16> = key.forward(x)?;
    if let Some(past) = past {
        k = Tensor::cat(&[past, &k], 0)?;
    }
    Ok((k.sum_all()?, k))
}

#[test]
fn a_variable_of_a_written_type_keeps_its_precision() -> Result<()> {
    let (key, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let half = key.forward(&x.to::<BF16>()?)?;
    let (_, first) = cached(&key, &x, None)?;
    let (sum, second) = cached(&key, &x, Some(&first))?;
    let by_hand = Tensor::cat(&[&half, &half], 0)?;
    assert_eq!(second.to_vec()?, by_hand.to_vec()?);
    assert_eq!(bits(&sum), bits(&by_hand.to::<F32>()?.sum_all()?));
    Ok(())
}

#[autocast(f16)]
fn converted(fc: &Linear, x: &Tensor<F32>) -> Result<[T; 5]> {
    let h = fc.forward(x)?;
    let [a, b] = <[T; 2]>::try_from(h.chunk(2, 0)?).unwrap_or_else(|_| unreachable!());
    let Ok([c, _]) = <[Tensor<F32>; 2]>::try_from(h.chunk(2, 0)?) else { unreachable!() };
    let boxed: Box<[T]> = h.chunk(2, 0)?.into_boxed_slice();
    let mut queue = std::collections::VecDeque::from(h.chunk(2, 0)?);
    let first = queue.pop_front().expect("two");
    Ok([exp(&a)?, exp(&b)?, c, boxed[1].clone(), first])
}

#[test]
fn what_is_converted_holds_what_it_was_made_of_or_what_its_type_says() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let halves = fc.forward(&x.to::<F16>()?)?.to::<F32>()?.chunk(2, 0)?;
    let (a, b) = (&halves[0], &halves[1]);
    let by_hand = [&a.exp()?, &b.exp()?, a, b, a].map(bits);
    assert_eq!(converted(&fc, &x)?.each_ref().map(bits), by_hand);
    Ok(())
}
