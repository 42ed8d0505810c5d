//! Products, convolutions and pools of fixed ranks, and those that products are made of.

use amp::prelude::*;
use amp::{ConvOptions, Indexing, PoolOptions, manual_seed};

use crate::compare::Bound::{Exact, OfLargest, Terms};
use crate::compare::{Arg, conform};
use crate::inputs::Values;
use crate::{devices, seeding};

fn floats<const N: usize>(shapes: [&[usize]; N]) -> [Vec<Arg>; 1] {
    [shapes.map(|s| Arg::Float(Values::Uniform(-1.0, 1.0), s.to_vec())).to_vec()]
}

#[test]
fn products_of_fixed_ranks() {
    for device in &devices() {
        for k in [1, 17, 67] {
            conform!(device, "mm", all, floats([&[7, k], &[k, 5]]), Terms(k), |a| a.x[0].mm(&a.x[1]));
            conform!(device, "bmm", all, floats([&[3, 7, k], &[3, k, 5]]), Terms(k), |a| a.x[0].bmm(&a.x[1]));
            conform!(device, "mv", all, floats([&[7, k], &[k]]), Terms(k), |a| a.x[0].mv(&a.x[1]));
            conform!(device, "dot", all, floats([&[k], &[k]]), Terms(k), |a| a.x[0].dot(&a.x[1]));
            conform!(device, "vdot", all, floats([&[k], &[k]]), Terms(k), |a| a.x[0].vdot(&a.x[1]));
            conform!(device, "inner", all, floats([&[7, k], &[5, k]]), Terms(k), |a| a.x[0].inner(&a.x[1]));
            conform!(device, "outer", all, floats([&[k], &[5]]), Exact, |a| a.x[0].outer(&a.x[1]));
            conform!(device, "kron", all, floats([&[3, k], &[2, 5]]), Exact, |a| a.x[0].kron(&a.x[1]));
            conform!(device, "matrix_power", all, floats([&[k, k]]), Terms(k), |a| a.x[0].matrix_power(2));
            conform!(device, "einsum", all, floats([&[2, 3, k], &[2, 5, k]]), Terms(k), |a| {
                a.x[0].einsum("bik,bjk->jbi", &a.x[1])
            });
            // In 16 bits the first of the two products would be rounded.
            conform!(device, "einsum_of", full, floats([&[3, k], &[k, 5], &[3, 5]]), Terms(5 * k), |a| {
                Tensor::einsum_of(&[&a.x[0], &a.x[1], &a.x[2]], "bi,ij,bj->b")
            });
            conform!(device, "meshgrid", all, floats([&[k], &[5]]), Exact, |a| {
                Ok(Tensor::meshgrid(&[&a.x[0], &a.x[1]], Indexing::Xy)?.remove(1))
            });
        }
    }
}

#[test]
fn convolutions_of_other_ranks() {
    let options = ConvOptions::default;
    for device in &devices() {
        let args = || floats([&[2, 3, 9], &[3, 4, 3], &[4]]);
        conform!(device, "conv_transpose1d", all, args(), Terms(10), |a| {
            a.x[0].conv_transpose1d(&a.x[1], Some(&a.x[2]), options())
        });
        let options = ConvOptions::default;
        let args = || floats([&[1, 2, 3, 4, 4], &[3, 2, 2, 2, 2], &[3]]);
        conform!(device, "conv3d", all, args(), Terms(17), |a| { a.x[0].conv3d(&a.x[1], Some(&a.x[2]), options()) });
    }
}

#[test]
fn pools_of_other_ranks() {
    let _alone = seeding();
    for device in &devices() {
        let line = || floats([&[2, 3, 11]]);
        let windows = || PoolOptions::new(3).stride(2).padding(1);
        conform!(device, "max_pool1d", all, line(), Exact, |a| a.x[0].max_pool1d(windows()));
        conform!(device, "avg_pool1d", all, line(), OfLargest(16.0), |a| a.x[0].avg_pool1d(windows()));
        conform!(device, "adaptive_max_pool1d", all, line(), Exact, |a| a.x[0].adaptive_max_pool1d(4));
        conform!(device, "adaptive_avg_pool1d", all, line(), OfLargest(16.0), |a| a.x[0].adaptive_avg_pool1d(4));
        let volume = || floats([&[2, 1, 4, 6, 5]]);
        conform!(device, "max_pool3d", all, volume(), Exact, |a| a.x[0].max_pool3d(2));
        conform!(device, "adaptive_max_pool3d", all, volume(), Exact, |a| a.x[0].adaptive_max_pool3d(3));
        conform!(device, "fractional_max_pool3d", all, volume(), Exact, |a| {
            manual_seed(7);
            a.x[0].fractional_max_pool3d(2, 2)
        });
        conform!(device, "max_unpool3d", all, volume(), Exact, |a| {
            let (y, places) = a.x[0].max_pool3d_with_indices(2)?;
            y.max_unpool3d(&places, [4, 6, 5])
        });
        conform!(device, "max_unpool2d", all, floats([&[2, 3, 4, 6]]), Exact, |a| {
            let (y, places) = a.x[0].max_pool2d_with_indices(2)?;
            y.max_unpool2d(&places, [4, 6])
        });
    }
}
