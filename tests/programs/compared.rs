//! Elements that are held against each other, or put into several lists, are what they were.

use super::{T, bits, random};
use amp::nn::Linear;
use amp::prelude::*;

fn key(x: &T) -> f32 {
    x.sum_all().and_then(|sum| sum.item()).expect("a sum")
}

#[autocast(P)]
fn sorted<P: AutocastPrecision>(fc: &Linear, x: &T) -> Result<(Vec<T>, T)> {
    let mut rows = fc.forward(x)?.unbind(0)?;
    rows.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let local = |row: &T| key(row);
    let most = rows.iter().max_by(|a, b| local(a).total_cmp(&local(b))).cloned().ok_or(Error::NoGraph)?;
    Ok((rows, most))
}

#[autocast(P)]
fn ranked<P: AutocastPrecision>(fc: &Linear, x: &T) -> Result<Vec<(usize, T)>> {
    let mut rows: Vec<(usize, _)> = fc.forward(x)?.unbind(0)?.into_iter().enumerate().collect();
    rows.sort_unstable_by(|a, b| key(&b.1).total_cmp(&key(&a.1)));
    rows.sort_by(|(_, a), (_, b)| key(a).total_cmp(&key(b)));
    Ok(rows)
}

#[autocast(P)]
fn apart<P: AutocastPrecision>(fc: &Linear, x: &T) -> Result<(T, T)> {
    let (rows, places): (Vec<_>, Vec<usize>) = fc.forward(x)?.unbind(0)?.into_iter().zip(1..).unzip();
    let first = &rows[0] * places[1] as f64;
    let (some, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.rank() == 1);
    assert!(others.is_empty());
    Ok((first?, some[1].clone()))
}

fn compare<P: AutocastPrecision>() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let rows = fc.forward(&x.to::<P>()?)?.to::<F32>()?.unbind(0)?;
    let mut by_hand: Vec<(usize, T)> = rows.iter().cloned().enumerate().collect();
    by_hand.sort_by(|(_, a), (_, b)| key(a).total_cmp(&key(b)));
    let (all, most) = sorted::<P>(&fc, &x)?;
    let listed: Vec<_> = by_hand.iter().map(|(_, row)| bits(row)).collect();
    assert_eq!(all.iter().map(bits).collect::<Vec<_>>(), listed);
    assert_eq!(bits(&most), listed[2]);
    let ranks: Vec<usize> = by_hand.iter().map(|(rank, _)| *rank).collect();
    assert_eq!(ranked::<P>(&fc, &x)?.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), ranks);
    let (first, second) = apart::<P>(&fc, &x)?;
    assert_eq!(bits(&first), bits(&(&rows[0].to::<P>()? * 2.0)?.to()?));
    assert_eq!(bits(&second), bits(&rows[1]));
    Ok(())
}

#[test]
fn elements_that_are_compared_and_taken_apart_are_widened_where_they_go() -> Result<()> {
    compare::<F16>()?;
    compare::<BF16>()?;
    compare::<F32>()
}
