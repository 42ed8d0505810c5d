//! Reductions, scans, sorting, softmax, normalisation, cross-entropy and indexing.

use crate::case::{Input, check, check_same, converted, on_gpu, to_f64};
use amp_core::backend::{Backend, Binary, Buffer, DType, Labels, Layout, NormKind, Operand, Reduce, Scan, Statistics};
use amp_core::{Dims, Result};

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// The precision that statistics of `dtype` have.
pub fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

#[test]
fn reductions_along_any_axes() {
    let ops = [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Max, Reduce::Min, Reduce::SumSquares, Reduce::SumAbs];
    for (i, op) in ops.into_iter().enumerate() {
        let dtype = FLOATS[i % 4];
        let terms = if op == Reduce::Prod { 600.0 } else { 100.0 };
        for axes in [&[0usize][..], &[1], &[2], &[0, 2], &[1, 2], &[0, 1, 2], &[]] {
            let x = Input::strided(&[3, 37, 2], &[74, 2, 1], 0, dtype, i as u64);
            check(&format!("{op:?} {axes:?}"), &[x], DType::F32, terms, &|b, x, out| {
                Ok(vec![b.reduce(op, x[0], axes, out)?])
            });
        }
        let turned = Input::strided(&[6, 700], &[1, 6], 0, dtype, 7);
        check(&format!("{op:?} turned"), &[turned], DType::F32, 1000.0, &|b, x, out| {
            Ok(vec![b.reduce(op, x[0], &[1], out)?, b.reduce(op, x[0], &[0], out)?])
        });
    }
}

#[test]
fn long_reductions_are_split_in_a_fixed_order() {
    let x = Input::noise(&[40_000], DType::F32, 1.0, 1);
    check("sum of a vector", &[x.clone()], DType::F32, 400.0, &|b, x, out| {
        Ok(vec![b.reduce(Reduce::Sum, x[0], &[0], out)?, b.reduce(Reduce::Mean, x[0], &[0], out)?])
    });
    let columns = Input::noise(&[20_000, 2], DType::BF16, 1.0, 2);
    check("sum of columns", &[columns], DType::F32, 400.0, &|b, x, out| {
        let (mean, var) = b.variance(x[0], &[0], 1.0, out)?;
        Ok(vec![b.reduce(Reduce::SumSquares, x[0], &[0], out)?, mean, var])
    });
}

#[test]
fn reductions_of_runs_that_are_not_whole_packs_and_of_tall_columns() {
    let ops = [Reduce::Mean, Reduce::Max, Reduce::Min, Reduce::SumSquares, Reduce::SumAbs, Reduce::Prod];
    let shapes = [
        (&[5usize, 4, 49][..], &[0usize, 2][..]),
        (&[3, 2, 9001], &[0, 2]),
        (&[9, 3, 8], &[0, 2]),
        (&[7, 333], &[1]),
        (&[4100, 49], &[1]),
        (&[333, 70], &[0]),
        (&[3, 65, 40], &[1]),
    ];
    for (i, (shape, axes)) in shapes.into_iter().enumerate() {
        for (j, stored) in [FLOATS[i % 3], DType::F32].into_iter().enumerate() {
            // Products of many numbers near 1 stay near it.
            let values = crate::case::noise(shape.iter().product(), i as u64).iter().map(|v| 1.0 + 0.002 * v).collect();
            let x = Input::new(values, shape, [FLOATS[i % 3], DType::BF16][j]).stored(stored);
            check(&format!("{shape:?} {axes:?}"), &[x], DType::F32, 1000.0, &|b, x, out| {
                let (mean, var) = b.variance(x[0], axes, 0.0, out)?;
                let folded = ops[..5].iter().map(|op| b.reduce(*op, x[0], axes, out)).collect::<Result<Vec<_>>>()?;
                Ok([vec![mean, var], folded].concat())
            });
        }
    }
    let x = Input::new(vec![1.0; 3 * 77], &[3, 77], DType::F32);
    check("products of packs", &[x], DType::F32, 1.0, &|b, x, out| Ok(vec![b.reduce(ops[5], x[0], &[1], out)?]));
    let negative = Input::new(vec![-2.0; 3 * 77], &[3, 77], DType::BF16);
    check("extremes of packs", &[negative], DType::F32, 1.0, &|b, x, out| {
        Ok(vec![b.reduce(Reduce::Max, x[0], &[1], out)?, b.reduce(Reduce::All, x[0], &[1], DType::Bool)?])
    });
}

#[test]
fn empty_reductions_and_special_values() {
    for op in [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Max, Reduce::Min] {
        let empty = Input::new(vec![], &[3, 0], DType::F32);
        check_same(&format!("{op:?} of nothing"), &[empty], DType::F32, 0.0, &|b, x, out| {
            Ok(vec![b.reduce(op, x[0], &[1], out)?, b.reduce(op, x[0], &[0], out)?])
        });
        let mut values = vec![1.0; 300];
        (values[17], values[200]) = (f64::NAN, f64::INFINITY);
        let x = Input::new(values, &[3, 100], DType::F16);
        check_same(&format!("{op:?} of NaN"), &[x], DType::F16, 10.0, &|b, x, out| {
            Ok(vec![b.reduce(op, x[0], &[1], out)?])
        });
    }
    let truth = Input::new((0..60).map(|i| (i % 20 != 3) as i32 as f64).collect(), &[3, 20], DType::Bool);
    for op in [Reduce::All, Reduce::Any, Reduce::Sum] {
        check_same(&format!("{op:?}"), &[truth.clone()], DType::I64, 0.0, &|b, x, out| {
            Ok(vec![b.reduce(op, x[0], &[1], out)?])
        });
    }
}

#[test]
fn moments_positions_scans_and_sorting() {
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let x = Input::noise(&[4, 331, 3], dtype, 2.0, i as u64);
        check("variance", &[x.clone()], DType::F32, 200.0, &|b, x, out| {
            let ((a, b), (c, d)) = (b.variance(x[0], &[1], 1.0, out)?, b.variance(x[0], &[0, 2], 0.0, out)?);
            Ok(vec![a, b, c, d])
        });
        let x = Input::noise(&[2, 7, 3], dtype, 2.0, i as u64);
        for axis in 0..3 {
            check(&format!("scan {axis}"), &[x.clone()], DType::F32, 400.0, &|b, x, out| {
                Ok(vec![b.scan(Scan::Sum, x[0], axis, false, out)?, b.scan(Scan::Sum, x[0], axis, true, out)?])
            });
            check(&format!("order {axis}"), &[x.clone()], DType::I64, 0.0, &|b, x, _| {
                let ((_, up), (_, down)) = (b.sort(x[0], axis, false)?, b.sort(x[0], axis, true)?);
                Ok(vec![b.arg_reduce(true, x[0], axis)?, b.arg_reduce(false, x[0], axis)?, up, down])
            });
        }
    }
    let x = Input::noise(&[2, 531], DType::F32, 2.0, 8);
    check("long lines", &[x], DType::F32, 400.0, &|b, x, out| {
        Ok(vec![
            b.scan(Scan::Sum, x[0], 1, true, out)?,
            b.scan(Scan::Sum, x[0], 1, false, out)?,
            b.sort(x[0], 1, true)?.1,
        ])
    });
    for len in [1, 2, 3, 64, 300, 512, 513] {
        let x = Input::noise(&[3, len, 2], DType::F32, 2.0, len as u64);
        check(&format!("order of lines of {len}"), &[x], DType::I64, 0.0, &|b, x, _| {
            Ok(vec![b.sort(x[0], 1, false)?.1, b.sort(x[0], 1, true)?.1])
        });
    }
    let mut values: Vec<f64> = (0..1100).map(|i| f64::from(i * 37 % 19)).collect();
    (values[5], values[700], values[701]) = (f64::NAN, f64::NAN, f64::NEG_INFINITY);
    let x = Input::new(values, &[1100], DType::BF16);
    check_same("sort with ties", &[x], DType::BF16, 0.0, &|b, x, _| {
        let ((a, p), (c, q)) = (b.sort(x[0], 0, false)?, b.sort(x[0], 0, true)?);
        Ok(vec![a, p, c, q, b.arg_reduce(true, x[0], 0)?, b.arg_reduce(false, x[0], 0)?])
    });
    let x = Input::new(vec![0.5, 0.0, 2.0, -1.0, 0.0, 3.0], &[2, 3], DType::F32);
    let g = Input::noise(&[2, 3], DType::F32, 1.0, 4);
    check("cumprod grad", &[x, g], DType::F32, 20.0, &|b, x, out| {
        Ok(vec![b.scan(Scan::Prod, x[0], 1, false, out)?, b.cumprod_grad(x[0], x[1], 1, out)?])
    });
}

#[test]
fn running_sums_and_products_lose_nothing_on_the_way() {
    let powers = [1e30, 1e30, 1e-30, 1e-30, 2.0, 3.0, 1e30, 1e-30];
    let x = Input::new(powers.repeat(60), &[60, 8], DType::F32);
    check("products that leave F32 and return", &[x], DType::F32, 2.0, &|b, x, out| {
        Ok(vec![b.scan(Scan::Prod, x[0], 1, false, out)?, b.scan(Scan::Prod, x[0], 1, true, out)?])
    });
    let x = Input::new([1e8, 1.0, -1e8, 1.0].repeat(125), &[500], DType::F32);
    check("sums whose parts cancel", &[x], DType::F32, 1.0, &|b, x, out| {
        Ok(vec![b.scan(Scan::Sum, x[0], 0, false, out)?])
    });
}

#[test]
fn softmax_of_short_long_and_strided_lines() {
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let long = if i == 1 { 5000 } else { 40 };
        let whole_packs = &[3, 2056][..];
        let others = [(&[3usize, 1][..], 1), (&[2, 333], 1), (&[2, 9, 5], 1), (&[2, long], 1), (&[], 0)];
        for (shape, axis) in [others.as_slice(), &[(whole_packs, 1)]].concat() {
            let x = Input::noise(shape, dtype, 8.0, i as u64);
            let g = Input::noise(shape, dtype, 1.0, 50);
            check(&format!("softmax {shape:?}"), &[x, g], wide(dtype), 200.0, &|b, x, out| {
                let (y, log) = (b.softmax(x[0], axis, false, out)?, b.softmax(x[0], axis, true, out)?);
                let layout = amp_core::backend::Layout::contiguous(x[0].layout.shape);
                let kept = |buffer| Operand { buffer, layout: &layout, logical: out };
                let dx = b.softmax_grad(kept(&y), x[1], axis, false, out)?;
                let dlog = b.softmax_grad(kept(&log), x[1], axis, true, out)?;
                Ok(vec![b.logsumexp(x[0], axis, out)?, dx, dlog, y, log])
            });
        }
    }
    let mut values = vec![f64::NEG_INFINITY; 40];
    (values[3], values[25], values[30]) = (1.0, f64::INFINITY, 65504.0);
    let x = Input::new(values, &[4, 10], DType::F16);
    check_same("softmax of infinities", &[x.clone()], DType::F32, 20.0, &|b, x, out| {
        Ok(vec![b.softmax(x[0], 1, false, out)?, b.softmax(x[0], 1, true, out)?, b.logsumexp(x[0], 1, out)?])
    });
    let targets = Input::new(vec![3.0, 0.0, 4.0, 1.0], &[4], DType::I64);
    check_same("cross entropy of infinities", &[x, targets], DType::F32, 20.0, &|b, x, _| {
        let labels = Labels { targets: x[1], weight: None, ignore_index: -100, smoothing: 0.0 };
        let (loss, lse) = b.cross_entropy(x[0], 1, labels)?;
        Ok(vec![loss, lse])
    });
}

/// Tensors whose lines begin anywhere in a pack, that end within one, or that cannot be read in packs.
fn odd_lines(len: usize, scale: f64, seed: u64) -> Vec<Input> {
    let scaled = |x: Input| Input { values: x.values.iter().map(|v| scale * v).collect(), ..x };
    let whole = |dtype| Input::noise(&[5, len], dtype, scale, seed);
    let part = |offset| scaled(Input::strided(&[5, len], &[len, 1], offset, DType::BF16, seed));
    let rows = scaled(Input::strided(&[5, len], &[len + 3, 1], 0, DType::F16, seed));
    let rounded = [DType::F16, DType::BF16].map(|dtype| whole(dtype).stored(DType::F32));
    [DType::F16, DType::BF16, DType::F32]
        .into_iter()
        .map(whole)
        .chain([part(8), part(3), rows])
        .chain(rounded)
        .collect()
}

#[test]
fn lines_that_are_not_whole_packs() {
    for (i, len) in [1, 7, 8, 9, 255, 1003, 4096, 4099].into_iter().enumerate() {
        for (j, x) in odd_lines(len, 6.0, i as u64).into_iter().enumerate() {
            let g = Input::noise(&[5, len], FLOATS[(i + j) % 3], 1.0, 50);
            let out = FLOATS[j % 3];
            check(&format!("softmax {:?} stored as {}", x.layout, x.stored), &[x, g], out, 200.0, &|b, x, out| {
                let (y, log) = (b.softmax(x[0], 1, false, DType::F32)?, b.softmax(x[0], 1, true, DType::F32)?);
                let layout = Layout::contiguous(x[0].layout.shape);
                let kept = |buffer| Operand { buffer, layout: &layout, logical: DType::F32 };
                let dx = b.softmax_grad(kept(&y), x[1], 1, false, out)?;
                let dlog = b.softmax_grad(kept(&log), x[1], 1, true, out)?;
                let narrow = [b.softmax(x[0], 1, false, out)?, b.softmax(x[0], 1, true, out)?];
                Ok([vec![b.logsumexp(x[0], 1, out)?, dx, dlog, y, log], narrow.into()].concat())
            });
        }
    }
}

#[test]
fn cross_entropy_of_lines_that_are_not_whole_packs() {
    for (i, len) in [6, 8, 9, 77, 1003, 4096, 4099].into_iter().enumerate() {
        for (j, logits) in odd_lines(len, 6.0, i as u64).into_iter().enumerate() {
            let out = FLOATS[(i + j) % 3];
            let targets = [0.0, len as f64 - 1.0, -100.0, 5.0, 3.0];
            let inputs = [logits, Input::new(targets.into(), &[5], DType::I64), Input::noise(&[5], DType::F32, 1.0, 3)];
            check(&format!("cross entropy of {:?}", inputs[0].layout), &inputs, out, 300.0, &|b, x, out| {
                let smoothing = if j % 2 == 0 { 0.0 } else { 0.1 };
                let labels = Labels { targets: x[1], weight: None, ignore_index: -100, smoothing };
                let (loss, lse) = b.cross_entropy(x[0], 1, labels)?;
                let kept = Operand { buffer: &lse, layout: x[2].layout, logical: lse.dtype() };
                let (dx, _) = b.cross_entropy_grad(x[0], 1, labels, kept, x[2], (out, None))?;
                Ok(vec![loss, lse, dx])
            });
        }
    }
}

/// The gradient rounded to 16 bits in the same pass has the bits of the wide one rounded.
#[test]
fn cross_entropy_writes_its_gradient_in_16_bits_too() {
    for (i, len) in [9, 40].into_iter().enumerate() {
        for (j, logits) in odd_lines(len, 4.0, 7).into_iter().enumerate() {
            let also = [DType::BF16, DType::F16][(i + j) % 2];
            let targets = Input::new(vec![0.0, 8.0, -100.0, 5.0, 3.0], &[5], DType::I64);
            let inputs = [logits, targets, Input::noise(&[5], DType::F32, 1.0, 3)];
            on_gpu(&format!("{len} in {also}"), &inputs, DType::F32, &|b, x, out| {
                let labels = Labels { targets: x[1], weight: None, ignore_index: -100, smoothing: 0.0 };
                let (_, lse) = b.cross_entropy(x[0], 1, labels)?;
                let kept = Operand { buffer: &lse, layout: x[2].layout, logical: lse.dtype() };
                let (wide, narrow) = b.cross_entropy_grad(x[0], 1, labels, kept, x[2], (out, Some(also)))?;
                rounded_alike(b, &wide, &narrow.expect("a copy that was written too"));
                Ok(vec![wide])
            });
        }
    }
}

#[test]
fn infinities_and_nan_in_packs_of_a_line() {
    let (most, none) = (f64::from(f32::MAX), f64::NEG_INFINITY);
    let special = [
        vec![none; 40],
        vec![-most; 40],
        [vec![none; 39], vec![-most]].concat(),
        [vec![0.0; 25], vec![f64::INFINITY], vec![none; 14]].concat(),
        [vec![0.0; 25], vec![f64::INFINITY, f64::NAN], vec![none; 13]].concat(),
        [vec![1.0; 39], vec![f64::NAN]].concat(),
        [vec![-most; 20], vec![most; 20]].concat(),
    ];
    let x = Input::new(special.concat(), &[7, 40], DType::F32);
    let targets = Input::new(vec![0.0, 1.0, 39.0, 2.0, 3.0, 4.0, 39.0], &[7], DType::I64);
    check_same("lines with infinities", &[x, targets], DType::F32, 20.0, &|b, x, _| {
        let labels = Labels { targets: x[1], weight: None, ignore_index: -100, smoothing: 0.0 };
        let (loss, lse) = b.cross_entropy(x[0], 1, labels)?;
        let softmax = [b.softmax(x[0], 1, false, DType::F32)?, b.softmax(x[0], 1, true, DType::F32)?];
        Ok([vec![loss, lse, b.logsumexp(x[0], 1, DType::F32)?], softmax.into()].concat())
    });
}

#[test]
fn cross_entropy_with_weights_smoothing_and_ignored_rows() {
    for (i, shape) in [&[6, 77][..], &[2, 77, 3], &[77, 6]].into_iter().cycle().take(8).enumerate() {
        let (axis, dtype) = (usize::from(shape[0] != 77), FLOATS[i % 4]);
        let logits = Input::noise(shape, dtype, 5.0, i as u64);
        let targets = Input::new(vec![0.0, 76.0, -100.0, 5.0, 5.0, 40.0], &[6], DType::I64);
        let weight = Input::new(crate::case::noise(77, 9).iter().map(|v| v.abs()).collect(), &[77], DType::F32);
        let scale = Input::noise(&[6], DType::F32, 1.0, 3);
        for (smoothing, weighted) in [(0.0, false), (0.1, true), (0.1, false)] {
            let inputs = [logits.clone(), targets.clone(), weight.clone(), scale.clone()];
            check("cross entropy", &inputs, dtype, 300.0, &|b, x, out| {
                let labels = Labels { targets: x[1], weight: weighted.then_some(x[2]), ignore_index: -100, smoothing };
                let (loss, lse) = b.cross_entropy(x[0], axis, labels)?;
                let layout = x[3].layout;
                let kept = Operand { buffer: &lse, layout, logical: lse.dtype() };
                let (dx, _) = b.cross_entropy_grad(x[0], axis, labels, kept, x[3], (out, None))?;
                Ok(vec![loss, lse, dx])
            });
        }
    }
}

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
fn selecting_gathering_and_adding_by_index() {
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let x = Input::strided(&[4, 9, 5], &[45, 1, 9], 0, dtype, i as u64);
        let slices = Input::new(vec![3.0, 0.0, 3.0, 8.0, 3.0], &[5], DType::I64);
        let src = Input::noise(&[4, 5, 5], dtype, 1.0, 2);
        let index = Input::new((0..80).map(|k| f64::from(k * 7 % 9)).collect(), &[4, 4, 5], DType::I64);
        check("index", &[x, slices, src, index], dtype, 20.0, &|b, x, out| {
            b.check_indices("index", x[1], 9, None)?;
            Ok(vec![
                b.index_select(x[0], 1, x[1])?,
                b.index_add(None, 9, 1, x[1], x[2], out)?,
                b.index_add(Some(x[0]), 9, 1, x[1], x[2], out)?,
                b.gather(x[0], 1, x[3])?,
                b.scatter_add(x[0], 1, x[3], x[2], out)?,
                b.scatter(x[0], 1, x[3], x[2], out)?,
            ])
        });
    }
    let many = Input::new((0..1300).map(|k| f64::from(k * 31 % 11)).collect(), &[1300], DType::I64);
    let src = Input::noise(&[1300, 3], DType::F32, 1.0, 2);
    check("embedding gradient", &[many, src], DType::F32, 200.0, &|b, x, out| {
        Ok(vec![b.index_add(None, 11, 0, x[0], x[1], out)?])
    });
}

#[test]
fn a_bad_index_is_reported_with_the_next_download() {
    let (_, _alone) = crate::standin::open();
    let gpu = crate::standin::gpu();
    let layout = amp_core::backend::Layout::contiguous(amp_core::Dims::new(&[3]).expect("rank 1"));
    let index = gpu.upload(amp_core::backend::Storage::I64(vec![1, 12, -1].into())).expect("an upload");
    let operand = Operand { buffer: &index, layout: &layout, logical: DType::I64 };
    gpu.check_indices("embedding", operand, 10, None).expect("the check does not wait");
    let error = gpu.download(&index).expect_err("12 is past the end");
    assert_eq!(error.to_string(), "embedding: index 12 is out of range for size 10");
    gpu.download(&index).expect("an error is reported once");
}

/// The bits of two results, one of which was rounded from the other.
fn rounded_alike(b: &dyn Backend, wide: &Buffer, narrow: &Buffer) {
    let layout = Layout::contiguous(Dims::new(&[wide.len()]).expect("rank 1"));
    let wide = Operand { buffer: wide, layout: &layout, logical: DType::F32 };
    let cast = b.copy(wide, narrow.dtype()).expect("a copy");
    let [cast, written] = [&cast, narrow].map(|x| format!("{:?}", b.download(x).expect("a download")));
    assert_eq!(cast, written);
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
