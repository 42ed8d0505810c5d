//! Lists of tuples, entries of maps and folds of tuples that hold F32 beside what is narrow; numbers beside it take the types
//! that are asked for.

use super::*;
use amp::DType;
use std::collections::HashMap;

type Numbered = Vec<(usize, T)>;

fn last_of(list: Numbered) -> Result<T> {
    Ok(list.into_iter().max_by_key(|(i, _)| *i).expect("not empty").1)
}

fn own(x: &T) -> Result<T> {
    Ok(x.clone())
}

#[autocast(f16)]
fn pushed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut list = vec![(0, x.matmul(w)?)];
    list.push((1, x.exp()?));
    let (i, wide) = list.pop().expect("two");
    let size = x.dims()[i];
    (&wide + &list[0].1)? * size as f64
}

#[autocast(f16)]
fn given(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut list = Vec::new();
    list.push((1, x.matmul(w)?));
    list.insert(0, (0, own(x)?));
    last_of(list)
}

#[autocast(bf16)]
fn written(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let list = vec![(3, x.matmul(w)?)];
    last_of(list)
}

#[autocast(P)]
fn in_any<P: AutocastPrecision>(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Numbered> {
    let mut list = vec![(0, x.matmul(w)?), (1, x.matmul(w)?)];
    list.retain(|(i, _)| *i > 0);
    Ok(list)
}

/// Pairs of tensors, of which one is widened.
#[autocast(f16)]
fn of_two(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<[DType; 2]> {
    let mut list = vec![(x.matmul(w)?, x.matmul(w)?)];
    list.push((x.matmul(w)?, x.exp()?));
    let (narrow, wide) = list.remove(0);
    Ok([narrow.dtype(), wide.dtype()])
}

#[autocast(f16)]
fn searched(fc: &Linear, x: &Tensor<F32>, width: usize) -> Result<Tensor<F32>> {
    let mut beams = vec![(0.0, vec![0i64], x.clone())];
    for _ in 0..2 {
        let mut next = Vec::new();
        for (score, path, state) in &beams {
            let state = fc.forward(state)?;
            for token in 0..3 {
                let path = path.iter().copied().chain([token]).collect::<Vec<_>>();
                next.push((score - token as f32, path, state.clone()));
            }
        }
        next.sort_by(|a, b| b.0.total_cmp(&a.0));
        next.truncate(width);
        beams = next;
    }
    Ok(beams.swap_remove(0).2)
}

#[test]
fn lists_of_tuples_hold_f32_where_one_of_them_does() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to::<F32>()?;
    assert_eq!(bits(&pushed(&x, &w)?), bits(&((&x.exp()? + &product)? * 4.0)?));
    assert_eq!(bits(&given(&x, &w)?), bits(&product));
    assert_eq!(bits(&in_any::<F16>(&x, &w)?[0].1), bits(&product));
    assert_eq!(bits(&written(&x, &w)?), bits(&x.to::<BF16>()?.matmul(&w.to::<BF16>()?)?.to()?));
    assert_eq!(of_two(&x, &w)?, [DType::F16, DType::F32]);
    let fc = Linear::new(4, 4, &Device::cpu())?;
    let state = fc.forward(&fc.forward(&x.to::<F16>()?)?)?.to::<F32>()?;
    assert_eq!(bits(&searched(&fc, &x, 2)?), bits(&state));
    Ok(())
}

#[autocast(f16)]
fn entered(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut map = HashMap::new();
    for (i, x) in [x, w].into_iter().enumerate() {
        map.entry(i).and_modify(|held| *held = x.clone()).or_insert(x.matmul(w)?);
    }
    map.insert(7, w.exp()?);
    let mut counts = HashMap::new();
    for size in x.dims() {
        *counts.entry(*size).or_insert(0) += 1;
    }
    let count: usize = counts[&4];
    (&map[&0] + &map[&7])? * count as f64
}

#[test]
fn entries_of_maps_hold_f32_where_others_do() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to::<F32>()?;
    assert_eq!(bits(&entered(&x, &w)?), bits(&((&product + &w.exp()?)? * 2.0)?));
    Ok(())
}

#[autocast(f16)]
fn folded(x: &Tensor<F32>, ws: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let (h, sizes) = ws.iter().try_fold((x.clone(), 0), |(h, n), w| Ok::<_, Error>((h.matmul(w)?, n + w.dims()[0])))?;
    h * sizes as f64
}

#[autocast(f16)]
fn folded_in_turns(x: &Tensor<F32>, ws: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let (a, b) = ws.iter().try_fold((x.clone(), ws[0].clone()), |(a, b), w| -> Result<_> {
        let product = a.matmul(&b)?;
        Ok((b, (product + w)?))
    })?;
    a + b
}

#[test]
fn folds_of_tuples_widen_what_they_carry() -> Result<()> {
    let (x, ws) = (random([4, 4])?, [random([4, 4])?, random([4, 4])?]);
    let narrow = |t: &T| t.to::<F16>();
    let h = narrow(&x)?.matmul(&narrow(&ws[0])?)?.matmul(&narrow(&ws[1])?)?.to::<F32>()?;
    assert_eq!(bits(&folded(&x, &ws)?), bits(&(h * 8.0)?));
    let first = (narrow(&x)?.matmul(&narrow(&ws[0])?)?.to::<F32>()? + &ws[0])?;
    let second = (narrow(&ws[0])?.matmul(&narrow(&first)?)?.to::<F32>()? + &ws[1])?;
    assert_eq!(bits(&folded_in_turns(&x, &ws)?), bits(&(first + second)?));
    Ok(())
}

#[autocast(f16)]
fn folded_from_a_variable(fcs: &[Linear], norm: &LayerNorm, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = fcs[0].forward(x)?;
    let start = (h.clone(), h.zeros_like()?, 0);
    let (left, sum, _) = fcs.iter().try_fold(start, |(left, sum, n), _| -> Result<_> {
        let y = norm.forward(&left)?;
        Ok(((left - &y)?, (sum + y)?, n + 1))
    })?;
    left + sum
}

#[test]
fn tuples_in_variables_begin_folds_in_f32() -> Result<()> {
    let (fcs, norm) = ([Linear::new(4, 4, &Device::cpu())?], LayerNorm::new([4], &Device::cpu())?);
    let x = random([3, 4])?;
    let h: T = fcs[0].forward(&x.to::<F16>()?)?.to()?;
    let y = norm.forward(&h)?;
    let by_hand = (&h - &y)? + (h.zeros_like()? + &y)?;
    assert_eq!(bits(&folded_from_a_variable(&fcs, &norm, &x)?), bits(&by_hand?));
    Ok(())
}
