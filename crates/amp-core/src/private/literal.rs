//! Constants against the range of the precision they meet.

use amp_policy::{Half, Verdict};

/// What becomes of `value` in half precision; the macros check literals with the same function.
///
/// # Panics
/// At compile time, with the fault in words, when the constant cannot be used.
pub const fn check_literal(value: f64, half: Half, scales: bool) {
    match half.judge(value, scales) {
        Verdict::Fits => {}
        Verdict::Overflows => panic!("this constant does not fit in the region's precision: it would become infinite"),
        Verdict::Vanishes => panic!("this constant becomes 0 in the region's precision"),
        Verdict::BecomesOne => panic!("this constant becomes exactly 1 in the region's precision"),
    }
}
