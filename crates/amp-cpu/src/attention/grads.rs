//! Where the gradients of an attention's operands go.

use crate::load::offset_of;
use crate::num::Real;
use crate::output::{Finished, Output};
use crate::{DType, Dims, Layout, Storage, View};

/// Gradients of queries, keys and values.
#[derive(Debug, PartialEq)]
pub enum AttentionGrads<B> {
    /// `[B, H, T, D]`, `[B, H, S, D]` and `[B, H, S, E]`, each row-major in its own buffer.
    Apart([B; 3]),
    /// In one buffer, each where its operand lies in that of the operands.
    Together(B),
}

impl<B> AttentionGrads<B> {
    /// The same gradients in other buffers.
    pub fn map<C>(self, to: impl FnMut(B) -> C) -> AttentionGrads<C> {
        let mut to = to;
        match self {
            Self::Apart(grads) => AttentionGrads::Apart(grads.map(to)),
            Self::Together(grads) => AttentionGrads::Together(to(grads)),
        }
    }
}

impl AttentionGrads<Storage> {
    /// Buffers for the gradients of these operands.
    pub(super) fn unwritten(qkv: [&View; 3], out: DType) -> Self {
        let data = qkv[0].data;
        let shared = qkv.iter().all(|x| std::ptr::eq(x.data.start(), data.start()) && x.data.len() == data.len());
        match shared && take_apart(data.len(), qkv.map(|x| x.layout)) {
            true => Self::Together(Storage::unwritten(out, qkv[0].data.len())),
            false => Self::Apart(qkv.map(|operand| Storage::unwritten(out, operand.layout.count()))),
        }
    }

    pub(super) fn places(&mut self, qkv: [&View; 3]) -> [Place<'_>; 3] {
        match self {
            Self::Apart(grads) => {
                let mut grads = grads.iter_mut().zip(qkv);
                std::array::from_fn(|_| {
                    let (grad, operand) = grads.next().expect("there are as many operands");
                    Place { output: Output::new(grad), layout: Layout::contiguous(operand.layout.shape) }
                })
            }
            Self::Together(grads) => {
                let output = Output::new(grads);
                qkv.map(|operand| Place { output, layout: *operand.layout })
            }
        }
    }
}

/// Whether three operands in a buffer of `len` elements take it apart: no element belongs to two of them, or to none.
pub fn take_apart(len: usize, [q, k, v]: [&Layout; 3]) -> bool {
    let step = k.offset.saturating_sub(q.offset);
    let alike = |other: &Layout, parts: usize| {
        (other.shape, other.strides) == (q.shape, q.strides) && other.offset == parts * step
    };
    alike(q, 0) && alike(k, 1) && alike(v, 2) && fills(len, &q.shape, &q.strides, step)
}

/// Whether three times the elements of a layout, `step` apart, are `len` elements that follow one another in some order.
fn fills(len: usize, shape: &Dims, strides: &Dims, step: usize) -> bool {
    let mut axes: Vec<_> = strides.iter().copied().zip(shape.iter().copied()).filter(|axis| axis.1 != 1).collect();
    axes.push((step, 3));
    axes.sort_unstable();
    let end = axes.iter().try_fold(1, |end, &(stride, size)| (stride == end).then_some(end * size));
    end == Some(len)
}

/// Where one gradient goes: `[B, H, rows, columns]`.
pub(super) struct Place<'a> {
    output: Output<'a>,
    layout: Layout,
}

impl Place<'_> {
    /// Rounds and writes whole rows of a head, from `row` on: the first elements of each line.
    ///
    /// # Safety
    /// No other thread may write these rows meanwhile.
    pub(super) unsafe fn store<T: Real>(&self, head: usize, row: usize, lines: Finished<'_, T>) {
        let (shape, strides) = (&self.layout.shape, &self.layout.strides);
        let (columns, apart) = (shape[3], strides[2]);
        let start = self.layout.offset + offset_of(head, &shape[..2], &strides[..2]) + row * apart;
        if strides[3] == 1 && apart >= columns {
            // SAFETY: rows are this thread's alone (caller); elements of others lie elsewhere (`places`).
            return unsafe { self.output.store_rows(start, apart, columns, &[], lines) };
        }
        for (i, line) in lines.chunks().enumerate() {
            // SAFETY: as above.
            unsafe { self.output.store(start + i * apart, strides[3], &line[..columns]) };
        }
    }
}
