//! Reductions, scans, sorting, softmax.

use crate::compare::Bound::{Exact, OfLargest, Terms, Ulps};
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;
use amp::prelude::*;

const REAL: Values = Values::Uniform(-2.0, 2.0);
const NEAR_ONE: Values = Values::Uniform(0.8, 1.25);

fn one(values: Values, shape: &[usize]) -> [Vec<Arg>; 1] {
    [vec![Arg::Float(values, shape.to_vec())]]
}

/// Shapes with an axis 1 to fold, of prime, single and larger sizes.
const ROWS: [[usize; 3]; 6] = [[2, 3, 5], [1, 1, 1], [3, 1, 2], [0, 4, 2], [2, 131, 3], [5, 67, 1]];

#[test]
fn sums() {
    for device in &devices() {
        for shape in ROWS {
            let (n, rest) = (shape[1], shape[0] * shape[2]);
            conform!(device, "sum", full, one(REAL, &shape), Terms(n), |a| a.x[0].sum([1], false));
            conform!(device, "sum_kept", full, one(REAL, &shape), Terms(rest), |a| a.x[0].sum([0, 2], true));
            conform!(device, "sum_all", full, one(REAL, &shape), Terms(n * rest), |a| a.x[0].sum_all());
            conform!(device, "mean", full, one(REAL, &shape), Terms(n), |a| a.x[0].mean([-2], false));
            conform!(device, "var", full, one(REAL, &shape), OfLargest(8.0 + n as f64), |a| a.x[0].var([1], false));
            conform!(device, "std", full, one(REAL, &shape), OfLargest(8.0 + n as f64), |a| a.x[0].std([1], true));
            conform!(device, "norm", full, one(REAL, &shape), Ulps(4.0 + n as f64), |a| a.x[0].norm(2.0, [1], false));
            conform!(device, "cdist", full, one(REAL, &shape), Ulps(4.0 + n as f64), |a| a.x[0]
                .cdist(&a.x[0].detach(), 1.0));
            conform!(device, "prod", full, one(NEAR_ONE, &shape), Ulps(n as f64), |a| a.x[0].prod([1], false));
        }
    }
}

#[test]
fn counts() -> Result<()> {
    let cpu = Device::cpu();
    let counts = |device: &Device, shape: [usize; 3]| -> Result<Vec<Vec<i64>>> {
        let value = |i: &[usize]| (i[0] * 31 + i[1] * 7 + i[2] * 3) as i64 % 11 - 4 + (1 << 50);
        let x = Tensor::<I64>::from_fn(shape, value, &cpu)?.to_device(device)?;
        let found = x.gt(1_i64 << 50)?;
        let all = [x.sum([0, 2], true)?, x.cumsum(1)?, found.sum(1, false)?, found.cumsum(-1)?];
        [x.sum_all()?, found.sum_all()?].iter().chain(&all).map(Tensor::to_vec).collect()
    };
    for device in &devices() {
        for shape in ROWS {
            assert_eq!(counts(device, shape)?, counts(&cpu, shape)?, "{device}, {shape:?}");
        }
    }
    Ok(())
}

#[test]
fn extremes_and_order() {
    for device in &devices() {
        for shape in ROWS {
            for values in [REAL, Values::Special] {
                conform!(device, "max", all, one(values, &shape), Exact, |a| a.x[0].max([1], false));
                conform!(device, "min", all, one(values, &shape), Exact, |a| a.x[0].min([1], true));
                conform!(device, "sort", all, one(values, &shape), Exact, |a| Ok(a.x[0].sort(1, false)?.0));
                conform!(device, "topk", all, one(values, &shape), Exact, |a| Ok(a.x[0].topk(1, 1, true)?.0));
                conform!(device, "kthvalue", all, one(values, &shape), Exact, |a| Ok(a.x[0].kthvalue(1, 1, false)?.0));
                conform!(device, "cummax", all, one(values, &shape), Exact, |a| Ok(a.x[0].cummax(1)?.0));
                conform!(device, "cummin", all, one(values, &shape), Exact, |a| Ok(a.x[0].cummin(1)?.0));
                conform!(device, "aminmax", all, one(values, &shape), Exact, |a| {
                    let (least, largest) = a.x[0].aminmax(1, false)?;
                    Tensor::stack(&[&least, &largest], 0)
                });
                conform!(device, "amax", all, one(values, &shape), Exact, |a| a.x[0].amax([1], false));
                conform!(device, "amin", all, one(values, &shape), Exact, |a| a.x[0].amin([1], false));
                conform!(device, "median", all, one(values, &shape), Exact, |a| Ok(a.x[0].median(1, true)?.0));
                conform!(device, "nanmedian", all, one(values, &shape), Exact, |a| Ok(a.x[0].nanmedian(1, true)?.0));
                conform!(device, "argmax", all, one(values, &shape), Exact, |a| a.x[0].argmax(1, false)?.to::<F64>());
                conform!(device, "argmin", all, one(values, &shape), Exact, |a| a.x[0].argmin(1, false)?.to::<F64>());
                conform!(device, "argsort", all, one(values, &shape), Exact, |a| a.x[0].argsort(1, true)?.to::<F64>());
            }
        }
    }
}

#[test]
fn scans() {
    for device in &devices() {
        for shape in ROWS {
            let n = shape[1];
            conform!(device, "cumsum", full, one(REAL, &shape), Terms(n), |a| a.x[0].cumsum(1));
            conform!(device, "trapezoid", full, one(REAL, &shape), Terms(2 * n), |a| a.x[0].trapezoid(0.5, 1));
            conform!(device, "cumulative_trapezoid", full, one(REAL, &shape), Terms(2 * n), |a| a.x[0]
                .cumulative_trapezoid(0.5, 1));
            conform!(device, "diff", all, one(REAL, &shape), Ulps(1.0), |a| a.x[0].diff(1, 1));
            conform!(device, "logcumsumexp", full, one(REAL, &shape), OfLargest(16.0), |a| a.x[0].logcumsumexp(1));
            conform!(device, "quantile", full, one(REAL, &shape), OfLargest(4.0), |a| a.x[0].quantile(0.3, 1, true));
            conform!(device, "cumprod", full, one(NEAR_ONE, &shape), Ulps(n as f64), |a| a.x[0].cumprod(1));
        }
    }
}

#[test]
fn softmaxes() {
    for device in &devices() {
        for shape in ROWS {
            let n = shape[1] as f64;
            conform!(device, "softmax", full, one(REAL, &shape), Ulps(16.0 + n), |a| a.x[0].softmax(1));
            conform!(device, "softmax_last", full, one(REAL, &shape), Ulps(16.0 + n), |a| a.x[0].softmax(-1));
            conform!(device, "softmin", full, one(REAL, &shape), Ulps(16.0 + n), |a| a.x[0].softmin(1));
            conform!(device, "log_softmax", full, one(REAL, &shape), OfLargest(16.0), |a| a.x[0].log_softmax(1));
            conform!(device, "logsumexp", full, one(REAL, &shape), OfLargest(16.0), |a| a.x[0].logsumexp(1, true));
        }
    }
}
