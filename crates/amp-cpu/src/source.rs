//! Chunks of an operand, widened and rounded, whatever its layout and precision.

use crate::buffer::Buffer;
use crate::convert::Compute;
use crate::load::expect;
use crate::walk::{Run, Walk};
use crate::{DType, Layout, Slice, View};
use half::{bf16, f16};

/// Elements that lie one after the other, in a precision that kernels widen to F32 as they go.
#[derive(Clone, Copy)]
pub(crate) enum Floats<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
}

/// An operand prepared for reading in row-major order.
pub(crate) struct Source<'a> {
    data: Slice<'a>,
    walk: Walk,
    rounds_to: Option<DType>,
}

impl<'a> Source<'a> {
    pub fn new(view: &View<'a>) -> Self {
        Self::with_layout(view, view.layout)
    }

    /// The operand `view`, read as if `layout` were its layout.
    pub fn with_layout(view: &View<'a>, layout: &Layout) -> Self {
        let stored = view.data.dtype();
        let narrower = stored.is_float() && view.logical.is_float() && view.logical != stored;
        let exact = view.logical.size() > stored.size();
        Self { data: view.data, walk: Walk::new(layout), rounds_to: (narrower && !exact).then_some(view.logical) }
    }

    /// Elements `at..at + len`: the stored ones where they serve as they are, else converted into `buffer`.
    pub fn load<'b, T: Compute>(&self, at: usize, len: usize, buffer: &'b mut [T]) -> &'b [T]
    where
        'a: 'b,
    {
        self.stored(at, len).unwrap_or_else(|| {
            self.fill(at, &mut buffer[..len]);
            &buffer[..len]
        })
    }

    /// As [`Self::load`], with a buffer that is only touched when it is needed.
    pub fn load_lazily<'b, T: Compute>(&self, at: usize, len: usize, buffer: &'b mut Buffer<'_, T>) -> &'b [T]
    where
        'a: 'b,
    {
        self.stored(at, len).unwrap_or_else(|| {
            let buffer = buffer.first(len);
            self.fill(at, buffer);
            buffer
        })
    }

    /// Whether the elements are stored one after the other, in this type and precision.
    pub fn is_stored<T: Compute>(&self) -> bool {
        self.stored::<T>(0, 0).is_some()
    }

    /// Elements `at..at + len` where they are stored one after the other, in this type and precision.
    fn stored<T: Compute>(&self, at: usize, len: usize) -> Option<&'a [T]> {
        match (self.rounds_to, self.walk.single_run(), T::same(self.data)) {
            (None, Some(Run { start, stride: 1, .. }), Some(values)) => Some(&values[start + at..][..len]),
            _ => None,
        }
    }

    /// Elements `at..at + len`: the stored ones where they are floats of at most 32 bits that lie one after the other and
    /// need no rounding, else converted into `buffer`.
    pub fn floats<'b>(&self, at: usize, len: usize, buffer: &'b mut Buffer<'_, f32>) -> Floats<'b>
    where
        'a: 'b,
    {
        self.stored_floats(at, len).unwrap_or_else(|| {
            let buffer = buffer.first(len);
            self.fill(at, buffer);
            Floats::F32(buffer)
        })
    }

    /// Whether [`Self::floats`] needs no buffer.
    pub fn is_floats(&self) -> bool {
        self.stored_floats(0, 0).is_some()
    }

    /// Elements `at..at + len` where they are BF16 that lie one after the other and need no rounding.
    pub fn stored_bf16(&self, at: usize, len: usize) -> Option<&'a [bf16]> {
        match self.stored_floats(at, len) {
            Some(Floats::BF16(stored)) => Some(stored),
            _ => None,
        }
    }

    fn stored_floats(&self, at: usize, len: usize) -> Option<Floats<'a>> {
        let Some(Run { start, stride: 1, .. }) = self.walk.single_run().filter(|_| self.rounds_to.is_none()) else {
            return None;
        };
        match self.data.range(start + at, len) {
            Slice::F32(v) => Some(Floats::F32(v)),
            Slice::F16(v) => Some(Floats::F16(v)),
            Slice::BF16(v) => Some(Floats::BF16(v)),
            _ => None,
        }
    }

    /// Asks for the memory of elements `at..at + len`, as far as they are there, where all lie one after the other.
    pub fn expect(&self, at: usize, len: usize) {
        if let Some(Run { start, stride: 1, .. }) = self.walk.single_run() {
            expect(self.data, start + at, len);
        }
    }

    /// Converts the elements from `at` on into `dst`.
    pub fn fill<T: Compute>(&self, at: usize, dst: &mut [T]) {
        let mut filled = 0;
        self.walk.for_each_run(at, dst.len(), |run| {
            read(self.data, run, &mut dst[filled..][..run.len]);
            filled += run.len;
        });
        if let Some(logical) = self.rounds_to {
            T::round_to(logical, dst);
        }
    }
}

fn read<T: Compute>(data: Slice<'_>, run: Run, dst: &mut [T]) {
    match run.stride {
        0 => {
            let mut first = [T::default()];
            T::widen(data.range(run.start, 1), &mut first);
            dst.fill(first[0]);
        }
        1 => T::widen(data.range(run.start, run.len), dst),
        stride => T::gather(data.range(run.start, (run.len - 1) * stride + 1), stride, dst),
    }
}
