//! Losses of the difference between input and target.

use super::pair::fused;
use super::{LossReduction, check_target, elementwise};
use crate::autograd::Saved;
use crate::ops::kernel::{binary, scaled, unary};
use crate::order;
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, PairLoss, Unary};

full_range! {
    MsePrecision, "`mse_loss` must run in `F32`";
    L1Precision, "`l1_loss` must run in `F32`";
    SmoothL1Precision, "`smooth_l1_loss` must run in `F32`";
    HuberPrecision, "`huber_loss` must run in `F32`";
}

#[track_caller]
fn distance(
    op: &'static str,
    loss: PairLoss,
    input: &RawTensor,
    target: &RawTensor,
    reduction: LossReduction,
) -> Result<RawTensor> {
    check_target(op, input, target)?;
    if let Some(result) = fused(op, loss, input, target, reduction)? {
        return Ok(result);
    }
    let of_difference = match loss {
        PairLoss::Squared => Unary::Sqr,
        PairLoss::Huber { delta, factor } => Unary::Huber { delta, factor },
        _ => Unary::Abs,
    };
    let d = binary(op, Binary::Sub, input, target, input.logical)?;
    let losses = unary(of_difference, &d, d.logical)?;
    let d = Saved::new(&d)?;
    elementwise(op, &[input, target], losses, reduction, move |i, grad| {
        let grad = order::elementwise([&*d, grad], |backend, [x, grad]| {
            backend.unary_grad(of_difference, x, grad, d.logical)
        })?;
        if i == 0 { Ok(grad) } else { scaled(&grad, -1.0) }
    })
}

impl<P: Float> Tensor<P> {
    /// Mean of `(self - target)²` (`torch.nn.functional.mse_loss`). The shapes must agree; nothing is broadcast.
    #[track_caller]
    pub fn mse_loss<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: MsePrecision + SamePrecision<Q>,
    {
        self.mse_loss_with(target, LossReduction::Mean)
    }

    /// [`mse_loss`](Self::mse_loss) with another reduction.
    #[track_caller]
    pub fn mse_loss_with<Q: Element>(&self, target: &Tensor<Q>, reduction: LossReduction) -> Result<Self>
    where
        P: MsePrecision + SamePrecision<Q>,
    {
        Ok(Self::from_raw(distance("mse_loss", PairLoss::Squared, &self.raw, &target.raw, reduction)?))
    }

    /// Mean of `|self - target|` (`torch.nn.functional.l1_loss`).
    #[track_caller]
    pub fn l1_loss<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: L1Precision + SamePrecision<Q>,
    {
        self.l1_loss_with(target, LossReduction::Mean)
    }

    /// [`l1_loss`](Self::l1_loss) with another reduction.
    #[track_caller]
    pub fn l1_loss_with<Q: Element>(&self, target: &Tensor<Q>, reduction: LossReduction) -> Result<Self>
    where
        P: L1Precision + SamePrecision<Q>,
    {
        Ok(Self::from_raw(distance("l1_loss", PairLoss::Absolute, &self.raw, &target.raw, reduction)?))
    }

    /// Mean of `d² / 2 beta` where `|d| < beta`, else of `|d| - beta / 2` (`torch.nn.functional.smooth_l1_loss`).
    ///
    /// # Errors
    /// [`Error::Argument`] for a negative `beta`; 0 is the same as [`l1_loss`](Self::l1_loss).
    #[track_caller]
    pub fn smooth_l1_loss<Q: Element>(&self, target: &Tensor<Q>, beta: f64) -> Result<Self>
    where
        P: SmoothL1Precision + SamePrecision<Q>,
    {
        self.smooth_l1_loss_with(target, beta, LossReduction::Mean)
    }

    /// [`smooth_l1_loss`](Self::smooth_l1_loss) with another reduction.
    #[track_caller]
    pub fn smooth_l1_loss_with<Q: Element>(
        &self,
        target: &Tensor<Q>,
        beta: f64,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: SmoothL1Precision + SamePrecision<Q>,
    {
        if beta.is_nan() || beta < 0.0 {
            return Err(Error::argument("smooth_l1_loss", "beta", "0 or more", beta));
        }
        // Its reciprocal would be infinite, and no distance of full digits is less.
        let least = if P::DTYPE == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
        let curve = match beta < least {
            true => PairLoss::Absolute,
            false => PairLoss::Huber { delta: beta, factor: 1.0 / beta },
        };
        Ok(Self::from_raw(distance("smooth_l1_loss", curve, &self.raw, &target.raw, reduction)?))
    }

    /// Mean of `d² / 2` where `|d| < delta`, else of `delta (|d| - delta / 2)` (`torch.nn.functional.huber_loss`).
    ///
    /// # Errors
    /// [`Error::Argument`] unless `delta` is positive.
    #[track_caller]
    pub fn huber_loss<Q: Element>(&self, target: &Tensor<Q>, delta: f64) -> Result<Self>
    where
        P: HuberPrecision + SamePrecision<Q>,
    {
        self.huber_loss_with(target, delta, LossReduction::Mean)
    }

    /// [`huber_loss`](Self::huber_loss) with another reduction.
    #[track_caller]
    pub fn huber_loss_with<Q: Element>(&self, target: &Tensor<Q>, delta: f64, reduction: LossReduction) -> Result<Self>
    where
        P: HuberPrecision + SamePrecision<Q>,
    {
        if delta.is_nan() || delta <= 0.0 {
            return Err(Error::argument("huber_loss", "delta", "greater than 0", delta));
        }
        let curve = PairLoss::Huber { delta, factor: 1.0 };
        Ok(Self::from_raw(distance("huber_loss", curve, &self.raw, &target.raw, reduction)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, LossReduction, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let t = Tensor::<F64>::from_vec(vec![0.5, 0.7, -1.0, 0.4, -2.0, 3.0], [2, 3], &Device::cpu()).unwrap();
        let both = [x, t];
        for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::BatchMean, LossReduction::None] {
            for (name, worst) in [
                ("mse_loss", gradcheck(|x| x[0].mse_loss_with(&x[1], reduction), &both)),
                ("l1_loss", gradcheck(|x| x[0].l1_loss_with(&x[1], reduction), &both)),
                ("smooth_l1_loss", gradcheck(|x| x[0].smooth_l1_loss_with(&x[1], 0.9, reduction), &both)),
                ("huber_loss", gradcheck(|x| x[0].huber_loss_with(&x[1], 1.2, reduction), &both)),
            ] {
                let worst = worst.unwrap();
                assert!(worst.agrees(), "{name} {reduction:?}: {worst:?}");
            }
        }
    }

    #[test]
    fn a_target_of_another_shape_is_an_error() {
        let x = Tensor::<F32>::zeros([4, 1], &Device::cpu()).unwrap();
        let t = Tensor::<F32>::zeros([4], &Device::cpu()).unwrap();
        let error = x.mse_loss(&t).unwrap_err();
        assert_eq!(error.to_string(), "mse_loss: the target must have shape [4, 1], that of the input, found [4]");
        assert!(x.huber_loss(&x, 0.0).is_err());
        assert!(x.smooth_l1_loss(&x, f64::NAN).is_err());
    }

    /// Its reciprocal would be infinite, and the curve is not seen.
    #[test]
    fn a_beta_below_all_distances_is_none() {
        for beta in [1e-40, 1e-320, 1e-38] {
            let x = Tensor::<F32>::from_vec(vec![1e-3, 0.0], [2], &Device::cpu()).unwrap().tracked();
            let loss = x.smooth_l1_loss_with(&x.zeros_like().unwrap(), beta, LossReduction::None).unwrap();
            assert_eq!(loss.to_vec().unwrap(), [1e-3, 0.0]);
            let grads = loss.sum_all().unwrap().backward().unwrap();
            assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [1.0, 0.0]);
        }
        let x = Tensor::<F64>::from_vec(vec![1e-3], [1], &Device::cpu()).unwrap();
        assert_eq!(x.smooth_l1_loss(&x.zeros_like().unwrap(), 1e-320).unwrap().item().unwrap(), 1e-3);
    }
}
