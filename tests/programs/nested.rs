//! Regions within regions, and what is returned out of a region.

use super::{T, bits, random};
use amp::prelude::*;

amp_policy! { own_rules { full: [gelu] } }

/// What only the region within reads is not rounded.
#[autocast(f16)]
fn read_within(x: &T, w: &T, on: bool) -> Result<(T, T, T)> {
    let (p, q) = (x.softmax(-1)?, x.softmax(-1)?);
    let y = (p.matmul(w)? + q.matmul(w)?)?;
    let p = amp_region!(f16, enabled = on, { (&p * 1.0)? });
    let q = amp_region!(f16, policy = own_rules, { (&q * 1.0)? });
    Ok((y, p, q))
}

#[autocast(f16)]
fn returns(x: &T, w: &T, on: bool, early: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, {
        let h = x.matmul(w)?;
        if early {
            return Ok(h);
        }
        h.relu()?
    });
    Ok(y)
}

#[autocast(f16)]
fn returns_by_policy(x: &T, w: &T, early: bool) -> Result<T> {
    let y = amp_region!(f16, policy = own_rules, {
        let h = x.matmul(w)?;
        if early {
            return Ok(h);
        }
        h.relu()?
    });
    Ok(y)
}

#[autocast(f16)]
fn assigns(x: &T, w: &T, on: bool) -> Result<T> {
    let mut h = x.matmul(w)?;
    if on {
        amp_region!(f16, enabled = on, {
            h = h.softmax(-1)?;
        });
    }
    Ok(h)
}

/// Either body runs in a loop, and jumps out of it.
#[autocast(f16)]
fn repeats(x: &T, w: &T, on: bool) -> Result<T> {
    let mut h = x.matmul(w)?;
    for i in 0.. {
        amp_region!(bf16, enabled = on && h.rank() == 2, {
            if i == 2 {
                break;
            }
            h = w.matmul(w)?.relu()?.to()?;
        });
        h = h.matmul(w)?;
    }
    Ok(h)
}

fn repeats_by_hand(x: &T, w: &T, on: bool) -> Result<T> {
    let w16 = w.to::<F16>()?;
    let mut h = x.to::<F16>()?.matmul(&w16)?.to::<F32>()?;
    for _ in 0..2 {
        let half = w.to::<BF16>()?;
        h = if on { half.matmul(&half)?.relu()?.to()? } else { w.matmul(w)?.relu()? };
        h = h.to::<F16>()?.matmul(&w16)?.to()?;
    }
    Ok(h)
}

/// A region in braces is a statement without a `;`, and a value at the end.
#[autocast(f16)]
fn in_braces(x: &T, w: &T) -> Result<T> {
    let mut h = x.matmul(w)?;
    amp_region! { f16, { h = h.relu()?; } }
    assert! { h.rank() == 2 }
    let y = h.matmul(w)?;
    amp_region! { f16, { y.abs() } }
}

#[autocast(f16)]
fn list_in_braces(x: &T, w: &T) -> Vec<T> {
    vec![x.matmul(w).expect("a product"), x.exp().expect("an exponential")]
}

/// Outside of a function that is a region, too, what is returned is what the function declares.
fn plain(x: &T, w: &T, early: bool) -> Result<(T, usize)> {
    let y = amp_region!(f16, {
        let h = x.matmul(w)?;
        if early {
            return Ok((h, 1));
        }
        h.relu()?
    });
    Ok((y.to()?, 2))
}

fn narrow(x: &T, w: &T, early: bool) -> Option<Tensor<F16>> {
    let y = amp_region!(f16, {
        let h = x.matmul(w).ok()?;
        if early {
            return Some(h);
        }
        h.relu().ok()?
    });
    Some(y)
}

fn in_closure(x: &T, w: &T, early: bool) -> Result<T> {
    let product = |x: &T| -> Result<T> {
        let y = amp_region!(f16, enabled = early, {
            if early {
                return x.matmul(w);
            }
            x.exp()?
        });
        Ok(y)
    };
    product(x)
}

fn in_branches(x: &T, w: &T, way: usize) -> Result<T> {
    let y = amp_region!(f16, {
        if way < 2 {
            return if way == 0 { x.matmul(w) } else { w.matmul(x) };
        }
        x.matmul(w)?
    });
    y.to()
}

fn tuples_in_branches(x: &T, w: &T, way: usize) -> Result<(T, usize)> {
    let y = amp_region!(f16, {
        let h = x.matmul(w)?;
        if way < 2 {
            return Ok(match way {
                0 => (h.relu()?, 0),
                _ => (h.abs()?, 1),
            });
        }
        h
    });
    Ok((y.to()?, 2))
}

fn others(x: &T, early: bool) -> std::result::Result<Box<dyn Fn(&T) -> Result<T>>, String> {
    amp_region!(f16, {
        let Ok(h) = x.matmul(x) else { return Err("no product".into()) };
        if early {
            return Ok(Box::new(move |y| y.add(&h.to()?)));
        }
    });
    Ok(Box::new(T::relu))
}

/// What two regions of a type parameter share is narrowed ahead of both.
#[autocast(f16)]
fn shared<P: AutocastPrecision>(x: &T, w: &T) -> Result<(T, T)> {
    let a = amp_region!(P, x.matmul(w)?);
    let b = amp_region!(P, w.matmul(x)?);
    Ok((a, b))
}

/// And what such a region narrows in a loop, ahead of that.
#[autocast(bf16)]
fn in_a_loop<P: AutocastPrecision>(x: &T, w: &T) -> Result<Vec<Tensor<P>>> {
    let mut all = Vec::new();
    for _ in 0..2 {
        let y: Tensor<P> = amp_region!(P, x.matmul(w)?);
        all.push(y);
    }
    Ok(all)
}

#[autocast(P)]
fn of_another<P: AutocastPrecision, Q: AutocastPrecision>(x: &T, w: &T) -> Result<T> {
    let mut sum = x.matmul(w)?.to::<F32>()?;
    for _ in 0..2 {
        sum = (sum + amp_region!(Q, w.matmul(x)?).to::<F32>()?)?;
    }
    Ok(sum)
}

#[test]
fn regions_within_regions_are_part_of_them() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let full = product.to::<F32>()?;
    for on in [false, true] {
        let (_, p, q) = read_within(&x, &w, on)?;
        assert_eq!((bits(&p), bits(&q)), (bits(&x.softmax(-1)?), bits(&x.softmax(-1)?)));
        assert_eq!(bits(&returns(&x, &w, on, true)?), bits(&if on { full.clone() } else { x.matmul(&w)? }));
        assert_eq!(bits(&assigns(&x, &w, on)?), bits(&if on { full.softmax(-1)? } else { full.clone() }));
    }
    assert_eq!(bits(&repeats(&x, &w, true)?), bits(&repeats_by_hand(&x, &w, true)?));
    assert_eq!(bits(&returns_by_policy(&x, &w, true)?), bits(&full));
    let by_hand = product.relu()?.matmul(&w.to::<F16>()?)?.abs()?.to::<F32>()?;
    assert_eq!(bits(&in_braces(&x, &w)?), bits(&by_hand));
    assert_eq!(bits(&list_in_braces(&x, &w)[0]), bits(&full));
    Ok(())
}

#[test]
fn what_is_returned_out_of_a_region_is_what_the_function_declares() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let product = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let full = bits(&product.to::<F32>()?);
    assert_eq!(bits(&plain(&x, &w, true)?.0), full);
    assert_eq!(narrow(&x, &w, true).expect("a product").to_vec()?, product.to_vec()?);
    assert_eq!(bits(&in_closure(&x, &w, true)?), full);
    assert_eq!(bits(&in_branches(&x, &w, 0)?), full);
    assert_eq!(bits(&tuples_in_branches(&x, &w, 1)?.0), bits(&product.abs()?.to::<F32>()?));
    assert!(others(&x, true).is_ok_and(|add| add(&w).is_ok()));
    Ok(())
}

/// Called as an option is.
fn keep(x: &T) -> Result<T> {
    x.relu()
}

#[test]
fn bodies_call_functions_that_have_the_names_of_options() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    assert_eq!(bits(&amp_region!(f16, keep(&x)?)), bits(&x.relu()?));
    let whole: Result<T> = amp_region!(f16, full(matmul), keep(&x));
    assert_eq!(bits(&whole?), bits(&x.relu()?));
    assert_eq!(bits(&amp_region!(f16, full(matmul), { x.matmul(&w)? })), bits(&x.matmul(&w)?));
    Ok(())
}

#[test]
fn casts_ahead_of_a_region_of_a_type_parameter_are_to_that() -> Result<()> {
    fn by_hand<P: AutocastPrecision>(x: &T, w: &T) -> Result<T> {
        x.to::<P>()?.matmul(&w.to::<P>()?)?.to()
    }
    fn agree<P: AutocastPrecision>(x: &T, w: &T) -> Result<()> {
        let expected = (bits(&by_hand::<P>(x, w)?), bits(&by_hand::<P>(w, x)?));
        let (a, b) = shared::<P>(x, w)?;
        assert_eq!((bits(&a), bits(&b)), expected);
        assert_eq!(bits(&in_a_loop::<P>(x, w)?[1].to()?), expected.0);
        let second = by_hand::<P>(w, x)?;
        let sum = ((by_hand::<BF16>(x, w)? + &second)? + &second)?;
        assert_eq!(bits(&of_another::<BF16, P>(x, w)?), bits(&sum));
        Ok(())
    }
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    agree::<F16>(&x, &w)?;
    agree::<BF16>(&x, &w)?;
    agree::<F32>(&x, &w)
}
