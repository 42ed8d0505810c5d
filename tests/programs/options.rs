//! Options and results of pairs that branches end in: they join element by element.

use super::{T, bits, random};
use amp::nn::*;
use amp::prelude::*;

/// The types alone tell what a module gives.
#[autocast(bf16)]
fn staged(fc: &Linear, norm: &LayerNorm, x: &T, stage: usize) -> Result<T> {
    let scaled = match stage {
        0 => None,
        1 => Some((fc.forward(x)?, 2.0)),
        _ => Some((norm.forward(x)?, 3.0)),
    };
    let Some((h, scale)) = scaled else { return x.relu() };
    h.add(&h)? * scale
}

/// What is known to be BF16 meets what is known to be F32.
#[autocast(bf16)]
fn known(x: &T, stage: usize) -> Result<T> {
    let scaled = if stage == 0 {
        None
    } else if stage == 1 {
        Some((x.matmul(x)?, 2.0))
    } else {
        Some((x.exp()?, 3.0))
    };
    if let Some((h, scale)) = scaled { h.add(&h)? * scale } else { x.relu() }
}

#[autocast(bf16)]
fn tried(fc: &Linear, norm: &LayerNorm, x: &T, stage: usize) -> std::result::Result<T, String> {
    let scaled = match stage {
        0 => Err("nothing to scale".to_owned()),
        1 => Ok(Some((fc.forward(x).map_err(|error| error.to_string())?, 2.0))),
        _ => Ok(Some((norm.forward(x).map_err(|error| error.to_string())?, 3.0))),
    };
    let (h, scale) = scaled?.unwrap_or_else(|| unreachable!());
    h.add(&h).and_then(|h| h * scale).map_err(|error| error.to_string())
}

struct Cache {
    kv: Option<(T, T)>,
}

/// The branches of a cache: extended, or begun.
#[autocast(bf16)]
fn extended(cache: &Cache, fc: &Linear, x: &T) -> Result<Option<(T, T)>> {
    let kv = match &cache.kv {
        Some((k, v)) => Some((Tensor::cat(&[k, &fc.forward(x)?], 0)?, v.clone())),
        None => Some((fc.forward(x)?, fc.forward(x)?.relu()?)),
    };
    Ok(kv)
}

#[test]
fn options_of_pairs_join() -> Result<()> {
    let (fc, norm, x) = (Linear::new(4, 4, &Device::cpu())?, LayerNorm::new([4], &Device::cpu())?, random([4, 4])?);
    let lower = x.to::<BF16>()?;
    let given = fc.forward(&lower)?.to::<F32>()?;
    let doubled = |h: T, scale: f64| -> Result<Vec<f32>> { (h.add(&h)? * scale)?.to_vec() };
    let (by_layer, by_norm) = (doubled(given.clone(), 2.0)?, doubled(norm.forward(&x)?, 3.0)?);
    assert_eq!(staged(&fc, &norm, &x, 0)?.to_vec()?, x.relu()?.to_vec()?);
    assert_eq!(staged(&fc, &norm, &x, 1)?.to_vec()?, by_layer);
    assert_eq!(staged(&fc, &norm, &x, 2)?.to_vec()?, by_norm);
    assert_eq!(known(&x, 1)?.to_vec()?, doubled(lower.matmul(&lower)?.to()?, 2.0)?);
    assert_eq!(known(&x, 2)?.to_vec()?, doubled(x.exp()?, 3.0)?);
    assert_eq!(tried(&fc, &norm, &x, 0).unwrap_err(), "nothing to scale");
    assert_eq!(tried(&fc, &norm, &x, 1).and_then(|h| h.to_vec().map_err(|error| error.to_string())), Ok(by_layer));
    let begun = Cache { kv: extended(&Cache { kv: None }, &fc, &x)? };
    let (k, v) = extended(&begun, &fc, &x)?.expect("it was begun");
    assert_eq!(k.to_vec()?, Tensor::cat(&[&given, &given], 0)?.to_vec()?);
    assert_eq!(v.to_vec()?, given.relu()?.to_vec()?);
    Ok(())
}

/// What the branches give says the type of what is taken out of the variable in the next pass.
#[autocast(bf16)]
fn grown(fc: &Linear, x: &Tensor<F32>) -> Result<T> {
    let mut kv = None;
    for _ in 0..2 {
        kv = match kv {
            None => Some((fc.forward(x)?, fc.forward(x)?)),
            Some((k, v)) => Some((Tensor::cat(&[&k, &v], 0)?, v)),
        };
    }
    kv.expect("it was begun").0.relu()?.to()
}

#[test]
fn options_say_their_type_from_pass_to_pass() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let given = fc.forward(&x.to::<BF16>()?)?.to::<F32>()?;
    assert_eq!(grown(&fc, &x)?.to_vec()?, Tensor::cat(&[&given, &given], 0)?.relu()?.to_vec()?);
    Ok(())
}

/// An option, a variable and a tuple begin in F16 and are given F32 by what is no assignment to them alone.
#[autocast(f16)]
fn replaced(x: &Tensor<F32>) -> Result<[T; 5]> {
    let mut maybe = Some(x.matmul(x)?);
    let old = maybe.replace(x.softmax(-1)?);
    let mut h = x.matmul(x)?;
    let before = std::mem::replace(&mut h, x.softmax(-1)?);
    let mut best = (0, x.matmul(x)?);
    for i in 1..3 {
        if i > best.0 {
            best = (i, x.softmax(-1)?);
        }
    }
    let [Some(old), Some(new)] = [old, maybe] else { unreachable!("both were given") };
    Ok([old, new, before, h, best.1])
}

#[test]
fn what_replaces_a_value_joins_it() -> Result<()> {
    let x = random([4, 4])?;
    let half = x.to::<F16>()?;
    let (product, wide) = (half.matmul(&half)?.to::<F32>()?.to_vec()?, x.softmax(-1)?.to_vec()?);
    let found = replaced(&x)?.map(|h| h.to_vec());
    let expected = [&product, &wide, &product, &wide, &wide];
    for (found, expected) in found.into_iter().zip(expected) {
        assert_eq!(found?, *expected);
    }
    Ok(())
}

/// Lists of F16 side by side.
#[autocast(f16)]
fn side_by_side(xs: &[T], w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let hs = xs.iter().map(|x| x.matmul(w)).collect::<Result<Vec<_>>>()?;
    let mut sum = xs[0].matmul(w)?;
    for (x, y) in hs.iter().zip(&hs[1..]) {
        sum = sum.add(&x.mul(y)?)?;
    }
    let _: &Tensor<F16> = &sum;
    let pairs = hs.iter().zip(hs.clone()).map(|(x, y)| x.add(&y)).collect::<Result<Vec<_>>>()?;
    Ok(pairs.into_iter().chain([sum]).collect())
}

#[test]
fn lists_side_by_side_keep_their_precision() -> Result<()> {
    let (xs, w) = ([random([2, 4])?, random([2, 4])?, random([2, 4])?], random([4, 4])?.to::<F16>()?);
    let hs = xs.iter().map(|x| x.to::<F16>()?.matmul(&w)).collect::<Result<Vec<_>>>()?;
    let sum = ((&hs[0] + (&hs[0] * &hs[1])?)? + (&hs[1] * &hs[2])?)?;
    let all = hs.iter().map(|h| h + h).chain([Ok(sum)]).collect::<Result<Vec<_>>>()?;
    for (found, expected) in side_by_side(&xs, &w.to()?)?.iter().zip(&all) {
        assert_eq!(found.to_vec()?, expected.to::<F32>()?.to_vec()?);
    }
    Ok(())
}

/// What stands in for an option or a result that holds nothing is F32: so is what it held.
#[autocast(f16)]
fn instead(fc: &Linear, x: &Tensor<F32>, y: Option<Tensor<F32>>) -> Result<[Tensor<F32>; 6]> {
    let tried = x.matmul(x).or_else(|_| x.relu())?;
    let layer = fc.forward(x).or_else(|_| x.relu())?;
    let kept = x.matmul(x).ok().or_else(|| Some(x.clone())).expect("one of them");
    let given = x.matmul(x).ok().or(Some(x.clone())).expect("one of them");
    let first = Some(fc.forward(x)?).or(y.clone()).expect("one of them");
    let second = y.or(Some(fc.forward(x)?)).expect("one of them");
    Ok([tried, layer, kept, given, first, second])
}

#[test]
fn what_stands_in_joins() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let half = x.to::<F16>()?;
    let (product, layer) = (half.matmul(&half)?.to::<F32>()?.to_vec()?, fc.forward(&half)?.to::<F32>()?.to_vec()?);
    let ours = instead(&fc, &x, Some(x.relu()?))?;
    for (i, expected) in [&product, &layer, &product, &product, &layer, &x.relu()?.to_vec()?].into_iter().enumerate() {
        assert_eq!(&ours[i].to_vec()?, expected, "value {i}");
    }
    assert_eq!(instead(&fc, &x, None)?[5].to_vec()?, layer);
    Ok(())
}

#[autocast(f16)]
fn chosen_by_name(x: &Tensor<F32>, w: &Tensor<F32>, there: bool) -> Result<Tensor<F32>> {
    let h = there.then(|| x.matmul(w)).transpose()?;
    h.map(|h| h.relu()).transpose()?.map_or_else(|| x.exp(), Ok)
}

#[autocast(f16)]
fn kept_by_name(x: &Tensor<F32>, w: &Tensor<F32>, other: Option<Tensor<F32>>) -> Result<Option<Tensor<F32>>> {
    let h = x.matmul(w)?;
    Ok(other.map_or(Some(h), Some))
}

#[test]
fn what_is_there_is_widened_beside_what_stands_in_for_it() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let h = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to::<F32>()?;
    assert_eq!(bits(&chosen_by_name(&x, &w, true)?), bits(&h.relu()?));
    assert_eq!(bits(&chosen_by_name(&x, &w, false)?), bits(&x.exp()?));
    assert_eq!(kept_by_name(&x, &w, None)?.map(|h| bits(&h)), Some(bits(&h)));
    Ok(())
}

type Low = Tensor<F16>;

/// The macro does not see what the name of the type stands for.
#[autocast(f16)]
fn named(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<[T; 3]> {
    let (mut sum, mut last): (Option<T>, Option<T>) = (None, None);
    let mut kept: Option<T> = None;
    let mut low: Option<Low> = None;
    for _ in 0..2 {
        let y = x.matmul(w)?;
        kept = match kept {
            Some(so_far) => Some((so_far + &y)?),
            None => Some(y.clone()),
        };
        low = match low {
            Some(so_far) => Some((so_far + &y)?),
            None => Some(y.clone()),
        };
        if let Some(sum) = &mut sum {
            *sum = (&*sum + &y)?;
        } else {
            sum = Some(y.clone());
        }
        last = Some(y);
    }
    let wide = (sum.expect("two") + kept.expect("two"))?;
    Ok([wide, last.expect("one"), low.expect("two").to()?])
}

#[test]
fn options_of_a_named_type_hold_what_the_name_says() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let y16 = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let y = y16.to::<F32>()?;
    let by_hand = [((&y + &y)? * 2.0)?, y, (&y16 + &y16)?.to()?];
    assert_eq!(named(&x, &w)?.map(|y| bits(&y)), by_hand.map(|y| bits(&y)));
    Ok(())
}

#[autocast(f16)]
fn named_pair(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(T, T)> {
    let mut kept: (Option<T>, Option<T>) = (None, None);
    for _ in 0..2 {
        let y = x.matmul(w)?;
        kept = match kept {
            (Some(sum), Some(last)) => (Some((sum + &y)?), Some((last.exp()? + y)?)),
            _ => (Some(y.clone()), Some(y)),
        };
    }
    Ok((kept.0.expect("two"), kept.1.expect("two")))
}

#[test]
fn pairs_of_options_hold_what_their_names_say() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let y: T = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to()?;
    let (sum, last) = named_pair(&x, &w)?;
    assert_eq!([bits(&sum), bits(&last)], [bits(&(&y + &y)?), bits(&(y.exp()? + &y)?)]);
    Ok(())
}
