//! What begins as nothing, or with a value of its own, and takes up values on the way: it holds them in F32.

use super::*;
use std::sync::Arc;

fn activated(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    fc.forward(x)?.relu()
}

fn two(fc: &Linear, x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
    Ok((x.clone(), fc.forward(x)?))
}

#[autocast(f16)]
fn by_match(fcs: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut sum = None;
    for fc in fcs {
        let y = fc.forward(x)?;
        sum = Some(match sum {
            None => y,
            Some(sum) => (sum + y)?,
        });
    }
    Ok(sum.expect("several layers"))
}

#[autocast(f16)]
fn by_arms(fcs: &[Linear], x: &Tensor<F32>) -> Result<Option<Tensor<F32>>> {
    let mut sum = None;
    for fc in fcs {
        let y = fc.forward(x)?;
        sum = match sum.take() {
            Some(sum) => Some((&y + &sum)?),
            None => Some(y),
        };
    }
    Ok(sum)
}

#[autocast(f16)]
fn by_condition(fcs: &[Linear], x: &T) -> Result<Tensor<F32>> {
    let mut sum = None;
    for fc in fcs {
        let y = fc.forward(x)?;
        sum = Some(if let Some(sum) = sum { (y + sum)? } else { y });
    }
    Ok(sum.expect("several layers"))
}

#[autocast(f16)]
fn by_else(fcs: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut sum = None;
    for fc in fcs {
        let y = fc.forward(x)?;
        let Some(before) = sum else {
            sum = Some(y);
            continue;
        };
        sum = Some((before + y)?);
    }
    Ok(sum.expect("several layers"))
}

#[autocast(f16)]
fn by_reference(fcs: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut sum = None;
    for fc in fcs {
        let y = fc.forward(x)?;
        match &mut sum {
            None => sum = Some(y),
            Some(sum) => *sum = (&*sum + &y)?,
        }
    }
    Ok(sum.expect("several layers"))
}

#[test]
fn sums_of_layers_begin_with_nothing() -> Result<()> {
    let (fcs, x) = (layers(3)?, random([3, 4])?);
    let ys: Vec<T> = fcs.iter().map(|fc| in_f16(fc, &x)).collect::<Result<_>>()?;
    let by_hand = ((&ys[0] + &ys[1])? + &ys[2])?.to_vec()?;
    for (form, sum) in [
        ("match", by_match(&fcs, &x)?),
        ("arms", by_arms(&fcs, &x)?.expect("several layers")),
        ("condition", by_condition(&fcs, &x)?),
        ("else", by_else(&fcs, &x)?),
        ("reference", by_reference(&fcs, &x)?),
    ] {
        assert_eq!(sum.to_vec()?, by_hand, "{form}");
    }
    Ok(())
}

#[autocast(f16)]
fn of_functions(fcs: &[Linear], x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
    let (mut sum, mut joined) = (None, None);
    let mut last = None;
    for fc in fcs {
        let y = activated(fc, x)?;
        sum = Some(match sum {
            None => y,
            Some(sum) => (sum + y)?,
        });
        let (_, y) = two(fc, x)?;
        joined = Some(match &joined {
            None => y.clone(),
            Some(joined) => Tensor::cat(&[joined, &y], 1)?,
        });
        last = Some(y);
    }
    Ok(((sum.expect("several layers") + last.expect("several layers"))?, joined.expect("several layers")))
}

#[autocast(f16)]
fn steps(fcs: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut before = None;
    let mut total = x.zeros_like()?;
    for fc in fcs {
        let y = fc.forward(x)?;
        if let Some(before) = &before {
            total = (total + (&y - before)?.abs()?)?;
        }
        before = Some(y);
    }
    Ok(total)
}

#[test]
fn what_functions_and_layers_gave_is_kept_for_the_next_step() -> Result<()> {
    let (fcs, x) = (layers(2)?, random([3, 4])?);
    let (a, b) = (in_f16(&fcs[0], &x)?, in_f16(&fcs[1], &x)?);
    assert_eq!(steps(&fcs, &x)?.to_vec()?, (&b - &a)?.abs()?.to_vec()?);
    let (sum, joined) = of_functions(&fcs, &x)?;
    let (a, b) = (fcs[0].forward(&x)?, fcs[1].forward(&x)?);
    assert_eq!(joined.to_vec()?, Tensor::cat(&[&a, &b], 1)?.to_vec()?);
    assert_eq!(sum.to_vec()?, ((a.relu()? + b.relu()?)? + b)?.to_vec()?);
    Ok(())
}

fn count(x: &Tensor<F32>) -> usize {
    x.count()
}

fn share(x: &Tensor<F32>) -> f32 {
    1.0 / x.count() as f32
}

#[autocast(f16)]
fn numbers(x: &Tensor<F32>) -> (usize, usize, f32) {
    let (mut sum, mut most, mut mean) = (None, None, None);
    for _ in 0..2 {
        let n = count(x);
        sum = Some(match sum {
            None => n,
            Some(sum) => n + sum,
        });
        most = Some(match most {
            None => n,
            Some(most) => n.max(most),
        });
        let next = share(x);
        mean = Some(if let Some(mean) = mean { 0.5 * mean + 0.5 * next } else { next });
    }
    let all = sum.zip(most).zip(mean).expect("two rounds");
    (all.0.0, all.0.1, all.1)
}

#[test]
fn numbers_are_taken_up_as_they_are() -> Result<()> {
    assert_eq!(numbers(&random([2, 4])?), (16, 8, 0.125));
    Ok(())
}

struct Sharpened(Linear);

impl Sharpened {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.0.forward(x)?.exp()
    }
}

#[autocast(f16)]
fn folded(stem: &Linear, blocks: &[Sharpened], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = stem.forward(x)?;
    blocks.iter().try_fold(h, |h, block| block.forward(&h))
}

#[autocast(f16)]
fn folded_by_operations(stem: &Linear, blocks: &[Sharpened], x: &T) -> Result<Tensor<F32>> {
    blocks.iter().fold(stem.forward(x), |h, block| block.0.forward(&h?)?.exp())
}

#[autocast(f16)]
fn folded_from_an_alias(stem: &Linear, blocks: &[Sharpened], x: &T) -> Result<T> {
    let h = stem.forward(x)?;
    let h = blocks.iter().try_fold(h.clone(), |h, block| block.0.forward(&h)?.exp())?;
    let none: &[Sharpened] = &[];
    none.iter().try_fold(h.clone(), |h, block| block.0.forward(&h)?.relu())
}

#[autocast(f16)]
fn folded_back(stem: &Linear, blocks: &[Sharpened], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let width = blocks.iter().fold(0, |width, block| width + block.0.weight().dims()[0]);
    assert_eq!(width, 8);
    let start = Ok(stem.forward(x)?);
    blocks.iter().rev().rfold(start, |h: Result<_>, block| h.and_then(|h| block.forward(&h)))
}

#[test]
fn folds_join_what_they_begin_with_and_what_they_make() -> Result<()> {
    let cpu = Device::cpu();
    let (stem, x) = (Linear::new(4, 4, &cpu)?, random([3, 4])?);
    let blocks = [Sharpened(Linear::new(4, 4, &cpu)?), Sharpened(Linear::new(4, 4, &cpu)?)];
    let mut h = in_f16(&stem, &x)?;
    for block in &blocks {
        h = in_f16(&block.0, &h)?.exp()?;
    }
    for (form, y) in [
        ("modules", folded(&stem, &blocks, &x)?),
        ("operations", folded_by_operations(&stem, &blocks, &x)?),
        ("alias", folded_from_an_alias(&stem, &blocks, &x)?),
        ("back", folded_back(&stem, &blocks, &x)?),
    ] {
        assert_eq!(y.to_vec()?, h.to_vec()?, "{form}");
    }
    Ok(())
}

#[autocast(f16)]
fn summed(fcs: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let outputs = fcs.iter().map(|fc| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    outputs.iter().try_fold(Tensor::zeros(x.dims(), x.device())?, |sum, y| sum + y)
}

#[autocast(f16)]
fn from_a_product(fcs: &[Linear], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let shared = Arc::new(x.matmul(&x.t()?)?);
    let square = shared.matmul(x)?;
    fcs.iter().try_fold(Tensor::matmul(&shared, &square)?, |h, fc| fc.forward(&h))
}

/// `Tensor::matmul(..)` names no type either, and is no tensor that was made without one.
#[test]
fn a_fold_from_a_product_widens_it() -> Result<()> {
    let (fcs, x) = (layers(2)?, random([3, 4])?);
    let half = x.to::<F16>()?;
    let shared = half.matmul(&half.t()?)?;
    let mut h = shared.matmul(&shared.matmul(&half)?)?.to::<F32>()?;
    for fc in &fcs {
        h = in_f16(fc, &h)?;
    }
    assert_eq!(from_a_product(&fcs, &x)?.to_vec()?, h.to_vec()?);
    Ok(())
}

/// Zeros without a type would take that of the first thing that is added.
#[test]
fn a_fold_from_a_tensor_without_a_type_is_f32() -> Result<()> {
    let (fcs, x) = (layers(3)?, random([3, 4])?);
    let mut sum = Tensor::<F32>::zeros([3, 4], &Device::cpu())?;
    for fc in &fcs {
        sum = (sum + in_f16(fc, &x)?.to::<F32>()?)?;
    }
    assert_eq!(summed(&fcs, &x)?.to_vec()?, sum.to_vec()?);
    Ok(())
}

pub(super) fn layers(count: usize) -> Result<Vec<Linear>> {
    (0..count).map(|_| Linear::new(4, 4, &Device::cpu())).collect()
}

/// What the layer gives in a region, as F32.
pub(super) fn in_f16(fc: &Linear, x: &T) -> Result<T> {
    fc.forward(&x.to::<F16>()?)?.to()
}

#[autocast(f16)]
fn listed(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut list = vec![fc.forward(x)?];
    list.push(x.clone());
    Tensor::cat(&list.iter().collect::<Vec<_>>(), 1)
}

#[autocast(f16)]
fn listed_one_by_one(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut list = Vec::with_capacity(2);
    for i in 0..2 {
        if i == 0 {
            list.push(fc.forward(x)?);
        } else {
            let y = list[0].zeros_like()?;
            list.push((x + y)?);
        }
    }
    Tensor::cat(&list.iter().collect::<Vec<_>>(), 1)
}

#[autocast(f16)]
fn listed_over(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = fc.forward(x)?;
    let mut list = vec![y.clone(), y];
    list[1] = x.clone();
    Tensor::cat(&list.iter().collect::<Vec<_>>(), 1)
}

#[autocast(f16)]
fn queued(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut queue = std::collections::VecDeque::new();
    queue.push_back(fc.forward(x)?);
    queue.push_back(x.clone());
    let first = queue.pop_front().expect("two of them");
    Tensor::cat(&[&first, &queue[0]], 1)
}

#[autocast(f16)]
fn named(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut map = HashMap::new();
    map.insert("y", fc.forward(x)?);
    map.insert("x", x.clone());
    Tensor::cat(&[&map["y"], &map["x"]], 1)
}

#[autocast(f16)]
fn collected(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut list = [x].iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    list.extend([x.clone()]);
    Tensor::cat(&list.iter().collect::<Vec<_>>(), 1)
}

#[test]
fn containers_hold_the_widest_of_what_they_are_given() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let by_hand = Tensor::cat(&[&in_f16(&fc, &x)?, &x], 1)?.to_vec()?;
    for (form, y) in [
        ("list", listed(&fc, &x)?),
        ("one by one", listed_one_by_one(&fc, &x)?),
        ("over", listed_over(&fc, &x)?),
        ("queue", queued(&fc, &x)?),
        ("map", named(&fc, &x)?),
        ("collected", collected(&fc, &x)?),
    ] {
        assert_eq!(y.to_vec()?, by_hand, "{form}");
    }
    Ok(())
}

/// What the products of a list are reduced to has their precision, until it meets F32.
#[autocast(f16)]
fn reduced(ws: &[Tensor<F32>], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut y = ws.iter().map(|w| x.matmul(w)).reduce(|a, b| a? + b?).expect("there are some")?;
    for w in ws {
        y = (y * w.mean_all()?)?;
    }
    Ok(y)
}

#[test]
fn what_a_list_is_reduced_to_joins_as_its_elements_do() -> Result<()> {
    let (x, ws) = (random([4, 4])?, [random([4, 4])?, random([4, 4])?]);
    let [a, b] = [0, 1].map(|i: usize| x.to::<F16>()?.matmul(&ws[i].to::<F16>()?));
    let by_hand = (((a? + b?)?.to::<F32>()? * ws[0].mean_all()?)? * ws[1].mean_all()?)?;
    assert_eq!(reduced(&ws, &x)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}
