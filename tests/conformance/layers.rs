//! Normalisation and losses: full precision, whatever the storage.

use amp::prelude::*;
use amp::{LossReduction, TripletMargin};

use crate::compare::Bound::OfLargest;
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;

const REAL: Values = Values::Uniform(-2.0, 2.0);

fn normalised(shape: &[usize], parameters: usize) -> [Vec<Arg>; 1] {
    let affine = || Arg::Float(REAL, vec![parameters]);
    [vec![Arg::Float(REAL, shape.to_vec()), affine(), affine()]]
}

fn pair(left: Values, right: Values) -> Vec<Vec<Arg>> {
    [[3, 5], [1, 1], [7, 67]].map(|s| vec![Arg::Float(left, s.to_vec()), Arg::Float(right, s.to_vec())]).to_vec()
}

fn scores() -> Vec<Vec<Arg>> {
    [[3, 5], [7, 67], [1, 2]].map(|s| vec![Arg::Float(REAL, s.to_vec()), Arg::Index(s[1], vec![s[0]])]).to_vec()
}

#[test]
fn norms() {
    for device in &devices() {
        for shape in [[2, 6, 5], [3, 6, 67], [0, 6, 3]] {
            let n = shape[2];
            conform!(device, "layer_norm", full, normalised(&shape, n), OfLargest(64.0), |a| {
                a.x[0].layer_norm([n], Some(&a.x[1]), Some(&a.x[2]), 1e-3)
            });
            conform!(device, "rms_norm", full, normalised(&shape, n), OfLargest(64.0), |a| {
                a.x[0].rms_norm([n], Some(&a.x[1]), 1e-3)
            });
            conform!(device, "group_norm", full, normalised(&shape, 6), OfLargest(64.0), |a| {
                a.x[0].group_norm(3, Some(&a.x[1]), Some(&a.x[2]), 1e-3)
            });
            conform!(device, "instance_norm", full, normalised(&shape, 6), OfLargest(64.0), |a| {
                a.x[0].instance_norm(Some(&a.x[1]), Some(&a.x[2]), 1e-3)
            });
            conform!(device, "batch_norm_eval", full, normalised(&shape, 6), OfLargest(64.0), |a| {
                let (mean, var) = (a.x[1].detach(), a.x[2].detach().sqr()?);
                a.x[0].batch_norm_eval(&mean, &var, Some(&a.x[1]), Some(&a.x[2]), 1e-1)
            });
        }
        conform!(device, "batch_norm_train", full, normalised(&[4, 6, 5], 6), OfLargest(64.0), |a| {
            Ok(a.x[0].batch_norm_train(Some(&a.x[1]), Some(&a.x[2]), 1e-2)?.0)
        });
    }
}

#[test]
fn batch_norm_of_lines_is_the_same_on_every_device() -> Result<()> {
    for shape in [vec![7, 6], vec![3, 6, 5]] {
        let value = |i: &[usize]| (i.iter().sum::<usize>() * 37 % 11) as f32 / 8.0;
        let x = Tensor::<F32>::from_fn(&*shape, value, &Device::cpu())?.to::<F16>()?;
        let results = |device: &Device| -> Result<Vec<f32>> {
            let (norm, x) = (amp::nn::BatchNorm1d::new(6, device)?, x.to_device(device)?.tracked());
            let y = norm.forward(&x)?;
            let mut scaler = GradScaler::builder().init_scale(1.0).build(device)?;
            let grads = scaler.scale(&(&y.sqr()? * &y)?.sum_all()?)?.backward()?;
            let grads = scaler.unscale(grads)?;
            let grad = grads.get(&x)?.expect("x takes part").to::<F32>()?;
            Ok([y.to::<F32>()?.to_vec()?, grad.to_vec()?].concat())
        };
        let expected = results(&Device::cpu())?;
        for device in &devices() {
            for (found, expected) in results(device)?.into_iter().zip(&expected) {
                let allowed = (1.0 + expected.abs()) / 256.0;
                assert!((found - expected).abs() <= allowed, "{device}: {found} instead of {expected}");
            }
        }
    }
    Ok(())
}

#[test]
fn batch_norm_with_relu_is_the_same_on_every_device() -> Result<()> {
    let wave = |i: &[usize]| (i.iter().sum::<usize>() * 37 % 11) as f32 / 8.0 - 0.5;
    let shape = [3, 6, 5, 7];
    for (added, training) in [(false, true), (true, true), (false, false), (true, false)] {
        let results = |device: &Device| -> Result<Vec<f32>> {
            let norm = amp::nn::BatchNorm2d::new(6, device)?;
            if !training {
                norm.eval();
            }
            let x = Tensor::<F32>::from_fn(shape, wave, &Device::cpu())?.to::<F16>()?.to_device(device)?.tracked();
            let skip = Tensor::<F32>::from_fn([6, 1, 1], wave, &Device::cpu())?.to_device(device)?.tracked();
            let y = if added { norm.forward_add_relu(&x, &skip)? } else { norm.forward_relu(&x)? };
            let mut scaler = GradScaler::builder().init_scale(1.0).build(device)?;
            let grads = scaler.scale(&(&y.sqr()? * &y)?.sum_all()?)?.backward()?;
            let grads = scaler.unscale(grads)?;
            let mut found = [y.to_vec()?, grads.get(&x)?.expect("x takes part").to::<F32>()?.to_vec()?].concat();
            if added {
                found.extend(grads.get(&skip)?.expect("the residual takes part").to_vec()?);
            }
            Ok(found)
        };
        let expected = results(&Device::cpu())?;
        for device in &devices() {
            for (found, expected) in results(device)?.into_iter().zip(&expected) {
                let allowed = (1.0 + expected.abs()) / 256.0;
                assert!((found - expected).abs() <= allowed, "{device}: {found} instead of {expected}");
            }
        }
    }
    Ok(())
}

#[test]
fn losses() {
    let (share, positive) = (Values::Uniform(0.05, 0.95), Values::Uniform(0.05, 0.95));
    for device in &devices() {
        conform!(device, "mse_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| a.x[0].mse_loss(&a.x[1]));
        conform!(device, "gaussian_nll_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| {
            a.x[0].gaussian_nll_loss(&a.x[1], &a.x[1].detach().abs()?.add(0.5)?)
        });
        conform!(device, "poisson_nll_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| a.x[0]
            .poisson_nll_loss(&a.x[1]));
        conform!(device, "soft_margin_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| a.x[0]
            .soft_margin_loss(&a.x[1]));
        conform!(device, "l1_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| a.x[0].l1_loss(&a.x[1]));
        conform!(device, "smooth_l1_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| {
            a.x[0].smooth_l1_loss(&a.x[1], 0.5)
        });
        conform!(device, "huber_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| a.x[0].huber_loss(&a.x[1], 0.5));
        conform!(device, "bce_with_logits", full, pair(REAL, share), OfLargest(64.0), |a| {
            a.x[0].bce_with_logits(&a.x[1])
        });
        conform!(device, "binary_cross_entropy", full, pair(share, share), OfLargest(64.0), |a| {
            a.x[0].binary_cross_entropy(&a.x[1])
        });
        conform!(device, "kl_div", full, pair(REAL, positive), OfLargest(64.0), |a| {
            a.x[0].log_softmax(-1)?.kl_div(&a.x[1])
        });
        conform!(device, "margin_ranking_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| {
            a.x[0].margin_ranking_loss(&a.x[1], &a.x[1].detach().sign()?, 0.3)
        });
        conform!(device, "triplet_margin_loss", full, pair(REAL, REAL), OfLargest(64.0), |a| {
            a.x[0].triplet_margin_loss(&a.x[1], &a.x[1].flip([0])?, 2.0)
        });
        conform!(device, "triplet_margin_loss of sums", full, pair(REAL, REAL), OfLargest(64.0), |a| {
            let options = TripletMargin::new().p(1.0).swap(true).reduction(LossReduction::None);
            a.x[0].triplet_margin_loss(&a.x[1], &a.x[1].flip([0])?, options)
        });
        conform!(device, "cosine_similarity", full, pair(REAL, positive), OfLargest(64.0), |a| {
            a.x[0].cosine_similarity(&a.x[1], -1, 1e-8)
        });
        conform!(device, "normalize", full, pair(REAL, REAL), OfLargest(64.0), |a| a.x[0].normalize(2.0, -1, 1e-12));
        conform!(device, "cross_entropy", full, scores(), OfLargest(64.0), |a| a.x[0].cross_entropy(&a.index[0]));
        conform!(device, "nll_loss", full, scores(), OfLargest(64.0), |a| a.x[0].log_softmax(1)?.nll_loss(&a.index[0]));
    }
}
