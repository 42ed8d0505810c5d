use super::{NormKind, normalize, normalize_grad, normalize_with};
use crate::testing::{Random, Tensor, epsilon};
use crate::{Binary, DType};

const EPS: f64 = 1e-5;

/// Which statistic and which parameter an element of `[N, C, ..]` uses.
fn places(shape: &[usize], kind: NormKind, at: usize) -> (usize, usize) {
    let space: usize = shape.get(2..).map_or(1, |s| s.iter().product());
    let channel = at / space % shape[1];
    match kind {
        NormKind::Layer { inner } | NormKind::Rms { inner } => (at / inner, at % inner),
        NormKind::Group { groups } => (at / (shape[1] / groups * space), channel),
        NormKind::Batch => (channel, channel),
    }
}

/// Mean and variance of every group of elements, exactly.
fn statistics(x: &Tensor, kind: NormKind) -> Vec<(f64, f64)> {
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for (at, value) in x.values().into_iter().enumerate() {
        let (group, _) = places(x.shape(), kind, at);
        groups.resize(groups.len().max(group + 1), Vec::new());
        groups[group].push(value);
    }
    let of = |group: Vec<f64>| {
        let n = group.len() as f64;
        let mean = if matches!(kind, NormKind::Rms { .. }) { 0.0 } else { group.iter().sum::<f64>() / n };
        (mean, group.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
    };
    groups.into_iter().map(of).collect()
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let tolerance = tolerance * (1.0 + e.abs());
        assert!((f - e).abs() <= tolerance, "{what}: element {i} is {f}, not {e} ± {tolerance}");
    }
}

fn cases() -> Vec<(Vec<usize>, NormKind)> {
    vec![
        (vec![7, 1], NormKind::Layer { inner: 1 }),
        (vec![5, 17], NormKind::Layer { inner: 17 }),
        (vec![200, 24], NormKind::Layer { inner: 24 }),
        (vec![150, 128], NormKind::Rms { inner: 128 }),
        (vec![3, 5, 67], NormKind::Layer { inner: 335 }),
        (vec![70, 1500], NormKind::Layer { inner: 1500 }),
        (vec![9, 65], NormKind::Rms { inner: 65 }),
        (vec![2, 3000], NormKind::Rms { inner: 3000 }),
        (vec![3, 6, 5], NormKind::Group { groups: 2 }),
        (vec![2, 4, 3, 40], NormKind::Group { groups: 4 }),
        (vec![3, 4], NormKind::Group { groups: 2 }),
        (vec![50, 33], NormKind::Batch),
        (vec![700, 3], NormKind::Batch),
        (vec![1100, 65], NormKind::Batch),
        (vec![3, 2100], NormKind::Batch),
        (vec![4, 5, 3], NormKind::Batch),
        (vec![6, 3, 20, 60], NormKind::Batch),
        (vec![5, 11, 23, 29], NormKind::Batch),
        (vec![3, 301, 17], NormKind::Batch),
    ]
}

#[test]
fn every_kind_agrees_with_f64() {
    let mut random = Random::new(1);
    for (shape, kind) in cases() {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let out = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let x = random.tensor(&shape, dtype);
            let views = [x.clone(), random.tensor(&[shape[1], shape[0]], dtype).transposed(0, 1)];
            for x in &views[..if shape.len() == 2 { 2 } else { 1 }] {
                let expected = statistics(x, kind);
                let parameters = (0..x.values().len()).map(|at| places(&shape, kind, at).1 + 1).max().unwrap_or(0);
                let (w, b) = (random.tensor(&[parameters], out), random.tensor(&[parameters], out));
                let n = normalize(&x.view(), kind, Some(&w.view()), Some(&b.view()), EPS, out);
                let y = |at: usize, x: f64| {
                    let (group, parameter) = places(&shape, kind, at);
                    let (mean, var) = expected[group];
                    (x - mean) / (var + EPS).sqrt() * w.at(&[parameter]) + b.at(&[parameter])
                };
                let exact: Vec<f64> = x.values().into_iter().enumerate().map(|(at, x)| y(at, x)).collect();
                // A deviation divided by a root that may be as small as sqrt(EPS).
                let tolerance = 40.0 * epsilon(out) / EPS.sqrt();
                let what = format!("{kind:?} of {shape:?} {dtype}");
                assert_close(&what, &Tensor::contiguous(&shape, n.y).values(), &exact, tolerance);
                let groups = [expected.len()];
                let var: Vec<f64> = expected.iter().map(|s| s.1).collect();
                assert_close(&what, &Tensor::contiguous(&groups, n.var).values(), &var, 40.0 * epsilon(out));
                if kind == NormKind::Batch {
                    let mean = Tensor::contiguous(&groups, n.mean);
                    let var = Tensor::from_values(&groups, out, &var);
                    let (w, b) = (w.view(), b.view());
                    let y = normalize_with(&x.view(), &mean.view(), &var.view(), Some(&w), Some(&b), EPS, out);
                    assert_close(&what, &Tensor::contiguous(&shape, y).values(), &exact, tolerance);
                }
            }
        }
    }
}

#[test]
fn gradients_agree_with_the_formula() {
    let mut random = Random::new(2);
    for (shape, kind) in cases() {
        let (x, g) = (random.tensor(&shape, DType::F64), random.tensor(&shape, DType::F64));
        let stats = statistics(&x, kind);
        let count = x.values().len();
        let parameters = (0..count).map(|at| places(&shape, kind, at).1 + 1).max().unwrap_or(0);
        let w = random.tensor(&[parameters], DType::F64);
        let column = |f: &dyn Fn(&(f64, f64)) -> f64| {
            Tensor::from_values(&[stats.len()], DType::F64, &stats.iter().map(f).collect::<Vec<_>>())
        };
        let (mean, rstd) = (column(&|s| s.0), column(&|s| 1.0 / (s.1 + EPS).sqrt()));
        let grads = normalize_grad(
            (&g.view(), None),
            &x.view(),
            &mean.view(),
            &rstd.view(),
            Some(&w.view()),
            kind,
            (DType::F64, None),
        );
        let (xs, gs) = (x.values(), g.values());
        let normal: Vec<f64> = (0..count)
            .map(|at| (xs[at] - stats[places(&shape, kind, at).0].0) * rstd.values()[places(&shape, kind, at).0])
            .collect();
        let (mut dw, mut db) = (vec![0.0; parameters], vec![0.0; parameters]);
        let (mut grad_sum, mut projection, mut size) =
            (vec![0.0; stats.len()], vec![0.0; stats.len()], vec![0.0; stats.len()]);
        for at in 0..count {
            let (group, parameter) = places(&shape, kind, at);
            dw[parameter] += gs[at] * normal[at];
            db[parameter] += gs[at];
            let weighted = gs[at] * w.at(&[parameter]);
            (grad_sum[group], projection[group], size[group]) =
                (grad_sum[group] + weighted, projection[group] + weighted * normal[at], size[group] + 1.0);
        }
        let rms = matches!(kind, NormKind::Rms { .. });
        let expected: Vec<f64> = (0..count)
            .map(|at| {
                let (group, parameter) = places(&shape, kind, at);
                let grad_mean = if rms { 0.0 } else { grad_sum[group] / size[group] };
                let rest = gs[at] * w.at(&[parameter]) - grad_mean - normal[at] * projection[group] / size[group];
                rest * rstd.values()[group]
            })
            .collect();
        let what = format!("{kind:?} of {shape:?}");
        let tolerance = 1e-12 / EPS.sqrt();
        assert_close(&what, &Tensor::contiguous(&shape, grads.x).values(), &expected, tolerance);
        assert_close(&what, &Tensor::contiguous(&[parameters], grads.weight).values(), &dw, 1e-11);
        assert_close(&what, &Tensor::contiguous(&[parameters], grads.bias).values(), &db, 1e-11);
    }
}

#[test]
fn nothing_to_normalise() {
    for (shape, kind) in [(vec![0, 4], NormKind::Layer { inner: 4 }), (vec![2, 0], NormKind::Layer { inner: 0 })] {
        let x = Tensor::from_values(&shape, DType::F32, &[]);
        assert_eq!(normalize(&x.view(), kind, None, None, EPS, DType::F32).y.len(), 0);
    }
    let x = Tensor::from_values(&[0, 3, 2], DType::F32, &[]);
    assert_eq!(normalize(&x.view(), NormKind::Batch, None, None, EPS, DType::F32).y.len(), 0);
    let x = Tensor::from_values(&[2, 3, 0], DType::F32, &[]);
    assert_eq!(normalize(&x.view(), NormKind::Group { groups: 3 }, None, None, EPS, DType::F32).y.len(), 0);
}

#[test]
fn a_copy_of_the_gradient_is_the_gradient_rounded_alone_and_in_a_sum() {
    let mut random = Random::new(3);
    for (shape, kind) in cases().into_iter().filter(|(_, kind)| *kind != NormKind::Batch) {
        let [x, g] = [0; 2].map(|_| random.tensor(&shape, DType::F32));
        let groups = [statistics(&x, kind).len()];
        let [mean, rstd] = [0; 2].map(|_| random.tensor(&groups, DType::F32));
        for also in [DType::BF16, DType::F16] {
            let run = |onto, also| {
                let (g, x, out) = (g.view(), x.view(), (DType::F32, also));
                normalize_grad((&g, onto), &x, &mean.view(), &rstd.view(), None, kind, out)
            };
            let (alone, both) = (run(None, None), run(None, Some(also)));
            let dx = Tensor::contiguous(&shape, alone.x);
            assert_eq!(both.narrowed, Some(crate::copy(&dx.view(), also)), "{kind:?} of {shape:?}");
            assert_eq!(both.x, dx.storage);
            let (sum, copy) = crate::binary_narrowed(Binary::Add, &x.view(), &dx.view(), also);
            let joined = run(Some(&x.view()), Some(also));
            assert_eq!((joined.x, joined.narrowed), (sum, Some(copy)), "{kind:?} of {shape:?}");
        }
    }
}
