//! The contract of autocast: a region gives, bit for bit, what the same expression gives when every cast is written by
//! hand, values and gradients, and its type is the one the policy table lists.
//!
//! Every implemented row of the table has a case, for regions of F16 and BF16 with inputs of F32 and of the region's own
//! precision.

#![allow(clippy::extra_unused_type_parameters)] // every case is generic alike, whichever precisions it names

mod cases;
mod compare;
mod mixed;

use amp::BF16;
use amp::prelude::*;
use amp_policy::Class;
use compare::Case;
use std::collections::BTreeSet;

/// Rows that no expression on tensors stands for, each with its reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("to", "the explicit cast itself"),
    ("binary_cross_entropy", "banned: a compile-fail case"),
    ("binary_cross_entropy_with", "banned: a compile-fail case"),
    ("one_hot", "takes labels, which are never cast"),
];

#[test]
fn every_implemented_row_has_a_case() {
    let rows: BTreeSet<_> = amp_policy::all().filter(|op| op.implemented).map(|op| op.name).collect();
    let elsewhere: BTreeSet<_> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    let cases: BTreeSet<_> = cases::all::<F16, F32>().iter().map(|case| case.op).collect();
    let missing: Vec<_> = rows.iter().filter(|name| !cases.contains(*name) && !elsewhere.contains(*name)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    let unknown: Vec<_> = cases.difference(&rows).collect();
    assert!(unknown.is_empty(), "no implemented row for {unknown:?}");
}

#[test]
fn cases_claim_the_class_of_their_row() {
    for case in cases::all::<F16, F32>() {
        let row = amp_policy::find(case.op).expect("checked above");
        assert_eq!(row.class.name(), case.class, "{}", case.op);
        assert_ne!(row.class, Class::Banned);
    }
}

fn check<P: AutocastPrecision, Q: AutocastPrecision>() {
    let faults: Vec<String> = cases::all::<P, Q>().into_iter().filter_map(|case: Case| case.check().err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn f16_regions_with_f32_inputs() {
    check::<F16, F32>();
}

#[test]
fn f16_regions_with_f16_inputs() {
    check::<F16, F16>();
}

#[test]
fn bf16_regions_with_f32_inputs() {
    check::<BF16, F32>();
}

#[test]
fn bf16_regions_with_bf16_inputs() {
    check::<BF16, BF16>();
}

#[test]
fn operands_of_two_precisions_meet_at_f32() {
    let cases: Vec<Case> = mixed::all::<F16>().into_iter().chain(mixed::all::<BF16>()).collect();
    let known: BTreeSet<_> = cases.iter().map(|case| case.op).collect();
    let rows = amp_policy::all().filter(|op| op.implemented && op.class == Class::Widest);
    let missing: Vec<_> = rows.map(|op| op.name).filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    let faults: Vec<String> = cases.iter().filter_map(|case| case.check().err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
