//! What ran, on this thread.

use crate::Dtype;
use std::cell::RefCell;

/// What ran.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Operation and precision, such as `matmul:f16`.
    pub ops: Vec<String>,
    /// Casts to a 16-bit precision.
    pub narrowings: usize,
    /// Casts to F32.
    pub widenings: usize,
}

thread_local! {
    static RECORD: RefCell<Record> = RefCell::default();
}

pub(crate) fn op(name: &str, dtype: Dtype) {
    RECORD.with_borrow_mut(|record| record.ops.push(format!("{name}:{dtype}")));
}

pub(crate) fn cast(to: Dtype) {
    RECORD.with_borrow_mut(|record| match to {
        Dtype::F32 | Dtype::F64 => record.widenings += 1,
        Dtype::F16 | Dtype::BF16 => record.narrowings += 1,
    });
}

/// Runs `f` and tells what it ran.
pub fn recorded<T>(f: impl FnOnce() -> T) -> (T, Record) {
    RECORD.take();
    let out = f();
    (out, RECORD.take())
}
