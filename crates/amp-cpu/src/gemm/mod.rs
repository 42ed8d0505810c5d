//! Matrix products of any precision, size and stride.
//!
//! Operands are converted while they are packed, so a cast costs nothing; sums are kept in F32 (F64 for F64
//! operands) and rounded once, after the bias. BF16 is multiplied as it is where the machine can ([`dot`], [`amx`]), F16
//! as sums of two BF16 numbers where it has AMX ([`amx::halves`]); all else is widened to F32.

mod ahead;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
pub(crate) mod cut;
mod deep;
pub(crate) mod dot;
mod few;
pub(crate) mod kernel;
pub(crate) mod operand;
mod packed;
#[cfg(target_arch = "x86_64")]
mod pairs;
pub(crate) mod panel;
pub(crate) mod product;
mod resident;
mod residual;
mod shallow;
mod sinks;
mod small;
mod split_k;
mod strip;
mod sums;
mod task;
#[cfg(test)]
mod tests;
pub(crate) mod thin;
pub(crate) mod vector;

use crate::load::{load_all, offset_of};
use crate::output::Output;
use crate::simd::Level;
use crate::{DType, Dims, Storage, View, num_threads, parallel, scratch};
use ahead::Ahead;
use half::bf16;
use kernel::Multiply;
use operand::Matrix;
use product::{Kept, Sink, Threads};
use residual::Residual;
use shallow::{is_shallow, shallow};
use sinks::{Places, Rounded, Sums};
use small::is_small;
use std::sync::Mutex;
pub use sums::matmul_sums;
use thin::thin;

/// What happens to a sum before it is rounded and stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// Added to every row, `[N]`.
    pub bias: Option<View<'a>>,
    /// Added to the whole result, `[.., M, N]` with any strides (0 repeats): what a layer's output is added to.
    pub residual: Option<View<'a>>,
}

/// `a · b` for `a` `[.., M, K]` and `b` `[.., K, N]` with equal batch shapes (stride 0 repeats), as `[.., M, N]`.
///
/// Sums, bias and residual in F32 (F64 for F64 operands), rounded once to `out`. K = 0 gives zeros, or what is added to them.
pub fn matmul(a: &View, b: &View, epilogue: &Epilogue, out: DType) -> Storage {
    if dot::multiplies_halves(a, b) {
        return multiply::<bf16>(a, b, epilogue, out);
    }
    in_panels!(a, b, E => multiply::<E>(a, b, epilogue, out))
}

/// Adds `a · b` to an F32 (F64) buffer without rounding in between: a weight gradient.
///
/// `into` has the shape `[.., M, N]`, or `[M, N]` to sum over the batch as well.
pub fn matmul_acc(a: &View, b: &View, into: &mut Storage) {
    if dot::multiplies_halves(a, b) {
        return accumulate::<bf16>(a, b, into);
    }
    in_panels!(a, b, E => accumulate::<E>(a, b, into))
}

/// Runs `$body` with `$E` standing for the type that the products of two operands are packed in.
macro_rules! in_panels {
    ($a:expr, $b:expr, $E:ident => $body:expr) => {
        if $crate::load::computes_in_f64($a) {
            type $E = f64;
            $body
        } else if $crate::gemm::dot::multiplies($a, $b) {
            type $E = half::bf16;
            $body
        } else {
            type $E = f32;
            $body
        }
    };
}
pub(crate) use in_panels;

fn multiply<E: Multiply>(a: &View, b: &View, epilogue: &Epilogue, out: DType) -> Storage {
    let residual = epilogue.residual.as_ref().map(Residual::new);
    let (problem, residual) = Problem::new(a, b).fold_batch_into_rows(residual);
    let mut result = Storage::unwritten(out, problem.count * problem.size());
    let mut bias: Vec<E::Sum> = Vec::new();
    if let Some(view) = &epilogue.bias {
        bias.resize(problem.b.rows, Default::default());
        load_all(view, &mut bias);
    }
    let output = Output::new(&mut result);
    problem.run::<E, _>(&|places| {
        let residual = residual.map(|residual| residual.beside(places));
        Rounded { output, places, bias: &bias, residual }
    });
    result
}

fn accumulate<E: Multiply>(a: &View, b: &View, into: &mut Storage) {
    let mut problem = Problem::new(a, b);
    let output = Output::new(into);
    if output.len() != problem.size() {
        return problem.fold_batch_into_rows(None).0.run::<E, _>(&|places| Sums { output, places });
    }
    problem = problem.fold_batch_into_depth();
    for index in 0..problem.count {
        problem.one::<E, _>(index, &|places| Sums { output, places: Places { start: 0, ..places } }, Threads::Many);
    }
}

/// A batch of products of the same size: the first one's operands and the way to the others.
struct Problem<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    batch: Dims,
    count: usize,
}

impl<'a> Problem<'a> {
    fn new(a: &View<'a>, b: &View<'a>) -> Self {
        a.assert_inside();
        b.assert_inside();
        let (left, right) = (a.layout, b.layout);
        let outer = left.shape.len() - 2;
        let batch = left.shape.removed(outer).removed(outer);
        let depth = left.shape[outer + 1];
        let matrix = |view: &View<'a>, row: usize, along: usize| Matrix {
            view: *view,
            offset: view.layout.offset,
            rows: view.layout.shape[row],
            depth,
            row_stride: view.layout.strides[row],
            depth_stride: view.layout.strides[along],
        };
        debug_assert_eq!(depth, right.shape[outer]);
        Self { a: matrix(a, outer, outer + 1), b: matrix(b, outer + 1, outer), batch, count: batch.count() }
    }

    /// Elements of one product.
    fn size(&self) -> usize {
        self.a.rows * self.b.rows
    }

    /// `[B, M, K] · [K, N]` is one product of `B * M` rows when the rows lie evenly, those of what is added to it too.
    fn fold_batch_into_rows(mut self, mut residual: Option<Residual<'a>>) -> (Self, Option<Residual<'a>>) {
        let outer = self.batch.len();
        let repeats = self.b.view.layout.strides.iter().zip(self.batch.iter()).all(|(&s, &d)| s == 0 || d == 1);
        let stride = |view: &View| fused_stride(&view.layout.shape[..=outer], &view.layout.strides[..=outer]);
        let evenly = residual.map_or(Some(0), |residual| stride(&residual.view));
        if let (true, Some(stride), Some(evenly)) = (repeats, stride(&self.a.view), evenly) {
            self.a.rows *= self.count;
            self.a.row_stride = stride;
            self.batch = Dims::default();
            self.count = 1;
            residual = residual.map(|residual| residual.folded(evenly));
        }
        (self, residual)
    }

    /// The sum of `[B, M, K] · [B, K, N]` over the batch is one product when both depths lie evenly.
    fn fold_batch_into_depth(mut self) -> Self {
        let outer = self.batch.len();
        let fused = |matrix: &Matrix| {
            let mut shape = self.batch.to_vec();
            shape.push(matrix.depth);
            let mut strides = matrix.view.layout.strides[..outer].to_vec();
            strides.push(matrix.depth_stride);
            fused_stride(&shape, &strides)
        };
        if let Some((a, b)) = fused(&self.a).zip(fused(&self.b)) {
            (self.a.depth_stride, self.b.depth_stride) = (a, b);
            self.a.depth *= self.count;
            self.b.depth = self.a.depth;
            self.batch = Dims::default();
            self.count = 1;
        }
        self
    }

    fn run<E: Multiply, S: Sink<E::Sum>>(&self, sink: &(dyn Fn(Places) -> S + Sync)) {
        if self.count == 1 {
            return self.one::<E, S>(0, sink, Threads::Many);
        }
        let work = self.size() * self.a.depth / product::PER_CYCLE;
        let (threads, spread) = if self.count < 8 { (Threads::Many, 0) } else { (Threads::One, self.count * work) };
        parallel::for_each(self.count, spread, |index| self.one::<E, S>(index, sink, threads));
    }

    fn one<E: Multiply, S: Sink<E::Sum>>(&self, index: usize, sink: &(dyn Fn(Places) -> S + Sync), threads: Threads) {
        let sides = self.operands(index);
        let [a, b] = &sides;
        let places = Places {
            product: index,
            start: index * self.size(),
            row_stride: b.rows,
            column_stride: 1,
            transposed: false,
        };
        let transposed = Places { row_stride: 1, column_stride: b.rows, transposed: true, ..places };
        match split_k::depth_of_part(a, b) {
            Some(part) if !is_small(a, b) => split_k::<E>([a, b], part, &sink(places), threads),
            _ => whole::<E, S>(
                [a, b],
                |is_transposed| sink(if is_transposed { transposed } else { places }),
                threads,
                || {
                    let next = (self.count > 1).then(|| self.operands((index + num_threads()) % self.count));
                    next.map(|sides| sides.map(|side| Some(side).filter(|side| E::stored(&side.view).is_none())))
                },
            ),
        }
    }

    /// Those of one product.
    fn operands(&self, index: usize) -> [Matrix<'a>; 2] {
        [&self.a, &self.b].map(|matrix| {
            let strides = &matrix.view.layout.strides[..self.batch.len()];
            Matrix { offset: matrix.offset + offset_of(index, &self.batch, strides), ..*matrix }
        })
    }
}

/// `a · bᵀ` by whichever way is the fastest for their shape, into a sink that may be asked to take it transposed; `next` is what
/// will be multiplied soon.
fn whole<'m, E: Multiply, S: Sink<E::Sum>>(
    [a, b]: [&Matrix; 2],
    sink: impl Fn(bool) -> S,
    threads: Threads,
    next: impl FnOnce() -> Option<[Option<Matrix<'m>>; 2]>,
) {
    let is_small = is_small(a, b);
    if E::is_few(a, b, is_small) {
        return E::few(a, b, &sink(false), threads);
    }
    if is_small {
        return match small::is_better_transposed(a, b) {
            true => E::small(b, a, &sink(true)),
            false => E::small(a, b, &sink(false)),
        };
    }
    match (a.rows, b.rows) {
        _ if is_shallow::<E>(a, b) => shallow::<E>(a, b, &sink(false)),
        (..=thin::ROWS, _) => thin(a, b, &sink(false), threads),
        (_, ..=thin::ROWS) => thin(b, a, &sink(true), threads),
        _ if is_better_transposed::<E>(a, b) => E::product(b, a, &sink(true), threads),
        _ => match next() {
            None => E::product(a, b, &sink(false), threads),
            Some(next) => E::product(a, b, &Ahead { sink: sink(false), size: [a.rows, b.rows], next }, threads),
        },
    }
}

/// `a · bᵀ` as the sum of products that are `part` deep.
fn split_k<E: Multiply>([a, b]: [&Matrix; 2], part: usize, sink: &dyn Sink<E::Sum>, threads: Threads) {
    let (size, count) = (a.rows * b.rows, a.depth.div_ceil(part));
    // Memory is the limit.
    let work = threads.share((a.rows + b.rows) * a.depth);
    scratch::with(count * size, |sums: &mut [E::Sum]| {
        let parts: Vec<Mutex<&mut [E::Sum]>> = sums.chunks_exact_mut(size).map(Mutex::new).collect();
        parallel::for_each(count, work, |index| {
            let sides = [a, b].map(|side| split_k::cut(side, part, index));
            let sink = |transposed| Kept { values: &parts[index], columns: b.rows, transposed };
            whole::<E, _>([&sides[0], &sides[1]], sink, Threads::One, || None);
        });
        drop(parts);
        let (total, others) = sums.split_at_mut(size);
        for other in others.chunks_exact(size) {
            total.iter_mut().zip(other).for_each(|(total, &other)| *total += other);
        }
        for (row, values) in total.chunks_exact_mut(b.rows).enumerate() {
            sink.store(row, 0, values);
        }
    });
}

/// Whether the transpose wastes so much less of the kernel's tiles, with few columns and many rows, that it pays for packing the
/// rows and turning the result.
///
/// On a core of Zen 4 both cost 8 columns and, for every element of the result, 32 terms: 8192 × 64 by 64 × 48 in F32 takes 0.67 ms
/// as it is, 0.89 transposed, of 1024 terms 12 columns 2.65 and 1.99.
fn is_better_transposed<E: Multiply>(a: &Matrix, b: &Matrix) -> bool {
    const PACKING: usize = 8;
    const TURNING: usize = 32;
    let kernel = E::kernel(Level::current());
    let padded = |rows: usize, columns: usize| {
        rows.next_multiple_of(kernel.left.width) * columns.next_multiple_of(kernel.right.width)
    };
    let saved = padded(a.rows, b.rows).saturating_sub(padded(b.rows, a.rows) + PACKING * a.rows);
    saved * a.depth > TURNING * a.rows * b.rows
}

/// The stride of the one dimension that these dimensions can be seen as, if they can.
fn fused_stride(shape: &[usize], strides: &[usize]) -> Option<usize> {
    let mut fused: Option<(usize, usize)> = None;
    for (&size, &stride) in shape.iter().zip(strides).rev().filter(|(size, _)| **size != 1) {
        fused = match fused {
            None => Some((stride, size)),
            Some((inner, count)) if stride == inner * count => Some((inner, count * size)),
            Some(_) => return None,
        };
    }
    Some(fused.map_or(0, |(stride, _)| stride))
}
