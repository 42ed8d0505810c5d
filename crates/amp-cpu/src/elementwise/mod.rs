//! Element-wise kernels: every output element depends on the elements of the operands at the same index.
//!
//! Operands are widened to F32 block by block (`stream`), or chunk by chunk to F64 when an operand or the output is F64 and
//! to I64 when all are integers; the operation runs over them, and the result is rounded once as it is stored.

/// A loop over slices of one length: `each!(y, (a, b) => a + b)` sets every `y[i]` to `a[i] + b[i]`.
///
/// A macro and not a function with a closure, because a closure may be compiled on its own, without the level's
/// instructions.
macro_rules! each {
    ($y:ident, ($($x:ident),+) => $body:expr) => {
        each!(@zip $y.iter_mut(), $y, ($($x),+) => $body)
    };
    (@zip $iter:expr, $y:tt, ($a:ident) => $body:expr) => {
        for ($y, &$a) in $iter.zip($a) {
            *$y = $body;
        }
    };
    (@zip $iter:expr, $y:tt, ($a:ident, $b:ident) => $body:expr) => {
        for (($y, &$a), &$b) in $iter.zip($a).zip($b) {
            *$y = $body;
        }
    };
    (@zip $iter:expr, $y:tt, ($a:ident, $b:ident, $c:ident) => $body:expr) => {
        for ((($y, &$a), &$b), &$c) in $iter.zip($a).zip($b).zip($c) {
            *$y = $body;
        }
    };
}

mod binary;
mod bits;
mod copy;
mod relu;
mod signs;
mod stream;
mod table;
mod ternary;
#[cfg(test)]
mod tests;
mod unary;

pub use binary::{binary, binary_narrowed, compare};
pub use copy::{copy, copy_into, fill};
pub use signs::{alive, dead};
pub use ternary::{select, ternary};
use unary::{computed, computed_grad};
pub use unary::{unary, unary_grad};

use crate::buffer::{Buffer, memory};
use crate::convert::Compute;
use crate::parallel::{CHUNK, Cost, for_each_chunk_of, for_each_part};
use crate::source::Source;
use crate::{DType, SliceMut, Storage, View};

/// Elements of a chunk whose operands are read, and whose results are written, where they lie.
///
/// More than a page of memory: reading ahead ends with each page, and where the next one's loads are far off in the
/// program nothing hides its latency. relu of 4 M F32 took twice as long by chunks of a page as it takes in one loop.
const WHOLE: usize = 32 * CHUNK;

/// The type that a call computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Domain {
    F32,
    F64,
    I64,
}

impl Domain {
    fn of(dtypes: &[DType]) -> Self {
        match dtypes {
            _ if dtypes.contains(&DType::F64) => Self::F64,
            _ if dtypes.iter().any(|d| d.is_float()) => Self::F32,
            _ => Self::I64,
        }
    }
}

/// `f(operand chunks, output chunk)`; `dyn`, so that one copy of the loops around it serves every operation.
type Map<'f, T, const N: usize> = dyn Fn([&[T]; N], &mut [T]) + Sync + 'f;
/// `f(operand chunks, where the chunk begins, output chunk, buffer)`.
type Chunk<'f, T, const N: usize> = dyn Fn([&[T]; N], usize, &mut SliceMut<'_>, &mut Buffer<'_, T>) + Sync + 'f;

/// Runs `f(operand chunks, output chunk)` over all chunks of the output.
fn map_chunks<T: Compute, const N: usize>(operands: [&View; N], out: DType, cost: Cost, f: &Map<'_, T, N>) -> Storage {
    let whole = whole::<T>(out);
    for_chunks(operands, out, cost, whole, &|loaded, _, chunk, buffer| store(chunk, buffer, &mut |dst| f(loaded, dst)))
}

/// Elements of a chunk whose operands serve as they are stored, for results in `out` that are made in a `T`: a chunk that
/// has to be converted has a buffer of [`CHUNK`].
fn whole<T: Compute>(out: DType) -> usize {
    if out == T::STORED { WHOLE } else { CHUNK }
}

/// Runs `f(operand chunks, where the chunk begins, output chunk, buffer)` over all chunks of the output, in parallel; where
/// no operand needs a buffer, they are of `whole` elements.
fn for_chunks<T: Compute, const N: usize>(
    operands: [&View; N],
    out: DType,
    cost: Cost,
    whole: usize,
    f: &Chunk<'_, T, N>,
) -> Storage {
    let sources = operands.map(Source::new);
    let size = if sources.iter().all(Source::is_stored::<T>) { whole } else { CHUNK };
    let mut output = Storage::unwritten(out, operands[0].layout.count());
    for_each_part(output.as_mut_slice(), cost, &|start, part| {
        let (mut inputs, mut result) = (std::array::from_fn::<_, N, _>(|_| memory()), memory());
        let mut inputs = inputs.each_mut().map(Buffer::new);
        let mut result = Buffer::new(&mut result);
        for_each_chunk_of(size, start, part, &mut |at, chunk| {
            let len = chunk.len();
            let mut i = 0;
            let loaded = inputs.each_mut().map(|buffer| {
                i += 1;
                sources[i - 1].load_lazily(at, len, buffer)
            });
            f(loaded, at, chunk, &mut result);
        });
    });
    output
}

/// Lets `f` write its results straight to `chunk`, or by way of `buffer` when they have to be converted.
fn store<T: Compute>(chunk: &mut SliceMut<'_>, buffer: &mut Buffer<'_, T>, f: &mut dyn FnMut(&mut [T])) {
    if let Some(dst) = T::same_mut(chunk) {
        return f(dst);
    }
    let result = buffer.first(chunk.len());
    f(result);
    T::narrow(result, chunk);
}
