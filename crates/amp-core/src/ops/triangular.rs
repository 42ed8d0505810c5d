//! Systems of equations by triangles, and what the operations of dense linear algebra share.

use super::matmul::turned;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};
use amp_cpu::{Dims, Triangle};

full_range! {
    SolveTriangularPrecision, "`solve_triangular` must run in `F32`";
}

/// What lies on and above the diagonal.
pub(super) const UPPER: Triangle = Triangle { upper: true, unit: false };

/// The number of rows of square matrices `[.., N, N]`.
#[track_caller]
pub(super) fn square(op: &'static str, x: &RawTensor) -> Result<usize> {
    let found = *x.shape();
    let [.., rows, columns] = *found else {
        return Err(Error::Rank { op, what: "the input", expected: "at least 2 dimensions", found: found.into() });
    };
    match rows == columns {
        true => Ok(rows),
        false => {
            let (what, expected) = ("each matrix", format!("[{rows}, {rows}]"));
            Err(Error::Shape { op, what, expected, found: found.into() })
        }
    }
}

/// Square matrices `[.., N, N]` and right sides `[.., N, K]` with the batch that they broadcast to, out of the graph.
#[track_caller]
pub(super) fn sides(op: &'static str, a: &RawTensor, b: &RawTensor) -> Result<[RawTensor; 2]> {
    a.device().check_same(b.device(), op)?;
    let (n, right) = (square(op, a)?, *b.shape());
    let [ref outer @ .., rows, columns] = *right else {
        return Err(Error::Rank { op, what: "the right side", expected: "at least 2 dimensions", found: right.into() });
    };
    if rows != n {
        let (what, expected) = ("the right side", format!("[.., {n}, K] for matrices [{n}, {n}]"));
        return Err(Error::Shape { op, what, expected, found: right.into() });
    }
    let batch = |outer: &[usize]| Dims::new(outer).expect("fewer dimensions");
    let before = &a.shape()[..a.shape().len() - 2];
    let batch = shape::broadcast(op, &batch(before), &batch(outer)).map_err(|_| Error::Broadcast {
        op,
        left: a.shape().into(),
        right: right.into(),
    })?;
    let of = |last: [usize; 2]| [&*batch, &last].concat().into_shape(op);
    Ok([a.broadcast_to(op, &of([n, n])?)?, b.broadcast_to(op, &of([n, columns])?)?])
}

/// `x` in `a · x = b` for triangles, out of the graph.
#[track_caller]
pub(super) fn solved(op: &'static str, a: &RawTensor, b: &RawTensor, triangle: Triangle) -> Result<RawTensor> {
    let [a, b] = sides(op, a, b)?;
    let buffer = a.backend().solve_triangular(a.operand()?, b.operand()?, triangle)?;
    Ok(RawTensor::new(a.device(), buffer, *b.shape()))
}

/// The matrices transposed, out of the graph.
pub(super) fn transposed(x: &RawTensor) -> RawTensor {
    x.with_layout(turned(&x.layout))
}

/// What the matrices of `a · x = b` get, where the right sides get `of_b`: `-of_b · xᵀ`.
#[track_caller]
pub(super) fn of_matrices<P: Float>(of_b: &RawTensor, x: &RawTensor) -> Result<Tensor<P>> {
    let [of_b, x] = [of_b.detached(), transposed(x)].map(Tensor::<P>::from_raw);
    of_b.matmul(&x)?.neg()
}

impl<P: Float> Tensor<P> {
    /// `x` in `a · x = b` for this tensor's triangles, `a` `[.., N, N]`, and right sides `[.., N, K]`
    /// (`torch.linalg.solve_triangular`): what lies on and above the diagonal if `upper`, else what lies on and below it, the
    /// diagonal counting as 1 if `unit`. Leading dimensions broadcast.
    ///
    /// The rest of the matrices is not read. Where an element of the diagonal is 0, the solution is not finite. `x · a = b` is
    /// solved as the transposed system.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout.
    ///
    /// # Errors
    /// [`Error::Rank`] for less than 2 dimensions, [`Error::Shape`] for matrices that are not square or right sides that do not fit
    /// them, [`Error::Broadcast`] when the other dimensions do not broadcast.
    #[doc(alias("triangular_solve", "trsm"))]
    #[track_caller]
    pub fn solve_triangular<Q: Element>(&self, b: &Tensor<Q>, upper: bool, unit: bool) -> Result<Self>
    where
        P: SolveTriangularPrecision + SamePrecision<Q>,
    {
        const OP: &str = "solve_triangular";
        let (a, triangle) = (&self.raw, Triangle { upper, unit });
        let x = solved(OP, a, &b.raw, triangle)?;
        let x = record(OP, &[a, &b.raw], x, |x| {
            let (a, x) = (Saved::new(a)?, Saved::new(x)?);
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                let of_b = solved(OP, &transposed(&a), pass.grad(), Triangle { upper: !upper, unit })?;
                if pass.shape(0).is_some() {
                    let (of_a, apart) = (of_matrices::<P>(&of_b, &x)?, i64::from(unit));
                    pass.give(0, if upper { of_a.triu(apart) } else { of_a.tril(-apart) }?.raw)?;
                }
                pass.give(1, of_b)
            }))
        })?;
        Ok(Self::from_raw(x))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{F64, Result, Tensor, gradcheck};

    /// Matrices that are easily solved.
    fn matrices(shape: &[usize]) -> Tensor<F64> {
        let n = shape[shape.len() - 1];
        (wave(shape) + (Tensor::<F64>::eye(n, n, &crate::Device::cpu()).unwrap() * 2.0).unwrap()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        for (upper, unit) in [(false, false), (false, true), (true, false), (true, true)] {
            for (a, b) in [([2, 3, 3].as_slice(), [3, 2].as_slice()), (&[3, 3], &[2, 3, 1])] {
                let inputs = [matrices(a), wave(b)];
                let worst = gradcheck(|x| x[0].solve_triangular(&x[1], upper, unit), &inputs).unwrap();
                assert!(worst.agrees(), "{upper} {unit}: {worst:?}");
            }
        }
    }

    #[test]
    fn triangles_times_solutions_are_the_right_sides() -> Result<()> {
        let (a, b) = (matrices(&[2, 4, 4]), wave(&[2, 4, 3]));
        for (upper, triangle) in [(true, a.triu(0)?), (false, a.tril(0)?)] {
            let x = a.solve_triangular(&b, upper, false)?;
            assert!((triangle.matmul(&x)? - &b)?.abs()?.max([], false)?.item()? < 1e-13);
        }
        assert_eq!(a.solve_triangular(&b.narrow(2, 0, 0)?, true, false)?.dims(), [2, 4, 0]);
        Ok(())
    }

    #[test]
    fn systems_that_do_not_fit_are_errors() {
        let text = |a: &[usize], b: &[usize]| wave(a).solve_triangular(&wave(b), true, false).unwrap_err().to_string();
        assert_eq!(
            text(&[3, 3], &[2, 3]),
            "solve_triangular: the right side must have shape [.., 3, K] for matrices [3, 3], found [2, 3]"
        );
        assert_eq!(text(&[2, 3], &[2, 3]), "solve_triangular: each matrix must have shape [2, 2], found [2, 3]");
        assert!(text(&[3], &[3, 1]).contains("the input must have at least 2 dimensions"));
        assert!(text(&[3, 3], &[3]).contains("the right side must have at least 2 dimensions"));
        assert!(text(&[2, 3, 3], &[3, 3, 1]).contains("do not broadcast"));
    }
}
