//! Working memory that a thread keeps between kernels, so that steady state touches no fresh pages.

use crate::arena::Span;
use half::{bf16, f16};
use std::cell::RefCell;

/// Requests of more bytes, such as operands that are packed whole, are served by the pool of tensors, in memory that activations
/// had or will have. Kept by each thread, they made a step of GPT in BF16 10 MiB larger.
const LARGE: usize = 1 << 20;

/// A cache line: buffers begin at one, so that no vector that is loaded from a multiple of its size crosses two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only read as other types")] [u8; 64]);

thread_local! {
    static FREE: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Plain numbers.
///
/// # Safety
/// Every pattern of bits must be a value, without padding, aligned to 64 bytes at most.
pub(crate) unsafe trait Plain: Copy + Default + Send + Sync + 'static {}

// SAFETY: numbers have no padding and no invalid bits.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above; a transparent `u16`.
unsafe impl Plain for f16 {}
// SAFETY: as above.
unsafe impl Plain for bf16 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above; arrays add no padding.
unsafe impl<T: Plain> Plain for [T; 16] where [T; 16]: Default {}

/// Lends `len` elements of unspecified content to `body`.
pub(crate) fn with<T: Plain, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = len.checked_mul(size_of::<T>()).expect("no more bytes than can be addressed");
    if bytes > LARGE {
        let span = Span::lend(bytes);
        // SAFETY: the span is initialised, at least that long, aligned to 64 bytes, nobody else's, and outlives the slice; any
        // bits are a `T` (`Plain`).
        return body(unsafe { std::slice::from_raw_parts_mut(span.start().as_ptr().cast::<T>(), len) });
    }
    let mut lines = take(bytes);
    // SAFETY: `lines` is initialised, at least `len * size_of::<T>()` bytes long, aligned to 64 bytes, borrowed uniquely,
    // and outlives the slice; any bits are a `T` and any `T` is bytes (`Plain`).
    let buffer = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<T>(), len) };
    let result = body(buffer);
    keep(lines);
    result
}

/// Lines of at least `bytes` bytes. Like [`keep`] not generic, because there are hundreds of callers.
fn take(bytes: usize) -> Vec<Line> {
    let count = bytes.div_ceil(size_of::<Line>());
    let mut lines = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
    if lines.len() < count {
        drop(std::mem::take(&mut lines));
        lines = vec![Line([0; 64]); count];
    }
    lines
}

/// Gives lines back for the next kernel.
fn keep(lines: Vec<Line>) {
    FREE.with_borrow_mut(|free| free.push(lines));
}

/// The same memory as elements of another size.
pub(crate) fn same_bytes<T: Plain, U: Plain>(slice: &[T]) -> &[U] {
    // SAFETY: any bits are a `U` (`Plain`).
    let (before, units, after) = unsafe { slice.align_to() };
    assert!(before.is_empty() && after.is_empty(), "whole units");
    units
}

/// The same memory as elements of another size.
pub(crate) fn same_bytes_mut<T: Plain, U: Plain>(slice: &mut [T]) -> &mut [U] {
    // SAFETY: any bits are a `U`, and any `U` is a number of `T`s (`Plain`).
    let (before, units, after) = unsafe { slice.align_to_mut() };
    assert!(before.is_empty() && after.is_empty(), "whole units");
    units
}
