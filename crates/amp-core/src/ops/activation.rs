//! Activations with parameters, and limits to a range.

use super::choice::whole;
use super::kernel::{binary, compare, select, zeros};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, Numeric, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Compare, DType, Dims, Unary};
use std::cmp::Ordering;

full_range! {
    SoftplusPrecision, "`softplus` must run in `F32`";
}

impl<P: Numeric> Tensor<P> {
    /// `x` limited to `min..=max`; NaN stays NaN, and `max` wins where the limits cross (`torch.clamp`).
    ///
    /// # Errors
    /// [`Error::Argument`] for a limit that is NaN, or beyond which an integer precision has no value.
    #[doc(alias = "clip")]
    #[track_caller]
    pub fn clamp(&self, min: impl Into<f64>, max: impl Into<f64>) -> Result<Self> {
        let (min, max) = (min.into(), max.into());
        for (argument, value) in [("min", min), ("max", max)] {
            if value.is_nan() {
                return Err(Error::argument("clamp", argument, "a number", value));
            }
        }
        leaves_some(P::DTYPE, min, max)?;
        self.pointwise("clamp", Unary::Clamp { min, max })
    }

    /// `x`, at least `min` (`torch.clamp(min=..)`).
    #[track_caller]
    pub fn clamp_min(&self, min: impl Into<f64>) -> Result<Self> {
        self.clamp(min, f64::INFINITY)
    }

    /// `x`, at most `max` (`torch.clamp(max=..)`).
    #[track_caller]
    pub fn clamp_max(&self, max: impl Into<f64>) -> Result<Self> {
        self.clamp(f64::NEG_INFINITY, max)
    }
}

impl<P: Element> Tensor<P> {
    /// `x` limited to `min..=max`, a limit for each element; all three broadcast (`torch.clamp` with tensors). NaN wins, and `max`
    /// wins where the limits cross. For one limit take [`maximum`](Self::maximum) or [`minimum`](Self::minimum), whose gradients
    /// these are: equal elements share them.
    ///
    /// # Errors
    /// [`Error::Broadcast`] when the shapes do not broadcast.
    #[track_caller]
    pub fn clamp_between<Q: Element, R: Element>(&self, min: &Tensor<Q>, max: &Tensor<R>) -> Result<Self>
    where
        P: SamePrecision<Q> + SamePrecision<R>,
    {
        let raised = self.maximum(min).map_err(|error| error.named("clamp_between"))?;
        raised.minimum(max).map_err(|error| error.named("clamp_between"))
    }
}

impl<P: Float> Tensor<P> {
    /// `x` above 0, `negative_slope * x` below (`F.leaky_relu`, where the slope is 0.01 by default).
    #[track_caller]
    pub fn leaky_relu(&self, negative_slope: impl Into<f64>) -> Result<Self> {
        self.pointwise("leaky_relu", Unary::LeakyRelu(negative_slope.into()))
    }

    /// `x` above 0, `alpha * (e^x - 1)` below (`F.elu`, where alpha is 1 by default). Computed in F32, rounded once.
    #[track_caller]
    pub fn elu(&self, alpha: impl Into<f64>) -> Result<Self> {
        self.pointwise("elu", Unary::Elu(alpha.into()))
    }

    /// `x` limited to `0..=6` (`F.relu6`); its derivative at 0 and at 6 is 0.
    #[track_caller]
    pub fn relu6(&self) -> Result<Self> {
        self.hardtanh_as("relu6", 0.0, 6.0)
    }

    /// `x` limited to `min..=max` (`F.hardtanh`, where they are -1 and 1 by default); its derivative at the limits is 0, and
    /// 1 for NaN, unlike that of [`clamp`](Self::clamp).
    ///
    /// # Errors
    /// [`Error::Argument`] unless `min` is less than `max`.
    #[track_caller]
    pub fn hardtanh(&self, min: impl Into<f64>, max: impl Into<f64>) -> Result<Self> {
        self.hardtanh_as("hardtanh", min.into(), max.into())
    }

    #[track_caller]
    fn hardtanh_as(&self, op: &'static str, min: f64, max: f64) -> Result<Self> {
        if min.partial_cmp(&max) != Some(Ordering::Less) {
            return Err(Error::argument(op, "max", format!("above min = {min}"), max));
        }
        self.pointwise(op, Unary::Hardtanh { min, max })
    }

    /// `ln(1 + e^x)` without overflow (`F.softplus`). Needs full precision.
    #[track_caller]
    pub fn softplus(&self) -> Result<Self>
    where
        P: SoftplusPrecision,
    {
        self.softplus_with(1.0, 20.0)
    }

    /// `ln(1 + e^(beta x)) / beta`, and `x` itself where `beta x` is above `threshold` (`F.softplus`).
    #[track_caller]
    pub fn softplus_with(&self, beta: impl Into<f64>, threshold: impl Into<f64>) -> Result<Self>
    where
        P: SoftplusPrecision,
    {
        let (beta, threshold) = (beta.into(), threshold.into());
        if beta == 0.0 || beta.is_nan() {
            return Err(Error::argument("softplus", "beta", "a number other than 0", beta));
        }
        self.full_pointwise("softplus", Unary::Softplus { beta, threshold })
    }

    /// `x` above 0, `weight * x` below, with one weight or one for each channel of `[N, C, ..]` (`F.prelu`).
    #[track_caller]
    pub fn prelu<Q: Element>(&self, weight: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let weight = weight.reshape(per_channel(self.raw.shape(), weight.raw.shape())?)?;
        Ok(Self::from_raw(prelu(&self.raw, &weight.raw)?))
    }
}

/// An error where an integer precision has no value on this side of a limit.
fn leaves_some(dtype: DType, min: f64, max: f64) -> Result<()> {
    let Some(range) = whole(dtype) else { return Ok(()) };
    let (least, most) = (*range.start(), *range.end());
    if min > most {
        return Err(Error::argument("clamp", "min", format!("at most {most}, the most of {dtype}"), min));
    }
    if max < least {
        return Err(Error::argument("clamp", "max", format!("at least {least}, the least of {dtype}"), max));
    }
    Ok(())
}

/// The shape in which `weight` broadcasts along the channels of `x`.
fn per_channel(x: &Dims, weight: &Dims) -> Result<Dims> {
    if weight.count() == 1 {
        return Ok(Dims::default());
    }
    let channels = x.get(1).copied().or(x.first().copied()).unwrap_or(1);
    if weight.len() != 1 || weight[0] != channels {
        let expected = format!("[1] or [{channels}]");
        return Err(Error::Shape { op: "prelu", what: "the weight", expected, found: weight.into() });
    }
    let mut shape = *x;
    let channel_axis = usize::from(x.len() > 1);
    (0..x.len()).filter(|&axis| axis != channel_axis).for_each(|axis| shape[axis] = 1);
    Ok(shape)
}

#[track_caller]
fn prelu(x: &RawTensor, weight: &RawTensor) -> Result<RawTensor> {
    let y = binary("prelu", Binary::Leaky, x, weight, x.logical)?;
    record("prelu", &[x, weight], y, |_| {
        let (x, weight) = (Saved::new(x)?, Saved::new(weight)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let positive = compare("prelu", Compare::Gt, &x, &zeros(&x, x.logical)?)?;
            if pass.wants(0) {
                let below = binary("prelu", Binary::Mul, pass.grad(), &weight, pass.summand(0))?;
                pass.give(0, select("prelu", &positive, pass.grad(), &below, pass.summand(0))?)?;
            }
            if pass.wants(1) {
                let below = binary("prelu", Binary::Mul, pass.grad(), &x, pass.summand(1))?;
                let none = zeros(&x, pass.summand(1))?;
                pass.give(1, select("prelu", &positive, &none, &below, pass.summand(1))?)?;
            }
            Ok(())
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::line;
    use crate::{Device, F32, F64, I64, Tensor, U8, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.02, -2.2, 3.8], [1, 2, 3], &device).unwrap();
        let shared = Tensor::<F64>::from_vec(vec![0.25], [1], &device).unwrap();
        let each = Tensor::<F64>::from_vec(vec![0.25, -0.5], [2], &device).unwrap();
        let one = std::slice::from_ref(&x);
        // Below, between, above; and crossed.
        let low = Tensor::<F64>::from_vec(vec![-1.0, 0.1, -1.5], [3], &device).unwrap();
        let high = Tensor::<F64>::from_vec(vec![1.1, -0.4], [2, 1], &device).unwrap();
        let limits = [x.clone(), low, high];
        for (name, worst) in [
            ("clamp", gradcheck(|x| x[0].clamp(-1.0, 1.5), one)),
            ("clamp_min", gradcheck(|x| x[0].clamp_min(0.1), one)),
            ("clamp_max", gradcheck(|x| x[0].clamp_max(0.1), one)),
            ("clamp_between", gradcheck(|x| x[0].clamp_between(&x[1], &x[2]), &limits)),
            ("relu6", gradcheck(|x| (&x[0] * 4)?.relu6(), one)),
            ("hardtanh", gradcheck(|x| x[0].hardtanh(-0.5, 1.5), one)),
            ("leaky_relu", gradcheck(|x| x[0].leaky_relu(0.2), one)),
            ("elu", gradcheck(|x| x[0].elu(1.7), one)),
            ("softplus", gradcheck(|x| x[0].softplus(), one)),
            ("softplus_with", gradcheck(|x| x[0].softplus_with(2.0, 3.0), one)),
            ("prelu shared", gradcheck(|x| x[0].prelu(&x[1]), &[x.clone(), shared])),
            ("prelu per channel", gradcheck(|x| x[0].prelu(&x[1]), &[x.clone(), each])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn each_element_has_its_limits() {
        let (nan, x) = (f32::NAN, line(&[f32::NAN, 1.0, 1.0, 5.0, 2.0, -3.0]).tracked());
        let (min, max) =
            (line(&[0.0, nan, 0.0, 3.0, 2.0, 2.0]).tracked(), line(&[1.0, 2.0, nan, 1.0, 2.0, 7.0]).tracked());
        let y = x.clamp_between(&min, &max).unwrap();
        let found = y.to_vec().unwrap();
        assert!(found[..3].iter().all(|v| v.is_nan()), "{found:?}");
        assert_eq!(found[3..], [1.0, 2.0, 2.0]);
        let grads = y.sum_all().unwrap().backward().unwrap();
        let grad = |x| grads.get(x).unwrap().unwrap().to_vec().unwrap();
        // Beside NaN both count as chosen.
        assert_eq!(grad(&x)[3..], [0.0, 0.25, 0.0]);
        assert_eq!(grad(&min)[3..], [0.0, 0.25, 1.0]);
        assert_eq!(grad(&max)[3..], [1.0, 0.5, 0.0]);
        let error = x.clamp_between(&min, &line(&[1.0, 2.0])).unwrap_err().to_string();
        assert!(error.starts_with("clamp_between: "), "{error}");
    }

    #[test]
    fn limits_apply_to_integers_and_leave_nan() {
        let device = Device::cpu();
        let x = Tensor::<I64>::from_vec(vec![-9, 3, 9], [3], &device).unwrap();
        assert_eq!(x.clamp(-2, 5).unwrap().to_vec().unwrap(), [-2, 3, 5]);
        let y = Tensor::<F32>::from_vec(vec![f32::NAN, -9.0], [2], &device).unwrap().clamp(0.0, 1.0).unwrap();
        assert!(y.to_vec().unwrap()[0].is_nan());
    }

    #[test]
    fn a_weight_of_another_size_is_an_error() {
        let device = Device::cpu();
        let x = Tensor::<F32>::zeros([2, 3, 4], &device).unwrap();
        let weight = Tensor::<F32>::zeros([4], &device).unwrap();
        let error = x.prelu(&weight).unwrap_err().to_string();
        assert_eq!(error, "prelu: the weight must have shape [1] or [3], found [4]");
        let error = x.clamp(f64::NAN, 1.0).unwrap_err().to_string();
        assert_eq!(error, "clamp: min must be a number, found NaN");
    }

    #[test]
    fn nan_is_beyond_no_end() {
        let x = Tensor::<F32>::from_vec(vec![f32::NAN, -1.0, 0.0, 2.0, 6.0], [5], &Device::cpu()).unwrap().tracked();
        for y in [x.relu6().unwrap(), x.hardtanh(0, 6).unwrap()] {
            assert!(y.to_vec().unwrap()[0].is_nan());
            let grads = y.sum_all().unwrap().backward().unwrap();
            assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [1.0, 0.0, 0.0, 1.0, 0.0]);
        }
    }

    #[test]
    fn limits_in_the_wrong_order_are_errors() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap();
        let text = |min: f64, max: f64| x.hardtanh(min, max).unwrap_err().to_string();
        assert_eq!(text(1.0, 1.0), "hardtanh: max must be above min = 1, found 1");
        assert_eq!(text(f64::NAN, 1.0), "hardtanh: max must be above min = NaN, found 1");
    }

    #[test]
    fn limits_of_bytes_leave_bytes() {
        let bytes = Tensor::<U8>::from_vec(vec![0, 200, 255], [3], &Device::cpu()).unwrap();
        assert_eq!(bytes.clamp(-5, 300).unwrap().to_vec().unwrap(), [0, 200, 255]);
        assert_eq!(bytes.clamp(0.5, 200.5).unwrap().to_vec().unwrap(), [1, 200, 200]);
        assert_eq!(bytes.clamp_min(f64::NEG_INFINITY).unwrap().to_vec().unwrap(), [0, 200, 255]);
        let text = |result: crate::Result<Tensor<U8>>| result.unwrap_err().to_string();
        assert_eq!(text(bytes.clamp(300, 400)), "clamp: min must be at most 255, the most of U8, found 300");
        assert_eq!(text(bytes.clamp_max(-1)), "clamp: max must be at least 0, the least of U8, found -1");
    }
}
