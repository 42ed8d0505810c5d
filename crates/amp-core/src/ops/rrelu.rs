//! A leaky ReLU whose slope is drawn.

use crate::precision::{F32, Float};
use crate::random;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::DType;

impl<P: Float> Tensor<P> {
    /// `x` above 0; below, `x` times a slope between `lower` and `upper` that the global generator draws for each element while
    /// `training`, and else the mean of both (`F.rrelu`, where they are 1/8 and 1/3 by default). Computed in F32, rounded once.
    ///
    /// # Errors
    /// [`Error::Argument`] unless both limits are finite and `lower` is at most `upper`.
    #[track_caller]
    pub fn rrelu(&self, lower: f64, upper: f64, training: bool) -> Result<Self> {
        const OP: &str = "rrelu";
        if !(lower <= upper && lower.is_finite() && upper.is_finite()) {
            let expected = "finite, the lower one at most the upper one";
            return Err(Error::argument(OP, "the limits", expected, format!("{lower} and {upper}")));
        }
        if !training {
            return self.leaky_relu(f64::midpoint(lower, upper));
        }
        let slopes = random::uniform(*self.raw.shape(), lower, upper, DType::F32, self.device())?;
        let slopes = Tensor::<F32>::from_raw(slopes).to::<P::Wide>()?;
        let leaked = self.to::<P::Wide>()?.mul(&slopes)?.to::<P>()?;
        self.detach().gt(0.0)?.where_(self, &leaked)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{F16, Result, gradcheck};

    #[test]
    fn slopes_lie_between_the_limits() -> Result<()> {
        let x = wave(&[40, 25]);
        let (values, leaked) = (x.to_vec()?, x.rrelu(0.1, 0.3, true)?.to_vec()?);
        for (&x, &y) in values.iter().zip(&leaked) {
            assert!(if x > 0.0 { x == y } else { (0.3 * x..=0.1 * x).contains(&y) }, "{x} gives {y}");
        }
        let slopes = || values.iter().zip(&leaked).filter(|(x, _)| **x < 0.0).map(|(x, y)| y / x);
        assert!(slopes().fold(1.0, f64::min) < 0.12 && slopes().fold(0.0, f64::max) > 0.28);
        assert_eq!(x.rrelu(0.1, 0.3, false)?.to_vec()?, x.leaky_relu(0.2)?.to_vec()?);
        assert_eq!(x.to::<F16>()?.rrelu(0.1, 0.3, true)?.dims(), [40, 25]);
        let error = x.rrelu(0.3, 0.1, true).unwrap_err().to_string();
        assert_eq!(error, "rrelu: the limits must be finite, the lower one at most the upper one, found 0.3 and 0.1");
        assert!(x.rrelu(0.1, f64::NAN, true).is_err() && x.rrelu(f64::NEG_INFINITY, 0.1, true).is_err());
        Ok(())
    }

    #[test]
    fn gradients_agree_with_differences() -> Result<()> {
        let worst = gradcheck(
            |x| {
                crate::manual_seed(5);
                x[0].rrelu(0.1, 0.9, true)
            },
            &[wave(&[3, 5])],
        )?;
        assert!(worst.agrees(), "{worst:?}");
        Ok(())
    }
}
