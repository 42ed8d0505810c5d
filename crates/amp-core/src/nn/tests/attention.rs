//! Attention.

use super::*;

#[test]
fn attention_over_one_key_is_its_value() -> Result<()> {
    let d = cpu();
    let attention = MultiHeadAttention::new(8, 2, &d)?;
    let (q, kv) = (randn(&[2, 3, 8]), randn(&[2, 1, 8]));
    let y = attention.forward(&q, &kv, &kv, None)?;
    // With a single key the softmax is 1 whatever the query says.
    within(&y, &attention.forward(&randn(&[2, 3, 8]), &kv, &kv, None)?, 1e-5);
    let causal = MultiHeadAttention::new(8, 2, &d)?.causal(true);
    let x = randn(&[1, 4, 8]);
    let (all, first) = (causal.forward(&x, &x, &x, None)?, x.narrow(1, 0, 1)?);
    within(&all.narrow(1, 0, 1)?, &causal.forward(&first, &first, &first, None)?, 1e-5);
    assert!(attention.forward(&randn(&[3, 8]), &kv, &kv, None).is_err());
    assert!(attention.forward(&randn(&[2, 3, 7]), &kv, &kv, None).is_err());
    Ok(())
}

fn weights_are_those_of_the_output<P: Float>(tolerance: f32) -> Result<()> {
    let d = cpu();
    let attention = MultiHeadAttention::across(8, 2, 6, 4, &d)?.causal(true).dropout(0.3);
    attention.eval();
    let (q, k, v) = (randn(&[2, 3, 8]).tracked(), randn(&[2, 5, 6]), randn(&[2, 5, 4]));
    let (q, k, v) = (q.to::<P>()?, k.to::<P>()?, v.to::<P>()?);
    let mask = Tensor::<Bool>::from_fn([5], |i| i[0] > 0, &d)?;
    let (y, each) = attention.forward_with_weights(&q, &k, &v, Some(&mask), false)?;
    let (same, mean) = attention.forward_with_weights(&q, &k, &v, Some(&mask), true)?;
    assert_eq!((each.dims(), mean.dims()), (&[2, 2, 3, 5][..], &[2, 3, 5][..]));
    within(&y.to()?, &attention.forward(&q, &k, &v, Some(&mask))?.to()?, tolerance);
    within(&y.to()?, &same.to()?, 0.0);
    within(&mean.to()?, &each.to::<F32>()?.mean(1, false)?, tolerance);
    // The first query may attend to nothing, the second to one key, the third to two.
    let sums = mean.to::<F32>()?.sum(2, false)?;
    within(&sums, &Tensor::from_slice(&[0.0, 1.0, 1.0], [3], &d)?.expand([2, 3])?, tolerance);
    assert!(mean.to::<F32>()?.sqr()?.sum_all()?.backward()?.get(&attention.parameters()[1])?.is_some());
    Ok(())
}

#[test]
fn attention_gives_its_weights() -> Result<()> {
    manual_seed(29);
    // Sums of 8 terms near 1; weights that are rounded once more, in products of 5.
    weights_are_those_of_the_output::<F32>(1e-5)?;
    weights_are_those_of_the_output::<BF16>(3e-2)?;
    let attention = MultiHeadAttention::across(8, 2, 6, 4, &cpu())?;
    let x = randn(&[2, 3, 8]);
    let error = attention.forward(&x, &x, &x, None).unwrap_err().to_string();
    assert_eq!(error, "MultiHeadAttention: the key must have shape [N, T, 6], found [2, 3, 8]");
    Ok(())
}

#[test]
fn padding_changes_nothing() -> Result<()> {
    let (d, x, other) = (cpu(), randn(&[3, 5, 8]), randn(&[3, 5, 8]));
    let present = first(&[5, 3, 1], 5)?;
    let kept = present.unsqueeze(2)?.to::<F32>()?;
    let altered = ((&x * &kept)? + (&other * (1.0 - &kept)?)?)?;
    for attention in [MultiHeadAttention::new(8, 2, &d)?, MultiHeadAttention::new(8, 2, &d)?.causal(true)] {
        let y = attention.forward_padded(&x, &x, &x, &present, None)?;
        within(&y, &attention.forward_padded(&x, &altered, &altered, &present, None)?, 0.0);
        let short = x.narrow(0, 1, 1)?.narrow(1, 0, 3)?;
        within(&y.narrow(0, 1, 1)?.narrow(1, 0, 3)?, &attention.forward(&short, &short, &short, None)?, 1e-5);
        let all = Tensor::<Bool>::ones([1, 5], &d)?;
        within(&attention.forward_padded(&x, &x, &x, &all, None)?, &attention.forward(&x, &x, &x, None)?, 1e-6);
        // What the mask hides stays hidden: only the first key is left of both.
        let mask = Tensor::<Bool>::from_fn([5, 5], |i| i[1] == 0, &d)?;
        let one = x.narrow(1, 0, 1)?;
        let y = attention.forward_padded(&x, &x, &x, &present, Some(&mask))?;
        within(&y.narrow(1, 0, 1)?, &attention.forward(&one, &one, &one, None)?, 1e-5);
        let error = attention.forward_padded(&x, &x, &x, &first(&[5, 3], 5)?, None).unwrap_err().to_string();
        let reason = "`present` must have shape [3, 5], one value for each key, found [2, 5]";
        assert_eq!(error, format!("MultiHeadAttention: {reason}"));
    }
    Ok(())
}

fn attends_to_nothing<P: Float>() -> Result<()> {
    let attention = MultiHeadAttention::new(8, 2, &cpu())?;
    attention.parameters()[3].set(&randn(&[8]))?;
    let x = randn(&[2, 4, 8]).tracked();
    let h = x.to::<P>()?;
    let y = attention.forward_padded(&h, &h, &h, &first(&[4, 0], 4)?, None)?.to::<F32>()?;
    let bias = attention.parameters()[3].to::<P>()?.to::<F32>()?;
    within(&y.narrow(0, 1, 1)?, &bias.expand([1, 4, 8])?, 0.0);
    let mut scaler = GradScaler::builder().init_scale(1.0).build(x.device())?;
    let scaled = scaler.scale(&y.sqr()?.sum_all()?)?.backward()?;
    let grads = scaler.unscale(scaled)?;
    let slopes = grads.get(&x)?.expect("a gradient").to_vec()?;
    assert!(slopes[..32].iter().all(|v| v.is_finite() && *v != 0.0), "{slopes:?}");
    assert_eq!(slopes[32..], [0.0; 32]);
    for p in attention.parameters() {
        assert!(grads.get(&p)?.expect("a gradient").to_vec()?.iter().all(|v| v.is_finite()), "{p:?}");
    }
    Ok(())
}

#[test]
fn a_sequence_that_is_all_padding_gives_the_bias_and_no_gradient() -> Result<()> {
    manual_seed(15);
    attends_to_nothing::<F32>()?;
    attends_to_nothing::<F16>()?;
    attends_to_nothing::<BF16>()
}
