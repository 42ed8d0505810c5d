//! Products that also sum the vectors of their left side: the gradients of a dense layer's weight and bias.
//!
//! The left side is the gradient of the layer's output, transposed, and packed anyway: panels are summed where they have just
//! been written. On Zen 5, two threads, BF16: a pass over the gradient for the bias was 2 % of a step of ViT and 1.2 % of one of
//! GPT (expected to vanish); with faster packing beside it (`panel::Across`) the least times of alternating steps fell from 297
//! to 284 ms and from 236 to 231 ms.

use super::dot;
use super::kernel::{MicroKernel, Multiply};
use super::operand::{Matrix, Operand};
use super::panel::Panel;
use super::product::{Threads, product_with};
use super::small::{Side, is_small, with_side};
use super::split_k::depth_of_part;
use super::{Places, Problem, Rounded, in_panels, is_better_transposed, thin};
use crate::convert::Cast;
use crate::math::Float;
use crate::num::Num;
use crate::output::Output;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Storage, View};
use half::bf16;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sums that are formed side by side: a multiple of the widths of panels whose groups are one or two.
const LANES: usize = 48;

/// [`matmul`](super::matmul) of two matrices and the sums of the rows of `a`, `[M]` in F32 (F64 for F64), where the product
/// packs `a` column by column into panels of its own, or reads it where a few columns follow one another.
pub fn matmul_sums(a: &View, b: &View, out: DType) -> Option<[Storage; 2]> {
    if dot::multiplies_halves(a, b) {
        return None;
    }
    in_panels!(a, b, E => multiply(&E::kernel(Level::current()), a, b, out))
}

pub(super) fn multiply<E: Grouped>(kernel: &MicroKernel<E>, a: &View, b: &View, out: DType) -> Option<[Storage; 2]> {
    let problem = Problem::new(a, b);
    let (left, right) = (problem.a, problem.b);
    if is_small(&left, &right) {
        return small::<E>(&problem, out);
    }
    let apart = left.rows.min(right.rows) <= thin::ROWS
        || is_better_transposed::<E>(&left, &right)
        || depth_of_part(&left, &right).is_some();
    let fits = kernel.left.group == E::GROUP && LANES.is_multiple_of(kernel.left.width);
    if problem.count != 1 || apart || !fits || left.depth_stride == 1 {
        return None;
    }
    let mut product = Storage::unwritten(out, problem.size());
    let places = Places { product: 0, start: 0, row_stride: right.rows, column_stride: 1, transposed: false };
    let sink = Rounded { output: Output::new(&mut product), places, bias: &[], residual: None };
    let summed = Summed::new(left, kernel.depth.block(left.depth));
    product_with(*kernel, &summed, &right, &sink, Threads::Many);
    Some([product, summed.finished::<E>()])
}

/// As [`multiply`], of a product that packs nothing: the left side's columns, which it has in the cache, are read once more. A
/// pass of [`reduce`](fn@crate::reduce) for the bias was 1 µs of the 9 that the gradients of a layer of 512 × 16 × 16 took.
fn small<E: Grouped>(problem: &Problem, out: DType) -> Option<[Storage; 2]> {
    let Matrix { rows, row_stride, depth_stride, .. } = problem.a;
    if problem.count != 1 || (row_stride, depth_stride) != (1, rows) || !LANES.is_multiple_of(rows) {
        return None;
    }
    let mut product = Storage::unwritten(out, problem.size());
    let output = Output::new(&mut product);
    problem.one::<E, _>(0, &|places| Rounded { output, places, bias: &[], residual: None }, Threads::One);
    let mut sums = Vec::with_capacity(rows);
    with_side(&problem.a, |side: Side<E::Wide>| {
        let lanes = dispatch(LaneSums(&side.values[..rows * problem.a.depth]));
        let of = |row: usize| lanes.iter().skip(row).step_by(rows).fold(E::Sum::ZERO, |sum, &lane| sum + lane);
        sums.extend((0..rows).map(of));
    });
    Some([product, E::Sum::storage(sums)])
}

/// A matrix whose vectors are summed when they are packed.
struct Summed<'a> {
    matrix: Matrix<'a>,
    /// Depth of a packed block.
    depth: usize,
    /// Bits of the sum of each vector in each block of the depth. Whoever packs a block writes the same.
    sums: Vec<AtomicU64>,
}

impl<'a> Summed<'a> {
    fn new(matrix: Matrix<'a>, depth: usize) -> Self {
        let count = matrix.rows * matrix.depth.div_ceil(depth);
        Self { matrix, depth, sums: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    fn finished<E: Multiply>(self) -> Storage {
        let mut sums = vec![E::Sum::ZERO; self.matrix.rows];
        for block in self.sums.chunks(self.matrix.rows) {
            let block = block.iter().map(|bits| E::Sum::of(f64::from_bits(bits.load(Relaxed))));
            sums.iter_mut().zip(block).for_each(|(sum, of_block)| *sum += of_block);
        }
        E::Sum::storage(sums)
    }
}

impl<E: Grouped> Operand<E> for Summed<'_> {
    fn rows(&self) -> usize {
        self.matrix.rows
    }

    fn depth(&self) -> usize {
        self.matrix.depth
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [E]) {
        self.matrix.pack(rows.clone(), depth.clone(), panel, out);
        let first = depth.start / self.depth * self.matrix.rows;
        let sums = &self.sums[first + rows.start..first + rows.end];
        let panels = out.chunks_exact(panel.width * panel.depth(depth.len()));
        for (panel_sums, elements) in sums.chunks(panel.width).zip(panels) {
            let lanes = dispatch(LaneSums(elements));
            for (row, sum) in panel_sums.iter().enumerate() {
                let lanes = lanes.iter().skip(row).step_by(panel.width);
                let total = lanes.fold(E::Sum::ZERO, |total, &lane| total + lane);
                let wide: f64 = total.converted();
                sum.store(wide.to_bits(), Relaxed);
            }
        }
    }
}

/// Types whose panels hold groups of a known size, or are not summed.
pub(super) trait Grouped: Multiply {
    /// What is computed in where nothing is packed.
    type Wide: Grouped<Sum = Self::Sum>;
    /// Elements of a vector that lie together.
    const GROUP: usize;

    /// Adds the sum of each group to the lane of the same number; `#[inline(always)]`, for [`Kernel::run`].
    fn add(groups: &[Self], lanes: &mut [Self::Sum; LANES]);
}

impl Grouped for bf16 {
    type Wide = f32;
    const GROUP: usize = 2;

    #[inline(always)]
    fn add(groups: &[Self], lanes: &mut [f32; LANES]) {
        for (lane, pair) in lanes.iter_mut().zip(groups.as_chunks::<2>().0) {
            let bits = u32::from(pair[0].to_bits()) | u32::from(pair[1].to_bits()) << 16;
            *lane += f32::from_bits(bits << 16) + f32::from_bits(bits & 0xffff_0000);
        }
    }
}

macro_rules! single {
    ($($type:ty),*) => {$(
        impl Grouped for $type {
            type Wide = Self;
            const GROUP: usize = 1;

            #[inline(always)]
            fn add(groups: &[Self], lanes: &mut [Self; LANES]) {
                lanes.iter_mut().zip(groups).for_each(|(lane, &value)| *lane += value);
            }
        }
    )*};
}

single!(f32, f64);

/// The sums of every [`LANES`]th group of a panel.
struct LaneSums<'a, E>(&'a [E]);

impl<E: Grouped> Kernel for LaneSums<'_, E> {
    type Output = [E::Sum; LANES];

    #[inline(always)]
    fn run<S: Simd>(self) -> [E::Sum; LANES] {
        let mut lanes = [E::Sum::ZERO; LANES];
        let chunks = self.0.chunks_exact(LANES * E::GROUP);
        let rest = chunks.remainder();
        chunks.for_each(|chunk| E::add(chunk, &mut lanes));
        E::add(rest, &mut lanes);
        lanes
    }
}
