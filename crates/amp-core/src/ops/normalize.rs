//! Layer, RMS, group and instance normalisation.

use super::matmul::accumulator;
use crate::autograd::{Origin, Pass, Saved, note_origin, record};
use crate::backend::{Buffer, MemoryOrder, NormGrads, Operand};
use crate::order::{order_of, pixels, tensor};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::{IntoShape, check_same};
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{DType, Dims, NormKind};
use std::sync::Arc;

full_range! {
    LayerNormPrecision, "`layer_norm` must run in `F32`";
    RmsNormPrecision, "`rms_norm` must run in `F32`";
    GroupNormPrecision, "`group_norm` must run in `F32`";
    InstanceNormPrecision, "`instance_norm` must run in `F32`";
}

/// Weight and bias of a normalisation, either of which may be missing.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(super) weight: Option<&'a RawTensor>,
    pub(super) bias: Option<&'a RawTensor>,
}

impl<'a> Affine<'a> {
    pub(crate) fn new<P: Float>(weight: Option<&'a Tensor<P>>, bias: Option<&'a Tensor<P>>) -> Self {
        Self { weight: weight.map(|w| &w.raw), bias: bias.map(|b| &b.raw) }
    }

    /// Refuses parameters of another shape or device.
    pub(super) fn check(&self, op: &'static str, x: &RawTensor, shape: &[usize]) -> Result<()> {
        for (what, parameter) in [("the weight", self.weight), ("the bias", self.bias)] {
            let Some(parameter) = parameter else { continue };
            x.device().check_same(parameter.device(), op)?;
            check_same(op, what, shape, parameter.shape())?;
        }
        Ok(())
    }

    /// Shape of both parameters, present or not.
    fn shape(&self, x: &RawTensor, kind: NormKind) -> Dims {
        let given = self.weight.or(self.bias).map(|p| *p.shape());
        given.unwrap_or_else(|| match kind {
            NormKind::Layer { inner } | NormKind::Rms { inner } => vector(inner),
            NormKind::Group { .. } | NormKind::Batch => vector(x.shape()[1]),
        })
    }

    pub(super) fn operands(&self) -> Result<(Option<Operand<'a>>, Option<Operand<'a>>)> {
        Ok((self.weight.map(RawTensor::operand).transpose()?, self.bias.map(RawTensor::operand).transpose()?))
    }
}

/// Whether a normalisation reads or writes 16 bits, half of what computing it again costs in full precision.
pub(super) fn in_16_bits(x: &RawTensor, y: &RawTensor) -> bool {
    [x, y].iter().any(|of| of.value.buffer.dtype().is_half())
}

/// Weight and bias, held for the backward pass.
#[derive(Debug)]
pub(super) struct SavedAffine {
    weight: Option<Saved>,
    bias: Option<Saved>,
}

impl SavedAffine {
    pub(super) fn new(affine: Affine<'_>) -> Result<Self> {
        let saved = |parameter: Option<&RawTensor>| parameter.map(Saved::new).transpose();
        Ok(Self { weight: saved(affine.weight)?, bias: saved(affine.bias)? })
    }

    pub(super) fn operands(&self) -> Result<(Option<Operand<'_>>, Option<Operand<'_>>)> {
        Affine { weight: self.weight.as_deref(), bias: self.bias.as_deref() }.operands()
    }
}

/// The statistics in `buffer` as a tensor of one dimension.
pub(super) fn row(x: &RawTensor, buffer: Buffer) -> RawTensor {
    let shape = vector(buffer.len());
    RawTensor::new(x.device(), buffer, shape)
}

fn vector(len: usize) -> Dims {
    Dims::new(&[len]).expect("one dimension")
}

/// Normalises `x` by its own statistics and records the gradients; returns the means and variances too. The result is
/// rounded to `writes` if that is given.
#[track_caller]
pub(super) fn normalize(
    name: &'static str,
    x: &RawTensor,
    kind: NormKind,
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<(RawTensor, RawTensor, RawTensor)> {
    let (weight, bias) = affine.operands()?;
    // Only for batch normalisation a pixel is what a sample is.
    let order = if kind == NormKind::Batch { order_of([x]) } else { MemoryOrder::RowMajor };
    let n =
        x.backend().normalize(pixels(order, x)?.operand()?, kind, weight, bias, eps, writes.unwrap_or(x.logical))?;
    let (mean, var, rstd) = (row(x, n.mean), row(x, n.var), row(x, n.rstd));
    // A missing parameter takes the input's place in the list of inputs, out of the graph.
    let absent = x.detached();
    let inputs = [x, affine.weight.unwrap_or(&absent), affine.bias.unwrap_or(&absent)];
    let y = record(name, &inputs, tensor(order, x.device(), n.y, *x.shape()).counted(x.logical), |y| {
        let kept = Arc::new(Kept { x: Saved::new(x)?, affine: SavedAffine::new(affine)?, kind, eps });
        if kind != NormKind::Batch && in_16_bits(&kept.x, y) {
            note_origin(y, &kept);
        }
        let (mean, rstd) = (Saved::new(&mean)?, Saved::new(&rstd)?);
        let parameters = affine.shape(x, kind);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (x, grads) = (&kept.x, kept.gradients(pass, order, (&mean, &rstd))?);
            pass.give(0, tensor(order, x.device(), grads.x, *x.shape()).with_narrowed(grads.narrowed))?;
            pass.give(1, RawTensor::new(x.device(), grads.weight, parameters))?;
            pass.give(2, RawTensor::new(x.device(), grads.bias, parameters))
        }))
    })?;
    Ok((y, mean, var))
}

/// A normalisation by the input that its backward pass keeps. Statistics of rows and groups are taken again as the row is read,
/// by the same kernel.
#[derive(Debug)]
struct Kept {
    x: Saved,
    affine: SavedAffine,
    kind: NormKind,
    eps: f64,
}

impl Kept {
    /// The gradients, that of the input with what others gave to it so far where the device adds them at once.
    fn gradients(&self, pass: &mut Pass<'_>, order: MemoryOrder, saved: (&Saved, &Saved)) -> Result<NormGrads> {
        let Self { x, kind, .. } = self;
        let earlier = if *kind == NormKind::Batch { None } else { pass.take_sum(0, accumulator(x.logical)) };
        let out = (pass.dtype(0), pass.narrows(0));
        let (grad, input, weight) = (pixels(order, pass.grad())?, pixels(order, x)?, self.affine.operands()?.0);
        let (backend, grad, input) = (x.backend(), grad.operand()?, input.operand()?);
        let saved = (saved.0.operand()?, saved.1.operand()?);
        if let Some(earlier) = &earlier {
            let grads = backend.normalize_grad_onto((grad, earlier.operand()?), input, saved, weight, *kind, out)?;
            if let Some(grads) = grads {
                return Ok(grads);
            }
        }
        let also = out.1.filter(|_| earlier.is_none());
        let grads = backend.normalize_grad(grad, input, saved, weight, *kind, (out.0, also))?;
        earlier.into_iter().for_each(|earlier| pass.put_back(0, earlier));
        Ok(grads)
    }
}

impl Origin for Kept {
    fn again(&self, out: DType) -> Result<Buffer> {
        let ((weight, bias), x) = (self.affine.operands()?, pixels(MemoryOrder::RowMajor, &self.x)?);
        Ok(x.backend().normalize(x.operand()?, self.kind, weight, bias, self.eps, out)?.y)
    }
}

/// Number of elements of the trailing dimensions `normalized`, which must be those of `x`.
fn trailing(op: &'static str, x: &RawTensor, normalized: &Dims) -> Result<usize> {
    if normalized.is_empty() || !x.shape().ends_with(normalized) {
        let expected = format!("[.., {}]", format!("{normalized:?}").trim_matches(['[', ']']));
        return Err(Error::Shape { op, what: "the input", expected, found: x.shape().into() });
    }
    Ok(normalized.count())
}

/// Number of channels of `[N, C, ..]`.
pub(super) fn channels(op: &'static str, x: &RawTensor) -> Result<usize> {
    let expected = "at least 2 dimensions, [N, C, ..]";
    x.shape().get(1).copied().ok_or_else(|| Error::Rank { op, what: "the input", expected, found: x.shape().into() })
}

/// [`Tensor::layer_norm`] on an erased tensor, rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn layer_norm(
    x: &RawTensor,
    normalized: impl IntoShape,
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let normalized = normalized.into_shape("layer_norm")?;
    let inner = trailing("layer_norm", x, &normalized)?;
    affine.check("layer_norm", x, &normalized)?;
    Ok(normalize("layer_norm", x, NormKind::Layer { inner }, affine, eps, writes)?.0)
}

/// [`Tensor::rms_norm`] on an erased tensor, rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn rms_norm(
    x: &RawTensor,
    normalized: impl IntoShape,
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let normalized = normalized.into_shape("rms_norm")?;
    let inner = trailing("rms_norm", x, &normalized)?;
    affine.check("rms_norm", x, &normalized)?;
    Ok(normalize("rms_norm", x, NormKind::Rms { inner }, affine, eps, writes)?.0)
}

/// [`Tensor::group_norm`] on an erased tensor, rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn group_norm(
    x: &RawTensor,
    groups: usize,
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let channels = channels("group_norm", x)?;
    if groups == 0 || groups > channels.max(1) || !channels.is_multiple_of(groups) {
        let expected = format!("a divisor of the {channels} channels");
        return Err(Error::argument("group_norm", "groups", expected, groups));
    }
    affine.check("group_norm", x, &[channels])?;
    Ok(normalize("group_norm", x, NormKind::Group { groups }, affine, eps, writes)?.0)
}

/// How many values each of so many statistics is of: one says nothing about its variance.
pub(super) fn checked_values(op: &'static str, x: &RawTensor, statistics: usize, per: &str) -> Result<usize> {
    let values = x.layout.count().checked_div(statistics).unwrap_or(0);
    if values == 1 {
        let (what, expected) = ("the input", format!("[N, C, ..] with more than one value per {per}"));
        return Err(Error::Shape { op, what, expected, found: x.shape().into() });
    }
    Ok(values)
}

/// [`Tensor::instance_norm`] on an erased tensor, rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn instance_norm(x: &RawTensor, affine: Affine<'_>, eps: f64, writes: Option<DType>) -> Result<RawTensor> {
    let groups = channels("instance_norm", x)?;
    checked_values("instance_norm", x, groups * x.shape()[0], "channel and sample")?;
    affine.check("instance_norm", x, &[groups])?;
    Ok(normalize("instance_norm", x, NormKind::Group { groups }, affine, eps, writes)?.0)
}

impl<P: Float> Tensor<P> {
    /// Normalises over the trailing dimensions `normalized` to mean 0 and variance 1, then scales by `weight` and shifts
    /// by `bias`, both of that shape (`torch.nn.functional.layer_norm`).
    ///
    /// # Precision
    /// Statistics, arithmetic and result are F32 (F64 for F64); half storage is widened as it is loaded.
    #[track_caller]
    pub fn layer_norm(
        &self,
        normalized: impl IntoShape,
        weight: Option<&Self>,
        bias: Option<&Self>,
        eps: f64,
    ) -> Result<Self>
    where
        P: LayerNormPrecision,
    {
        Ok(Self::from_raw(layer_norm(&self.raw, normalized, Affine::new(weight, bias), eps, P::WRITES)?))
    }

    /// Divides by the root mean square over the trailing dimensions `normalized`, then scales by `weight`
    /// (`torch.nn.functional.rms_norm`).
    ///
    /// # Precision
    /// Statistics, arithmetic and result are F32 (F64 for F64); half storage is widened as it is loaded.
    #[track_caller]
    pub fn rms_norm(&self, normalized: impl IntoShape, weight: Option<&Self>, eps: f64) -> Result<Self>
    where
        P: RmsNormPrecision,
    {
        Ok(Self::from_raw(rms_norm(&self.raw, normalized, Affine::new(weight, None), eps, P::WRITES)?))
    }

    /// Normalises each of `groups` groups of channels of each sample of `[N, C, ..]`; `weight` and `bias` are `[C]`
    /// (`torch.nn.functional.group_norm`).
    ///
    /// # Errors
    /// [`Error::Argument`] unless `groups` divides C.
    #[track_caller]
    pub fn group_norm(&self, groups: usize, weight: Option<&Self>, bias: Option<&Self>, eps: f64) -> Result<Self>
    where
        P: GroupNormPrecision,
    {
        Ok(Self::from_raw(group_norm(&self.raw, groups, Affine::new(weight, bias), eps, P::WRITES)?))
    }

    /// Normalises each channel of each sample of `[N, C, ..]`; `weight` and `bias` are `[C]`
    /// (`torch.nn.functional.instance_norm`).
    ///
    /// # Errors
    /// [`Error::Shape`] for channels of one value, whose variance says nothing.
    #[track_caller]
    pub fn instance_norm(&self, weight: Option<&Self>, bias: Option<&Self>, eps: f64) -> Result<Self>
    where
        P: InstanceNormPrecision,
    {
        Ok(Self::from_raw(instance_norm(&self.raw, Affine::new(weight, bias), eps, P::WRITES)?))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::{BF16, Device, F32, F64, Tensor, gradcheck};

    pub(in crate::ops) fn wave(shape: &[usize], phase: f64) -> Tensor<F64> {
        let mut i = 0.0;
        let next = |_: &[usize]| {
            i += 1.0;
            (i * 1.7_f64 + phase).sin() * 2.0 + 0.3
        };
        Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let (x, w, b) = (wave(&[2, 4, 3], 0.1), wave(&[4, 3], 0.5), wave(&[4, 3], 0.9));
        let (wc, bc) = (wave(&[4], 0.2), wave(&[4], 0.7));
        let channel = [x.clone(), wc, bc];
        for (name, worst) in [
            (
                "layer_norm",
                gradcheck(|t| t[0].layer_norm([4, 3], Some(&t[1]), Some(&t[2]), 1e-5), &[x.clone(), w.clone(), b]),
            ),
            ("layer_norm, bare", gradcheck(|t| t[0].layer_norm([3], None, None, 1e-5), std::slice::from_ref(&x))),
            ("rms_norm", gradcheck(|t| t[0].rms_norm([4, 3], Some(&t[1]), 1e-6), &[x.clone(), w])),
            ("group_norm", gradcheck(|t| t[0].group_norm(2, Some(&t[1]), Some(&t[2]), 1e-5), &channel)),
            ("instance_norm", gradcheck(|t| t[0].instance_norm(Some(&t[1]), None, 1e-5), &channel[..2])),
            (
                "strided",
                gradcheck(|t| t[0].transpose(0, 2)?.layer_norm([2], None, None, 1e-5), std::slice::from_ref(&x)),
            ),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn a_residual_gets_the_sum_of_both_gradients() {
        let numbers = |phase: f64| wave(&[3, 5], phase).to::<F32>().unwrap().detach();
        let (weight, x) = (numbers(0.4), numbers(0.0).tracked());
        let gradient = |normalized: bool, residual: bool| {
            let h = (&x * 1.0).unwrap();
            let y = h.layer_norm([5], None, None, 1e-5).unwrap();
            let sum = match (normalized, residual) {
                (true, true) => (y + h).unwrap(),
                (true, false) => y,
                _ => h,
            };
            (sum * &weight).unwrap().sum_all().unwrap().backward().unwrap().get(&x).unwrap().unwrap()
        };
        let apart = (gradient(false, true) + gradient(true, false)).unwrap();
        assert_eq!(gradient(true, true).to_vec().unwrap(), apart.to_vec().unwrap());
    }

    #[test]
    fn a_widened_half_input_gives_f32_and_a_half_gradient() {
        let x = wave(&[3, 5], 0.0).to::<F32>().unwrap().to::<BF16>().unwrap().tracked();
        let y = x.to::<F32>().unwrap().layer_norm([5], None, None, 1e-5).unwrap();
        let exact = x.detach().to::<F64>().unwrap().layer_norm([5], None, None, 1e-5).unwrap().to_vec().unwrap();
        for (y, e) in y.to_vec().unwrap().iter().zip(exact) {
            assert!((f64::from(*y) - e).abs() <= 1e-6, "{y} is not {e}");
        }
        let grads = y.sqr_sum().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().dims(), [3, 5]);
    }

    #[test]
    fn bad_shapes_are_errors() {
        let x = wave(&[2, 4, 3], 0.0);
        let error = x.layer_norm([4], None, None, 1e-5).unwrap_err();
        assert!(error.to_string().starts_with("layer_norm: the input must have shape"), "{error}");
        let error = x.group_norm(3, None, None, 1e-5).unwrap_err();
        assert_eq!(error.to_string(), "group_norm: groups must be a divisor of the 4 channels, found 3");
        let error = x.instance_norm(Some(&wave(&[3], 0.0)), None, 1e-5).unwrap_err();
        assert_eq!(error.to_string(), "instance_norm: the weight must have shape [4], found [3]");
        assert_eq!(wave(&[0, 4], 0.0).layer_norm([4], None, None, 1e-5).unwrap().dims(), [0, 4]);
    }

    impl Tensor<F32> {
        fn sqr_sum(&self) -> Self {
            (self * self).unwrap().sum_all().unwrap()
        }
    }
}
