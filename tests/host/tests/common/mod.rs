//! What every test of this crate asks: which operations ran in which precision, and how many casts cost something.

use amp_test_host::{Record, recorded};

/// Runs `f` and holds its record against the operations and the number of narrowings.
#[track_caller]
pub fn ran<T>(f: impl FnOnce() -> T, ops: &[&str], narrowings: usize) -> T {
    let (out, Record { ops: ran, narrowings: narrowed, .. }) = recorded(f);
    assert_eq!(ran, ops);
    assert_eq!(narrowed, narrowings, "casts to 16 bits");
    out
}
