//! Passes over memory read and write a block of every operand at a time: a few cache lines of each, widened to the type that is
//! computed in, and rounded from it, where they are stored in another.
//!
//! Widening 4 KiB of one operand, then of the next, and storing as much at the end kept one stream of memory busy at a time, and
//! each step was dispatched: a sum of 4 M BF16 took a core of Zen 5 0.65 ms that way and takes 0.48. Storing past the caches made
//! a sum of F32 a quarter faster and whoever read it next a half slower. More in `benches/record/findings.md`.

use crate::buffer::Buffer;
use crate::convert::{Compute, each_dtype};
use crate::output::prefetch_at;
use crate::simd::Simd;
use crate::{Slice, SliceMut};

/// Elements of a block: with half of them the starts of its loops took a quarter of a sum's time.
pub(crate) const BLOCK: usize = 256;

/// Bytes of an operand that are prefetched. The hardware stops at the end of each page of 4 KiB, and what a step has
/// written since comes from far away: with that, and the same for gelu's table and rows of norms, a step of GPT takes two threads of
/// a Xeon with AMX 3 to 4 % less, one of ViT 9 %, one of ResNet-18 2 to 4 %. Operands in the caches take as long as before.
const AHEAD: usize = 2048;

/// Elements that lie one after the other, for kernels that compute in `A`.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a, A> {
    /// No room is needed, and all may be taken at once.
    Wide(&'a [A]),
    /// To be widened block by block.
    Stored(Slice<'a>),
}

/// Memory that is prefetched little by little, while something else is computed: all at once it would be waited for.
#[derive(Clone, Copy)]
pub(crate) struct Upcoming {
    start: *const u8,
    /// Bytes of an element; 0 where nothing is known.
    size: usize,
}

impl Default for Upcoming {
    fn default() -> Self {
        Self { start: [0_u8; 0].as_ptr(), size: 0 }
    }
}

impl Upcoming {
    /// The elements from `first` on, which need not be there.
    pub fn new(all: Slice<'_>, first: usize) -> Self {
        let size = all.dtype().size();
        Self { start: all.start().wrapping_add(first * size), size }
    }

    /// The same from `count` elements further on.
    #[inline(always)]
    pub fn moved(self, count: usize) -> Self {
        Self { start: self.start.wrapping_add(count * self.size), ..self }
    }

    /// Prefetches the cache line that element `at` lies in.
    #[inline(always)]
    pub fn prefetch(self, at: usize) {
        prefetch_at(self.start.wrapping_add(at * self.size), 1);
    }
}

/// Memory for blocks, to be taken as [`rooms`].
#[inline(always)]
pub(crate) fn memory<A: Compute, const N: usize>() -> [Buffer<A, BLOCK>; N] {
    std::array::from_fn(|_| Buffer::new())
}

/// Room for a block of each of `N` operands of `len` elements.
#[inline(always)]
pub(crate) fn rooms<A: Compute, const N: usize>(memory: &mut [Buffer<A, BLOCK>; N], len: usize) -> [&mut [A]; N] {
    memory.each_mut().map(|room| room.first(len.min(BLOCK)))
}

impl<'a, A: Compute> Elements<'a, A> {
    /// All of `stored`.
    #[inline(always)]
    pub fn new(stored: Slice<'a>) -> Self {
        A::same(stored).map_or(Self::Stored(stored), Self::Wide)
    }

    /// Number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        match self {
            Self::Wide(all) => all.len(),
            Self::Stored(all) => all.len(),
        }
    }

    /// Whether there is nothing to widen.
    #[inline(always)]
    pub fn is_wide(&self) -> bool {
        matches!(self, Self::Wide(_))
    }

    /// Elements `at..at + n`, by way of `room` if they have to be widened.
    #[inline(always)]
    pub fn block<'b, S: Simd>(self, at: usize, n: usize, room: &'b mut [A]) -> &'b [A]
    where
        'a: 'b,
    {
        match self {
            Self::Wide(all) => {
                if n <= BLOCK {
                    prefetch_at(all.as_ptr().wrapping_add(at).wrapping_byte_add(AHEAD), n);
                }
                return &all[at..][..n];
            }
            Self::Stored(all) => {
                each_dtype!(all, Slice, all => prefetch_at(all.as_ptr().wrapping_add(at).wrapping_byte_add(AHEAD), n));
                A::widen_within::<S>(all, at, &mut room[..n]);
            }
        }
        &room[..n]
    }
}

/// Where elements `at..at + n` of `y` are made: in their place, or in `room` if they are to be [`rounded`] from there.
///
/// Two functions and not one with a closure, which might be compiled on its own, without the level's instructions: gelu of F32
/// took a hundred times as long.
#[inline(always)]
pub(crate) fn place<'b, A: Compute>(y: &'b mut SliceMut<'_>, at: usize, n: usize, room: &'b mut [A]) -> &'b mut [A] {
    match A::same_mut(y) {
        Some(y) => &mut y[at..][..n],
        None => &mut room[..n],
    }
}

/// Rounds what was made in `room` to elements `at..at + n` of `y`.
#[inline(always)]
pub(crate) fn rounded<S: Simd, A: Compute>(room: &[A], y: &mut SliceMut<'_>, at: usize, n: usize) {
    if y.dtype() != A::STORED {
        A::narrow_within::<S>(&room[..n], y, at);
    }
}
