//! Elimination with the largest pivots of each column.

use super::reduce_by;
use crate::num::{Num, Real, in_real};
use crate::output::Output;
use crate::plane::{map_planes, planes};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::storage::Element;
use crate::{DType, SliceMut, Storage, View};

/// Triangles `L` and `U` whose products are matrices `[.., N, N]` with their rows exchanged: in one matrix without the diagonal of
/// `L`, which is 1; where each row was, I64 `[.., N]`; and whether the exchanges were even or odd, as 1 or -1, `[..]`.
///
/// The pivot of a column is its largest element, the first of equals; it is 0 where the matrix is singular.
pub fn lu(x: &View) -> [Storage; 3] {
    let (count, [n, _]) = planes(x);
    in_real!(x.logical, A => {
        let (mut rows, mut signs) = (Storage::unwritten(DType::I64, count * n), Storage::unwritten(A::DTYPE, count));
        let (rows_of, sign_of) = (Output::new(&mut rows), Output::new(&mut signs));
        let factors = map_planes::<A>(x, [n, n], A::DTYPE, |from, to, index| {
            // SAFETY: each matrix has its own rows and sign.
            let (rows, mut sign) = unsafe { (rows_of.part(index * n, n), sign_of.part(index, 1)) };
            let SliceMut::I64(rows) = rows else { unreachable!("made as I64") };
            to.copy_from_slice(from);
            A::same_mut(&mut sign).expect("made of this type")[0] = dispatch(Lu { matrix: to, n, rows });
        });
        [factors, rows, signs]
    })
}

struct Lu<'a, A> {
    matrix: &'a mut [A],
    n: usize,
    rows: &'a mut [i64],
}

impl<A: Real> Kernel for Lu<'_, A> {
    type Output = A;
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> A {
        let Self { matrix, n, rows } = self;
        let mut sign = A::ONE;
        rows.iter_mut().zip(0..).for_each(|(row, i)| *row = i);
        for k in 0..n {
            let chosen = largest(matrix, n, k);
            if chosen != k {
                let (above, below) = matrix.split_at_mut(chosen * n);
                above[k * n..][..n].swap_with_slice(&mut below[..n]);
                rows.swap(k, chosen);
                sign = -sign;
            }
            let (above, below) = matrix.split_at_mut((k + 1) * n);
            let (pivot, from) = above[k * n + k..].split_first().expect("the row of the pivot");
            if *pivot == A::ZERO {
                continue;
            }
            for row in below.chunks_exact_mut(n) {
                row[k] = row[k] / *pivot;
                let share = row[k];
                reduce_by(&mut row[k + 1..], share, from);
            }
        }
        sign
    }
}

/// The row, from `k` on, with the largest magnitude in column `k`.
#[inline(always)]
fn largest<A: Real>(matrix: &[A], n: usize, k: usize) -> usize {
    let (mut best, mut at) = (A::ZERO, k);
    for i in k..n {
        let size = matrix[i * n + k].abs();
        if size > best {
            (best, at) = (size, i);
        }
    }
    at
}
