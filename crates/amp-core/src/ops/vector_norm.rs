//! p-norms of vectors.

use super::arithmetic::{div, div_to, mul};
use super::extreme::extreme;
use super::kernel::{binary, compare, reduce, select, unary, zeros};
use super::reduce::fold;
use super::{broadcast_pair, pointwise};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Binary, Compare, DType, Reduce, Unary};

full_range! {
    NormPrecision, "`norm` must run in `F32`";
    NormAllPrecision: NormPrecision, "`norm_all` must run in `F32`";
    VectorNormPrecision: NormPrecision, "`vector_norm` must run in `F32`";
    RenormPrecision: NormPrecision, "`renorm` must run in `F32`";
    NormalizePrecision, "`normalize` must run in `F32`";
    CosineSimilarityPrecision, "`cosine_similarity` must run in `F32`";
}

/// `(Σ |x|^p)^(1/p)` over `axes`, which stay with size 1.
#[track_caller]
pub(super) fn norm(x: &RawTensor, p: f64, axes: &[usize]) -> Result<RawTensor> {
    norm_to(x, p, axes, None)
}

/// As [`norm`], rounded to `writes` if that is given.
#[track_caller]
fn norm_to(x: &RawTensor, p: f64, axes: &[usize], writes: Option<DType>) -> Result<RawTensor> {
    let out = writes.unwrap_or(x.logical);
    if p == 1.0 {
        return sum_of_magnitudes(x, axes, out);
    }
    let powers = if p == 2.0 { None } else { Some(power(&unary(Unary::Abs, x, x.logical)?, p, x.logical)?) };
    let total = match &powers {
        None => reduce(Reduce::SumSquares, x, axes, x.logical)?,
        Some(powers) => reduce(Reduce::Sum, powers, axes, x.logical)?,
    };
    record("norm", &[x], power(&total, 1.0 / p, out)?.counted(x.logical), |y| {
        // The gradient needs the root before it was rounded.
        let rounded = writes.is_some();
        let (x, kept) = (Saved::new(x)?, Saved::new(if rounded { &total } else { y })?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let again = if rounded { Some(power(&kept, 1.0 / p, kept.logical)?) } else { None };
            let slope = slope(&x, again.as_ref().unwrap_or(&kept), p)?;
            pass.give(0, binary("norm", Binary::Mul, &slope, pass.grad(), pass.dtype(0))?)
        }))
    })
}

/// `x^p` of what is not negative.
fn power(x: &RawTensor, p: f64, out: DType) -> Result<RawTensor> {
    unary(if p == 0.5 { Unary::Sqrt } else { Unary::Powf(p) }, x, out)
}

/// The norm of `p = 1`, in precision `out`.
#[track_caller]
fn sum_of_magnitudes(x: &RawTensor, axes: &[usize], out: DType) -> Result<RawTensor> {
    record("norm", &[x], reduce(Reduce::SumAbs, x, axes, out)?.counted(x.logical), |_| {
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let signs = unary(Unary::Sign, &x, x.logical)?;
            pass.give(0, binary("norm", Binary::Mul, &signs, pass.grad(), pass.dtype(0))?)
        }))
    })
}

/// `sign(x) (|x| / y)^(p - 1)`, and 0 where the norm is 0, or where an element is whose slope would be infinite (as PyTorch has
/// it); `p` is not 1.
fn slope(x: &RawTensor, y: &RawTensor, p: f64) -> Result<RawTensor> {
    let dtype = x.logical;
    let zero = zeros(y, dtype)?;
    let vanishes = compare("norm", Compare::Eq, y, &zero)?;
    if p == 2.0 {
        // A norm of 0 becomes infinity, so that ratios are 0: selecting among all ratios took longer than dividing.
        let endless = RawTensor::full(y.device(), f64::INFINITY, *y.shape(), dtype)?;
        return binary("norm", Binary::Div, x, &select("norm", &vanishes, &endless, y, dtype)?, dtype);
    }
    let slope = signed_power(&binary("norm", Binary::Div, x, y, dtype)?, p - 1.0, dtype)?;
    // For p below 1 the slope at every element of 0 is infinite, whatever the norm.
    let level = if (0.0..1.0).contains(&p) { compare("norm", Compare::Eq, x, &zero)? } else { vanishes };
    select("norm", &level.broadcast_to("norm", x.shape())?, &zero, &slope, dtype)
}

fn signed_power(x: &RawTensor, p: f64, dtype: DType) -> Result<RawTensor> {
    let power = unary(Unary::Powf(p), &unary(Unary::Abs, x, dtype)?, dtype)?;
    binary("norm", Binary::Mul, &unary(Unary::Sign, x, dtype)?, &power, dtype)
}

impl<P: Float> Tensor<P> {
    /// `(Σ |x|^p)^(1/p)` over `axes` (all when none are given); infinite `p` gives the largest or least magnitude, and 0 the
    /// number of elements that are not 0, which has no gradient (`torch.norm`).
    ///
    /// # Precision
    /// Squares are summed in F32 (F64 for F64).
    ///
    /// # Errors
    /// [`Error::Argument`] for `p` that is NaN.
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: NormPrecision,
    {
        if p.is_nan() {
            return Err(Error::argument("norm", "p", "a number", p));
        }
        let axes = shape::axes("norm", &axes.as_axes(), self.rank())?;
        if p == 0.0 {
            let found = compare("norm", Compare::Ne, &self.raw, &zeros(&self.raw, self.raw.logical)?)?;
            let number = reduce(Reduce::Sum, &found, &axes, P::WRITES.unwrap_or(P::DTYPE))?;
            return Self::from_raw(number.counted(P::DTYPE)).drop_axes(&axes, keep);
        }
        if p.is_infinite() {
            let magnitude = self.pointwise("norm", Unary::Abs)?;
            let fold = if p > 0.0 { Reduce::Max } else { Reduce::Min };
            return match axes.is_empty() {
                true => Ok(magnitude),
                false => {
                    Self::from_raw(extreme("norm", fold, &magnitude.raw, &axes, P::WRITES)?).drop_axes(&axes, keep)
                }
            };
        }
        Self::from_raw(norm_to(&self.raw, p, &axes, P::WRITES)?).drop_axes(&axes, keep)
    }

    /// [`norm`](Self::norm) by the name that it has in `torch.linalg` (`torch.linalg.vector_norm`).
    #[track_caller]
    pub fn vector_norm(&self, p: f64, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: VectorNormPrecision,
    {
        self.norm(p, axes, keep).map_err(|error| error.named("vector_norm"))
    }

    /// Euclidean norm of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn norm_all(&self) -> Result<Self>
    where
        P: NormAllPrecision,
    {
        self.norm(2.0, [], false)
    }

    /// Slices along `axis` scaled down to a p-norm of `max_norm` where theirs is more (`torch.renorm`).
    ///
    /// # Errors
    /// [`Error::Argument`] for `p` that is not above 0 and for `max_norm` that is negative or NaN.
    #[track_caller]
    pub fn renorm(&self, p: f64, axis: isize, max_norm: f64) -> Result<Self>
    where
        P: RenormPrecision,
    {
        const OP: &str = "renorm";
        if p.is_nan() || p <= 0.0 {
            return Err(Error::argument(OP, "p", "above 0", p));
        }
        if max_norm.is_nan() || max_norm < 0.0 {
            return Err(Error::argument(OP, "max_norm", "at least 0", max_norm));
        }
        let axis = shape::axis(OP, axis, self.rank())?;
        let others: Vec<isize> = (0..self.rank()).filter(|a| *a != axis).map(|a| a as isize).collect();
        let length = if others.is_empty() { self.abs() } else { self.norm(p, others, true) };
        let length = length.map_err(|error| error.named(OP))?;
        let share = length.add(1e-7)?.recip()?.mul(max_norm)?;
        self.mul(&length.detach().gt(max_norm)?.where_(&share, 1.0)?)
    }

    /// This tensor divided by its p-norm along `axis`, or by `eps` where the norm is less (`F.normalize`, where they are 2, 1 and
    /// 1e-12 by default).
    ///
    /// # Errors
    /// [`Error::Argument`] for `p` that is 0, infinite or NaN, and for `eps` that is negative or NaN.
    #[track_caller]
    pub fn normalize(&self, p: f64, axis: isize, eps: f64) -> Result<Self>
    where
        P: NormalizePrecision,
    {
        const OP: &str = "normalize";
        if p == 0.0 || !p.is_finite() {
            return Err(Error::argument(OP, "p", "a finite number other than 0", p));
        }
        if let Some(line) = self.line(axis)? {
            return line.normalize(p, 0, eps)?.reshape(());
        }
        let axis = shape::axis(OP, axis, self.rank())?;
        let length = at_least(OP, &norm(&self.raw, p, &[axis])?, eps)?;
        Ok(Self::from_raw(div_to(&self.raw, &length, P::WRITES)?))
    }

    /// Cosine of the angle between vectors along `axis`, their lengths taken as at least `eps`; the tensors broadcast
    /// (`F.cosine_similarity`, where axis and eps are 1 and 1e-8 by default).
    ///
    /// # Precision
    /// Products and squares are summed in F32 (F64 for F64).
    ///
    /// # Errors
    /// [`Error::Argument`] for `eps` that is negative or NaN, [`Error::Broadcast`] when the shapes do not fit.
    #[track_caller]
    pub fn cosine_similarity<Q: Element>(&self, other: &Tensor<Q>, axis: isize, eps: f64) -> Result<Self>
    where
        P: CosineSimilarityPrecision + SamePrecision<Q>,
    {
        const OP: &str = "cosine_similarity";
        let shape = *broadcast_pair(OP, &self.raw, &other.raw)?.0.shape();
        if let (Some(a), Some(b), true) = (self.line(axis)?, other.line(axis)?, shape.is_empty()) {
            return a.cosine_similarity(&b, 0, eps);
        }
        let axis = shape::axis(OP, axis, shape.len())?;
        let (a, b) = (self.expand(shape)?, other.expand(shape)?);
        let length = |x: &RawTensor| at_least(OP, &norm(x, 2.0, &[axis])?, eps);
        let dot = fold(OP, Reduce::Sum, &mul(&a.raw, &b.raw)?, &[axis], 1.0)?;
        let cosine = div_to(&div(&dot, &length(&a.raw)?)?, &length(&b.raw)?, P::WRITES)?;
        Self::from_raw(cosine).drop_axes(&[axis], false)
    }
}

/// `x`, or `eps` where that is more.
#[track_caller]
fn at_least(op: &'static str, x: &RawTensor, eps: f64) -> Result<RawTensor> {
    if eps.is_nan() || eps < 0.0 {
        return Err(Error::argument(op, "eps", "at least 0", eps));
    }
    pointwise::unary(op, Unary::Clamp { min: eps, max: f64::INFINITY }, x)
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for p in [1.0, 2.0, 3.0, 0.5, f64::INFINITY, f64::NEG_INFINITY] {
            let worst = gradcheck(|x| x[0].norm(p, [1], false), std::slice::from_ref(&x)).unwrap();
            assert!(worst.agrees(), "p = {p}: {worst:?}");
        }
    }

    #[test]
    fn gradients_of_directions_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let y = Tensor::<F64>::from_vec(vec![1.3, 0.7, -0.9], [3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("normalize", gradcheck(|x| x[0].normalize(2.0, 1, 1e-12)?.sqr(), std::slice::from_ref(&x))),
            ("normalize by sums", gradcheck(|x| x[0].normalize(1.0, 0, 1e-12)?.sqr(), std::slice::from_ref(&x))),
            ("cosine_similarity", gradcheck(|x| x[0].cosine_similarity(&x[1], -1, 1e-8), &[x.clone(), y])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn slices_that_are_long_are_scaled_down() {
        let x = Tensor::<F64>::from_vec(vec![3.0, 4.0, 0.3, 0.4, 0.0, 0.0], [3, 2], &Device::cpu()).unwrap();
        let short = x.renorm(2.0, 0, 1.0).unwrap();
        let lengths = short.norm(2.0, 1, false).unwrap().to_vec().unwrap();
        assert!(lengths.iter().zip([1.0, 0.5, 0.0]).all(|(a, b)| (a - b).abs() < 1e-7), "{lengths:?}");
        let near = [x.narrow(0, 0, 2).unwrap().add(0.01).unwrap()];
        for (name, worst) in [
            ("renorm", gradcheck(|x| x[0].renorm(2.0, 0, 1.0), &near)),
            ("renorm of a line", gradcheck(|x| x[0].select(0, 0)?.renorm(1.0, 0, 3.5), &near)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
        let error = x.narrow(1, 0, 0).unwrap().renorm(f64::INFINITY, 0, 1.0).unwrap_err().to_string();
        assert!(error.starts_with("renorm: a tensor of shape"), "{error}");
        assert!(x.renorm(0.0, 0, 1.0).is_err() && x.renorm(2.0, 2, 1.0).is_err() && x.renorm(2.0, 0, -1.0).is_err());
    }

    #[test]
    fn directions_of_zeros_are_zero() {
        let x = Tensor::<F32>::zeros([2, 3], &Device::cpu()).unwrap();
        assert_eq!(x.normalize(2.0, 1, 1e-12).unwrap().to_vec().unwrap(), [0.0; 6]);
        assert_eq!(x.cosine_similarity(&x, 1, 1e-8).unwrap().to_vec().unwrap(), [0.0; 2]);
        let text = |result: crate::Result<Tensor<F32>>| result.unwrap_err().to_string();
        assert_eq!(text(x.normalize(2.0, 1, -1.0)), "normalize: eps must be at least 0, found -1");
        assert_eq!(text(x.normalize(0.0, 1, 0.0)), "normalize: p must be a finite number other than 0, found 0");
        assert!(x.cosine_similarity(&x, 2, 1e-8).is_err() && x.cosine_similarity(&x, 1, f64::NAN).is_err());
        let (other, rule) =
            (Tensor::<F32>::zeros([4], &Device::cpu()).unwrap(), "shapes [2, 3] and [4] do not broadcast");
        assert_eq!(text(x.cosine_similarity(&other, 1, 1e-8)), format!("cosine_similarity: {rule}"));
    }

    #[test]
    fn the_norm_of_zeros_has_no_slope() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap().tracked();
        let grads = x.norm_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.0; 3]);
        assert!(x.norm(f64::NAN, [], false).is_err());
    }

    #[test]
    fn the_norm_of_no_power_counts() {
        let values = vec![0.0, -0.0, 1.0, f32::NAN, f32::INFINITY, -2.0];
        let x = Tensor::<F32>::from_vec(values, [2, 3], &Device::cpu()).unwrap().tracked();
        let counts = x.vector_norm(0.0, 1, true).unwrap();
        assert_eq!((counts.dims(), counts.to_vec().unwrap()), ([2, 1].as_slice(), vec![1.0, 3.0]));
        assert!(!counts.requires_grad());
        assert_eq!(x.norm(0.0, [], false).unwrap().item().unwrap(), 4.0);
    }
}
