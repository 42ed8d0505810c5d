//! Triangles whose squares are matrices that are positive definite.

use super::triangular::{UPPER, solved, square, transposed};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};

full_range! {
    CholeskyPrecision, "`cholesky` must run in `F32`";
    CholeskySolvePrecision, "`cholesky_solve` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// Lower triangles `L` with `L · Lᵀ` the matrices `[.., N, N]`, which are positive definite (`torch.linalg.cholesky`); of these
    /// only the lower triangles are read. Waits for the device.
    ///
    /// The gradient is symmetric, as if both triangles had been read.
    ///
    /// A GPU computes each matrix on one of its multiprocessors: batches of small matrices suit it, a single large one does not.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout.
    ///
    /// # Errors
    /// [`Error::Rank`] for less than 2 dimensions, [`Error::Shape`] for matrices that are not square, [`Error::Argument`] for one
    /// that is not positive definite.
    #[track_caller]
    pub fn cholesky(&self) -> Result<Self>
    where
        P: CholeskyPrecision,
    {
        const OP: &str = "cholesky";
        let n = square(OP, &self.raw)?;
        let buffer = self.raw.backend().cholesky(self.raw.operand()?)?;
        let lower = RawTensor::new(self.device(), buffer, *self.raw.shape());
        let missing = Self::from_raw(lower.detached()).diagonal(0, -2, -1)?.isnan()?.to_vec()?;
        if let Some(at) = missing.iter().position(|missing| *missing) {
            let found = format!("matrix {}, whose leading minor of order {} is not above 0", at / n, at % n + 1);
            return Err(Error::argument(OP, "each matrix", "positive definite", found));
        }
        let lower = record(OP, &[&self.raw], lower, |lower| {
            let lower = Saved::new(lower)?;
            Ok(Box::new(move |pass: &mut Pass<'_>| pass.give(0, slope::<P>(&lower, pass.grad())?)))
        })?;
        Ok(Self::from_raw(lower))
    }

    /// `x` in `a · x = b` for right sides `b` `[.., N, K]`, which this tensor holds, and matrices `a` of which `factor` is the
    /// triangle that [`cholesky`](Self::cholesky) gives, or the transpose of it if `upper` (`torch.cholesky_solve`). Leading
    /// dimensions broadcast.
    ///
    /// Precision, gradients and errors are those of [`solve_triangular`](Self::solve_triangular).
    #[track_caller]
    pub fn cholesky_solve<Q: Element>(&self, factor: &Tensor<Q>, upper: bool) -> Result<Self>
    where
        P: CholeskySolvePrecision + SamePrecision<Q>,
    {
        square("cholesky_solve", &factor.raw)?;
        let factor = Self::from_raw(factor.raw.clone());
        let turned = factor.transpose(-2, -1)?;
        let (first, last) = if upper { (turned, factor) } else { (factor, turned) };
        last.solve_triangular(&first.solve_triangular(self, false, false)?, true, false)
    }
}

/// `L⁻ᵀ · (S + Sᵀ) · L⁻¹ / 2`, where `S` is the lower triangle of `Lᵀ · grad` with half its diagonal.
#[track_caller]
fn slope<P: Float>(lower: &RawTensor, grad: &RawTensor) -> Result<RawTensor> {
    const OP: &str = "cholesky";
    let upper = transposed(lower);
    let [turned, grad] = [upper.clone(), grad.detached()].map(Tensor::<P>::from_raw);
    let inner = turned.matmul(&grad)?;
    let both = (inner.tril(0)? + inner.tril(-1)?.transpose(-2, -1)?)?;
    // Both are symmetric, so that what stands on the right may be solved from the left.
    let half = solved(OP, &upper, &both.raw, UPPER)?;
    let whole = solved(OP, &upper, &transposed(&half), UPPER)?;
    Ok((Tensor::<P>::from_raw(whole) * 0.5)?.raw)
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{Device, F32, F64, Result, Tensor, gradcheck};

    /// Positive definite matrices made of any.
    fn squares(x: &Tensor<F64>) -> Result<Tensor<F64>> {
        let n = x.dims()[x.rank() - 1];
        x.matmul(&x.transpose(-2, -1)?)? + Tensor::<F64>::eye(n, n, x.device())?
    }

    #[test]
    fn gradients_agree_with_differences() {
        let (x, b) = (wave(&[2, 3, 3]), wave(&[3, 2]));
        for (name, worst) in [
            ("cholesky", gradcheck(|x| squares(&x[0])?.cholesky(), std::slice::from_ref(&x))),
            ("lower", gradcheck(|x| x[1].cholesky_solve(&squares(&x[0])?.cholesky()?, false), &[x.clone(), b.clone()])),
            (
                "upper",
                gradcheck(|x| x[1].cholesky_solve(&squares(&x[0])?.cholesky()?.transpose(-2, -1)?, true), &[x, b]),
            ),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn factors_solve_what_they_are_factors_of() -> Result<()> {
        let (a, b) = (squares(&wave(&[2, 4, 4]))?, wave(&[2, 4, 3]));
        let lower = a.cholesky()?;
        for x in [b.cholesky_solve(&lower, false)?, b.cholesky_solve(&lower.transpose(-2, -1)?, true)?] {
            assert!((a.matmul(&x)? - &b)?.abs()?.max([], false)?.item()? < 1e-13);
        }
        assert_eq!(lower.triu(1)?.count_nonzero([])?.item()?, 0);
        assert_eq!(wave(&[2, 0, 0]).cholesky()?.dims(), [2, 0, 0]);
        Ok(())
    }

    #[test]
    fn matrices_that_have_no_root_are_errors() -> Result<()> {
        let x = Tensor::<F32>::from_vec(vec![1.0, 0.0, 0.0, 1.0, 4.0, 2.0, 2.0, 1.0], [2, 2, 2], &Device::cpu())?;
        let rule = "cholesky: each matrix must be positive definite";
        let found = "found matrix 1, whose leading minor of order 2 is not above 0";
        assert_eq!(x.cholesky().unwrap_err().to_string(), format!("{rule}, {found}"));
        assert!(Tensor::<F32>::full([1, 1], f32::NAN, &Device::cpu())?.cholesky().is_err());
        assert!(x.narrow(1, 0, 1)?.cholesky().is_err() && x.flatten(0, -1)?.cholesky().is_err());
        Ok(())
    }
}
