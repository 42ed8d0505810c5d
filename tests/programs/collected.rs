//! What iterators collect goes where F32 is declared: elements are widened one by one, ahead of the collection.

use super::*;
use std::collections::{BTreeMap, VecDeque};

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

type Heads = BTreeMap<String, Linear>;

#[autocast(f16)]
fn by_name(heads: &Heads, x: &T) -> Result<HashMap<String, T>> {
    heads.iter().map(|(name, head)| Ok((name.clone(), head.forward(x)?))).collect()
}

#[autocast(f16)]
fn declared(heads: &Heads, x: &T) -> Result<HashMap<String, T>> {
    let outs: BTreeMap<&str, T> =
        heads.iter().map(|(name, head)| Ok((name.as_str(), head.forward(x)?))).collect::<Result<_>>()?;
    Ok(outs.into_iter().map(|(name, out)| (name.to_string(), out)).collect())
}

#[autocast(f16)]
fn numbered(heads: &Heads, x: &T) -> Result<HashMap<String, (Tensor<F32>, usize)>> {
    heads.iter().enumerate().map(|(i, (name, head))| Ok((name.clone(), (head.forward(x)?, i)))).collect()
}

#[autocast(f16)]
fn with_shares(heads: &Heads, x: &T) -> Result<HashMap<String, (T, T)>> {
    heads
        .iter()
        .map(|(name, head)| {
            let y = head.forward(x)?;
            Ok((name.clone(), (y.relu()?, y.softmax(-1)?)))
        })
        .collect()
}

#[autocast(f16)]
fn in_lists(heads: &Heads, x: &T) -> Result<HashMap<String, Vec<T>>> {
    let outs = |(name, head): (&String, &Linear)| -> Result<(String, Vec<T>)> {
        let y = head.forward(x)?;
        Ok((name.clone(), vec![y.relu()?, y]))
    };
    heads.iter().map(outs).collect()
}

#[test]
fn maps_are_collected_of_pairs_in_f32() -> Result<()> {
    let (a, b) = (Linear::new(4, 4, &Device::cpu())?, Linear::new(4, 4, &Device::cpu())?);
    let heads = Heads::from([("a".to_string(), a), ("b".to_string(), b)]);
    let x = random([2, 4])?;
    for (i, (name, head)) in heads.iter().enumerate() {
        let y = head.forward(&x.to::<F16>()?)?;
        let [full, relu] = [y.to::<F32>()?, y.relu()?.to()?].map(|y| bits(&y));
        let shares = bits(&y.to::<F32>()?.softmax(-1)?);
        assert_eq!(bits(&by_name(&heads, &x)?[name]), full);
        assert_eq!(bits(&declared(&heads, &x)?[name]), full);
        let (out, place) = &numbered(&heads, &x)?[name];
        assert_eq!((bits(out), *place), (full.clone(), i));
        let (out, softmax) = &with_shares(&heads, &x)?[name];
        assert_eq!((bits(out), bits(softmax)), (relu.clone(), shares));
        let outs: Vec<_> = in_lists(&heads, &x)?[name].iter().map(bits).collect();
        assert_eq!(outs, [relu, full]);
    }
    Ok(())
}

#[autocast(f16)]
fn one_from_the_other(fc: &Linear, x: &T) -> Result<Vec<T>> {
    std::iter::successors(Some(fc.forward(x)), |h| h.as_ref().ok().map(|h| fc.forward(h))).take(3).collect()
}

#[autocast(f16)]
fn one_of_a_row(fc: &Linear, x: &T, at: usize) -> Result<T> {
    let row: Vec<_> = std::iter::successors(Some(fc.forward(x)?), |h| h.relu().ok()).take(2).collect();
    Ok(row[at].clone())
}

#[autocast(f16)]
fn gates(fc: &Linear, x: &T) -> Result<[T; 2]> {
    let gates: [T; 2] = fc.forward(x)?.chunk(2, -1)?.try_into().map_err(|_| Error::NoGraph)?;
    let [i, o] = gates;
    Ok([i.sigmoid()?, o])
}

#[test]
fn what_makes_the_next_and_what_becomes_an_array_is_f32() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let first = fc.forward(&x.to::<F16>()?)?;
    let second = fc.forward(&first)?;
    let by_hand = [&first, &second, &fc.forward(&second)?].map(|h| bits(&h.to().expect("on the CPU")));
    assert_eq!(one_from_the_other(&fc, &x)?.iter().map(bits).collect::<Vec<_>>(), by_hand);
    assert_eq!(bits(&one_of_a_row(&fc, &x, 0)?), by_hand[0]);
    assert_eq!(bits(&one_of_a_row(&fc, &x, 1)?), bits(&first.relu()?.to()?));
    let halves = first.to::<F32>()?.chunk(2, -1)?;
    assert_eq!(gates(&fc, &x)?.each_ref().map(bits), [bits(&halves[0].sigmoid()?), bits(&halves[1])]);
    Ok(())
}

#[autocast(f16)]
fn later(fc: &Linear, xs: &[T]) -> Result<Vec<T>> {
    let outs = xs.iter().map(|x| fc.forward(x));
    outs.collect()
}

#[autocast(f16)]
fn later_in_part(fc: &Linear, xs: &[T]) -> Result<Vec<Tensor<F32>>> {
    let mut outs = xs.iter().map(|x| fc.forward(x)).rev();
    let first = outs.next().transpose()?;
    let rest = outs.take(3).collect::<Result<Vec<Tensor<F32>>>>()?;
    Ok(rest.into_iter().chain(first).collect())
}

#[autocast(f16)]
fn numbered_later(fc: &Linear, xs: &[T]) -> Result<Vec<(usize, T)>> {
    let outs = xs.iter().enumerate().map(|(i, x)| Ok((i, fc.forward(x)?)));
    outs.collect()
}

#[autocast(f16)]
fn copies(fc: &Linear, xs: &[T]) -> Result<Vec<T>> {
    let outs = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    Ok(outs.iter().cloned().rev().collect())
}

#[autocast(f16)]
fn by_the_names_of_functions(fc: &Linear, xs: &[T]) -> Result<Vec<T>> {
    let outs = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    outs.iter().map(Tensor::relu).collect()
}

#[autocast(f16)]
fn the_first_that_is_there(fc: &Linear, xs: &[T]) -> Result<T> {
    let first = xs.iter().map(|x| fc.forward(x)).filter_map(Result::ok).min_by_key(|y| y.count());
    first.ok_or(Error::NoGraph)
}

#[test]
fn what_is_collected_later_is_f32() -> Result<()> {
    let (fc, xs) = (Linear::new(4, 4, &Device::cpu())?, [random([2, 4])?, random([2, 4])?]);
    let outs: Vec<Tensor<F16>> = xs.iter().map(|x| fc.forward(&x.to()?)).collect::<Result<_>>()?;
    let wide = |out: &Tensor<F16>| Ok(bits(&out.to()?));
    let by_hand: Vec<Vec<f32>> = outs.iter().map(wide).collect::<Result<_>>()?;
    let activated: Vec<Vec<f32>> = outs.iter().map(|out| wide(&out.relu()?)).collect::<Result<_>>()?;
    let all_of = |outs: Vec<T>| outs.iter().map(bits).collect::<Vec<_>>();
    assert_eq!(all_of(later(&fc, &xs)?), by_hand);
    assert_eq!(all_of(later_in_part(&fc, &xs)?), by_hand);
    let (places, numbered): (Vec<usize>, Vec<T>) = numbered_later(&fc, &xs)?.into_iter().unzip();
    assert_eq!((places, all_of(numbered)), (vec![0, 1], by_hand.clone()));
    assert_eq!(all_of(by_the_names_of_functions(&fc, &xs)?), activated);
    assert_eq!(bits(&the_first_that_is_there(&fc, &xs)?), by_hand[0]);
    let turned: Vec<_> = by_hand.into_iter().rev().collect();
    assert_eq!(all_of(copies(&fc, &xs)?), turned);
    Ok(())
}

/// Which collections hold F32 only their declarations say.
#[derive(Default)]
struct Recorded {
    outs: Vec<T>,
    named: HashMap<String, T>,
    last: VecDeque<T>,
    lists: BTreeMap<usize, Vec<T>>,
    sizes: Vec<usize>,
}

impl Recorded {
    fn joined(outs: Vec<T>, names: &[String]) -> Result<T> {
        assert_eq!(names.len(), outs.len());
        Tensor::cat(&outs, 0)
    }
}

#[autocast(P)]
fn in_fields<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Recorded> {
    let ys = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    Ok(Recorded {
        outs: xs.iter().map(|x| fc.forward(x)).collect::<Result<_>>()?,
        named: xs.iter().enumerate().map(|(i, x)| Ok((i.to_string(), fc.forward(x)?))).collect::<Result<_, Error>>()?,
        last: ys.iter().rev().map(|y| y.detach()).collect(),
        sizes: ys.iter().map(|y| y.count()).collect(),
        ..Recorded::default()
    })
}

#[autocast(P)]
fn in_places<P: AutocastPrecision>(fc: &Linear, xs: &[T], to: &mut Recorded) -> Result<T> {
    let ys = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    to.outs = ys.iter().map(Tensor::detach).collect();
    to.named = ys.iter().enumerate().map(|(i, y)| (i.to_string(), y.clone())).collect();
    to.last = xs.iter().rev().map(|x| fc.forward(x)).collect::<Result<_>>()?;
    to.lists.insert(0, xs.iter().map(|x| fc.forward(x)).collect::<Result<_>>()?);
    to.sizes = xs.iter().map(|x| x.count().pow(1)).collect();
    let (even, odd): (Vec<T>, Vec<T>) = ys.clone().into_iter().partition(|y| y.rank() == 2);
    assert_eq!((even.len(), odd.len()), (ys.len(), 0));
    Recorded::joined(ys.into_iter().collect(), &xs.iter().map(|x| format!("{:?}", x.dims())).collect::<Vec<_>>())
}

#[autocast(P)]
fn drained<P: AutocastPrecision>(fc: &Linear, xs: &[T]) -> Result<Vec<T>> {
    let mut ys = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    Ok(ys.drain(..).collect())
}

#[autocast(P)]
fn extended<P: AutocastPrecision>(fc: &Linear, xs: &[T], to: &mut Recorded) -> Result<Vec<(usize, Tensor<F32>)>> {
    let ys = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    to.outs.extend(ys.iter().map(|y| y.detach()));
    to.last.extend(ys.iter().rev().cloned());
    to.named.extend(ys.iter().enumerate().map(|(i, y)| (i.to_string(), y.clone())));
    let mut all = vec![xs[0].clone()];
    all.extend(ys.iter().cloned());
    assert_eq!(Tensor::cat(&all, 0)?.dims(), [6, 4]);
    Ok([0, 1].into_iter().zip(ys).collect())
}

fn same_in_places<P: AutocastPrecision>() -> Result<()> {
    let (fc, xs) = (Linear::new(4, 4, &Device::cpu())?, [random([2, 4])?, random([2, 4])?]);
    let by_hand = xs.iter().map(|x| fc.forward(&x.to::<P>()?)?.to()).collect::<Result<Vec<T>>>()?;
    let same = |outs: &[T]| assert!(outs.iter().map(bits).eq(by_hand.iter().map(bits)));
    let mut made = in_fields::<P>(&fc, &xs)?;
    let joined = in_places::<P>(&fc, &xs, &mut Recorded::default())?;
    assert_eq!(bits(&joined), bits(&Tensor::cat(&by_hand, 0)?));
    for _ in 0..2 {
        same(&made.outs);
        same(&[made.named["0"].clone(), made.named["1"].clone()]);
        same(&made.last.iter().rev().cloned().collect::<Vec<_>>());
        assert_eq!(made.sizes, [8, 8]);
        in_places::<P>(&fc, &xs, &mut made)?;
    }
    same(&made.lists[&0]);
    same(&drained::<P>(&fc, &xs)?);
    let mut made = Recorded::default();
    let pairs = extended::<P>(&fc, &xs, &mut made)?;
    same(&pairs.into_iter().map(|(_, y)| y).collect::<Vec<_>>());
    same(&made.outs);
    same(&made.last.iter().rev().cloned().collect::<Vec<_>>());
    same(&[made.named["0"].clone(), made.named["1"].clone()]);
    Ok(())
}

#[test]
fn what_is_collected_into_fields_and_arguments_is_widened_where_they_say_so() -> Result<()> {
    same_in_places::<F16>()?;
    same_in_places::<BF16>()?;
    same_in_places::<F32>()
}
