//! The lower triangle whose square is a matrix that is positive definite.

use super::reduce_by;
use crate::num::{Num, Real, in_real};
use crate::plane::{map_planes, planes};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{Storage, View};

/// Lower triangles `L` with `x = L · Lᵀ` for matrices `[.., N, N]`, of which only the lower triangles are read; zeros above them.
///
/// From the first pivot on that is not above 0, the diagonal is NaN.
pub fn cholesky(x: &View) -> Storage {
    let (_, [n, _]) = planes(x);
    in_real!(x.logical, A => map_planes::<A>(x, [n, n], A::DTYPE, |from, to, _| {
        to.copy_from_slice(from);
        dispatch(Cholesky { matrix: to, n });
    }))
}

struct Cholesky<'a, A> {
    matrix: &'a mut [A],
    n: usize,
}

impl<A: Real> Kernel for Cholesky<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { matrix, n } = self;
        let mut column = vec![A::ZERO; n];
        for k in 0..n {
            let pivot = matrix[k * n + k];
            let root = if pivot > A::ZERO { pivot.sqrt() } else { A::of(f64::NAN) };
            matrix[k * n + k] = root;
            matrix[k * n + k + 1..][..n - k - 1].fill(A::ZERO);
            for i in k + 1..n {
                let row = &mut matrix[i * n..][..=i];
                column[i] = row[k] / root;
                row[k] = column[i];
                reduce_by(&mut row[k + 1..], column[i], &column[k + 1..=i]);
            }
        }
    }
}
