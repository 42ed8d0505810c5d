//! Negative log-likelihoods of distributions.

use super::{LossReduction, check_target, reduced};
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result};
use std::f64::consts::PI;

full_range! {
    GaussianNllPrecision, "`gaussian_nll_loss` must run in `F32`";
    PoissonNllPrecision, "`poisson_nll_loss` must run in `F32`";
}

/// `(ln(v) + (x - t)² / v) / 2`: a variance below `eps` counts as that, and its gradient passes all the same, as in PyTorch.
#[track_caller]
fn gaussian<P: Float + GaussianNllPrecision>(
    x: &Tensor<P>,
    target: &Tensor<P>,
    variance: &Tensor<P>,
    (full, eps): (bool, f64),
) -> Result<Tensor<P>> {
    const OP: &str = "gaussian_nll_loss";
    check_target(OP, &x.raw, &target.raw)?;
    if eps.is_nan() || eps <= 0.0 {
        return Err(Error::argument(OP, "eps", "greater than 0", eps));
    }
    let variance = match variance.rank() + 1 == x.rank() {
        true => variance.unsqueeze(-1)?,
        false => variance.clone(),
    };
    let known = variance.detach();
    if known.lt(0.0)?.any([], false)?.item()? {
        let least = known.to::<crate::F64>()?.min_all()?.item()?;
        return Err(Error::argument(OP, "the variance", "0 or more", least));
    }
    let more = known.lt(eps)?.where_(&(eps - &known)?, 0.0)?;
    let variance = variance.add(&more)?.expand(x.dims()).map_err(|error| error.named(OP))?;
    let losses = variance.log()?.add(&x.sub(target)?.sqr()?.div(&variance)?)?.mul(0.5)?;
    if full { losses.add((2.0 * PI).ln() / 2.0) } else { Ok(losses) }
}

/// `ln(t!)` by Stirling's formula where `t > 1`, else 0.
#[track_caller]
fn stirling<P: Float + PoissonNllPrecision>(target: &Tensor<P>) -> Result<Tensor<P>> {
    let large = target.gt(1.0)?;
    let t = large.where_(target, 1.0)?;
    let log = t.log()?;
    let value = t.mul(&log)?.sub(&t)?.add(&log.add((2.0 * PI).ln())?.mul(0.5)?)?;
    large.where_(&value, 0.0)
}

impl<P: Float> Tensor<P> {
    /// Mean of `(ln(v) + (self - t)² / v) / 2` for targets and their variances, of at least `1e-6`; a variance broadcasts
    /// (`F.gaussian_nll_loss`).
    ///
    /// # Errors
    /// [`Error::Argument`] for a variance below 0: the device is waited for.
    #[track_caller]
    pub fn gaussian_nll_loss<Q: Element, R: Element>(&self, target: &Tensor<Q>, variance: &Tensor<R>) -> Result<Self>
    where
        P: GaussianNllPrecision + SamePrecision<Q> + SamePrecision<R>,
    {
        self.gaussian_nll_loss_with(target, variance, false, 1e-6, LossReduction::Mean)
    }

    /// [`gaussian_nll_loss`](Self::gaussian_nll_loss), with the constant term if `full`, another least variance and another
    /// reduction.
    ///
    /// # Errors
    /// [`Error::Argument`] for a variance below 0 and for `eps` that is not above it: the device is waited for.
    #[track_caller]
    pub fn gaussian_nll_loss_with<Q: Element, R: Element>(
        &self,
        target: &Tensor<Q>,
        variance: &Tensor<R>,
        full: bool,
        eps: f64,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: GaussianNllPrecision + SamePrecision<Q> + SamePrecision<R>,
    {
        let (target, variance) = (Self::from_raw(target.raw.clone()), Self::from_raw(variance.raw.clone()));
        reduced(gaussian(self, &target, &variance, (full, eps))?, reduction)
    }

    /// Mean of `e^self - t self` for logarithms of rates and counts `t` (`F.poisson_nll_loss`).
    #[track_caller]
    pub fn poisson_nll_loss<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: PoissonNllPrecision + SamePrecision<Q>,
    {
        self.poisson_nll_loss_with(target, true, false, LossReduction::Mean)
    }

    /// [`poisson_nll_loss`](Self::poisson_nll_loss) of rates, not of their logarithms, unless `log_input`; with `ln(t!)` by
    /// Stirling's formula if `full`; with another reduction.
    #[track_caller]
    pub fn poisson_nll_loss_with<Q: Element>(
        &self,
        target: &Tensor<Q>,
        log_input: bool,
        full: bool,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: PoissonNllPrecision + SamePrecision<Q>,
    {
        check_target("poisson_nll_loss", &self.raw, &target.raw)?;
        let target = Self::from_raw(target.raw.clone());
        let (rate, log) = if log_input { (self.exp()?, self.clone()) } else { (self.clone(), self.add(1e-8)?.log()?) };
        let losses = rate.sub(&target.mul(&log)?)?;
        reduced(if full { losses.add(&stirling(&target)?)? } else { losses }, reduction)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, LossReduction, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let rows = |data: [f64; 6]| Tensor::<F64>::from_vec(data.to_vec(), [2, 3], &Device::cpu()).unwrap();
        let all = [rows([0.3, -0.7, 1.9, 0.1, -2.2, 0.8]), rows([2.3, 0.7, 1.5, 3.1, 0.4, 5.0]), rows([0.7; 6])];
        let rates = [all[0].sigmoid().unwrap(), all[1].clone()];
        let one = [all[0].clone(), all[1].clone(), all[2].select(1, 0).unwrap()];
        for reduction in [LossReduction::Mean, LossReduction::None] {
            for (name, worst) in [
                ("gaussian", gradcheck(|x| x[0].gaussian_nll_loss_with(&x[1], &x[2], true, 1e-6, reduction), &all)),
                ("one", gradcheck(|x| x[0].gaussian_nll_loss_with(&x[1], &x[2], false, 1e-6, reduction), &one)),
                ("poisson", gradcheck(|x| x[0].poisson_nll_loss_with(&x[1], true, true, reduction), &all[..2])),
                ("rates", gradcheck(|x| x[0].poisson_nll_loss_with(&x[1], false, false, reduction), &rates)),
            ] {
                let worst = worst.unwrap();
                assert!(worst.agrees(), "{name} {reduction:?}: {worst:?}");
            }
        }
    }

    #[test]
    fn variances_are_positive() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap();
        let error = x.gaussian_nll_loss(&x, &(&x - 0.5).unwrap()).unwrap_err().to_string();
        assert_eq!(error, "gaussian_nll_loss: the variance must be 0 or more, found -0.5");
        assert!(x.gaussian_nll_loss_with(&x, &x, false, 0.0, LossReduction::Mean).is_err());
        let tiny = x.gaussian_nll_loss(&x, &x).unwrap().item().unwrap();
        assert!((tiny - 1e-6_f32.ln() / 2.0).abs() < 1e-5);
    }

    #[test]
    fn an_endless_variance_costs_endlessly() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap();
        let variance = Tensor::<F32>::full([3], f32::INFINITY, &Device::cpu()).unwrap();
        assert_eq!(x.gaussian_nll_loss(&x, &variance).unwrap().item().unwrap(), f32::INFINITY);
    }
}
