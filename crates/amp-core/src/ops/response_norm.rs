//! Normalisation by the response of neighbouring channels.

use crate::precision::{Float, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result};

full_range! {
    ResponseNormPrecision, "`local_response_norm` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// `[N, C, ..]` divided by `(k + alpha * m)^beta`, where m is the mean of the squares of `size` channels around each, zeros
    /// outside (`F.local_response_norm`, where alpha, beta and k are 1e-4, 0.75 and 1 by default; Krizhevsky et al., 2012).
    ///
    /// # Errors
    /// [`Error::Rank`] for less than 3 dimensions, [`Error::Argument`] for a size of 0.
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Result<Self>
    where
        P: ResponseNormPrecision,
    {
        const OP: &str = "local_response_norm";
        let &[n, channels, ref rest @ ..] = self.dims() else { return Err(not_images(self)) };
        if rest.is_empty() {
            return Err(not_images(self));
        }
        if size == 0 {
            return Err(Error::argument(OP, "size", "at least 1", size));
        }
        if self.count() == 0 {
            return Ok(self.unchanged());
        }
        let pixels = rest.iter().product();
        let squares = self.sqr()?.reshape([n, 1, channels, pixels])?.pad([0, 0, size / 2, (size - 1) / 2], 0.0)?;
        let means = squares.avg_pool2d(crate::PoolOptions::new([size, 1]).stride(1))?.reshape(self.dims())?;
        self.div(&means.mul(alpha)?.add(k)?.pow(beta)?)
    }
}

#[track_caller]
fn not_images<P: Float>(x: &Tensor<P>) -> Error {
    let found = x.raw.shape().into();
    Error::Rank { op: "local_response_norm", what: "the input", expected: "at least 3 dimensions", found }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let value = |i: &[usize]| ((i[0] * 30 + i[1] * 6 + i[2] * 3 + i[3]) as f64 * 0.7).sin() * 3.0;
        let x = [Tensor::<F64>::from_fn([2, 5, 2, 3], value, &Device::cpu()).unwrap()];
        for size in [1, 2, 3, 7] {
            let worst = gradcheck(|x| x[0].local_response_norm(size, 0.3, 0.75, 1.5), &x).unwrap();
            assert!(worst.agrees(), "{size}: {worst:?}");
        }
        let line = x[0].select(3, 0).unwrap();
        assert_eq!(line.local_response_norm(2, 1e-4, 0.75, 1.0).unwrap().dims(), [2, 5, 2]);
        assert!(line.select(2, 0).unwrap().local_response_norm(2, 1e-4, 0.75, 1.0).is_err());
        let error = line.local_response_norm(0, 1e-4, 0.75, 1.0).unwrap_err().to_string();
        assert_eq!(error, "local_response_norm: size must be at least 1, found 0");
    }
}
