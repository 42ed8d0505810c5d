//! Operations that move elements and round nothing.

use crate::compare::Bound::Exact;
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;
use amp::prelude::*;

fn rank_3() -> Vec<Vec<Arg>> {
    let shapes = [[2, 3, 5], [1, 1, 1], [0, 3, 2], [7, 4, 13]];
    shapes.map(|s| vec![Arg::Float(Values::Special, s.to_vec())]).to_vec()
}

#[test]
fn views_and_copies() {
    for device in &devices() {
        conform!(device, "contiguous", all, rank_3(), Exact, |a| a.x[0].contiguous());
        conform!(device, "permute", all, rank_3(), Exact, |a| a.x[0].permute([2, 0, 1]));
        conform!(device, "flatten", all, rank_3(), Exact, |a| a.x[0].flatten(0, -1));
        conform!(device, "narrow", all, rank_3(), Exact, |a| a.x[0].narrow(1, 0, 1));
    }
}

#[test]
fn casts_are_views_that_round_once() {
    for device in &devices() {
        conform!(device, "to_f16", [F32], rank_3(), Exact, |a| a.x[0].to::<F16>(), in_f64 a.x[0].contiguous());
        conform!(device, "to_bf16", [F32], rank_3(), Exact, |a| a.x[0].to::<BF16>(), in_f64 a.x[0].contiguous());
        conform!(device, "to_f32", [F16], rank_3(), Exact, |a| a.x[0].to::<F32>(), in_f64 a.x[0].contiguous());
        conform!(device, "f64_to_f16", [F64], rank_3(), Exact, |a| a.x[0].to::<F16>(), in_f64 a.x[0].contiguous());
        conform!(device, "f64_to_bf16", [F64], rank_3(), Exact, |a| a.x[0].to::<BF16>(), in_f64 a.x[0].contiguous());
        conform!(device, "f64_to_f32", [F64], rank_3(), Exact, |a| a.x[0].to::<F32>(), in_f64 a.x[0].contiguous());
    }
}
