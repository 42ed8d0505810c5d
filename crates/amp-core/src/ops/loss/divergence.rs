//! Divergence of distributions and angles between vectors.

use super::{LossReduction, Margin, check_like, check_target, elementwise, reduced};
use crate::autograd::Saved;
use crate::ops::arithmetic::{add, mul};
use crate::ops::kernel::{binary, compare, scaled, select, unary, zeros};
use crate::ops::pointwise;
use crate::ops::reduce::fold;
use crate::precision::{Element, Float, I64, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Compare, Reduce, Unary};

full_range! {
    KlDivPrecision, "`kl_div` must run in `F32`";
    CosineEmbeddingPrecision, "`cosine_embedding_loss` must run in `F32`";
}

/// `t (ln(t) - x)` with 0 for `t = 0`.
#[track_caller]
fn kl_div(x: &RawTensor, target: &RawTensor, log_target: bool, reduction: LossReduction) -> Result<RawTensor> {
    const OP: &str = "kl_div";
    check_target(OP, x, target)?;
    let (p, log_p) = if log_target {
        (unary(Unary::Exp, target, target.logical)?, target.detached())
    } else {
        (target.detached(), unary(Unary::Log, target, target.logical)?)
    };
    let gap = binary(OP, Binary::Sub, &log_p, x, x.logical)?;
    let losses = binary(OP, Binary::Mul, &p, &gap, x.logical)?;
    let zero = zeros(x, x.logical)?;
    let empty = compare(OP, Compare::Eq, &p, &zero)?;
    let losses = select(OP, &empty, &zero, &losses, x.logical)?;
    let (p, gap) = (Saved::new(&p)?, Saved::new(&gap)?);
    elementwise(OP, &[x, target], losses, reduction, move |i, grad| {
        let slope = match (i, log_target) {
            (0, _) => scaled(&p, -1.0)?,
            (_, false) => unary(Unary::Affine { mul: 1.0, add: 1.0 }, &gap, gap.logical)?,
            (_, true) => {
                let more = unary(Unary::Affine { mul: 1.0, add: 1.0 }, &gap, gap.logical)?;
                binary(OP, Binary::Mul, &p, &more, gap.logical)?
            }
        };
        binary(OP, Binary::Mul, &slope, grad, grad.logical)
    })
}

impl<P: Float> Tensor<P> {
    /// Mean of `t (ln(t) - self)` over the elements of log-probabilities and target probabilities
    /// (`torch.nn.functional.kl_div`). The divergence itself is [`kl_div_with`](Self::kl_div_with) and
    /// [`LossReduction::BatchMean`].
    #[track_caller]
    pub fn kl_div<Q: Element>(&self, target: &Tensor<Q>) -> Result<Self>
    where
        P: KlDivPrecision + SamePrecision<Q>,
    {
        self.kl_div_with(target, false, LossReduction::Mean)
    }

    /// [`kl_div`](Self::kl_div) with targets that may be log-probabilities and another reduction.
    #[track_caller]
    pub fn kl_div_with<Q: Element>(
        &self,
        target: &Tensor<Q>,
        log_target: bool,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: KlDivPrecision + SamePrecision<Q>,
    {
        Ok(Self::from_raw(kl_div(&self.raw, &target.raw, log_target, reduction)?))
    }

    /// Mean of `1 - cos` where `labels` `[N]` are 1 and of `max(cos - margin, 0)` where they are -1; `cos` is that of the
    /// angle between rows of `[N, D]` (`torch.nn.functional.cosine_embedding_loss`, where the margin is 0 by default);
    /// [`Margin`] for another reduction.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the inputs have one shape `[N, D]` (or `[D]`) and the labels `[N]` (or none).
    #[track_caller]
    pub fn cosine_embedding_loss<Q: Element>(
        &self,
        other: &Tensor<Q>,
        labels: &Tensor<I64>,
        margin: impl Into<Margin>,
    ) -> Result<Self>
    where
        P: CosineEmbeddingPrecision + SamePrecision<Q>,
    {
        check_like(COSINE, &self.raw, "the second input", &other.raw)?;
        let Some((_, rows)) = self.dims().split_last() else {
            let (expected, found) = ("at least 1 dimension", *self.raw.shape());
            return Err(Error::Rank { op: COSINE, what: "the input", expected, found: found.into() });
        };
        if labels.dims() != rows {
            let (expected, found) = (format!("{rows:?}, one label for each row"), *labels.raw.shape());
            return Err(Error::Shape { op: COSINE, what: "the target", expected, found: found.into() });
        }
        let Margin { margin, reduction } = margin.into();
        let cosine = cosine(&self.raw, &other.raw)?;
        let far = pointwise::unary(COSINE, Unary::Relu, &shifted(&cosine, 1.0, -margin)?)?;
        let near = shifted(&cosine, -1.0, 1.0)?;
        let labels = labels.unsqueeze(-1)?.raw;
        let losses = add(&masked(&near, &labels, 1)?, &masked(&far, &labels, -1)?)?;
        reduced(Self::from_raw(losses).squeeze(-1)?, reduction)
    }
}

const COSINE: &str = "cosine_embedding_loss";

/// Cosine of the angle between rows, which stay with size 1.
#[track_caller]
fn cosine(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let dot = |a: &RawTensor, b: &RawTensor| fold(COSINE, Reduce::Sum, &mul(a, b)?, &[a.shape().len() - 1], 1.0);
    // PyTorch's guard against rows of zeros.
    let square = |x: &RawTensor| shifted(&dot(x, x)?, 1.0, 1e-12);
    let product = mul(&square(a)?, &square(b)?)?;
    mul(&dot(a, b)?, &pointwise::unary(COSINE, Unary::Rsqrt, &product)?)
}

#[track_caller]
fn shifted(x: &RawTensor, mul: f64, add: f64) -> Result<RawTensor> {
    pointwise::unary(COSINE, Unary::Affine { mul, add }, x)
}

/// `x` where the label is `label`, else 0.
#[track_caller]
fn masked(x: &RawTensor, labels: &RawTensor, label: i64) -> Result<RawTensor> {
    let wanted = RawTensor::full(labels.device(), label as f64, *labels.shape(), labels.logical)?;
    mul(x, &compare(COSINE, Compare::Eq, labels, &wanted)?.cast_view(x.logical)?)
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, LossReduction, Margin, Tensor, gradcheck};

    fn tensor(data: &[f64]) -> Tensor<F64> {
        Tensor::from_slice(data, [2, data.len() / 2], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = tensor(&[-1.3, -0.7, -1.9, -0.9, -2.2, -0.8]);
        let t = tensor(&[0.5, 0.2, 0.3, 0.4, 0.35, 0.25]);
        let labels = Tensor::<I64>::from_vec(vec![1, -1], [2], &Device::cpu()).unwrap();
        let log = t.log().unwrap();
        let each = Margin::new(-0.99).reduction(LossReduction::None);
        for (name, worst) in [
            ("kl_div", gradcheck(|x| x[0].kl_div(&x[1]), &[x.clone(), t.clone()])),
            ("log", gradcheck(|x| x[0].kl_div_with(&x[1], true, LossReduction::Mean), &[x.clone(), log])),
            ("cosine", gradcheck(|x| x[0].cosine_embedding_loss(&x[1], &labels, -0.99), &[x.clone(), t.clone()])),
            ("rows", gradcheck(|x| x[0].cosine_embedding_loss(&x[1], &labels, each), &[x, t])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn empty_outcomes_cost_nothing() {
        let (x, t) = (tensor(&[-0.5, f64::NEG_INFINITY]), tensor(&[1.0, 0.0]));
        let loss = x.kl_div_with(&t, false, LossReduction::Sum).unwrap().item().unwrap();
        assert_eq!(loss, 0.5);
    }

    #[test]
    fn one_label_for_each_row() {
        let (x, labels) = (tensor(&[1.0; 6]), Tensor::<I64>::ones([3], &Device::cpu()).unwrap());
        let error = x.cosine_embedding_loss(&x, &labels, 0.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cosine_embedding_loss: the target must have shape [2], one label for each row, found [3]"
        );
    }
}
