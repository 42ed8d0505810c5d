//! Losses that compare one score or distance with another.

use super::{LossReduction, check_like, reduced};
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result};

full_range! {
    TripletPrecision, "`triplet_margin_loss` must run in `F32`";
    MarginRankingPrecision, "`margin_ranking_loss` must run in `F32`";
}

/// The margin of a loss, and what becomes of the losses of single elements or rows: a number converts into the margin of
/// their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    pub(super) margin: f64,
    pub(super) reduction: LossReduction,
}

impl Margin {
    /// This margin, mean.
    pub fn new(margin: f64) -> Self {
        Self { margin, reduction: LossReduction::Mean }
    }

    /// What becomes of the losses of single elements or rows.
    pub fn reduction(self, reduction: LossReduction) -> Self {
        Self { reduction, ..self }
    }
}

impl From<f64> for Margin {
    fn from(margin: f64) -> Self {
        Self::new(margin)
    }
}

/// Options of [`Tensor::triplet_margin_loss`]; the defaults are PyTorch's. A number converts into a margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletMargin {
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: LossReduction,
}

impl Default for TripletMargin {
    fn default() -> Self {
        Self { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: LossReduction::Mean }
    }
}

impl TripletMargin {
    /// Margin 1, Euclidean distances, no swap, mean.
    pub fn new() -> Self {
        Self::default()
    }

    /// By how much the distance from the negative should exceed that from the positive.
    pub fn margin(self, margin: f64) -> Self {
        Self { margin, ..self }
    }

    /// The norm that measures distances.
    pub fn p(self, p: f64) -> Self {
        Self { p, ..self }
    }

    /// Added to each difference, so that no distance is 0, where its slope is not defined.
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }

    /// Whether the distance between positive and negative counts where it is less than that from the negative.
    pub fn swap(self, swap: bool) -> Self {
        Self { swap, ..self }
    }

    /// What becomes of the losses of the single rows.
    pub fn reduction(self, reduction: LossReduction) -> Self {
        Self { reduction, ..self }
    }
}

impl From<f64> for TripletMargin {
    fn from(margin: f64) -> Self {
        Self::new().margin(margin)
    }
}

/// The loss of each row.
#[track_caller]
fn triplet<P: Float + TripletPrecision>(
    [anchor, positive, negative]: [&Tensor<P>; 3],
    options: &TripletMargin,
) -> Result<Tensor<P>> {
    const OP: &str = "triplet_margin_loss";
    check_like(OP, &anchor.raw, "the positive", &positive.raw)?;
    check_like(OP, &anchor.raw, "the negative", &negative.raw)?;
    if anchor.rank() == 0 {
        let (expected, found) = ("at least 1 dimension", *anchor.raw.shape());
        return Err(Error::Rank { op: OP, what: "the input", expected, found: found.into() });
    }
    let distance = |a: &Tensor<P>, b: &Tensor<P>| a.pairwise_distance(b, options.p, options.eps, false);
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if options.swap {
        far = far.minimum(&distance(positive, negative)?)?;
    }
    near.sub(&far)?.add(options.margin)?.relu()
}

impl<P: Float> Tensor<P> {
    /// Mean of `max(|self - positive| - |self - negative| + margin, 0)` over rows `[N, D]` (`F.triplet_margin_loss`): of a
    /// number for the margin, which is 1 by default in PyTorch, or of [`TripletMargin`] for other distances and another
    /// reduction.
    ///
    /// # Errors
    /// [`Error::Shape`] unless all three have one shape, of one dimension or more.
    #[track_caller]
    pub fn triplet_margin_loss<Q: Element, R: Element>(
        &self,
        positive: &Tensor<Q>,
        negative: &Tensor<R>,
        margin: impl Into<TripletMargin>,
    ) -> Result<Self>
    where
        P: TripletPrecision + SamePrecision<Q> + SamePrecision<R>,
    {
        let options = margin.into();
        let (positive, negative) = (Self::from_raw(positive.raw.clone()), Self::from_raw(negative.raw.clone()));
        reduced(triplet([self, &positive, &negative], &options)?, options.reduction)
    }

    /// Mean of `max(-order (self - other) + margin, 0)`: `order` is 1 where this one should be the greater, -1 where the other
    /// one (`F.margin_ranking_loss`, where the margin is 0 by default); [`Margin`] for another reduction.
    ///
    /// # Errors
    /// [`Error::Shape`] unless all three have one shape.
    #[track_caller]
    pub fn margin_ranking_loss<Q: Element, R: Element>(
        &self,
        other: &Tensor<Q>,
        order: &Tensor<R>,
        margin: impl Into<Margin>,
    ) -> Result<Self>
    where
        P: MarginRankingPrecision + SamePrecision<Q> + SamePrecision<R>,
    {
        const OP: &str = "margin_ranking_loss";
        check_like(OP, &self.raw, "the second input", &other.raw)?;
        check_like(OP, &self.raw, "the order", &order.raw)?;
        let Margin { margin, reduction } = margin.into();
        let (other, order) = (Self::from_raw(other.raw.clone()), Self::from_raw(order.raw.clone()));
        reduced(other.sub(self)?.mul(&order)?.add(margin)?.relu()?, reduction)
    }
}

#[cfg(test)]
mod tests {
    use super::{Margin, TripletMargin};
    use crate::{Device, F32, F64, LossReduction, Tensor, gradcheck};

    fn rows(data: [f64; 6]) -> Tensor<F64> {
        Tensor::from_vec(data.to_vec(), [2, 3], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let a = rows([0.3, -0.7, 1.9, 0.01, -2.2, 0.8]);
        let (b, c) = (rows([1.3, 0.7, -0.9, 0.4, -1.2, 0.1]), rows([0.2, -0.6, 1.5, 0.3, -2.0, 1.8]));
        let order = rows([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]);
        let all = [a, b, c];
        let plain = TripletMargin::new().reduction(LossReduction::None);
        let swapped = TripletMargin::new().margin(2.0).p(3.0).eps(1e-3).swap(true);
        let each = Margin::new(0.3).reduction(LossReduction::None);
        for (name, worst) in [
            ("triplet", gradcheck(|x| x[0].triplet_margin_loss(&x[1], &x[2], 1.0), &all)),
            ("rows", gradcheck(|x| x[0].triplet_margin_loss(&x[1], &x[2], plain), &all)),
            ("swapped", gradcheck(|x| x[0].triplet_margin_loss(&x[1], &x[2], swapped), &all)),
            ("ranking", gradcheck(|x| x[0].margin_ranking_loss(&x[1], &order, 0.3), &all[..2])),
            ("each", gradcheck(|x| x[0].margin_ranking_loss(&x[1], &order, each), &all[..2])),
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
        assert_eq!(error, "triplet_margin_loss: the negative must have shape [2, 3], that of the input, found [3]");
        assert!(x.margin_ranking_loss(&y, &x, 0.5).is_err() && x.margin_ranking_loss(&x, &y, 0.5).is_err());
        let none = x.select(0, 0).unwrap().select(0, 0).unwrap();
        assert!(none.triplet_margin_loss(&none, &none, 0.5).is_err());
        assert_eq!(none.margin_ranking_loss(&none, &none, 0.5).unwrap().item().unwrap(), 0.5);
    }
}
