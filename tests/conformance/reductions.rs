//! Reductions, scans, softmax, norms.

use crate::compare::Bound::Terms;
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;
use amp::prelude::*;

const REAL: Values = Values::Uniform(-2.0, 2.0);

fn one(shape: &[usize]) -> [Vec<Arg>; 1] {
    [vec![Arg::Float(REAL, shape.to_vec())]]
}

/// Shapes with an axis 1 to fold, of prime, single and larger sizes.
const ROWS: [[usize; 3]; 6] = [[2, 3, 5], [1, 1, 1], [3, 1, 2], [0, 4, 2], [2, 131, 3], [5, 67, 1]];

#[test]
fn sums() {
    for device in &devices() {
        for shape in ROWS {
            conform!(device, "sum", full, one(&shape), Terms(shape[1]), |a| a.x[0].sum([1], false));
            conform!(device, "sum_kept", full, one(&shape), Terms(shape[0] * shape[2]), |a| a.x[0].sum([0, 2], true));
            conform!(device, "mean", full, one(&shape), Terms(shape[1]), |a| a.x[0].mean([-2], false));
        }
    }
}
