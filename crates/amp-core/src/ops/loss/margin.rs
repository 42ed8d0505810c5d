//! Losses that ask for a margin between scores, or between a score and its side.

use super::{LossReduction, check_target, reduced};
use crate::precision::{Element, Float, I64, SamePrecision, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result};

full_range! {
    HingeEmbeddingPrecision, "`hinge_embedding_loss` must run in `F32`";
    SoftMarginPrecision, "`soft_margin_loss` must run in `F32`";
    MultiMarginPrecision, "`multi_margin_loss` must run in `F32`";
    MultilabelMarginPrecision, "`multilabel_margin_loss` must run in `F32`";
    MultilabelSoftMarginPrecision, "`multilabel_soft_margin_loss` must run in `F32`";
}

/// Rows `[N, C]` of scores `[N, C]` or `[C]`.
#[track_caller]
fn rows<P: Element>(op: &'static str, x: &Tensor<P>) -> Result<Tensor<P>> {
    match x.rank() {
        1 => x.unsqueeze(0),
        2 => Ok(x.clone()),
        _ => {
            let (what, expected, found) = ("the input", "1 or 2 dimensions", x.raw.shape().into());
            Err(Error::Rank { op, what, expected, found })
        }
    }
}

/// The losses of rows, of a single row without a dimension.
#[track_caller]
fn of_rows<P: Float>(losses: Tensor<P>, rank: usize) -> Result<Tensor<P>> {
    if rank == 1 { losses.reshape(()) } else { Ok(losses) }
}

#[track_caller]
fn hinge<P: Float + HingeEmbeddingPrecision>(x: &Tensor<P>, sides: &Tensor<P>, margin: f64) -> Result<Tensor<P>> {
    check_target("hinge_embedding_loss", &x.raw, &sides.raw)?;
    let sides = sides.detach();
    let near = sides.ne(-1.0)?.where_(x, 0.0)?;
    near.add(&sides.ne(1.0)?.where_(&(margin - x)?.relu()?, 0.0)?)
}

#[track_caller]
fn multi<P: Float + MultiMarginPrecision>(
    x: &Tensor<P>,
    labels: &Tensor<I64>,
    p: f64,
    margin: f64,
) -> Result<Tensor<P>> {
    const OP: &str = "multi_margin_loss";
    if p != 1.0 && p != 2.0 {
        return Err(Error::argument(OP, "p", "1 or 2", p));
    }
    let (scores, rank) = (rows(OP, x)?, x.rank());
    let (count, classes) = (scores.dims()[0], scores.dims()[1]);
    if labels.dims() != &[count][..rank - 1] {
        let (expected, found) =
            (format!("{:?}, one label for each row", &[count][..rank - 1]), labels.raw.shape().into());
        return Err(Error::Shape { op: OP, what: "the target", expected, found });
    }
    let labels = labels.reshape([count])?;
    labels.raw.backend().check_indices(OP, labels.raw.operand()?, classes, None)?;
    let own = scores.gather(1, &labels.unsqueeze(1)?)?;
    let short = scores.sub(&own)?.add(margin)?.relu()?;
    let costs = if p == 2.0 { short.sqr()? } else { short };
    let others = labels.one_hot(classes)?.eq(0)?;
    of_rows(others.where_(&costs, 0.0)?.sum(1, false)?.div(classes as f64)?, rank)
}

/// Each of the labels of a row, which end before the first -1, against each of the other classes.
#[track_caller]
fn multilabel<P: Float + MultilabelMarginPrecision>(x: &Tensor<P>, labels: &Tensor<I64>) -> Result<Tensor<P>> {
    const OP: &str = "multilabel_margin_loss";
    check_target(OP, &x.raw, &labels.raw)?;
    let (scores, labels) = (rows(OP, x)?, rows(OP, labels)?);
    let classes = scores.dims()[1];
    labels.raw.backend().check_indices(OP, labels.raw.operand()?, classes, Some(-1))?;
    let given = labels.ge(0)?.to::<P>()?.cumprod(1)?;
    let places = labels.maximum(0)?;
    let is_label = given.zeros_like()?.scatter_add(1, &places, &given)?.gt(0.0)?;
    let gaps = scores.unsqueeze(1)?.sub(&scores.gather(1, &places)?.unsqueeze(2)?)?;
    let counts = (given.gt(0.0)?.unsqueeze(2)? & is_label.logical_not()?.unsqueeze(1)?)?;
    let costs = counts.where_(&gaps.add(1.0)?.relu()?, 0.0)?;
    of_rows(costs.sum([1, 2], false)?.div(classes as f64)?, x.rank())
}

impl<P: Float> Tensor<P> {
    /// Mean of distances where `sides` is 1, and of `max(margin - distance, 0)` where it is -1
    /// (`F.hinge_embedding_loss`, where the margin is 1 by default).
    #[track_caller]
    pub fn hinge_embedding_loss<Q: Element>(&self, sides: &Tensor<Q>, margin: f64) -> Result<Self>
    where
        P: HingeEmbeddingPrecision + SamePrecision<Q>,
    {
        self.hinge_embedding_loss_with(sides, margin, LossReduction::Mean)
    }

    /// [`hinge_embedding_loss`](Self::hinge_embedding_loss) with another reduction.
    #[track_caller]
    pub fn hinge_embedding_loss_with<Q: Element>(
        &self,
        sides: &Tensor<Q>,
        margin: f64,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: HingeEmbeddingPrecision + SamePrecision<Q>,
    {
        reduced(hinge(self, &Self::from_raw(sides.raw.clone()), margin)?, reduction)
    }

    /// Mean of `ln(1 + e^(-side * self))`: `sides` are 1 or -1 (`F.soft_margin_loss`).
    #[track_caller]
    pub fn soft_margin_loss<Q: Element>(&self, sides: &Tensor<Q>) -> Result<Self>
    where
        P: SoftMarginPrecision + SamePrecision<Q>,
    {
        self.soft_margin_loss_with(sides, LossReduction::Mean)
    }

    /// [`soft_margin_loss`](Self::soft_margin_loss) with another reduction.
    #[track_caller]
    pub fn soft_margin_loss_with<Q: Element>(&self, sides: &Tensor<Q>, reduction: LossReduction) -> Result<Self>
    where
        P: SoftMarginPrecision + SamePrecision<Q>,
    {
        check_target("soft_margin_loss", &self.raw, &sides.raw)?;
        reduced(self.mul(Self::from_raw(sides.raw.detached()))?.logsigmoid()?.neg()?, reduction)
    }

    /// Mean over rows `[N, C]` of `Σ max(margin - x[label] + x[i], 0)^p / C` over the other classes `i` (`F.multi_margin_loss`,
    /// where p and the margin are 1 by default).
    ///
    /// # Errors
    /// [`Error::Argument`] for `p` other than 1 and 2, [`Error::IndexOutOfRange`] for a label that is no class.
    #[track_caller]
    pub fn multi_margin_loss(&self, labels: &Tensor<I64>, p: f64, margin: f64) -> Result<Self>
    where
        P: MultiMarginPrecision,
    {
        self.multi_margin_loss_with(labels, p, margin, LossReduction::Mean)
    }

    /// [`multi_margin_loss`](Self::multi_margin_loss) with another reduction.
    #[track_caller]
    pub fn multi_margin_loss_with(
        &self,
        labels: &Tensor<I64>,
        p: f64,
        margin: f64,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: MultiMarginPrecision,
    {
        reduced(multi(self, labels, p, margin)?, reduction)
    }

    /// Mean over rows `[N, C]` of `Σ max(1 - x[j] + x[i], 0) / C` over the labels `j` of the row and the other classes `i`;
    /// `labels` `[N, C]` are the labels of each row, then -1 (`F.multilabel_margin_loss`).
    ///
    /// # Errors
    /// [`Error::Shape`] unless the labels have the shape of the scores, [`Error::IndexOutOfRange`] for a label that is no
    /// class.
    #[track_caller]
    pub fn multilabel_margin_loss(&self, labels: &Tensor<I64>) -> Result<Self>
    where
        P: MultilabelMarginPrecision,
    {
        self.multilabel_margin_loss_with(labels, LossReduction::Mean)
    }

    /// [`multilabel_margin_loss`](Self::multilabel_margin_loss) with another reduction.
    #[track_caller]
    pub fn multilabel_margin_loss_with(&self, labels: &Tensor<I64>, reduction: LossReduction) -> Result<Self>
    where
        P: MultilabelMarginPrecision,
    {
        reduced(multilabel(self, labels)?, reduction)
    }

    /// Mean cross-entropy between `sigmoid(self)` and targets from 0 to 1, of which each row `[N, C]` has the mean
    /// (`F.multilabel_soft_margin_loss`).
    #[track_caller]
    pub fn multilabel_soft_margin_loss<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: MultilabelSoftMarginPrecision + SamePrecision<Q>,
    {
        self.multilabel_soft_margin_loss_with(target, LossReduction::Mean)
    }

    /// [`multilabel_soft_margin_loss`](Self::multilabel_soft_margin_loss) with another reduction.
    #[track_caller]
    pub fn multilabel_soft_margin_loss_with<Q: Element>(
        &self,
        target: &Tensor<Q>,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: MultilabelSoftMarginPrecision + SamePrecision<Q>,
    {
        const OP: &str = "multilabel_soft_margin_loss";
        check_target(OP, &self.raw, &target.raw)?;
        let each = self.bce_with_logits_with(target, None, None, LossReduction::None);
        reduced(each.map_err(|error| error.named(OP))?.mean(-1, false)?, reduction)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::indices as labels;
    use crate::{Device, F64, LossReduction, Result, Tensor, gradcheck};

    fn scores() -> Tensor<F64> {
        Tensor::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = [(scores() * 1.1).unwrap()];
        let sides = x[0].sign().unwrap().flip(1).unwrap();
        let share = x[0].sigmoid().unwrap();
        let (one, many) = (labels(&[2, 0], &[2]), labels(&[2, 0, -1, 1, -1, 2], &[2, 3]));
        for reduction in [LossReduction::Mean, LossReduction::None] {
            for (name, worst) in [
                ("hinge", gradcheck(|x| x[0].hinge_embedding_loss_with(&sides, 1.0, reduction), &x)),
                ("soft", gradcheck(|x| x[0].soft_margin_loss_with(&sides, reduction), &x)),
                ("multi", gradcheck(|x| x[0].multi_margin_loss_with(&one, 2.0, 0.7, reduction), &x)),
                ("multilabel", gradcheck(|x| x[0].multilabel_margin_loss_with(&many, reduction), &x)),
                ("multilabel soft", gradcheck(|x| x[0].multilabel_soft_margin_loss_with(&share, reduction), &x)),
            ] {
                let worst = worst.unwrap();
                assert!(worst.agrees(), "{name} {reduction:?}: {worst:?}");
            }
        }
    }

    #[test]
    fn one_row_and_what_does_not_fit() -> Result<()> {
        let (x, row) = (scores(), scores().select(0, 0)?);
        assert_eq!(row.multi_margin_loss(&labels(&[2], &[]), 1.0, 1.0)?.dims(), [0_usize; 0]);
        assert_eq!(row.multilabel_margin_loss(&labels(&[2, -1, 1], &[3]))?.dims(), [0_usize; 0]);
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(
            text(x.multi_margin_loss(&labels(&[0, 3], &[2]), 1.0, 1.0)),
            "multi_margin_loss: index 3 is out of range for size 3"
        );
        assert_eq!(
            text(x.multi_margin_loss(&labels(&[0], &[1]), 1.0, 1.0)),
            "multi_margin_loss: the target must have shape [2], one label for each row, found [1]"
        );
        assert_eq!(
            text(x.multi_margin_loss(&labels(&[0, 1], &[2]), 3.0, 1.0)),
            "multi_margin_loss: p must be 1 or 2, found 3"
        );
        assert!(x.multilabel_margin_loss(&labels(&[0, 1], &[2])).is_err());
        assert!(x.hinge_embedding_loss(&row, 1.0).is_err() && x.soft_margin_loss(&row).is_err());
        Ok(())
    }
}
