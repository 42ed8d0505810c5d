//! Reductions, scans, sorting, softmax and cross-entropy.

use crate::case::{Call, Input, check, check_same, on_gpu, to_f64};
use crate::{FLOATS, rounded_alike, wide};
use amp_core::Result;
use amp_core::backend::{DType, Labels, Layout, Operand, Reduce, Scan};

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

/// Sums begin with 0, as in PyTorch, and products with 1.
#[test]
fn running_sums_of_minus_zero_are_zero_and_products_keep_it() {
    for (dtype, len) in FLOATS.into_iter().flat_map(|dtype| [(dtype, 1), (dtype, 300)]) {
        let x = Input::new(vec![-0.0; len], &[len], dtype);
        for (op, reverse) in [(Scan::Sum, false), (Scan::Sum, true), (Scan::Prod, false)] {
            let call: Call = &|b, x, out| Ok(vec![b.scan(op, x[0], 0, reverse, out)?]);
            let gpu = to_f64(on_gpu("scan of -0", &[x.clone()], dtype, call).remove(0));
            let negative = |i: usize| op == Scan::Prod && i.is_multiple_of(2);
            assert!((0..len).all(|i| gpu[i] == 0.0 && gpu[i].is_sign_negative() == negative(i)), "{op:?} {gpu:?}");
        }
    }
}
