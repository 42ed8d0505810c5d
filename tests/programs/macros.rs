//! Macros of `std`, in which values are computed, and macros of one's own, whose results have a type.

use super::*;
use std::fmt::Write;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[autocast(f16)]
fn shown(x: &T, w: &T) -> Result<(String, T)> {
    let h = x.matmul(w)?;
    let mut text = format!("{h:?} {hot:?}", hot = h.softmax(-1)?);
    write!(text, "{sum}", sum = h.sum_all()?.item()?).expect("a string");
    assert!(text.len() > 2, "{h:?} {w:?}", h = h.softmax(-1)?, w = w.matmul(&h)?);
    assert_eq!(h.rank(), 2, "{mean}", mean = h.mean_all()?.item()?);
    let kept: Tensor<F16> = h.relu()?;
    Ok((text, kept.to()?))
}

#[autocast(f16)]
fn matched(x: &T, w: &T) -> Result<T> {
    let h = x.matmul(w)?;
    let found = Some(&h).filter(|h| h.rank() == 2);
    let hot = matches!(h.sum_all()?.item()?, sum if sum > 0.0);
    let spread = matches!(found, Some(h) if h.softmax(-1)?.max_all()?.item()? > 0.0,);
    if hot && spread || matches!(h.rank(), |0| 1) { h.relu() } else { h.abs() }
}

#[autocast(f16)]
fn named_in_full(x: &T, w: &T) -> Result<T> {
    let mut hs = std::vec![x.matmul(w)?, x.softmax(-1)?];
    hs.push(std::vec![w.matmul(x)?; 2].remove(0));
    let wide = pin!(async { hs[0].exp() });
    let Poll::Ready(wide) = wide.poll(&mut Context::from_waker(Waker::noop())) else { std::unreachable!() };
    let (p, q) = dbg!(hs[2].relu()?, x.softmax(-1)?);
    (wide? + p)? + q
}

macro_rules! activated {
    ($h:expr) => {
        $h.relu()
    };
}
macro_rules! doubled {
    ($h:expr) => {
        (&$h + &$h)?
    };
}
macro_rules! listed {
    ($($h:expr),*) => {
        Vec::from([$($h),*])
    };
}
macro_rules! exits {
    ($code:expr) => {{ std::process::exit($code) }};
}

struct Kept {
    h: T,
}

#[autocast(f16)]
fn given(x: &T, w: &T, way: usize) -> Result<T> {
    let h = x.matmul(w)?;
    let y = doubled!(h);
    match way {
        0 => Ok(y),
        1 => activated!(h),
        2 => Ok(doubled!(h)),
        3 => exp(&activated!(h)?),
        4 => {
            let kept = Kept { h: doubled!(h) };
            Ok(kept.h)
        }
        5 => {
            let z = if x.rank() == 2 { doubled!(h) } else { h.softmax(-1)? };
            Ok(z)
        }
        6 => {
            let (a, b) = (doubled!(h), activated!(h)?);
            let mut z = doubled!(a);
            z = (z.softmax(-1)? + b)?;
            (z + activated!(y)?.softmax(-1)?)? + doubled!(h)
        }
        7 => {
            let mut hs = listed![];
            hs.push(h);
            let more = listed![doubled!(y), y];
            hs.extend(more);
            Ok(hs.remove(1))
        }
        8 => match x.rank() {
            2 => h.softmax(-1),
            rank => exits!(rank as i32),
        },
        9 => {
            let (a, b) = match x.rank() {
                1 => (y, 1.0),
                2 => (h.abs()?, 2.0),
                _ => exits!(h.rank() as i32),
            };
            let c = match x.rank() {
                1 => h.relu()?,
                2 => x.softmax(-1)?,
                _ => exits!(h.rank() as i32),
            };
            (a * b)? + c
        }
        _ => exits!(h.rank() as i32),
    }
}

fn given_by_hand(x: &T, w: &T, way: usize) -> Result<T> {
    let h = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let twice = (&h + &h)?;
    let four = (&twice + &twice)?.to::<F32>()?;
    let (wide, twice) = (h.to::<F32>()?, twice.to::<F32>()?);
    match way {
        1 => wide.relu(),
        3 => wide.relu()?.exp(),
        6 => ((four.softmax(-1)? + wide.relu()?)? + twice.relu()?.softmax(-1)?)? + twice,
        7 => Ok(four),
        8 => wide.softmax(-1),
        9 => (h.abs()? * 2.0)?.to::<F32>()? + x.softmax(-1)?,
        _ => Ok(twice),
    }
}

fn exp(x: &T) -> Result<T> {
    x.exp()
}

#[test]
fn what_macros_of_std_are_given_is_computed_as_anywhere() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    let h = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let wide = h.to::<F32>()?;
    let (text, kept) = shown(&x, &w)?;
    assert_eq!(text, format!("{h:?} {:?}{}", wide.softmax(-1)?, wide.sum_all()?.item()?));
    assert_eq!(bits(&kept), bits(&wide.relu()?));
    let hot = wide.sum_all()?.item()? > 0.0;
    assert_eq!(bits(&matched(&x, &w)?), bits(&if hot { wide.relu()? } else { wide.abs()? }));
    let other = w.to::<F16>()?.matmul(&x.to::<F16>()?)?.to::<F32>()?;
    let sum = ((wide.exp()? + other.relu()?)? + x.softmax(-1)?)?;
    assert_eq!(bits(&named_in_full(&x, &w)?), bits(&sum));
    Ok(())
}

#[test]
fn what_a_macro_of_ones_own_gives_is_widened_by_its_type() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    for way in 0..10 {
        assert_eq!(bits(&given(&x, &w, way)?), bits(&given_by_hand(&x, &w, way)?), "{way}");
    }
    Ok(())
}
