//! What a micro-kernel is: the innermost loop, a small tile of the product held in registers, with its sizes and its forms.
//!
//! Every product term goes through a fused multiply-add where the machine has one, in the order of the depth, so an
//! element's value does not depend on where in the tile it stands.

use super::cut::Cut;
use super::few::{few, is_few};
use super::operand::Matrix;
use super::panel::Panel;
use super::product::{PER_CYCLE, Sink, Threads, product_with};
use super::small::small;
use super::vector::portable;
#[cfg(target_arch = "x86_64")]
use super::vector::x86;
use crate::load::load;
use crate::num::Real;
use crate::scratch::Plain;
use crate::simd::Level;
use crate::storage::Element;
use crate::{Slice, View};

/// Multiplies packed panels into a row-major tile: `c (+)= a · b`.
///
/// `a` and `b` are one panel of each side, `depth` (padded) deep; `c` has `mr` rows of `nr`, `stride` apart.
///
/// # Safety
/// The pointers must be valid for those elements, `c` for writes, and the CPU must have the kernel's instructions.
pub(crate) type Tile<E> =
    unsafe fn(depth: usize, a: *const E, b: *const E, c: *mut <E as Multiply>::Sum, stride: usize, accumulate: bool);

/// A left side that is not packed into panels: one vector in a line.
#[derive(Clone, Copy)]
pub(crate) struct Rows<E> {
    /// The first element.
    pub start: *const E,
    /// Elements from one line to the next.
    pub stride: usize,
    /// What [`MicroKernel::ahead`] prefetches from here on: lines of a tile to come, or what happens to be there.
    pub next: *const E,
}

impl<E> Rows<E> {
    /// Lines so far apart.
    pub(crate) fn of(elements: &[E], stride: usize) -> Self {
        Self { start: elements.as_ptr(), stride, next: elements.as_ptr() }
    }
}

/// As [`Tile`] with a left side that is not packed.
///
/// # Safety
/// As [`Tile`], with `mr` lines of `depth` elements in `a`; `depth` is a multiple of the right panel's step.
pub(crate) type Direct<E> =
    unsafe fn(depth: usize, a: Rows<E>, b: *const E, c: *mut <E as Multiply>::Sum, stride: usize, accumulate: bool);

/// As [`Tile`] with steps that lie anywhere.
///
/// `steps` says of each how many elements it lies from both `halves` of the left side, and at which depth of the panel `b`. Of the
/// left side, the vectors of the first half of the rows begin at the first of `halves`, `between` elements from one to the next,
/// those of the second half likewise. The rows of `c` follow one another.
///
/// # Safety
/// As [`Tile`], with a step's elements of every row readable there, and of every column in the panel.
pub(crate) type Scattered<E> = unsafe fn(
    steps: &[[usize; 2]],
    halves: [*const E; 2],
    between: usize,
    b: *const E,
    c: *mut <E as Multiply>::Sum,
    accumulate: bool,
);

/// Where the sums of a tile go as they end.
#[derive(Clone, Copy)]
pub(crate) struct Finish<'a, E: Multiply> {
    /// The first row of the tile.
    pub to: *mut E,
    /// Elements from row to row.
    pub stride: usize,
    /// Added to each row first, if it is not empty: the tile's columns at least.
    pub bias: &'a [E::Sum],
}

/// As [`Direct`], of sums that end: with the bias, they are rounded and written where they belong, and `c` is only read.
///
/// # Safety
/// As [`Direct`], but for the writes; as many elements as the tile has columns are writable for each of its rows.
pub(crate) type Finishing<E> = unsafe fn(
    depth: usize,
    a: Rows<E>,
    b: *const E,
    c: *const <E as Multiply>::Sum,
    stride: usize,
    accumulate: bool,
    finish: Finish<'_, E>,
);

/// Rounds the sums of tiles side by side, row after row, and writes them where they belong.
///
/// Of each tile there are as many rows of its columns, one after the other; `apart` is how far the next tile's sums are.
///
/// # Safety
/// The sums must be readable, as many rows of all columns writable where they belong, and the CPU must have the kernel's
/// instructions.
pub(crate) type Round<E> =
    unsafe fn(sums: *const <E as Multiply>::Sum, apart: usize, size: [usize; 2], finish: Finish<'_, E>);

/// A micro-kernel: code for a tile of the product, in the forms that it has, with its sizes.
#[derive(Clone, Copy)]
pub(crate) struct MicroKernel<E: Multiply> {
    /// Form of the left side: a tile has as many rows as a panel has vectors.
    pub left: Panel,
    /// Form of the right side: a tile has as many columns as a panel has vectors.
    pub right: Panel,
    /// Multiply-adds that cost as much as one operation of other kernels.
    pub(super) pace: usize,
    /// Depth of one packed block: a panel of the right side then fits the L1 cache.
    pub depth: Cut,
    /// What a thread does before its first tile of a block.
    ///
    /// # Safety
    /// The CPU must have the kernel's instructions.
    pub(super) enter: unsafe fn(),
    /// Code that computes a tile; only for a thread that is [`Self::prepared`].
    pub(super) tile: Tile<E>,
    /// Code that computes the same tile, in the same order, from a left side as it lies in memory; as [`Self::tile`].
    pub(crate) direct: Option<Direct<E>>,
    /// The same, prefetching.
    pub(super) ahead: Option<Direct<E>>,
    /// Code that computes the same tile, in the same order, from where convolutions have their pixels; as [`Self::tile`].
    pub(crate) scattered: Option<Scattered<E>>,
    /// The same for left sides that no other panel is multiplied with soon.
    pub(crate) streamed: Option<Scattered<E>>,
    /// [`Self::direct`] for two thirds of the rows, where there is one: both together leave few rows over.
    pub(super) lower: Option<Direct<E>>,
    /// The same two for sums that end there.
    pub(super) finishing: [Option<Finishing<E>>; 2],
    /// What a thread does after its last tile of a block.
    ///
    /// # Safety
    /// As [`Self::enter`], which must have come before.
    pub(super) leave: unsafe fn(),
    /// Bytes of the right side that a block multiplies strip after strip ([`super::resident`]); without them it goes from one
    /// part of the depth to the next.
    pub(super) resident: Option<usize>,
    /// What ends the tiles of such strips.
    pub(crate) round: Option<Round<E>>,
}

/// The tile of so many lines.
#[derive(Clone, Copy)]
pub(super) struct OfLines<E: Multiply> {
    pub rows: usize,
    pub tile: Direct<E>,
    /// The same for sums that end there, if it can.
    pub finishing: Option<Finishing<E>>,
}

/// A thread that may run a kernel's tiles, until this is dropped.
pub(crate) struct Prepared {
    /// What ends it.
    ///
    /// # Safety
    /// As [`MicroKernel::leave`].
    leave: unsafe fn(),
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: a `MicroKernel` is only made for levels the CPU has, and this thread has entered.
        unsafe { (self.leave)() }
    }
}

/// For kernels whose registers need no preparation.
fn nothing() {}

impl<E: Multiply> MicroKernel<E> {
    /// A kernel that takes one element of each vector at a time.
    pub(super) fn single(mr: usize, nr: usize, tile: Tile<E>) -> Self {
        let panels = [mr, nr].map(|width| Panel { width, group: 1, step: 1 });
        // Half of what instructions for BF16 do in a cycle (`benches/record/findings.md`, few.rs).
        Self { pace: PER_CYCLE / 2, ..Self::of_panels(panels, 256, tile) }
    }

    /// A kernel that multiplies panels alone, in registers that need no preparation.
    pub(super) fn of_panels([left, right]: [Panel; 2], depth: usize, tile: Tile<E>) -> Self {
        Self {
            left,
            right,
            pace: PER_CYCLE,
            depth: Cut::at_most(depth, left.step),
            enter: nothing,
            tile,
            direct: None,
            ahead: None,
            scattered: None,
            streamed: None,
            lower: None,
            finishing: [None; 2],
            leave: nothing,
            resident: None,
            round: None,
        }
    }

    /// The tile for up to so many lines.
    pub(super) fn by_lines(&self, rows: usize) -> OfLines<E> {
        let (high, low) = (self.left.width, 2 * self.left.width / 3);
        match (self.direct, self.lower, self.finishing) {
            (_, Some(tile), [_, finishing]) if rows <= low => OfLines { rows: low, tile, finishing },
            (Some(tile), _, [finishing, _]) => OfLines { rows: high, tile, finishing },
            (None, ..) => unreachable!("only for kernels that multiply lines"),
        }
    }

    /// Prepares this thread for tiles of this kernel, of no other until the result is dropped. Within that, doing so again is
    /// free.
    pub(crate) fn prepared(&self) -> Prepared {
        // SAFETY: a `MicroKernel` is only made for levels the CPU has.
        unsafe { (self.enter)() };
        Prepared { leave: self.leave }
    }
}

/// Types that panels are made of.
pub(crate) trait Multiply: Plain {
    /// What products are summed in.
    type Sum: Full;

    /// The kernel of an instruction set, or of the best this machine has if that is less.
    fn kernel(level: Level) -> MicroKernel<Self>;

    /// The same for products of so many columns.
    fn kernel_across(level: Level, _columns: usize) -> MicroKernel<Self> {
        Self::kernel(level)
    }

    /// Computes `a · bᵀ` row by row into `sink`.
    fn product(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<Self::Sum>, threads: Threads) {
        product_with(Self::kernel_across(Level::current(), b.rows), a, b, sink, threads);
    }

    /// [`small`] for operands of this type.
    fn small(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<Self::Sum>) {
        small(a, b, sink);
    }

    /// Whether one side has so few vectors that packing the other would take longer than [`few`](Self::few); and so would
    /// [`small`](Self::small) if that `is_small`.
    fn is_few(_: &Matrix<'_>, _: &Matrix<'_>, _is_small: bool) -> bool {
        false
    }

    /// Computes `a · bᵀ` without packing, where [`is_few`](Self::is_few).
    fn few(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<Self::Sum>, threads: Threads) {
        Self::product(a, b, sink, threads);
    }

    /// Loads `out.len()` elements of an operand that lie `stride` apart from `offset` on, rounded to this type.
    fn load(view: &View<'_>, offset: usize, stride: usize, out: &mut [Self]);

    /// Packs whole panels of vectors that lie side by side and are rounded on the way, where there is a way to do so at
    /// once; as [`Panel::interleave_across`].
    fn interleave_rounded(
        _: Panel,
        _: Slice<'_>,
        _stride: usize,
        _: [usize; 2],
        _panel_len: usize,
        _: &mut [Self],
    ) -> bool {
        false
    }

    /// The elements of an operand, where they are of this type already.
    fn stored<'a>(view: &View<'a>) -> Option<&'a [Self]>;
}

/// Types that panels hold as they are computed in.
pub(crate) trait Full: Real + Multiply<Sum = Self> {}

impl Full for f32 {}
impl Full for f64 {}

macro_rules! full {
    ($type:ident: $avx2:ident $avx2_columns:literal, $avx512:expr $(, $across:path)?) => {
        impl Multiply for $type {
            type Sum = $type;

            #[cfg(target_arch = "x86_64")]
            fn kernel(level: Level) -> MicroKernel<Self> {
                match level.min(Level::best()) {
                    Level::Portable => MicroKernel::single(4, 8, portable::<$type>),
                    Level::Avx2 => MicroKernel::single(6, $avx2_columns, x86::$avx2),
                    _ => $avx512,
                }
            }

            $(#[cfg(target_arch = "x86_64")]
            fn kernel_across(level: Level, columns: usize) -> MicroKernel<Self> {
                if level.min(Level::best()) >= Level::Avx512 { $across(columns) } else { Self::kernel(level) }
            })?

            #[cfg(not(target_arch = "x86_64"))]
            fn kernel(_: Level) -> MicroKernel<Self> {
                MicroKernel::single(4, 8, portable::<$type>)
            }

            fn is_few(a: &Matrix<'_>, b: &Matrix<'_>, is_small: bool) -> bool {
                !is_small && is_few::<Self>(a, b)
            }

            fn few(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<Self>, threads: Threads) {
                few(a, b, sink, threads);
            }

            fn load(view: &View<'_>, offset: usize, stride: usize, out: &mut [Self]) {
                load(view, offset, stride, out);
            }

            fn stored<'a>(view: &View<'a>) -> Option<&'a [Self]> {
                <$type>::same(view.data).filter(|_| !view.rounds_on_load())
            }
        }
    };
}

full!(f32: avx2_f32 16, super::avx512::kernel(), super::avx512::kernel_across);
full!(f64: avx2_f64 8, MicroKernel::single(12, 16, x86::avx512_f64));
