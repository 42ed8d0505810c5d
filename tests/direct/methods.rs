//! Calls of operations.

use super::*;

#[autocast(P)]
fn layer_norm<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let n = t[0].layer_norm([8], Some(&t[1]), None, EPS)?;
    n.matmul(&t[2])
}

fn layer_norm_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let n = t[0].layer_norm([8], Some(&t[1]), None, EPS)?.to::<P>()?;
    n.matmul(&t[2].to::<P>()?)?.to()
}

#[autocast(P)]
fn seen_through<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let n = t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?.neg()?.transpose(0, 1)?;
    let rows = n.dims()[0];
    let n = n.slice(0, 0..rows)?.reshape([4, 8])?;
    n.matmul(&t[2])
}

fn seen_through_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let n = t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?.neg()?.transpose(0, 1)?;
    let rows = n.dims()[0];
    let n = n.slice(0, 0..rows)?.reshape([4, 8])?;
    n.to::<P>()?.matmul(&t[2].to::<P>()?)?.to()
}

#[autocast(P)]
fn attention<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let scores = t[0].matmul(&t[2])?;
    let shares = scores.softmax(-1)?;
    shares.matmul(&t[2])
}

fn attention_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let w = t[2].to::<P>()?;
    let shares = t[0].to::<P>()?.matmul(&w)?.to::<F32>()?.softmax(-1)?.to::<P>()?;
    shares.matmul(&w)?.to()
}

#[autocast(P)]
fn path<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    Tensor::matmul(&Tensor::log_softmax(&t[0], 1)?, &t[2])
}

fn path_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    t[0].log_softmax(1)?.to::<P>()?.matmul(&t[2].to()?)?.to()
}

#[autocast(P)]
fn joined<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let a = t[0].softmax(-1)?;
    let b = t[0].log_softmax(-1)?;
    let n = if t[0].rank() == 2 { b } else { t[0].softmax(0)? };
    let both = Tensor::cat(&[&a, &n], 0)?;
    both.matmul(&t[2])
}

fn joined_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let both = Tensor::cat(&[&t[0].softmax(-1)?, &t[0].log_softmax(-1)?], 0)?;
    both.to::<P>()?.matmul(&t[2].to()?)?.to()
}

#[autocast(P)]
fn looped<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let mut h = t[0].clone();
    for _ in 0..3 {
        let n = h.layer_norm([8], None, None, EPS)?;
        h = n.matmul(&t[2])?;
    }
    Ok(h)
}

fn looped_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let (mut h, w) = (t[0].clone(), t[2].to::<P>()?);
    for _ in 0..3 {
        h = h.layer_norm([8], None, None, EPS)?.to::<P>()?.matmul(&w)?.to()?;
    }
    Ok(h)
}

const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];

fn all<P: AutocastPrecision>() {
    let _turn = alone();
    compare("layer_norm", SHAPES, 1, layer_norm::<P>, layer_norm_by_hand::<P>);
    compare("seen_through", SHAPES, 1, seen_through::<P>, seen_through_by_hand::<P>);
    compare("attention", SHAPES, 1, attention::<P>, attention_by_hand::<P>);
    compare("path", SHAPES, 1, path::<P>, path_by_hand::<P>);
    compare("joined", SHAPES, 1, joined::<P>, joined_by_hand::<P>);
    compare("looped", SHAPES, 3, looped::<P>, looped_by_hand::<P>);
}

#[test]
fn in_f16() {
    all::<F16>();
}

#[test]
fn in_bf16() {
    all::<BF16>();
}
