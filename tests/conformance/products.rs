//! Matrix products, convolutions, attention, pooling, resampling.

use amp::prelude::*;
use amp::{AttentionOptions, ConvOptions, PoolOptions};

use crate::compare::Bound::{Average, Exact, OfLargest, RoundedAverage, Terms};
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;

const REAL: Values = Values::Uniform(-1.0, 1.0);

fn floats<const N: usize>(shapes: [&[usize]; N]) -> [Vec<Arg>; 1] {
    [shapes.map(|s| Arg::Float(REAL, s.to_vec())).to_vec()]
}

#[test]
fn matrix_products() {
    for device in &devices() {
        for k in [0, 1, 2, 17, 67, 256] {
            for (m, n) in [(1, 1), (1, 5), (7, 1), (13, 11), (33, 65), (0, 3)] {
                let args = floats([&[m, k], &[k, n]]);
                conform!(device, "matmul", all, args, Terms(k), |a| a.x[0].matmul(&a.x[1]));
            }
            let args = [floats([&[13, 11], &[13, k], &[k, 11]]), floats([&[11], &[13, k], &[k, 11]])].concat();
            conform!(device, "addmm", all, args, Terms(k + 1), |a| a.x[0].addmm(&a.x[1], &a.x[2]));
            let args = floats([&[5, 1], &[3, 5, k], &[3, k, 7]]);
            conform!(device, "baddbmm", all, args, Terms(k + 1), |a| a.x[0].baddbmm(&a.x[1], &a.x[2]));
            let args = floats([&[11], &[3, 13, k], &[3, k, 11]]);
            conform!(device, "addbmm", all, args, Terms(3 * k + 1), |a| a.x[0].addbmm(&a.x[1], &a.x[2]));
            let args = floats([&[2, 3, k], &[k, 3, 2]]);
            conform!(device, "tensordot", all, args, Terms(k), |a| a.x[0].tensordot_over(&a.x[1], [2], [0]));
            let batched = [floats([&[3, 5, k], &[3, k, 7]]), floats([&[2, 1, 5, k], &[3, k, 2]])].concat();
            conform!(device, "matmul_batched", all, batched, Terms(k), |a| a.x[0].matmul(&a.x[1]));
            let args = floats([&[2, 3, k], &[3, k]]);
            conform!(device, "vecdot", all, args, Terms(k), |a| a.x[0].vecdot(&a.x[1], -1));
            let args = floats([&[2, 3, k], &[5, k], &[5]]);
            conform!(device, "linear", all, args, Terms(k + 1), |a| a.x[0].linear(&a.x[1], Some(&a.x[2])));
        }
    }
}

/// Input, weight and bias of a convolution, and its stride, padding, dilation and groups.
type Conv = ([usize; 4], [usize; 4], usize, usize, usize, usize);

const CONVOLUTIONS: [Conv; 11] = [
    ([2, 3, 6, 7], [4, 3, 3, 3], 1, 1, 1, 1),
    ([1, 2, 9, 8], [2, 2, 3, 2], 2, 1, 2, 1),
    ([2, 4, 5, 5], [6, 2, 3, 3], 1, 0, 1, 2),
    ([1, 5, 7, 3], [5, 1, 3, 3], 1, 1, 1, 5),
    ([3, 7, 4, 4], [5, 7, 1, 1], 1, 0, 1, 1),
    ([0, 2, 5, 5], [3, 2, 3, 3], 1, 0, 1, 1),
    ([2, 8, 6, 5], [16, 8, 3, 3], 1, 1, 1, 1),
    ([2, 16, 5, 5], [8, 16, 1, 1], 1, 0, 1, 1),
    ([1, 8, 9, 8], [8, 8, 3, 2], 2, 1, 1, 1),
    ([2, 3, 7, 8], [8, 3, 3, 3], 2, 1, 1, 1),
    ([0, 8, 5, 5], [8, 8, 3, 3], 1, 1, 1, 1),
];

#[test]
fn convolutions() {
    for device in &devices() {
        for (x, w, stride, padding, dilation, groups) in CONVOLUTIONS {
            let options = || ConvOptions::new().stride(stride).padding(padding).dilation(dilation).groups(groups);
            let terms = Terms(w[1] * w[2] * w[3] + 1);
            let args = floats([&x, &w, &[w[0]]]);
            conform!(device, "conv2d", all, args, terms, |a| a.x[0].conv2d(&a.x[1], Some(&a.x[2]), options()));
            let back = floats([&[x[0], w[0], x[2], x[3]], &w, &[x[1]]]);
            let terms = Terms(w[0] * w[2] * w[3] + 1);
            conform!(device, "conv_transpose2d", all, back, terms, |a| {
                a.x[0].conv_transpose2d(&a.x[1], Some(&a.x[2]), options())
            });
            let options = || ConvOptions::new().stride(stride).padding(padding).dilation(dilation).groups(groups);
            let args = floats([&x[..3], &w[..3], &[w[0]]]);
            let terms = Terms(w[1] * w[2] + 1);
            conform!(device, "conv1d", all, args, terms, |a| a.x[0].conv1d(&a.x[1], Some(&a.x[2]), options()));
        }
    }
}

#[test]
fn attention() {
    for device in &devices() {
        for (l, s, e) in [(1, 1, 1), (5, 7, 4), (13, 11, 7), (67, 67, 16)] {
            let args = || floats([&[2, 3, l, e], &[2, 3, s, e], &[2, 3, s, 5]]);
            conform!(device, "attention", all, args(), Average(64.0), |a| {
                a.x[0].scaled_dot_product_attention(&a.x[1], &a.x[2], None, AttentionOptions::default())
            });
            conform!(device, "attention_causal", all, args(), Average(64.0), |a| {
                let options = AttentionOptions::default().causal(true).scale(0.7);
                a.x[0].scaled_dot_product_attention(&a.x[1], &a.x[2], None, options)
            });
            let args = || floats([&[2, 3, l, e], &[2, 3, s, e], &[3, 1, s], &[2, 3, s, 5]]);
            conform!(device, "attention_biased", all, args(), RoundedAverage(64.0), |a| {
                let options = AttentionOptions::default().causal(true);
                a.x[0].scaled_dot_product_attention_biased(&a.x[1], &a.x[3], &a.x[2], None, options)
            });
        }
    }
}

/// The matrices, made positive definite.
fn definite<P: Float>(x: &Tensor<P>) -> Result<Tensor<P>> {
    let n = x.dims()[x.rank() - 1];
    x.matmul(&x.transpose(-2, -1)?)? + Tensor::<P>::eye(n, n, x.device())?
}

#[test]
fn factors_and_systems() {
    for device in &devices() {
        for n in [0, 1, 2, 7, 20] {
            // Eigenvalues lie between 1 and 1 + n², and so does what a rounding may be magnified by; each sum has n terms.
            let bound = OfLargest(32.0 * (1.0 + (n * n * n) as f64));
            let args = || floats([&[2, n, n], &[2, n, 3]]);
            conform!(device, "cholesky", full, args(), bound, |a| definite(&a.x[0])?.cholesky());
            conform!(device, "inverse", full, args(), bound, |a| definite(&a.x[0])?.inverse());
            conform!(device, "solve", full, args(), bound, |a| definite(&a.x[0])?.solve(&a.x[1]));
            conform!(device, "det", full, args(), bound, |a| definite(&a.x[0])?.det());
            conform!(device, "logdet", full, args(), bound, |a| definite(&a.x[0])?.logdet());
            conform!(device, "slogdet", full, args(), bound, |a| Ok(definite(&a.x[0])?.slogdet()?.1));
            conform!(device, "cholesky_solve", full, args(), bound, |a| a.x[1]
                .cholesky_solve(&definite(&a.x[0])?.cholesky()?, false));
            conform!(device, "solve_triangular", full, args(), bound, |a| definite(&a.x[0])?
                .cholesky()?
                .solve_triangular(&a.x[1], false, false));
        }
    }
}

#[test]
fn pooling() {
    for device in &devices() {
        for shape in [[2, 3, 7, 9], [1, 1, 4, 4], [0, 2, 6, 6]] {
            let args = || floats([&shape]);
            conform!(device, "max_pool2d", all, args(), Exact, |a| {
                a.x[0].max_pool2d(PoolOptions::new(3).stride(2).padding(1))
            });
            conform!(device, "avg_pool2d", all, args(), OfLargest(16.0), |a| {
                a.x[0].avg_pool2d(PoolOptions::new(3).stride(2).padding(1))
            });
            conform!(device, "adaptive_avg_pool2d", all, args(), OfLargest(16.0), |a| a.x[0]
                .adaptive_avg_pool2d([3, 2]));
            conform!(device, "adaptive_max_pool2d", all, args(), Exact, |a| a.x[0].adaptive_max_pool2d([3, 2]));
            conform!(device, "upsample_nearest", full, args(), Exact, |a| a.x[0].upsample_nearest([9, 5]));
            conform!(device, "upsample_bilinear", full, args(), OfLargest(16.0), |a| {
                a.x[0].upsample_bilinear([9, 5], false)
            });
        }
    }
}
