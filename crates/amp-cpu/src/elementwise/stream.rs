//! Operations in F32 on operands of any precision, a few cache lines of each at a time.
//!
//! Widening 2 KiB of one operand, then of the next, and storing as much at the end kept one stream of memory busy at a
//! time, and each step of a chunk was dispatched: a sum of 4 M BF16 took 0.65 ms on one thread, and 3 ms while others used
//! the memory too. By blocks it takes 0.48 ms, at most 1.1 ms beside others; relu 0.35 ms (0.44).
//! Storing past the caches made a sum of F32 a quarter faster and whoever read it next a half slower.

use super::{WHOLE, for_chunks, whole};
use crate::buffer::{Buffer, memory};
use crate::convert::{Compute, Each, NarrowBF16, NarrowF16, WidenF16};
use crate::parallel::{CHUNK, Cost, for_each_chunk_of, for_each_part};
use crate::simd::{Kernel, Level, Simd, dispatch, run_portable};
use crate::source::{Floats, Source};
use crate::{DType, SliceMut, Storage, View};

/// Elements of a block: with half of them the starts of its loops took a quarter of a sum's time.
const BLOCK: usize = 256;

/// What an operation does to elements of one type.
pub(super) trait Body<T, const N: usize>: Copy + Sync {
    /// Sets every `y[i]`, which is element `at + i` of the whole, from the `x[..][i]`; as [`Kernel::run`] must be
    /// `#[inline(always)]`.
    fn run<S: Simd>(self, at: usize, x: [&[T]; N], y: &mut [T]);
}

/// A body with the elements of one chunk, all of one type.
pub(super) struct Chunk<'a, T, B, const N: usize> {
    pub body: B,
    pub at: usize,
    pub x: [&'a [T]; N],
    pub y: &'a mut [T],
}

impl<T: Compute, B: Body<T, N>, const N: usize> Kernel for Chunk<'_, T, B, N> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.body.run::<S>(self.at, self.x, self.y);
    }
}

/// `body` of all elements in `T`, chunk by chunk, each result rounded once to `out`.
pub(super) fn chunked<T: Compute, const N: usize>(
    operands: [&View; N],
    out: DType,
    cost: Cost,
    body: impl Body<T, N>,
) -> Storage {
    for_chunks(operands, out, cost, whole::<T>(out), &|x, at, chunk, buffer| {
        super::store(chunk, buffer, &mut |y| dispatch(Chunk { body, at, x, y }));
    })
}

/// `body` of all elements in F32, each result rounded once to `out`.
pub(super) fn stream<const N: usize>(operands: [&View; N], out: DType, cost: Cost, body: impl Body<f32, N>) -> Storage {
    for_streams(operands, out, cost, &|x, at, y| dispatch(Stream { body, at, x, y, also: None }))
}

/// `f(operands' elements, where they begin, output's elements)`; `dyn` as in `for_chunks`.
type Part<'f, const N: usize> = dyn Fn([Floats<'_>; N], usize, &mut SliceMut<'_>) + Sync + 'f;

/// Runs `f` over all parts of the output, in parallel; an operand whose elements do not serve as they lie is loaded by
/// chunks.
pub(super) fn for_streams<const N: usize>(operands: [&View; N], out: DType, cost: Cost, f: &Part<'_, N>) -> Storage {
    let sources = operands.map(Source::new);
    let size = if sources.iter().all(Source::is_floats) { usize::MAX } else { CHUNK };
    let mut output = Storage::unwritten(out, operands[0].layout.count());
    for_each_part(output.as_mut_slice(), cost, &|start, part| {
        let mut rooms: [_; N] = std::array::from_fn(|_| memory());
        let mut rooms = rooms.each_mut().map(Buffer::new);
        for_each_chunk_of(size, start, part, &mut |at, chunk| {
            let mut sources = sources.iter();
            let x = rooms.each_mut().map(|room| sources.next().expect("N").floats(at, chunk.len(), room));
            f(x, at, chunk);
        });
    });
    output
}

/// A body with the elements of one part.
pub(super) struct Stream<'a, 'y, B, const N: usize> {
    pub body: B,
    pub at: usize,
    pub x: [Floats<'a>; N],
    pub y: &'a mut SliceMut<'y>,
    /// The results of a `y` in F32, rounded once more.
    pub also: Option<SliceMut<'a>>,
}

impl<B: Body<f32, N>, const N: usize> Kernel for Stream<'_, '_, B, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { body, at: first, x, y, mut also } = self;
        let (mut rooms, mut result) = ([const { Block::new() }; N], Block::new());
        let wide = x.iter().all(Floats::is_wide) && matches!(y, SliceMut::F32(_)) && also.is_none();
        let size = if wide { WHOLE } else { BLOCK };
        for at in (0..y.len()).step_by(size) {
            let n = size.min(y.len() - at);
            let mut blocks: [&[f32]; N] = [&[]; N];
            for ((block, x), room) in blocks.iter_mut().zip(x).zip(&mut rooms) {
                *block = x.block::<S>(at, n, room);
            }
            let results = match y {
                SliceMut::F32(y) => &mut y[at..][..n],
                _ => &mut result.0[..n],
            };
            body.run::<S>(first + at, blocks, results);
            if let Some(also) = &mut also {
                store::<S>(results, at, also);
            }
            if !matches!(y, SliceMut::F32(_)) {
                store::<S>(&result.0[..n], at, y);
            }
        }
    }
}

/// Room for a block, in whole cache lines.
#[repr(align(64))]
struct Block([f32; BLOCK]);

impl Block {
    const fn new() -> Self {
        Self([0.0; BLOCK])
    }
}

impl<'a> Floats<'a> {
    #[inline(always)]
    fn is_wide(&self) -> bool {
        matches!(self, Self::F32(_))
    }

    /// Elements `at..at + n`, widened into `room` where they are not F32.
    #[inline(always)]
    fn block<'b, S: Simd>(self, at: usize, n: usize, room: &'b mut Block) -> &'b [f32]
    where
        'a: 'b,
    {
        match self {
            Self::F32(v) => return &v[at..][..n],
            Self::F16(v) => convert::<S, _>(WidenF16(&v[at..][..n], &mut room.0[..n])),
            Self::BF16(v) => convert::<S, _>(Each(&v[at..][..n], &mut room.0[..n])),
        }
        &room.0[..n]
    }
}

/// Rounds a block into `y`, from element `at` on.
#[inline(always)]
fn store<S: Simd>(block: &[f32], at: usize, y: &mut SliceMut<'_>) {
    match y {
        SliceMut::BF16(y) => convert::<S, _>(NarrowBF16(block, &mut y[at..][..block.len()])),
        SliceMut::F16(y) => convert::<S, _>(NarrowF16(block, &mut y[at..][..block.len()])),
        _ => f32::narrow(block, &mut y.range(at, block.len())),
    }
}

/// Converts a block: in place of a call, but at the portable level, where each operation's copies were half of its code.
#[inline(always)]
fn convert<S: Simd, K: Kernel<Output = ()>>(kernel: K) {
    if const { S::LEVEL.reaches(Level::Avx2) } { kernel.run::<S>() } else { run_portable(kernel) }
}
