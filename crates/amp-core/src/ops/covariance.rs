//! How variables vary together.

use crate::precision::{Float, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result};

full_range! {
    CovPrecision, "`cov` must run in `F32`";
    CorrcoefPrecision: CovPrecision, "`corrcoef` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// Covariances `[V, V]` of variables `[V, N]` with N observations each, or the variance of one variable, `[N]` or `[1, N]`,
    /// as a tensor without dimensions (`torch.cov`, where the correction is 1 by default); divided by `N - correction`.
    ///
    /// # Precision
    /// Deviations are taken from the means, products summed in F32 (F64 for F64); PyTorch multiplies them in the region's
    /// precision on a CPU.
    ///
    /// # Errors
    /// [`Error::Rank`] for more than 2 dimensions.
    #[track_caller]
    pub fn cov(&self, correction: f64) -> Result<Self>
    where
        P: CovPrecision,
    {
        let rows = match self.dims() {
            [_, _] => self.clone(),
            [_] => self.unsqueeze(0)?,
            _ => {
                let found = self.raw.shape().into();
                return Err(Error::Rank { op: "cov", what: "the input", expected: "1 or 2 dimensions", found });
            }
        };
        let apart = rows.sub(&rows.mean(1, true)?)?;
        let degrees = (rows.dims()[1] as f64 - correction).max(0.0);
        let all = apart.matmul(&apart.t()?)?.div(degrees)?;
        if all.count() == 1 { all.reshape(()) } else { Ok(all) }
    }

    /// Correlations `[V, V]` of variables `[V, N]` with N observations each, or that of one variable, `[N]` or `[1, N]`, which is 1,
    /// as a tensor without dimensions (`torch.corrcoef`); NaN for a variable that does not vary.
    ///
    /// # Errors
    /// [`Error::Rank`] for more than 2 dimensions.
    #[track_caller]
    pub fn corrcoef(&self) -> Result<Self>
    where
        P: CorrcoefPrecision,
    {
        let all = self.cov(1.0).map_err(|error| error.within("corrcoef", self.raw.shape()))?;
        if all.rank() == 0 {
            return all.div(&all);
        }
        let deviation = all.diagonal(0, 0, 1)?.sqrt()?;
        all.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?.clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let value = |i: &[usize]| ((i[0] * 7 + i[1]) as f64 * 1.3).sin();
        let x = [Tensor::<F64>::from_fn([3, 5], value, &Device::cpu()).unwrap()];
        for (name, worst) in [
            ("cov", gradcheck(|x| x[0].cov(1.0), &x)),
            ("cov of a line", gradcheck(|x| x[0].select(0, 1)?.cov(0.0), &x)),
            // The diagonal is cut off at 1, from where it has no slope on one side.
            ("corrcoef", gradcheck(|x| x[0].corrcoef()?.triu(1), &x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn what_lies_far_from_zero_keeps_its_digits() {
        let values = vec![10_000.0, 10_001.0, 10_002.0, -5.0, -7.0, -9.0];
        let x = Tensor::<F32>::from_vec(values, [2, 3], &Device::cpu()).unwrap();
        assert_eq!(x.cov(1.0).unwrap().to_vec().unwrap(), [1.0, -2.0, -2.0, 4.0]);
        assert_eq!(x.corrcoef().unwrap().to_vec().unwrap(), [1.0, -1.0, -1.0, 1.0]);
        assert_eq!(x.select(0, 1).unwrap().cov(0.0).unwrap().item().unwrap(), 8.0 / 3.0);
        assert_eq!(x.select(0, 1).unwrap().corrcoef().unwrap().item().unwrap(), 1.0);
        assert_eq!(x.narrow(0, 1, 1).unwrap().cov(0.0).unwrap().item().unwrap(), 8.0 / 3.0);
        assert_eq!(x.narrow(0, 1, 1).unwrap().corrcoef().unwrap().dims(), [0; 0]);
        assert!(x.unsqueeze(0).unwrap().cov(1.0).is_err());
        assert!(x.narrow(1, 0, 1).unwrap().cov(1.0).unwrap().isnan().unwrap().all([], false).unwrap().item().unwrap());
    }
}
