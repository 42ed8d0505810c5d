//! Systems of equations by triangles.

use super::reduce_by;
use crate::line::Span;
use crate::num::{Num, Real, in_real};
use crate::plane::{map_planes, planes};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{Storage, View, scratch};

/// Which part of a matrix counts; the rest is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// What lies on and above the diagonal, rather than on and below it.
    pub upper: bool,
    /// The diagonal counts as 1.
    pub unit: bool,
}

/// `x` in `a · x = b`, for the triangles of `a` `[.., N, N]` and `b` `[.., N, K]` of as many matrices.
pub fn solve_triangular(a: &View, b: &View, triangle: Triangle) -> Storage {
    let (_, [n, columns]) = planes(b);
    let of = Span::row_major(a);
    in_real!(b.logical, A => map_planes::<A>(b, [n, columns], A::DTYPE, |from, to, index| {
        to.copy_from_slice(from);
        scratch::with(n * n, |room: &mut [A]| {
            dispatch(Solve { a: of.read(index * n * n, n * n, room), x: to, n, columns, triangle });
        });
    }))
}

/// Right sides that become the solution, row by row.
struct Solve<'a, A> {
    a: &'a [A],
    x: &'a mut [A],
    n: usize,
    columns: usize,
    triangle: Triangle,
}

impl<A: Real> Kernel for Solve<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { a, x, n, columns, triangle: Triangle { upper, unit } } = self;
        for step in 0..n {
            let i = if upper { n - 1 - step } else { step };
            let (before, rest) = x.split_at_mut(i * columns);
            let (row, after) = rest.split_at_mut(columns);
            let (known, first) = if upper { (&*after, i + 1) } else { (&*before, 0) };
            for k in 0..step {
                reduce_by(row, a[i * n + first + k], &known[k * columns..][..columns]);
            }
            if !unit {
                row.iter_mut().for_each(|v| *v = *v / a[i * n + i]);
            }
        }
    }
}
