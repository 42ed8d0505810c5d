//! Random forward functions: `build.rs` writes them, `tests/twins.rs` runs them.
