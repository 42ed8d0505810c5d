//! Normalisation and its gradients.

use crate::case::{Input, check, converted, on_gpu, to_f64};
use crate::{FLOATS, rounded_alike, wide};
use amp_core::backend::{Binary, DType, Layout, NormKind, Operand, Statistics};
use amp_core::{Dims, Result};

/// A normalisation and its gradients, with weights of a precision and without.
fn normalisation(kind: NormKind, shape: &[usize], parameters: usize, [x, g, w]: [DType; 3], out: DType) {
    let noise = |dtype, seed| Input::noise(shape, dtype, 1.0, seed);
    let x = Input { values: noise(x, 3).values.iter().map(|v| 2.0 * v + 1.0).collect(), ..noise(x, 1) };
    let inputs = [x, noise(g, 20), Input::noise(&[parameters], w, 1.0, 4), Input::noise(&[parameters], w, 1.0, 5)];
    for weighted in [true, false] {
        check(&format!("{kind:?} of {shape:?}"), &inputs, out, 400.0, &|b, x, out| {
            let (weight, bias) = (weighted.then_some(x[2]), weighted.then_some(x[3]));
            let n = b.normalize(x[0], kind, weight, bias, 1e-5, out)?;
            let layout = Layout::contiguous(Dims::new(&[n.mean.len()]).expect("rank 1"));
            let kept = |buffer| Operand { buffer, layout: &layout, logical: n.mean.dtype() };
            let statistics = (kept(&n.mean), kept(&n.rstd));
            let grads = b.normalize_grad(x[1], x[0], statistics, weight, kind, (out, Some(DType::BF16)))?;
            let dx = Operand { buffer: &grads.x, layout: x[0].layout, logical: grads.x.dtype() };
            let narrowed = grads.narrowed.map_or_else(|| b.copy(dx, DType::BF16), Ok)?;
            let mut results = vec![];
            if kind != NormKind::Batch {
                let earlier = b.copy(dx, n.mean.dtype())?;
                let layout = Layout::contiguous(x[0].layout.shape);
                let earlier = Operand { buffer: &earlier, layout: &layout, logical: n.mean.dtype() };
                let sum = b.normalize_grad_onto((x[1], earlier), x[0], statistics, weight, kind, (out, None))?;
                results.push(sum.expect("a kernel that adds").x);
            }
            results.extend([narrowed, grads.x, grads.weight, grads.bias]);
            if kind == NormKind::Batch {
                let statistics = Statistics { mean: kept(&n.mean), var: kept(&n.var) };
                results.push(b.normalize_with(x[0], statistics, weight, bias, 1e-5, out)?);
            }
            results.extend([n.y, n.mean, n.var, n.rstd]);
            Ok(results)
        });
    }
}

#[test]
fn normalisations_and_their_gradients() {
    let kinds = [
        (NormKind::Layer { inner: 40 }, &[6usize, 40][..], 40),
        (NormKind::Layer { inner: 33 }, &[5, 33], 33),
        (NormKind::Rms { inner: 40 }, &[6, 40], 40),
        (NormKind::Group { groups: 2 }, &[3, 4, 5, 3], 4),
        (NormKind::Group { groups: 4 }, &[2, 4, 9], 4),
        (NormKind::Batch, &[7, 3, 5], 3),
        (NormKind::Batch, &[150, 2], 2),
    ];
    for (i, (kind, shape, parameters)) in kinds.into_iter().enumerate() {
        let dtype = FLOATS[i % 4];
        normalisation(kind, shape, parameters, [dtype, dtype, DType::F32], DType::F32);
    }
}

#[test]
fn normalisations_in_packs_and_parts_of_packs() {
    let kinds = [
        (NormKind::Layer { inner: 264 }, &[130usize, 264][..], 264),
        (NormKind::Rms { inner: 2104 }, &[3, 2104], 2104),
        (NormKind::Layer { inner: 4104 }, &[2, 4104], 4104),
        (NormKind::Group { groups: 2 }, &[2, 4, 49], 4),
        (NormKind::Group { groups: 2 }, &[2, 6, 8], 6),
        (NormKind::Batch, &[3, 5, 49], 5),
        (NormKind::Batch, &[2, 3, 8], 3),
        (NormKind::Batch, &[5, 2, 196], 2),
        (NormKind::Batch, &[3, 1, 9001], 1),
        (NormKind::Batch, &[3, 8], 8),
        (NormKind::Batch, &[1111, 24], 24),
        (NormKind::Batch, &[13, 2080], 2080),
        (NormKind::Layer { inner: 8200 }, &[1, 8200], 8200),
    ];
    for (i, (kind, shape, parameters)) in kinds.into_iter().enumerate() {
        let types = [0, 1, 2].map(|j| FLOATS[(i + j) % 3]);
        normalisation(kind, shape, parameters, types, FLOATS[(i + 1) % 3]);
        normalisation(kind, shape, parameters, [DType::BF16; 3], DType::F32);
    }
}

/// Batch normalisation with relu behind it: whole packs, packs that channels share, single pixels, with and without what may be
/// missing, a residual that is broadcast, and the gradient through the bits.
#[test]
fn batch_normalisations_with_relu_and_their_gradients() {
    let shapes = [&[3, 4, 16][..], &[2, 5, 7, 3], &[9, 3], &[2, 6, 1, 2], &[1, 2, 35], &[37, 16]];
    for (i, (shape, dtype)) in shapes.into_iter().flat_map(|s| FLOATS.map(|dtype| (s, dtype))).enumerate() {
        let noise = |seed| Input::noise(shape, dtype, 2.0, seed);
        let parameter = |seed| Input::noise(&shape[1..2], DType::F32, 1.0, seed);
        let strides: Vec<usize> = (0..shape.len()).map(|axis| usize::from(axis == 1)).collect();
        let residual = match i % 3 {
            0 => Input::strided(shape, &strides, 0, dtype, 5),
            _ => noise(5).stored(if dtype == DType::F64 { dtype } else { DType::F32 }),
        };
        let variances = [0.5, 1.5, 2.0, 0.25, 1.0, 3.0].iter().cycle().take(shape[1]);
        let var = Input { values: variances.copied().collect(), ..parameter(6) };
        let inputs = [noise(1), noise(2), parameter(3), parameter(4), residual, var];
        let full = wide(dtype);
        for (affine, added, out) in
            [(true, true, dtype), (true, false, full), (false, true, full), (false, false, dtype)]
        {
            check(
                &format!("{shape:?} of {dtype}, affine {affine}, residual {added}"),
                &inputs,
                out,
                400.0,
                &|b, x, out| {
                    let affine = if affine { (Some(x[2]), Some(x[3])) } else { (None, None) };
                    let after = (added.then_some(x[4]), true);
                    let y = b.batch_norm_relu(x[0], None, affine, 1e-5, after, out)?.expect("a kernel");
                    let (n, dead) = (y.normalized, y.dead.expect("bits"));
                    let layout =
                        amp_core::backend::Layout::contiguous(amp_core::Dims::new(&[n.mean.len()]).expect("rank 1"));
                    let kept = |buffer| Operand { buffer, layout: &layout, logical: n.mean.dtype() };
                    let saved = (kept(&n.mean), kept(&n.rstd));
                    let grads = b.batch_norm_relu_grad((x[1], &dead), x[0], saved, affine.0, wide(out))?;
                    let given = Some(Statistics { mean: x[3], var: x[5] });
                    let with = b.batch_norm_relu(x[0], given, affine, 1e-5, (after.0, false), out)?.expect("a kernel");
                    assert!(with.dead.is_none());
                    Ok(vec![n.y, dead, n.mean, n.var, n.rstd, grads.x, grads.weight, grads.bias, with.normalized.y])
                },
            );
        }
    }
}

/// Mean and variance of values that are all alike are that value and nothing.
fn has_no_variance(name: &str, shape: &[usize], value: f64, call: crate::case::Call) {
    for dtype in FLOATS {
        let x = Input::new(vec![value; shape.iter().product()], shape, dtype);
        let exact = to_f64(converted(x.values.clone().into(), dtype))[0];
        if !exact.is_finite() {
            continue;
        }
        let pairs = on_gpu(name, &[x], wide(dtype), call);
        for pair in pairs.chunks(2) {
            let [mean, var] = [0, 1].map(|i| to_f64(pair[i].clone()));
            assert!(mean.iter().all(|m| *m == exact), "{name} of {value} in {dtype}: mean {mean:?}");
            assert!(var.iter().all(|v| *v == 0.0), "{name} of {value} in {dtype}: variance {var:?}");
        }
    }
}

#[test]
fn what_is_all_alike_has_no_variance() {
    for value in [0.1, 12.3, -14.580299, 1e20] {
        for shape in [[3, 7], [1025, 3], [2, 5000]] {
            has_no_variance("variance", &shape, value, &|b, x, out| {
                let pairs = [&[0][..], &[1], &[0, 1]].map(|axes| b.variance(x[0], axes, 0.0, out));
                Ok(pairs.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flat_map(<[_; 2]>::from).collect())
            });
        }
        let kinds = [
            (NormKind::Layer { inner: 40 }, &[6usize, 40][..]),
            (NormKind::Layer { inner: 333 }, &[5, 333]),
            (NormKind::Group { groups: 2 }, &[3, 4, 5, 3]),
            (NormKind::Batch, &[150, 3, 5]),
            (NormKind::Batch, &[1157, 16]),
        ];
        for (kind, shape) in kinds {
            has_no_variance(&format!("{kind:?}"), shape, value, &|b, x, out| {
                let n = b.normalize(x[0], kind, None, None, 1e-5, out)?;
                Ok(vec![n.mean, n.var])
            });
        }
    }
}

#[test]
fn what_is_written_in_two_precisions_is_what_a_cast_gives() {
    for (shape, also) in [([6, 24], DType::BF16), ([5, 7], DType::F16)] {
        let inputs = [Input::noise(&shape, DType::F32, 3.0, 1), Input::noise(&shape, DType::F32, 3e4, 2)];
        crate::case::on_gpu("both precisions", &inputs, DType::F32, &|b, x, out| {
            let (sum, copy) = b.binary_narrowed(Binary::Add, x[0], x[1], out, also)?;
            rounded_alike(b, &sum, &copy.expect("a copy that was written too"));
            let kind = NormKind::Layer { inner: shape[1] };
            let n = b.normalize(x[0], kind, None, None, 1e-5, out)?;
            let rows = Layout::contiguous(Dims::new(&shape[..1]).expect("rank 1"));
            let [mean, rstd] = [&n.mean, &n.rstd].map(|s| Operand { buffer: s, layout: &rows, logical: DType::F32 });
            let grads = b.normalize_grad(x[1], x[0], (mean, rstd), None, kind, (out, Some(also)))?;
            rounded_alike(b, &grads.x, &grads.narrowed.expect("a copy that was written too"));
            let n = b.normalize(x[0], NormKind::Batch, None, None, 1e-5, out)?;
            let channels = Layout::contiguous(Dims::new(&shape[1..]).expect("rank 1"));
            let statistic = |buffer| Operand { buffer, layout: &channels, logical: DType::F32 };
            let statistics = (statistic(&n.mean), statistic(&n.rstd));
            let batch = b.normalize_grad(x[1], x[0], statistics, None, NormKind::Batch, (out, Some(also)))?;
            rounded_alike(b, &batch.x, &batch.narrowed.expect("a copy that was written too"));
            Ok(vec![sum, grads.x, batch.x])
        });
    }
}
