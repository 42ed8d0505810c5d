//! Variables that patterns bind in F16 and that are assigned F32: they are F32 where the pattern has matched.

use super::*;

enum Found {
    Here(T),
    There(T, usize),
    Nowhere,
}

#[autocast(f16)]
fn in_loops(x: &T, w: &T, sharp: bool) -> Result<Vec<T>> {
    let mut out = Vec::new();
    for mut h in [x.matmul(w)?, w.matmul(x)?] {
        if sharp {
            h = h.softmax(-1)?;
        }
        out.push(h);
    }
    let mut waiting = vec![x.matmul(w)?];
    while let Some(mut h) = waiting.pop() {
        if sharp {
            h = h.softmax(-1)?;
        }
        out.push(h.relu()?);
    }
    for (i, (mut h, n)) in vec![(x.matmul(w)?, 1), (w.matmul(x)?, 2)].into_iter().enumerate() {
        if i == n {
            continue;
        }
        if sharp {
            h = h.softmax(-1)?;
        }
        out.push(h);
    }
    Ok(out)
}

fn in_loops_by_hand(x: &T, w: &T, sharp: bool) -> Result<Vec<T>> {
    let (xw, wx) = (product(x, w)?, product(w, x)?);
    let of = |h: &T| if sharp { h.softmax(-1) } else { Ok(h.clone()) };
    Ok(vec![of(&xw)?, of(&wx)?, of(&xw)?.relu()?, of(&xw)?, of(&wx)?])
}

/// `x.matmul(w)` as a region in F16 computes it.
fn product(x: &T, w: &T) -> Result<T> {
    x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to()
}

#[autocast(f16)]
fn in_branches(x: &T, w: &T, sharp: bool) -> Result<T> {
    let found = if sharp { Some(x.matmul(w)?) } else { None };
    let other = Some(w.matmul(x)?);
    if let Some(mut h) = found
        && let Some(mut other) = other
        && h.rank() == 2
    {
        if sharp {
            h = h.softmax(-1)?;
            other = other.exp()?;
        }
        h + other
    } else if let Some(mut h) = Some(x.matmul(x)?) {
        if !sharp {
            h = h.softmax(-1)?;
        }
        Ok(h)
    } else {
        x.relu()
    }
}

fn in_branches_by_hand(x: &T, w: &T, sharp: bool) -> Result<T> {
    if sharp { product(x, w)?.softmax(-1)? + product(w, x)?.exp()? } else { product(x, x)?.softmax(-1) }
}

fn searched(x: &Tensor<F16>, depth: usize) -> Found {
    match depth {
        0 => Found::Here(x.to().unwrap()),
        1 => Found::There(x.to().unwrap(), 1),
        _ => Found::Nowhere,
    }
}

#[autocast(f16)]
fn in_arms(x: &T, w: &T, depth: usize) -> Result<T> {
    let made = match depth {
        0 => Some((x.matmul(w)?, 0)),
        1 | 2 => Some((w.matmul(x)?, depth)),
        _ => None,
    };
    match made {
        Some((mut h, n)) if n == 0 && h.rank() == 2 => {
            for _ in 0..2 {
                h = h.softmax(-1)?;
            }
            Ok(h)
        }
        Some((mut h, 1)) => steps(depth, || {
            h = h.exp()?;
            h.relu()
        }),
        Some((h, _)) => match searched(&h.to()?, 1) {
            Found::Here(mut h) | Found::There(mut h, _) => {
                h = h.matmul(w)?;
                Ok(h)
            }
            Found::Nowhere => Ok(h),
        },
        None => Ok(x.clone()),
    }
}

fn steps(count: usize, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    (1..count).try_for_each(|_| step().map(drop))?;
    step()
}

fn in_arms_by_hand(x: &T, w: &T, depth: usize) -> Result<T> {
    match depth {
        0 => product(x, w)?.softmax(-1)?.softmax(-1),
        1 => product(w, x)?.exp(),
        2 => product(&product(w, x)?, w),
        _ => Ok(x.clone()),
    }
}

#[autocast(f16)]
fn in_closures(x: &T, w: &T, sharp: bool) -> Result<Vec<T>> {
    let hs = vec![x.matmul(w)?, w.matmul(x)?];
    let mut out: Vec<T> = hs
        .into_iter()
        .map(|mut h| {
            if sharp {
                h = h.softmax(-1)?;
            }
            Ok::<_, Error>(h)
        })
        .collect::<Result<_>>()?;
    let pairs = vec![(x.matmul(w)?, 2.0), (w.matmul(x)?, 3.0)];
    out.extend(
        pairs
            .into_iter()
            .map(|(mut h, by)| -> Result<T> {
                if sharp {
                    h = (h.exp()? * by)?;
                }
                h.relu()
            })
            .collect::<Result<Vec<_>>>()?,
    );
    let last = Some(x.matmul(w)?).map(|mut h| {
        h = if sharp { h.exp().unwrap() } else { h };
        h
    });
    out.extend(last);
    Ok(out)
}

fn in_closures_by_hand(x: &T, w: &T, sharp: bool) -> Result<Vec<T>> {
    let (xw, wx) = (product(x, w)?, product(w, x)?);
    Ok(match sharp {
        true => {
            vec![xw.softmax(-1)?, wx.softmax(-1)?, (xw.exp()? * 2.0)?.relu()?, (wx.exp()? * 3.0)?.relu()?, xw.exp()?]
        }
        false => vec![xw.clone(), wx.clone(), xw.relu()?, wx.relu()?, xw],
    })
}

/// What modules give has the precision that their types say, before an assignment and behind it.
#[autocast(bf16)]
fn of_modules(fc: &Linear, norm: &LayerNorm, xs: &[T]) -> Result<Vec<T>> {
    let hs = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    let mut out = Vec::new();
    for mut h in hs {
        h = fc.forward(&h)?;
        h = norm.forward(&h)?;
        out.push(h);
    }
    Ok(out)
}

#[test]
fn what_a_pattern_binds_is_widened_where_it_is_assigned_f32() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    let all = |xs: Vec<T>| xs.iter().map(bits).collect::<Vec<_>>();
    for sharp in [false, true] {
        assert_eq!(all(in_loops(&x, &w, sharp)?), all(in_loops_by_hand(&x, &w, sharp)?));
        assert_eq!(bits(&in_branches(&x, &w, sharp)?), bits(&in_branches_by_hand(&x, &w, sharp)?));
        assert_eq!(all(in_closures(&x, &w, sharp)?), all(in_closures_by_hand(&x, &w, sharp)?));
    }
    for depth in 0..4 {
        assert_eq!(bits(&in_arms(&x, &w, depth)?), bits(&in_arms_by_hand(&x, &w, depth)?), "{depth}");
    }
    Ok(())
}

#[test]
fn what_modules_give_may_be_assigned_to_what_a_loop_takes_out() -> Result<()> {
    let x = random([2, 3])?;
    let (fc, norm) = (Linear::new(3, 3, &Device::cpu())?, LayerNorm::new([3], &Device::cpu())?);
    let half = fc.forward(&fc.forward(&x.to::<BF16>()?)?)?.to::<F32>()?;
    assert_eq!(bits(&of_modules(&fc, &norm, &[x])?[0]), bits(&norm.forward(&half)?));
    Ok(())
}
