//! Operations of one element of each input.

use crate::compare::Bound::{Exact, Ulps};
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;
use amp::prelude::*;

const REAL: Values = Values::Uniform(-3.0, 3.0);
const POSITIVE: Values = Values::Uniform(0.01, 4.0);

/// One input: empty, of one element, of prime and of other sizes, and of special values.
fn unary(values: Values) -> Vec<Vec<Arg>> {
    let shapes = [&[] as &[usize], &[0], &[1], &[3, 0, 2], &[13, 7], &[1031], &[2, 5, 17]];
    let ordinary = shapes.iter().map(|s| vec![Arg::Float(values, s.to_vec())]);
    ordinary.chain([vec![Arg::Float(Values::Special, vec![61])]]).collect()
}

/// Two inputs: equal shapes and shapes that broadcast.
fn binary(right: Values) -> Vec<Vec<Arg>> {
    let shapes =
        [([5, 7], vec![5, 7]), ([0, 3], vec![3]), ([1, 1], vec![1]), ([4, 1], vec![1, 9]), ([11, 13], vec![13])];
    let ordinary = shapes.map(|(a, b)| vec![Arg::Float(REAL, a.to_vec()), Arg::Float(right, b)]);
    let special = vec![Arg::Float(Values::Special, vec![17, 1]), Arg::Float(Values::Special, vec![19])];
    ordinary.into_iter().chain([special]).collect()
}

#[test]
fn functions_of_one_element() {
    for device in &devices() {
        conform!(device, "relu", all, unary(REAL), Exact, |a| a.x[0].relu());
        conform!(device, "tanh", all, unary(REAL), Ulps(4.0), |a| a.x[0].tanh());
        conform!(device, "exp", full, unary(REAL), Ulps(4.0), |a| a.x[0].exp());
        conform!(device, "log", full, unary(POSITIVE), Ulps(4.0), |a| a.x[0].log());
    }
}

#[test]
fn arithmetic() {
    for device in &devices() {
        conform!(device, "add", all, binary(REAL), Exact, |a| &a.x[0] + &a.x[1]);
        conform!(device, "sub", all, binary(REAL), Exact, |a| &a.x[0] - &a.x[1]);
        conform!(device, "mul", all, binary(REAL), Exact, |a| &a.x[0] * &a.x[1]);
        conform!(device, "div", all, binary(POSITIVE), Exact, |a| &a.x[0] / &a.x[1]);
        conform!(device, "mul_scalar", all, unary(REAL), Ulps(1.0), |a| &a.x[0] * 0.3);
        conform!(device, "add_scalar", all, unary(REAL), Ulps(1.0), |a| &a.x[0] + 0.25);
    }
}
