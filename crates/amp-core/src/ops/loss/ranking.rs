//! Losses that compare one score or distance with another.

use super::check_target;
use crate::ops::arithmetic::{affine, mul, sub};
use crate::ops::pointwise;
use crate::ops::reduce::fold;
use crate::ops::vector_norm::norm;
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Reduce, Unary};

full_range! {
    TripletPrecision, "`triplet_margin_loss` must run in `F32`";
    MarginRankingPrecision, "`margin_ranking_loss` must run in `F32`";
}

const TRIPLET: &str = "triplet_margin_loss";
const RANKING: &str = "margin_ranking_loss";

/// Mean of what exceeds `-margin`, measured from there.
#[track_caller]
fn hinged(op: &'static str, x: &RawTensor, margin: f64) -> Result<RawTensor> {
    let losses = pointwise::unary(op, Unary::Relu, &affine(op, x, 1.0, margin)?)?;
    let axes: Vec<usize> = (0..losses.shape().len()).collect();
    fold(op, Reduce::Mean, &losses, &axes, 1.0 / losses.layout.count() as f64)
}

/// `|a - b + 1e-6|` along the last axis, which stays with size 1: PyTorch's guard against a distance of 0, whose slope is not
/// defined.
#[track_caller]
fn distance(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    norm(&affine(TRIPLET, &sub(a, b)?, 1.0, 1e-6)?, 2.0, &[a.shape().len() - 1])
}

impl<P: Float> Tensor<P> {
    /// Mean of `max(|self - positive| - |self - negative| + margin, 0)` over rows `[N, D]`, the distances Euclidean
    /// (`F.triplet_margin_loss`, where the margin is 1 by default).
    ///
    /// # Errors
    /// [`Error::Shape`] unless all three have one shape, of one dimension or more.
    #[track_caller]
    pub fn triplet_margin_loss<Q: Element, R: Element>(
        &self,
        positive: &Tensor<Q>,
        negative: &Tensor<R>,
        margin: f64,
    ) -> Result<Self>
    where
        P: TripletPrecision + SamePrecision<Q> + SamePrecision<R>,
    {
        check_target(TRIPLET, &self.raw, &positive.raw)?;
        check_target(TRIPLET, &self.raw, &negative.raw)?;
        if self.rank() == 0 {
            let (expected, found) = ("at least 1 dimension", *self.raw.shape());
            return Err(Error::Rank { op: TRIPLET, what: "the input", expected, found: found.into() });
        }
        let gap = sub(&distance(&self.raw, &positive.raw)?, &distance(&self.raw, &negative.raw)?)?;
        let axes: Vec<usize> = (0..self.rank()).collect();
        Self::from_raw(hinged(TRIPLET, &gap, margin)?).drop_axes(&axes, false)
    }

    /// Mean of `max(-order (self - other) + margin, 0)`: `order` is 1 where this one should be the greater, -1 where the other one
    /// (`F.margin_ranking_loss`, where the margin is 0 by default).
    ///
    /// # Errors
    /// [`Error::Shape`] unless all three have one shape.
    #[track_caller]
    pub fn margin_ranking_loss<Q: Element, R: Element>(
        &self,
        other: &Tensor<Q>,
        order: &Tensor<R>,
        margin: f64,
    ) -> Result<Self>
    where
        P: MarginRankingPrecision + SamePrecision<Q> + SamePrecision<R>,
    {
        check_target(RANKING, &self.raw, &other.raw)?;
        check_target(RANKING, &self.raw, &order.raw)?;
        let wrong = mul(&sub(&other.raw, &self.raw)?, &order.raw)?;
        let axes: Vec<usize> = (0..self.rank()).collect();
        Self::from_raw(hinged(RANKING, &wrong, margin)?).drop_axes(&axes, false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    fn rows(data: [f64; 6]) -> Tensor<F64> {
        Tensor::from_vec(data.to_vec(), [2, 3], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let a = rows([0.3, -0.7, 1.9, 0.01, -2.2, 0.8]);
        let (b, c) = (rows([1.3, 0.7, -0.9, 0.4, -1.2, 0.1]), rows([0.2, -0.6, 1.5, 0.3, -2.0, 1.8]));
        let order = rows([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]);
        for (name, worst) in [
            ("triplet", gradcheck(|x| x[0].triplet_margin_loss(&x[1], &x[2], 1.0), &[a.clone(), b.clone(), c])),
            ("ranking", gradcheck(|x| x[0].margin_ranking_loss(&x[1], &order, 0.3), &[a, b])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn equal_rows_cost_the_margin_and_have_finite_slopes() {
        let x = Tensor::<F32>::ones([2, 3], &Device::cpu()).unwrap().tracked();
        let loss = x.triplet_margin_loss(&x, &x, 0.5).unwrap();
        assert_eq!(loss.item().unwrap(), 0.5);
        let grads = loss.backward().unwrap();
        assert!(grads.get(&x).unwrap().unwrap().to_vec().unwrap().iter().all(|g| g.is_finite()));
    }

    #[test]
    fn shapes_must_be_equal() {
        let (x, y) =
            (Tensor::<F32>::ones([2, 3], &Device::cpu()).unwrap(), Tensor::<F32>::ones([3], &Device::cpu()).unwrap());
        let error = x.triplet_margin_loss(&x, &y, 0.5).unwrap_err().to_string();
        assert_eq!(error, "triplet_margin_loss: the target must have shape [2, 3], that of the input, found [3]");
        assert!(x.margin_ranking_loss(&y, &x, 0.5).is_err() && x.margin_ranking_loss(&x, &y, 0.5).is_err());
        let none = x.select(0, 0).unwrap().select(0, 0).unwrap();
        assert!(none.triplet_margin_loss(&none, &none, 0.5).is_err());
        assert_eq!(none.margin_ranking_loss(&none, &none, 0.5).unwrap().item().unwrap(), 0.5);
    }
}
