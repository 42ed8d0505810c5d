//! Operations on operands of any precision, a block of each at a time.

use crate::buffer::Buffer;
use crate::convert::Compute;
use crate::lockstep::{BLOCK, Elements, memory, place, rooms, rounded};
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
    for_streams(operands, out, cost, &|x, at, y| dispatch(Stream { body, at, x, y, also: None }))
}

/// `f(operands' elements, where they begin, output's elements)`; `dyn`, so that one copy of the loops around it serves every
/// operation.
type Part<'f, T, const N: usize> = dyn Fn([Elements<'_, T>; N], usize, &mut SliceMut<'_>) + Sync + 'f;

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
        cut.for_each(start, part, &mut |at, chunk| {
            let mut sources = sources.iter();
            let x = rooms.each_mut().map(|room| room.elements(sources.next().expect("N"), at, chunk.len()));
            f(x, at, chunk);
        });
    });
    output
}

/// How elements are cut into chunks.
#[derive(Clone, Copy)]
struct Cut {
    /// No chunk crosses a multiple of this.
    block: usize,
    /// Elements of a chunk at most.
    most: usize,
}

/// Elements of a chunk: of a quarter, finding what is added took a fifth of the time of adding rows, columns or channels.
const ROOM: usize = 4 * CHUNK;
/// Elements that are worth a chunk of their own.
const WORTH: usize = CHUNK / 4;

impl Cut {
    /// Not at all.
    const NONE: Self = Self { block: usize::MAX, most: usize::MAX };

    /// As many rows of the operands that do not serve as they lie as fill their room; where rows serve by themselves, and are worth a
    /// chunk of their own, parts of one.
    fn of<T: Compute>(sources: &[Source]) -> Self {
        let apart = || sources.iter().filter(|x| x.in_place::<T>(0, 0).is_none());
        let Some(len) = apart().map(Source::row).min() else { return Self::NONE };
        let serves = |x: &Source| x.period().is_none() && x.in_run::<T>(0, len).is_some();
        if len >= ROOM || len >= WORTH && apart().any(serves) {
            return Self { block: len, most: ROOM };
        }
        Self { block: ROOM / len.max(1) * len.max(1), most: ROOM }
    }

    fn for_each(self, start: usize, mut part: SliceMut<'_>, f: &mut dyn FnMut(usize, &mut SliceMut<'_>)) {
        let mut at = start;
        while !part.is_empty() {
            let len = (self.block - at % self.block).min(self.most).min(part.len());
            let (mut chunk, rest) = part.split_at(len);
            f(at, &mut chunk);
            (part, at) = (rest, at + len);
        }
    }
}

/// Room for a chunk of an operand that does not serve as it lies.
struct Room<T> {
    buffer: Buffer<T, ROOM>,
    /// Loaded elements that are the next chunk's too, if that begins where what is repeated does.
    repeated: usize,
}

impl<T: Compute> Room<T> {
    fn new() -> Self {
        Self { buffer: Buffer::new(), repeated: 0 }
    }

    /// Elements `at..at + len` of `source`.
    fn elements<'b>(&'b mut self, source: &Source<'b>, at: usize, len: usize) -> Elements<'b, T> {
        if let Some(elements) = source.in_run(at, len) {
            return elements;
        }
        let repeats = source.period().is_some_and(|period| at.is_multiple_of(period));
        let elements = self.buffer.first(len);
        if !repeats || self.repeated < len {
            source.fill(at, elements);
            self.repeated = if repeats { len } else { 0 };
        }
        Elements::Wide(elements)
    }
}

/// A body with the elements of one part.
pub(super) struct Stream<'a, 'y, T, B, const N: usize> {
    pub body: B,
    pub at: usize,
    pub x: [Elements<'a, T>; N],
    pub y: &'a mut SliceMut<'y>,
    /// The results of a `y` in `T`, rounded once more.
    pub also: Option<SliceMut<'a>>,
}

impl<T: Compute, B: Body<T, N>, const N: usize> Kernel for Stream<'_, '_, T, B, N> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { body, at: first, x, y, mut also } = self;
        let wide = x.iter().all(Elements::is_wide) && y.dtype() == T::STORED && also.is_none();
        let size = if wide { WHOLE } else { BLOCK };
        let (mut inputs, mut result) = (memory(), memory());
        let len = if wide { 0 } else { y.len() };
        let (mut inputs, [result]): ([_; N], _) = (rooms(&mut inputs, len), rooms(&mut result, len));
        for at in (0..y.len()).step_by(size) {
            let n = size.min(y.len() - at);
            let mut blocks: [&[T]; N] = [&[]; N];
            for ((block, x), room) in blocks.iter_mut().zip(x).zip(&mut inputs) {
                *block = x.block::<S>(at, n, room);
            }
            let results = place(y, at, n, result);
            body.run::<S>(first + at, blocks, results);
            if let Some(also) = &mut also {
                T::narrow_within::<S>(results, also, at);
            }
            rounded::<S, T>(result, y, at, n);
        }
    }
}
