//! Running statistics.

use super::*;

fn statistics(norm: &BatchNorm2d) -> Result<(Vec<f32>, Vec<f32>, Vec<f32>)> {
    let all = norm.named_statistics();
    Ok((norm.running_mean().tensor().to_vec()?, norm.running_var().tensor().to_vec()?, all[2].1.tensor().to_vec()?))
}

#[test]
fn running_statistics_move_when_the_step_is_taken() -> Result<()> {
    let d = cpu();
    let norm = BatchNorm2d::new(1, &d)?;
    let mut opt = Sgd::new(norm.parameters(), 0.0);
    let mut scaler = GradScaler::builder().init_scale(2.0).build(&d)?;
    let x = Tensor::<F32>::from_vec(vec![1.0, 3.0, 5.0, 7.0], [2, 1, 1, 2], &d)?;
    let start = (vec![0.0], vec![1.0], vec![0.0]);
    // Mean 4, variance 20 / 3, a tenth of each.
    let moved = (vec![0.4], vec![0.9 + 2.0 / 3.0], vec![1.0]);
    let loss = |factor: f32| (norm.forward(&x.to::<F16>()?)? * factor)?.sum_all();

    let grads = scaler.scale(&loss(f32::INFINITY)?)?.backward()?;
    assert!(!scaler.step(&mut opt, grads)?.was_taken()?);
    scaler.update()?;
    assert_eq!(statistics(&norm)?, start, "a skipped step leaves no trace");
    drop(loss(1.0)?);
    norm.commit()?;
    assert_eq!(statistics(&norm)?, start, "a graph that is gone takes its change along");

    let grads = scaler.scale(&loss(1.0)?)?.backward()?;
    assert_eq!(statistics(&norm)?, start, "nothing moves before the step");
    scaler.step(&mut opt, grads)?;
    let close = |found: (Vec<f32>, Vec<f32>, Vec<f32>), expected: &(Vec<f32>, Vec<f32>, Vec<f32>)| {
        assert!((found.0[0] - expected.0[0]).abs() <= 1e-6 && (found.1[0] - expected.1[0]).abs() <= 1e-6, "{found:?}");
        assert_eq!(found.2, expected.2);
    };
    close(statistics(&norm)?, &moved);
    norm.commit()?;
    close(statistics(&norm)?, &moved);

    let calibrated = BatchNorm2d::new(1, &d)?;
    no_grad(|| calibrated.forward(&x))?;
    assert_eq!(statistics(&calibrated)?, start);
    calibrated.commit()?;
    close(statistics(&calibrated)?, &moved);
    let kept = calibrated.forward(&x)?;
    calibrated.commit()?;
    assert_eq!(statistics(&calibrated)?.2, [2.0]);
    drop(kept);
    Ok(())
}

/// As in PyTorch, a frozen norm in training mode goes on counting; with nothing trained below it no step decides about that.
#[test]
fn statistics_without_a_graph_move_at_once() -> Result<()> {
    let d = cpu();
    let x = Tensor::<F32>::from_vec(vec![1.0, 3.0, 5.0, 7.0], [2, 1, 1, 2], &d)?;
    let frozen = BatchNorm2d::new(1, &d)?;
    frozen.set_trainable(false);
    for norm in [frozen, BatchNorm2d::new(1, &d)?.without_affine()] {
        let head = Linear::new(2, 1, &d)?;
        let mut opt = Sgd::new(head.parameters(), 0.1);
        for batches in 1..=2 {
            let h = norm.forward(&x)?.reshape([2, 2])?;
            assert_eq!(statistics(&norm)?.2, [batches as f32]);
            opt.step(&head.forward(&h)?.sqr()?.mean_all()?.backward()?)?;
            norm.commit()?;
            assert_eq!(statistics(&norm)?.2, [batches as f32], "once for each batch");
        }
        // Below it something is trained: the graph carries the change, a skipped step drops it.
        let mut scaler = GradScaler::builder().init_scale(2.0).build(&d)?;
        let below = x.tracked();
        let loss = (norm.forward(&(&below * 1.0)?)? * f32::INFINITY)?.sum_all()?;
        drop(scaler.unscale(scaler.scale(&loss)?.backward()?)?);
        drop(loss);
        norm.eval();
        norm.forward(&x)?;
        norm.train();
        no_grad(|| norm.forward(&x))?;
        assert_eq!(statistics(&norm)?.2, [2.0]);
        norm.commit()?;
        assert_eq!(statistics(&norm)?.2, [3.0]);
    }
    Ok(())
}

#[test]
fn evaluation_uses_running_statistics() -> Result<()> {
    let d = cpu();
    let norm = BatchNorm2d::new(2, &d)?;
    norm.running_mean().set(&Tensor::from_vec(vec![1.0, 2.0], [2], &d)?)?;
    norm.running_var().set(&Tensor::from_vec(vec![4.0, 9.0], [2], &d)?)?;
    norm.eval();
    let y = norm.forward(&Tensor::<F32>::full([1, 2, 1, 1], 5.0, &d)?)?;
    within(&y, &Tensor::from_vec(vec![2.0, 1.0], [1, 2, 1, 1], &d)?, 1e-5);
    assert!(norm.forward(&randn(&[1, 3, 2, 2])).is_err());
    assert!(norm.running_mean().set(&randn(&[3])).is_err());
    Ok(())
}

#[test]
fn a_checkpointed_norm_counts_its_batch_once() -> Result<()> {
    let d = cpu();
    let norm = std::sync::Arc::new(BatchNorm2d::new(1, &d)?);
    let mut opt = Sgd::new(norm.parameters(), 0.1);
    let x = randn(&[2, 1, 2, 2]).tracked();
    let inner = norm.clone();
    let y = checkpoint(move |x: &Tensor<F32>| inner.forward(x), &x)?;
    opt.step(&y.sum_all()?.backward()?)?;
    norm.commit()?;
    assert_eq!(statistics(&norm)?.2, [1.0]);
    Ok(())
}

/// As the same layers do that are not checkpointed.
#[test]
fn a_checkpointed_norm_counts_once_for_several_passes_and_where_nothing_is_trained() -> Result<()> {
    let d = cpu();
    for (trained, checkpointed) in [(true, true), (true, false), (false, true), (false, false)] {
        let norm = std::sync::Arc::new(BatchNorm2d::new(1, &d)?);
        norm.set_trainable(trained);
        let head = Linear::new(4, 1, &d)?;
        let mut opt = Sgd::new(head.parameters(), 0.1);
        let (inner, x) = (norm.clone(), randn(&[2, 1, 2, 2]));
        let block = move |x: &Tensor<F32>| {
            checkpoint(
                {
                    let inner = inner.clone();
                    move |x: &Tensor<F32>| inner.forward(x)
                },
                x,
            )
        };
        let y = if checkpointed { checkpoint(block, &x)? } else { norm.forward(&x)? };
        let scores = head.forward(&y.reshape([2, 4])?)?;
        let (one, other) = (scores.sqr()?.mean_all()?, scores.sum_all()?);
        let mut grads = one.backward_retained()?;
        grads.add(other.backward()?)?;
        opt.step(&grads)?;
        norm.commit()?;
        let (mean, _, count) = statistics(&norm)?;
        assert_eq!(count, [1.0], "{trained} {checkpointed}");
        let want = 0.1 * x.mean_all()?.item()?;
        assert!((mean[0] - want).abs() <= 1e-6, "{mean:?} is not {want}");
    }
    Ok(())
}
