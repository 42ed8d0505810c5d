//! Matrix products, convolutions, attention.

use crate::compare::Bound::Terms;
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;
use amp::prelude::*;

const REAL: Values = Values::Uniform(-1.0, 1.0);

fn pair(left: &[usize], right: &[usize]) -> Vec<Arg> {
    vec![Arg::Float(REAL, left.to_vec()), Arg::Float(REAL, right.to_vec())]
}

#[test]
fn matrix_products() {
    for device in &devices() {
        for k in [0, 1, 2, 17, 67, 256] {
            let shapes = [(1, 1), (1, 5), (7, 1), (13, 11), (33, 65), (0, 3)];
            let args = shapes.map(|(m, n)| pair(&[m, k], &[k, n]));
            conform!(device, "matmul", all, args, Terms(k), |a| a.x[0].matmul(&a.x[1]));
        }
    }
}
