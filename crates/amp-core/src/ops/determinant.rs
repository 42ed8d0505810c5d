//! Determinants of matrices.

use super::solve::{Lu, substituted_turned};
use super::triangular::square;
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::DType;

full_range! {
    DetPrecision, "`det` must run in `F32`";
    SlogdetPrecision, "`slogdet` must run in `F32`";
    LogdetPrecision: SlogdetPrecision, "`logdet` must run in `F32`";
}

/// Pivots `[.., N]` of matrices that have been taken apart.
fn pivots<P: Float>(factors: &RawTensor) -> Result<Tensor<P>> {
    Tensor::<P>::from_raw(factors.detached()).diagonal(0, -2, -1)
}

/// The inverses of the transposed matrices, which have been taken apart, times `factor` `[..]`.
#[track_caller]
fn inverse_times<P: Float>(
    op: &'static str,
    factors: &RawTensor,
    rows: &RawTensor,
    factor: &Tensor<P>,
) -> Result<RawTensor> {
    let n = square(op, factors)?;
    let sides = factor.unsqueeze(-1)?.expand([factor.dims(), &[n]].concat())?.diag_embed(0)?;
    Ok(substituted_turned::<P>(op, factors, rows, &sides.raw)?.raw)
}

impl<P: Float> Tensor<P> {
    /// The determinants `[..]` of matrices `[.., N, N]` (`torch.linalg.det`); 0 for one that is singular.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout. In the gradient a pivot of 0 counts as the distance from 1 to the next number, which
    /// changes it by about as much as a rounding of elements around 1.
    ///
    /// # Errors
    /// [`Error::Rank`](crate::Error::Rank) for less than 2 dimensions, [`Error::Shape`](crate::Error::Shape) for matrices that are
    /// not square.
    #[track_caller]
    pub fn det(&self) -> Result<Self>
    where
        P: DetPrecision,
    {
        const OP: &str = "det";
        square(OP, &self.raw)?;
        let lu = Lu::new(&self.raw)?;
        let sign = Self::from_raw(lu.sign.clone());
        let y = pivots::<P>(&lu.factors)?.prod(-1, false)?.mul(&sign)?;
        let y = record(OP, &[&self.raw], y.raw, |_| {
            let (factors, rows) = (Saved::new(&lu.factors)?, Saved::new(&lu.rows)?);
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                let pivots = pivots::<P>(&factors)?;
                let near = pivots.eq(0.0)?.where_(&pivots.full_like(epsilon(P::DTYPE))?, &pivots)?;
                let regular = (Self::from_raw(factors.detached()) + (&near - &pivots)?.diag_embed(0)?)?;
                let grad = Self::from_raw(pass.grad().detached());
                let factor = near.prod(-1, false)?.mul(&sign)?.mul(&grad)?;
                pass.give(0, inverse_times(OP, &regular.raw, &rows, &factor)?)
            }))
        })?;
        Ok(Self::from_raw(y))
    }

    /// Signs `[..]` of the determinants of matrices `[.., N, N]`, 0 for one that is singular, and the logarithms of their
    /// magnitudes (`torch.linalg.slogdet`), which neither overflow nor vanish. Signs have no gradient; that of the logarithm is
    /// not finite for a singular matrix.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout.
    ///
    /// # Errors
    /// [`Error::Rank`](crate::Error::Rank) for less than 2 dimensions, [`Error::Shape`](crate::Error::Shape) for matrices that are
    /// not square.
    #[track_caller]
    pub fn slogdet(&self) -> Result<(Self, Self)>
    where
        P: SlogdetPrecision,
    {
        const OP: &str = "slogdet";
        square(OP, &self.raw)?;
        let lu = Lu::new(&self.raw)?;
        let pivots = pivots::<P>(&lu.factors)?;
        let sign = pivots.sign()?.prod(-1, false)?.mul(Self::from_raw(lu.sign.clone()))?;
        let log = record(OP, &[&self.raw], pivots.abs()?.log()?.sum(-1, false)?.raw, |_| {
            let (factors, rows) = (Saved::new(&lu.factors)?, Saved::new(&lu.rows)?);
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                let grad = Self::from_raw(pass.grad().detached());
                pass.give(0, inverse_times(OP, &factors, &rows, &grad)?)
            }))
        })?;
        Ok((sign, Self::from_raw(log)))
    }

    /// The logarithms `[..]` of the determinants of matrices `[.., N, N]` (`torch.logdet`): minus infinity for one that is
    /// singular, NaN and no gradient where the determinant is negative.
    ///
    /// # Precision
    /// F32 (F64 for F64) throughout; the determinant itself, which may overflow or vanish, is not computed.
    ///
    /// # Errors
    /// [`Error::Rank`](crate::Error::Rank) for less than 2 dimensions, [`Error::Shape`](crate::Error::Shape) for matrices that are
    /// not square.
    #[track_caller]
    pub fn logdet(&self) -> Result<Self>
    where
        P: LogdetPrecision,
    {
        square("logdet", &self.raw)?;
        let (sign, log) = self.slogdet().map_err(|error| error.named("logdet"))?;
        log.masked_fill(&sign.lt(0.0)?, f64::NAN)
    }
}

/// From 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

#[cfg(test)]
mod tests {
    use crate::testing::numbers;
    use crate::{Device, F32, F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let a = [numbers(&[2, 4, 4], 0.3)];
        for (name, worst) in [
            ("det", gradcheck(|x| x[0].det(), &a)),
            ("det of one", gradcheck(|x| x[0].select(0, 0)?.det(), &a)),
            ("slogdet", gradcheck(|x| Ok(x[0].slogdet()?.1), &a)),
            ("logdet", gradcheck(|x| x[0].matmul(&x[0].t()?)?.logdet(), &a)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn signs_follow_exchanges_of_rows() -> Result<()> {
        let values = vec![0.0, 2.0, 3.0, 0.0, 4.0, 1.0, 2.0, 3.0, 1.0, 2.0, 2.0, 4.0];
        let x = Tensor::<F64>::from_vec(values, [3, 2, 2], &Device::cpu())?;
        assert_eq!(x.det()?.to_vec()?, [-6.0, 10.0, 0.0]);
        let (signs, logs) = x.slogdet()?;
        assert_eq!((signs.to_vec()?, logs.to_vec()?[2]), (vec![-1.0, 1.0, 0.0], f64::NEG_INFINITY));
        let logs = x.logdet()?.to_vec()?;
        assert!(logs[0].is_nan() && (logs[1] - 10_f64.ln()).abs() <= 1e-15 * 10_f64.ln(), "{logs:?}");
        assert_eq!(logs[2], f64::NEG_INFINITY);
        assert!(x.select(0, 0)?.select(0, 0)?.logdet().unwrap_err().to_string().starts_with("logdet: "));
        let none = Tensor::<F32>::zeros([2, 0, 0], &Device::cpu())?;
        assert_eq!((none.det()?.to_vec()?, none.slogdet()?.1.to_vec()?), (vec![1.0; 2], vec![0.0; 2]));
        assert!(x.narrow(1, 0, 1)?.det().is_err() && x.flatten(0, -1)?.slogdet().is_err());
        Ok(())
    }

    /// The gradient is the matrix of cofactors, which those of rank N - 1 have too.
    #[test]
    fn singular_matrices_have_gradients() -> Result<()> {
        let x = Tensor::<F64>::from_vec(vec![1.0, 2.0, 2.0, 4.0], [2, 2], &Device::cpu())?.tracked();
        let found = x.det()?.backward()?.get(&x)?.expect("a gradient").to_vec()?;
        for (found, cofactor) in found.iter().zip([4.0, -2.0, -2.0, 1.0]) {
            assert!((found - cofactor).abs() <= 1e-14, "{found} is not {cofactor}");
        }
        let none = Tensor::<F64>::zeros([3, 3], &Device::cpu())?.tracked();
        let found = none.det()?.backward()?.get(&none)?.expect("a gradient").to_vec()?;
        assert!(found.iter().all(|v| v.abs() < 1e-30), "{found:?}");
        Ok(())
    }
}
