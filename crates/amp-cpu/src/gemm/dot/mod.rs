//! Products of BF16 panels: two terms of each sum at a time, or more where the machine has AMX ([`super::amx`]).
//!
//! `vdpbf16ps` adds two products to each of 16 F32 sums. Products of two BF16 numbers are exact in F32, so an element
//! is as exact as with F32 arithmetic, but the instruction takes subnormal operands as zero and rounds subnormal sums
//! to zero: for a sum of `n` terms that is another error of at most `n * 2^-126 * (1 + max|a| + max|b|)`.
//!
//! On Zen 5 it starts as often as an F32 multiply-add, which is half as much arithmetic: 512 GFLOP/s on one core, of which the
//! tile reaches 95 % with panels in L1 and products of 512³ and more 80 to 87 %. What is left is packing, rounding and above
//! all waiting for memory, which hardware does not foresee where neighbouring rows lie far apart: operands are prefetched some
//! steps ahead, and a left side in lines is not packed at all (`x86::direct`). More in `benches/record/findings.md`.

#[cfg(target_arch = "x86_64")]
mod few;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

use super::kernel::{MicroKernel, Multiply, Tile};
use super::operand::Matrix;
use super::panel::Panel;
use super::product::{Sink, Threads, product_with};
use crate::convert::{Cast, Compute};
use crate::load::{load, prefetches_lines};
use crate::output::prefetch;
use crate::scratch::same_bytes_mut;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::storage::Element;
use crate::{DType, Slice, SliceMut, View};
use half::bf16;

/// Whether the products of two operands are those of BF16 panels: both count as BF16 and the machine multiplies it.
pub(crate) fn multiplies(a: &View<'_>, b: &View<'_>) -> bool {
    a.logical == DType::BF16 && b.logical == DType::BF16 && Level::current() >= Level::Avx512Bf16
}

/// Whether the products of two matrices are those of BF16 panels that F16 is split into.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) fn multiplies_halves(a: &View<'_>, b: &View<'_>) -> bool {
    super::amx::halves::multiplies(a, b)
}

/// Whether the products of two matrices are those of BF16 panels that F16 is split into.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) fn multiplies_halves(_: &View<'_>, _: &View<'_>) -> bool {
    false
}

impl Multiply for bf16 {
    type Sum = f32;

    fn kernel(level: Level) -> MicroKernel<Self> {
        match level.min(Level::best()) {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Level::Amx => super::amx::kernel(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => MicroKernel {
                direct: Some(x86::direct::<12>),
                lower: Some(x86::direct::<8>),
                finishing: [Some(x86::finishing::<12>), Some(x86::finishing::<8>)],
                ..in_pairs(12, COLUMNS, x86::tile)
            },
            _ => portable(),
        }
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn product(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<f32>, threads: Threads) {
        if super::amx::halves::multiplies(&a.view, &b.view) {
            return super::amx::halves::product(a, b, sink, threads);
        }
        product_with(Self::kernel(Level::current()), a, b, sink, threads);
    }

    #[cfg(target_arch = "x86_64")]
    fn small(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<f32>) {
        if multiplies(&a.view, &b.view) && a.depth.is_multiple_of(2) {
            return super::pairs::small(a, b, sink);
        }
        super::small::small(a, b, sink);
    }

    #[cfg(target_arch = "x86_64")]
    fn is_few(a: &Matrix<'_>, b: &Matrix<'_>, is_small: bool) -> bool {
        few::is_few(a, b, is_small)
    }

    #[cfg(target_arch = "x86_64")]
    fn few(a: &Matrix<'_>, b: &Matrix<'_>, sink: &dyn Sink<f32>, threads: Threads) {
        few::few(a, b, sink, threads);
    }

    fn load(view: &View<'_>, offset: usize, stride: usize, out: &mut [Self]) {
        if out.is_empty() {
            return;
        }
        match (view.data, stride) {
            (Slice::BF16(data), 1) => out.copy_from_slice(&data[offset..][..out.len()]),
            (Slice::BF16(data), 0) => out.fill(data[offset]),
            (Slice::BF16(data), _) => {
                out.iter_mut().zip(data[offset..].iter().step_by(stride)).for_each(|(to, &from)| *to = from);
            }
            (Slice::F32(data), 1) => f32::narrow(&data[offset..][..out.len()], &mut SliceMut::BF16(out)),
            _ => {
                let mut wide = [0.0_f32; 256];
                for (i, out) in out.chunks_mut(wide.len()).enumerate() {
                    let wide = &mut wide[..out.len()];
                    load(view, offset + i * 256 * stride, stride, wide);
                    f32::narrow(wide, &mut SliceMut::BF16(out));
                }
            }
        }
    }

    fn interleave_rounded(
        panel: Panel,
        lines: Slice<'_>,
        stride: usize,
        [groups, panels]: [usize; 2],
        panel_len: usize,
        out: &mut [Self],
    ) -> bool {
        let (Slice::F32(lines), Panel { width: COLUMNS, group: 2, .. }) = (lines, panel) else { return false };
        dispatch(Rounding { lines, stride, groups, panels, panel_len, out });
        true
    }

    fn stored<'a>(view: &View<'a>) -> Option<&'a [Self]> {
        Self::same(view.data)
    }
}

/// Columns of a panel of the right side.
const COLUMNS: usize = 32;

/// Lines of neighbouring depths as pairs of rounded numbers: one pass instead of rounding first and pairing then.
struct Rounding<'a> {
    lines: &'a [f32],
    stride: usize,
    groups: usize,
    panels: usize,
    panel_len: usize,
    out: &'a mut [bf16],
}

impl Kernel for Rounding<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        /// Pairs of lines that are prefetched.
        const AHEAD: usize = 4;
        let rounded = |value: f32| -> u32 {
            let narrow: bf16 = value.converted();
            narrow.to_bits().into()
        };
        let prefetches = prefetches_lines();
        for g in 0..self.groups {
            for line in self.lines.chunks(self.stride.max(1)).skip((g + AHEAD) * 2).take(2).filter(|_| prefetches) {
                prefetch(&line[..line.len().min(self.panels * COLUMNS)]);
            }
            for p in 0..self.panels {
                let line = &self.lines[g * 2 * self.stride + p * COLUMNS..];
                let (even, odd) = (&line[..COLUMNS], &line[self.stride..][..COLUMNS]);
                let to = &mut self.out[p * self.panel_len + g * 2 * COLUMNS..][..2 * COLUMNS];
                let to: &mut [u32] = same_bytes_mut(to);
                for ((to, &even), &odd) in to.iter_mut().zip(even).zip(odd) {
                    *to = rounded(even) | rounded(odd) << 16;
                }
            }
        }
    }
}

/// The kernel that says what the others compute; runs on every CPU.
pub(crate) fn portable() -> MicroKernel<bf16> {
    in_pairs(4, 8, portable_tile)
}

fn in_pairs(mr: usize, nr: usize, tile: Tile<bf16>) -> MicroKernel<bf16> {
    MicroKernel::of_panels([mr, nr].map(|width| Panel { width, group: 2, step: 2 }), 512, tile)
}

/// # Safety
/// As [`super::kernel::Tile`]; runs on every CPU.
unsafe fn portable_tile(depth: usize, a: *const bf16, b: *const bf16, c: *mut f32, stride: usize, accumulate: bool) {
    const MR: usize = 4;
    const NR: usize = 8;
    // SAFETY: `a` has `depth * MR` elements and `b` has `depth * NR` (caller).
    let (a, b) = unsafe { (std::slice::from_raw_parts(a, depth * MR), std::slice::from_raw_parts(b, depth * NR)) };
    let mut sums = [[0.0_f32; NR]; MR];
    for (a, b) in a.as_chunks::<{ 2 * MR }>().0.iter().zip(b.as_chunks::<{ 2 * NR }>().0) {
        for (i, sums) in sums.iter_mut().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                for k in 0..2 {
                    *sum += f32::from(a[2 * i + k]) * f32::from(b[2 * j + k]);
                }
            }
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        for (j, &sum) in sums.iter().enumerate() {
            // SAFETY: row `i` of `c` has `NR` elements from `i * stride` on (caller).
            let to = unsafe { &mut *c.add(i * stride + j) };
            *to = if accumulate { *to + sum } else { sum };
        }
    }
}
