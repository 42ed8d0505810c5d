//! Numbers that are read out of tensors: those of the host are F32, whatever a region computes in.

use super::{T, bits, random};
use amp::prelude::*;
use std::collections::BTreeMap;

/// What somebody logs of a hidden layer, read wherever it is at hand.
#[autocast(P)]
fn measured<P: AutocastPrecision>(x: &T, w: &T, log: &mut Vec<f32>) -> Result<T> {
    let h = x.matmul(w)?;
    log.push(h.max_all()?.item()?);
    let ends = [("min", h.min_all()?), ("max", h.max_all()?)];
    for (_, end) in &ends {
        log.push(end.item()?);
    }
    let ends: BTreeMap<&str, f32> =
        ends.into_iter().map(|(name, end)| end.item().map(|end| (name, end))).collect::<Result<_>>()?;
    let range = ends["max"] - ends["min"];
    (h - ends["min"])? / range
}

/// Integers and numbers of F64 have their own types.
#[autocast(f16)]
fn counted(x: &T, w: &T) -> Result<(i64, f64)> {
    let h = x.matmul(w)?;
    Ok((h.argmax(0, false)?.select(0, 0)?.item()?, h.to::<F64>()?.max_all()?.item()?))
}

/// Histograms, plots and metrics of the host take an `f32`; a list of sizes or of tensors that is copied is none of it.
#[autocast(P)]
fn plotted<P: AutocastPrecision>(x: &T, w: &T, all: &[T]) -> Result<(Vec<f32>, f32, T)> {
    let h = x.matmul(w)?;
    let (values, sizes) = (h.to_vec()?, h.dims().to_vec());
    let most = h.exp()?.to_vec()?.into_iter().fold(0.0, f32::max);
    let hidden = vec![h].to_vec();
    let (rows, all) = (sizes[0], all.to_vec());
    Ok((values, most, (all[0].matmul(&hidden[0].t()?)? * rows as f64)?))
}

#[test]
fn numbers_that_are_listed_are_f32() -> Result<()> {
    let (x, w) = (random([3, 4])?, random([4, 4])?);
    let (values, most, y) = plotted::<BF16>(&x, &w, std::slice::from_ref(&x))?;
    let h = x.to::<BF16>()?.matmul(&w.to::<BF16>()?)?;
    let wide = h.to::<F32>()?;
    assert_eq!(values, wide.to_vec()?);
    assert_eq!(most, wide.exp()?.max_all()?.item()?);
    assert_eq!(bits(&y), bits(&(x.to::<BF16>()?.matmul(&h.t()?)? * 3.0)?.to()?));
    Ok(())
}

#[test]
fn numbers_that_are_read_are_f32() -> Result<()> {
    let (x, w) = (random([3, 4])?, random([4, 4])?);
    let mut log = Vec::new();
    let y = measured::<F16>(&x, &w, &mut log)?;
    let h = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let (low, high) = (h.min_all()?.to::<F32>()?.item()?, h.max_all()?.to::<F32>()?.item()?);
    assert_eq!(log, [high, low, high]);
    assert_eq!(y.to_vec()?, ((h - low)? / (high - low))?.to::<F32>()?.to_vec()?);
    assert_eq!(counted(&x, &w)?.1, f64::from(high));
    Ok(())
}
