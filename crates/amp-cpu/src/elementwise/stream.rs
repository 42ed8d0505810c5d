//! Operations on operands of any precision, a block of each at a time.

use super::cut::{Cut, Room};
use super::operand::{Chunk, Operand};
use crate::convert::Compute;
use crate::lockstep::{BLOCK, memory, place, rooms, rounded};
use crate::parallel::{CHUNK, Cost, for_each_part};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::source::Source;
use crate::{DType, SliceMut, Storage, View};

/// Elements of a block where nothing has to be widened or rounded.
///
/// More than a page of memory: reading ahead ends with each page, and where the next one's loads are far off in the
/// program nothing hides its latency. relu of 4 M F32 took twice as long by chunks of a page as it takes in one loop.
pub(super) const WHOLE: usize = 32 * CHUNK;

/// What an operation does to elements of one type.
pub(super) trait Body<T, const N: usize>: Copy + Sync {
    /// Whether an operand of one element, next to another of more, stands for as many as there are results.
    const SINGLES: bool = false;

    /// Sets every `y[i]`, which is element `at + i` of the whole, from the `x[..][i]`; as [`Kernel::run`] must be
    /// `#[inline(always)]`.
    fn run<S: Simd>(self, at: usize, x: [&[T]; N], y: &mut [T]);
}

/// `body` of all elements in `T`, each result rounded once to `out`.
pub(super) fn stream<T: Compute, const N: usize>(
    operands: [&View; N],
    out: DType,
    cost: Cost,
    body: impl Body<T, N>,
) -> Storage {
    for_streams(operands, out, cost, &|x, chunk, y| dispatch(Stream { body, chunk, x, y, also: None }))
}

/// `f(operands' elements, the chunk, output's elements)`; `dyn`, so that one copy of the loops around it serves every
/// operation.
type Part<'f, T, const N: usize> = dyn Fn([Operand<'_, T>; N], Chunk, &mut SliceMut<'_>) + Sync + 'f;

/// Runs `f` over all parts of the output, in parallel; an operand whose elements do not serve as they lie is loaded by
/// chunks.
pub(super) fn for_streams<T: Compute, const N: usize>(
    operands: [&View; N],
    out: DType,
    cost: Cost,
    f: &Part<'_, T, N>,
) -> Storage {
    let sources = operands.map(Source::new);
    let cut = Cut::of::<T>(&sources);
    let mut output = Storage::unwritten(out, operands[0].layout.count());
    for_each_part(output.as_mut_slice(), cost, &|start, part| {
        let mut rooms: [_; N] = std::array::from_fn(|_| Room::new());
        cut.for_each(start, part, &mut |chunk, y| {
            let mut sources = sources.iter();
            let x = rooms.each_mut().map(|room| room.elements(sources.next().expect("N"), chunk, y.len()));
            f(x, chunk, y);
        });
    });
    output
}

/// A body with the elements of one part.
pub(super) struct Stream<'a, 'y, T, B, const N: usize> {
    pub body: B,
    pub chunk: Chunk,
    pub x: [Operand<'a, T>; N],
    pub y: &'a mut SliceMut<'y>,
    /// The results of a `y` in `T`, rounded once more.
    pub also: Option<SliceMut<'a>>,
}

impl<T: Compute, B: Body<T, N>, const N: usize> Kernel for Stream<'_, '_, T, B, N> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { body, chunk, x, y, mut also } = self;
        let singles = B::SINGLES && !x.iter().all(|x| x.place.is_single());
        let wide = x.iter().all(|x| x.is_wide(singles)) && y.dtype() == T::STORED && also.is_none();
        let (mut inputs, mut result) = (memory(), memory());
        let len = if wide { 0 } else { y.len() };
        let (mut inputs, [result]): ([_; N], _) = (rooms(&mut inputs, len), rooms(&mut result, len));
        for step in chunk.steps(if wide { WHOLE } else { BLOCK }, y.len()) {
            let (at, n) = (step.at, step.len);
            let mut blocks: [&[T]; N] = [&[]; N];
            for ((block, x), room) in blocks.iter_mut().zip(&x).zip(&mut inputs) {
                *block = x.block::<S>(step, room, singles);
            }
            let results = place(y, at, n, result);
            body.run::<S>(chunk.at + at, blocks, results);
            if let Some(also) = &mut also {
                T::narrow_within::<S>(results, also, at);
            }
            rounded::<S, T>(result, y, at, n);
        }
    }
}
