//! Compile-fail tests live in `tests/`, their cases in `fail/` and, where only code that is generated shows the mistake, in `built/`;
//! there is no code here.
