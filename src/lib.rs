//! Automatic mixed precision for Rust, decided at compile time.
