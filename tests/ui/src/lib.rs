//! Compile-fail tests live in `tests/`; there is no code here.
