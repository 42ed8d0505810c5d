//! Batch normalisation, by the batch's own statistics or by given ones.

use super::kernel::{binary, reduce, unary};
use super::normalize::{Affine, channels, checked_values, normalize};
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::backend::Statistics;
use crate::order::{order_of, pixels, tensor};
use crate::precision::{Element, Float, full_range};
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use amp_cpu::{Binary, DType, Dims, Layout, NormKind, Reduce, Unary};

full_range! {
    BatchNormPrecision, "`batch_norm` must run in `F32`";
}

/// Statistics of a batch, out of the graph, for the running statistics of a layer.
#[derive(Clone, Debug)]
pub struct BatchStatistics<P: Element> {
    /// Mean of each channel `[C]`.
    pub mean: Tensor<P>,
    /// Variance of each channel `[C]`, divided by `n - 1`.
    pub var: Tensor<P>,
}

/// Normalises by given statistics; they get no gradient.
#[track_caller]
fn normalize_with(
    x: &RawTensor,
    given: [&RawTensor; 2],
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let [mean, var] = given;
    let (weight, bias) = affine.operands()?;
    let statistics = Statistics { mean: mean.operand()?, var: var.operand()? };
    let out = writes.unwrap_or(x.logical);
    let order = order_of([x]);
    let buffer = x.backend().normalize_with(pixels(order, x)?.operand()?, statistics, weight, bias, eps, out)?;
    let absent = x.detached();
    let inputs = [x, affine.weight.unwrap_or(&absent), affine.bias.unwrap_or(&absent)];
    let y = tensor(order, x.device(), buffer, *x.shape()).counted(x.logical);
    record("batch_norm", &inputs, y, |_| {
        let rule = GivenGradient::new(x, given, affine, eps)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().clone();
            rule.give(pass, &grad)
        }))
    })
}

/// The gradients of a normalisation by given statistics.
pub(super) struct GivenGradient {
    x: Saved,
    weight: Option<Saved>,
    mean: RawTensor,
    rstd: RawTensor,
}

impl GivenGradient {
    pub(super) fn new(x: &RawTensor, [mean, var]: [&RawTensor; 2], affine: Affine<'_>, eps: f64) -> Result<Self> {
        let (x, weight) = (Saved::new(x)?, affine.weight.map(Saved::new).transpose()?);
        let (mean, shifted) = (per_channel(mean, &x), unary(Unary::Affine { mul: 1.0, add: eps }, var, x.logical)?);
        let rstd = per_channel(&unary(Unary::Rsqrt, &shifted, x.logical)?, &x);
        Ok(Self { x, weight, mean, rstd })
    }

    /// Gives the first three inputs theirs, where the normalised tensor has the gradient `grad`.
    pub(super) fn give(&self, pass: &mut Pass<'_>, grad: &RawTensor) -> Result<()> {
        let Self { x, weight, mean, rstd } = self;
        let others: Vec<usize> = (0..x.shape().len()).filter(|&a| a != 1).collect();
        let sums = |terms: &RawTensor| -> Result<RawTensor> {
            let sums = reduce(Reduce::Sum, terms, &others, x.logical)?;
            Ok(sums.with_layout(Layout::contiguous(Dims::new(&[x.shape()[1]]).expect("one dimension"))))
        };
        if pass.wants(1) {
            let normal = binary("batch_norm", Binary::Sub, x, mean, x.logical)?;
            let normal = binary("batch_norm", Binary::Mul, &normal, rstd, x.logical)?;
            pass.give(1, sums(&binary("batch_norm", Binary::Mul, &normal, grad, x.logical)?)?)?;
        }
        if pass.wants(2) {
            pass.give(2, sums(grad)?)?;
        }
        let scale = match weight {
            Some(w) => binary("batch_norm", Binary::Mul, &per_channel(w, x), rstd, x.logical)?,
            None => rstd.clone(),
        };
        pass.give(0, binary("batch_norm", Binary::Mul, grad, &scale, pass.dtype(0))?)
    }
}

/// `[C]` as `[C, 1, ..]`, which broadcasts along the channels of `x`.
fn per_channel(parameter: &RawTensor, x: &RawTensor) -> RawTensor {
    let (mut shape, mut strides) = (parameter.layout.shape, parameter.layout.strides);
    for _ in 2..x.shape().len() {
        shape = shape.pushed(1).expect("no more dimensions than the input");
        strides = strides.pushed(0).expect("no more dimensions than the input");
    }
    parameter.with_layout(Layout { shape, strides, offset: parameter.layout.offset })
}

/// [`Tensor::batch_norm_train`] on an erased tensor, the first result rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn batch_norm_train(
    x: &RawTensor,
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<(RawTensor, Moments)> {
    let correction = correction(x, affine)?;
    if x.layout.count() == 0 {
        let moments = Moments::of_nothing(x)?;
        return Ok((normalize_with(x, [&moments.mean, &moments.var], affine, eps, writes)?, moments));
    }
    let (y, mean, var) = normalize("batch_norm", x, NormKind::Batch, affine, eps, writes)?;
    Ok((y, Moments { mean, var, correction }))
}

/// Statistics of the channels of a batch.
pub(crate) struct Moments {
    pub mean: RawTensor,
    /// Divided by the number of values.
    pub var: RawTensor,
    /// What makes the variance one that is divided by a value less.
    pub correction: f64,
}

impl Moments {
    /// Those of a batch without values, which change nothing: those of what is normalised already.
    fn of_nothing(x: &RawTensor) -> Result<Self> {
        let channels = Dims::new(&[x.shape()[1]]).expect("one dimension");
        let filled = |value| RawTensor::full(x.device(), value, channels, x.logical);
        Ok(Self { mean: filled(0.0)?, var: filled(1.0)?, correction: 1.0 })
    }

    fn corrected(&self) -> Result<RawTensor> {
        unary(Unary::Affine { mul: self.correction, add: 0.0 }, &self.var, self.var.logical)
    }
}

/// What makes the variance of a batch one that is divided by `n - 1`, after a look at the shapes.
pub(super) fn correction(x: &RawTensor, affine: Affine<'_>) -> Result<f64> {
    let channels = channels("batch_norm", x)?;
    affine.check("batch_norm", x, &[channels])?;
    let values = checked_values("batch_norm", x, channels, "channel")?;
    Ok(values as f64 / (values as f64 - 1.0))
}

/// [`Tensor::batch_norm_eval`] on an erased tensor, rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn batch_norm_eval(
    x: &RawTensor,
    statistics: [&RawTensor; 2],
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<RawTensor> {
    check_given(x, statistics, affine)?;
    normalize_with(x, statistics, affine, eps, writes)
}

/// Refuses statistics and parameters of other shapes.
pub(super) fn check_given(x: &RawTensor, statistics: [&RawTensor; 2], affine: Affine<'_>) -> Result<()> {
    let channels = channels("batch_norm", x)?;
    affine.check("batch_norm", x, &[channels])?;
    for (what, statistic) in ["the running mean", "the running variance"].into_iter().zip(statistics) {
        check_same("batch_norm", what, &[channels], statistic.shape())?;
    }
    Ok(())
}

impl<P: Float> Tensor<P> {
    /// Normalises each channel of `[N, C, ..]` by the batch's own mean and variance, then scales and shifts by `weight`
    /// and `bias` `[C]` (`torch.nn.functional.batch_norm` in training); returns the statistics too.
    ///
    /// An empty batch has mean 0, variance 1 and gradients of 0.
    ///
    /// # Precision
    /// Statistics, arithmetic and result are F32 (F64 for F64); half storage is widened as it is loaded.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) when a channel has a single value, whose variance says nothing.
    #[track_caller]
    pub fn batch_norm_train(
        &self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        eps: f64,
    ) -> Result<(Self, BatchStatistics<P>)>
    where
        P: BatchNormPrecision,
    {
        let (y, moments) = batch_norm_train(&self.raw, Affine::new(weight, bias), eps, P::WRITES)?;
        let var = Self::from_raw(moments.corrected()?);
        Ok((Self::from_raw(y), BatchStatistics { mean: Self::from_raw(moments.mean), var }))
    }

    /// Normalises each channel of `[N, C, ..]` by running statistics `mean` and `var` `[C]`, then scales and shifts
    /// (`torch.nn.functional.batch_norm` in evaluation).
    #[track_caller]
    pub fn batch_norm_eval(
        &self,
        mean: &Self,
        var: &Self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        eps: f64,
    ) -> Result<Self>
    where
        P: BatchNormPrecision,
    {
        Ok(Self::from_raw(batch_norm_eval(
            &self.raw,
            [&mean.raw, &var.raw],
            Affine::new(weight, bias),
            eps,
            P::WRITES,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::normalize::tests::wave;
    use crate::{Device, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let (w, b, m) = (wave(&[3], 0.2), wave(&[3], 0.7), wave(&[3], 0.4));
        let var = Tensor::from_vec(vec![0.5, 2.0, 1.5], [3], &Device::cpu()).unwrap();
        for shape in [&[4, 3][..], &[2, 3, 4], &[2, 3, 5, 4]] {
            let inputs = [wave(shape, 0.1), w.clone(), b.clone()];
            let train = gradcheck(|t| Ok(t[0].batch_norm_train(Some(&t[1]), Some(&t[2]), 1e-5)?.0), &inputs).unwrap();
            assert!(train.agrees(), "{shape:?}: {train:?}");
            let eval = gradcheck(|t| t[0].batch_norm_eval(&m, &var, Some(&t[1]), Some(&t[2]), 1e-5), &inputs).unwrap();
            assert!(eval.agrees(), "{shape:?}: {eval:?}");
        }
    }

    #[test]
    fn statistics_are_those_of_var() {
        let x = wave(&[4, 3, 2], 0.1);
        let (_, statistics) = x.batch_norm_train(None, None, 1e-5).unwrap();
        let (mean, var) = (x.mean([0, 2], false).unwrap(), x.var([0, 2], false).unwrap());
        for (a, b) in [(statistics.mean, mean), (statistics.var, var)] {
            let worst = (a - b).unwrap().max_all().unwrap().item().unwrap();
            assert!(worst.abs() <= 1e-12, "{worst}");
        }
        assert!(wave(&[1, 3], 0.0).batch_norm_train(None, None, 1e-5).is_err());
    }
}
