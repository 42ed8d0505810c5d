//! Systems of equations by any matrices, by elimination with exchanged rows.

use super::triangular::{UPPER, of_matrices, sides, solved, square, transposed};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, I64, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::Triangle;

full_range! {
    SolvePrecision, "`solve` must run in `F32`";
    InversePrecision, "`inverse` must run in `F32`";
}

const LOWER: Triangle = Triangle { upper: false, unit: false };
/// The factor whose diagonal is not stored, and its transpose.
const UNIT: Triangle = Triangle { upper: false, unit: true };
const UNIT_UPPER: Triangle = Triangle { upper: true, unit: true };

/// Matrices `[.., N, N]` taken apart, out of the graph, as [`lu`](crate::backend::Factorization::lu) says.
pub(super) struct Lu {
    pub(super) factors: RawTensor,
    pub(super) rows: RawTensor,
    pub(super) sign: RawTensor,
}

impl Lu {
    #[track_caller]
    pub(super) fn new(x: &RawTensor) -> Result<Self> {
        let shape = *x.shape();
        let [factors, rows, sign] = x.backend().lu(x.operand()?)?;
        let rows_shape = shape.removed(shape.len() - 1);
        Ok(Self {
            factors: RawTensor::new(x.device(), factors, shape),
            rows: RawTensor::new(x.device(), rows, rows_shape),
            sign: RawTensor::new(x.device(), sign, rows_shape.removed(rows_shape.len() - 1)),
        })
    }

    /// An error if a pivot is 0. Waits for the device.
    #[track_caller]
    fn check_invertible<P: Float>(&self, op: &'static str, n: usize) -> Result<()> {
        let pivots = Tensor::<P>::from_raw(self.factors.clone()).diagonal(0, -2, -1)?;
        let Some(at) = pivots.eq(0.0)?.to_vec()?.iter().position(|none| *none) else { return Ok(()) };
        let found = format!("matrix {}, which has no pivot in column {}", at / n, at % n);
        Err(Error::argument(op, "each matrix", "invertible", found))
    }
}

/// Where each row of the right sides was: `rows` as indices of the shape of `b`.
#[track_caller]
fn places<P: Float>(rows: &RawTensor, b: &Tensor<P>) -> Result<Tensor<I64>> {
    Tensor::<I64>::from_raw(rows.detached()).unsqueeze(-1)?.expand(b.dims())
}

/// `x` in `a · x = b`, for `a` that has been taken apart.
#[track_caller]
fn substituted<P: Float>(op: &'static str, factors: &RawTensor, rows: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let b = Tensor::<P>::from_raw(b.detached());
    let b = b.gather(-2, &places(rows, &b)?)?;
    solved(op, factors, &solved(op, factors, &b.raw, UNIT)?, UPPER)
}

/// `x` in `aᵀ · x = b`, for `a` that has been taken apart.
#[track_caller]
pub(super) fn substituted_turned<P: Float>(
    op: &'static str,
    factors: &RawTensor,
    rows: &RawTensor,
    b: &RawTensor,
) -> Result<Tensor<P>> {
    let turned = transposed(factors);
    let x = Tensor::<P>::from_raw(solved(op, &turned, &solved(op, &turned, b, LOWER)?, UNIT_UPPER)?);
    x.zeros_like()?.scatter(-2, &places(rows, &x)?, &x)
}

/// `x` in `a · x = b` for `[.., N, N]` and `[.., N, K]`.
#[track_caller]
fn solution<P: Float>(op: &'static str, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let n = square(op, a)?;
    let [_, sides] = sides(op, a, b)?;
    let lu = Lu::new(a)?;
    lu.check_invertible::<P>(op, n)?;
    record(op, &[a, b], substituted::<P>(op, &lu.factors, &lu.rows, &sides)?, |x| {
        let (factors, rows, x) = (Saved::new(&lu.factors)?, Saved::new(&lu.rows)?, Saved::new(x)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let of_b = substituted_turned::<P>(op, &factors, &rows, pass.grad())?.raw;
            if pass.shape(0).is_some() {
                pass.give(0, of_matrices::<P>(&of_b, &x)?.raw)?;
            }
            pass.give(1, of_b)
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// `x` in `a · x = b` for this tensor's matrices, `a` `[.., N, N]`, and right sides `[.., N, K]`, whose leading dimensions
    /// broadcast, or one vector for each matrix, `[N]` for all of them (`torch.linalg.solve`). Waits for the device.
    ///
    /// Solves by elimination with the largest pivot of each column. A GPU takes each matrix apart on one of its multiprocessors:
    /// batches of small matrices suit it, a single large one does not.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout.
    ///
    /// # Errors
    /// [`Error::Argument`] for a matrix that is singular, [`Error::Rank`] for less than 2 dimensions, [`Error::Shape`] for matrices
    /// that are not square or right sides that do not fit them, [`Error::Broadcast`] when the other dimensions do not broadcast.
    #[track_caller]
    pub fn solve<Q: Element>(&self, b: &Tensor<Q>) -> Result<Self>
    where
        P: SolvePrecision + SamePrecision<Q>,
    {
        const OP: &str = "solve";
        square(OP, &self.raw)?;
        // As PyTorch tells vectors from matrices.
        let vectors = b.rank() == 1 || b.dims() == &self.dims()[..self.rank() - 1];
        let right = if vectors { b.unsqueeze(-1)? } else { b.clone() };
        let x = Self::from_raw(solution::<P>(OP, &self.raw, &right.raw)?);
        if vectors { x.squeeze(-1) } else { Ok(x) }
    }

    /// The inverses of the matrices `[.., N, N]` (`torch.linalg.inv`, `torch.inverse`). Waits for the device.
    ///
    /// Where an inverse is multiplied by something, [`solve`](Self::solve) is faster and more accurate.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout.
    ///
    /// # Errors
    /// [`Error::Argument`] for a matrix that is singular, [`Error::Rank`] for less than 2 dimensions, [`Error::Shape`] for matrices
    /// that are not square.
    #[doc(alias = "inv")]
    #[track_caller]
    pub fn inverse(&self) -> Result<Self>
    where
        P: InversePrecision,
    {
        const OP: &str = "inverse";
        let n = square(OP, &self.raw)?;
        Ok(Self::from_raw(solution::<P>(OP, &self.raw, &Self::eye(n, n, self.device())?.raw)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::numbers;
    use crate::{Device, F32, F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let (a, b) = (numbers(&[2, 3, 3], 0.3), numbers(&[3, 2], 0.7));
        let (one, vectors) = (a.select(0, 0).unwrap(), numbers(&[2, 3], 0.1));
        for (name, worst) in [
            ("solve", gradcheck(|x| x[0].solve(&x[1]), &[a.clone(), b.clone()])),
            ("several right sides", gradcheck(|x| x[0].solve(&x[1]), &[one, numbers(&[2, 3, 1], 0.5)])),
            ("vectors", gradcheck(|x| x[0].solve(&x[1]), &[a.clone(), vectors.clone()])),
            ("one vector", gradcheck(|x| x[0].solve(&x[1].select(0, 1)?), &[a.clone(), vectors])),
            ("inverse", gradcheck(|x| x[0].inverse(), &[a])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn matrices_times_solutions_are_the_right_sides() -> Result<()> {
        let (a, b) = (numbers(&[3, 5, 5], 0.2), numbers(&[3, 5, 2], 0.9));
        assert!((a.matmul(&a.solve(&b)?)? - &b)?.abs()?.max([], false)?.item()? < 1e-12);
        let identity = Tensor::<F64>::eye(5, 5, a.device())?;
        assert!((a.inverse()?.matmul(&a)? - identity)?.abs()?.max([], false)?.item()? < 1e-12);
        assert_eq!(numbers(&[2, 0, 0], 0.1).inverse()?.dims(), [2, 0, 0]);
        assert_eq!(a.solve(&numbers(&[5], 0.1))?.dims(), [3, 5]);
        Ok(())
    }

    #[test]
    fn singular_matrices_are_errors() -> Result<()> {
        let values = vec![0.0, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0, 4.0];
        let x = Tensor::<F32>::from_vec(values, [2, 2, 2], &Device::cpu())?;
        let error = x.inverse().unwrap_err().to_string();
        assert_eq!(error, "inverse: each matrix must be invertible, found matrix 1, which has no pivot in column 1");
        assert_eq!(x.select(0, 0)?.inverse()?.to_vec()?, [0.0, 1.0, 1.0, 0.0]);
        assert!(x.solve(&x).is_err() && x.narrow(2, 0, 1)?.inverse().is_err());
        assert!(x.solve(&Tensor::<F32>::ones([3, 1], &Device::cpu())?).is_err());
        Ok(())
    }
}
