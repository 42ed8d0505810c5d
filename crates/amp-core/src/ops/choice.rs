//! Choosing between elements: the lesser, the greater, by a mask.

use super::broadcast_pair;
use super::kernel::{binary, compare, scaled, select, zeros};
use super::operand::{Operand, Term};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Bool, Element};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Binary, Compare, DType};
use std::ops::RangeInclusive;

/// What [`Tensor::masked_fill`] and [`Tensor::full_like`] write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Minus infinity: what a masked attention score should be in any precision.
    NegInf,
    /// The least finite value of the tensor's precision.
    Lowest,
    /// A number, which must be finite in the tensor's precision if it is finite here, and a value of an integer tensor.
    Value(f64),
}

impl From<f64> for Fill {
    fn from(value: f64) -> Self {
        Self::Value(value)
    }
}

impl From<f32> for Fill {
    fn from(value: f32) -> Self {
        Self::Value(value.into())
    }
}

impl From<i32> for Fill {
    fn from(value: i32) -> Self {
        Self::Value(value.into())
    }
}

/// Exact up to 2^53 in magnitude.
impl From<i64> for Fill {
    fn from(value: i64) -> Self {
        Self::Value(value as f64)
    }
}

impl Fill {
    /// The number, for a tensor of precision `dtype`.
    pub(crate) fn value(self, op: &'static str, dtype: DType) -> Result<f64> {
        let largest = largest(dtype);
        match self {
            Self::Value(v) if !holds(v, dtype) => {
                Err(Error::argument(op, "the value", format!("a value of {dtype}"), v))
            }
            Self::NegInf if whole(dtype).is_some() => {
                let expected = format!("a value of {dtype}, or `Fill::Lowest`");
                Err(Error::argument(op, "the value", expected, "minus infinity"))
            }
            Self::NegInf => Ok(f64::NEG_INFINITY),
            Self::Lowest => Ok(whole(dtype).map_or(-largest, |range| *range.start())),
            Self::Value(v) if overflows(v, dtype) => {
                let expected = format!("at most {largest:e} in {dtype}, or `Fill::NegInf` or `Fill::Lowest`");
                Err(Error::argument(op, "the value", expected, format!("{v:e}")))
            }
            Self::Value(v) => Ok(v),
        }
    }
}

/// The largest finite value of a float.
pub(super) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f64::from(half::f16::MAX),
        DType::BF16 => f64::from(half::bf16::MAX),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// Whether a finite number is infinite in a precision.
fn overflows(value: f64, dtype: DType) -> bool {
    value.is_finite() && value.abs() > largest(dtype)
}

/// A number that an operation writes into a tensor: finite numbers must be finite in its precision, integers one of its values.
pub(super) fn written(op: &'static str, value: f64, dtype: DType) -> Result<f64> {
    if !holds(value, dtype) {
        return Err(Error::argument(op, "the value", format!("a value of {dtype}"), value));
    }
    if overflows(value, dtype) {
        let expected = format!("at most {:e} in {dtype}", largest(dtype));
        return Err(Error::argument(op, "the value", expected, format!("{value:e}")));
    }
    Ok(value)
}

/// The range of an integer precision.
pub(super) fn whole(dtype: DType) -> Option<RangeInclusive<f64>> {
    match dtype {
        DType::I64 => Some(i64::MIN as f64..=i64::MAX as f64),
        DType::U8 => Some(0.0..=255.0),
        DType::Bool => Some(0.0..=1.0),
        _ => None,
    }
}

/// Whether an integer precision has this value, if it is one.
fn holds(value: f64, dtype: DType) -> bool {
    whole(dtype).is_none_or(|range| range.contains(&value) && value.fract() == 0.0)
}

impl<P: Element> Tensor<P> {
    /// The lesser of two elements; NaN wins (`torch.minimum`). Equal elements share the gradient.
    #[track_caller]
    pub fn minimum<R: Operand<P>>(&self, other: R) -> Result<Self> {
        Ok(Self::from_raw(extreme("minimum", Binary::Minimum, Compare::Gt, &self.raw, other.term())?))
    }

    /// The greater of two elements; NaN wins (`torch.maximum`). Equal elements share the gradient.
    #[track_caller]
    pub fn maximum<R: Operand<P>>(&self, other: R) -> Result<Self> {
        Ok(Self::from_raw(extreme("maximum", Binary::Maximum, Compare::Lt, &self.raw, other.term())?))
    }

    /// The tensor with `value` where `mask` is true; both broadcast (`torch.masked_fill`).
    ///
    /// # Errors
    /// [`Error::Argument`] when a finite value is not finite in this precision: `-1e9` on F16; or when it is no value of this
    /// integer precision: `-1` on U8, 0.5 on I64.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor<Bool>, value: impl Into<Fill>) -> Result<Self> {
        let value = value.into().value("masked_fill", P::DTYPE)?;
        Ok(Self::from_raw(masked_fill(&self.raw, &mask.raw, value)?))
    }
}

impl Tensor<Bool> {
    /// `a` where this is true, `b` where it is false; all three broadcast (`torch.where`).
    #[track_caller]
    pub fn where_<P: Element, R: Operand<P>>(&self, a: &Tensor<P>, b: R) -> Result<Tensor<P>> {
        let b = b.term().held("where", P::DTYPE)?.beside(&a.raw)?;
        Ok(Tensor::from_raw(choose(&self.raw, &a.raw, &b)?))
    }
}

#[track_caller]
fn extreme(name: &'static str, op: Binary, loses: Compare, a: &RawTensor, b: Term) -> Result<RawTensor> {
    let b = &b.held(name, a.logical)?.beside(a)?;
    record(name, &[a, b], binary(name, op, a, b, a.logical)?, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let ties = compare(name, Compare::Eq, &a, &b)?;
            for (input, own, other) in [(0, &a, &b), (1, &b, &a)] {
                if pass.wants(input) {
                    let dtype = pass.summand(input);
                    let shared = select(name, &ties, &scaled(pass.grad(), 0.5)?, pass.grad(), dtype)?;
                    // Beside NaN neither has lost: both get a gradient, for a scaler to see that it is not finite.
                    let lost = compare(name, loses, own, other)?;
                    pass.give(input, select(name, &lost, &zeros(pass.grad(), dtype)?, &shared, dtype)?)?;
                }
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn masked_fill(x: &RawTensor, mask: &RawTensor, value: f64) -> Result<RawTensor> {
    let (wide, mask) = broadcast_pair("masked_fill", x, mask)?;
    let fill = RawTensor::full(x.device(), value, *wide.shape(), x.logical)?;
    record("masked_fill", &[x], select("masked_fill", &mask, &fill, &wide, x.logical)?, |_| {
        let mask = Saved::new(&mask)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let none = zeros(pass.grad(), pass.summand(0))?;
            let grad = select("masked_fill", &mask, &none, pass.grad(), pass.summand(0))?;
            pass.give(0, grad)
        }))
    })
}

#[track_caller]
fn choose(condition: &RawTensor, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    condition.device().check_same(a.device(), "where")?;
    condition.device().check_same(b.device(), "where")?;
    let pair = shape::broadcast("where", a.shape(), b.shape())?;
    let condition = condition.broadcast_to("where", &shape::broadcast("where", condition.shape(), &pair)?)?;
    record("where", &[a, b], select("where", &condition, a, b, a.logical)?, |_| {
        let condition = Saved::new(&condition)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            for input in [0, 1] {
                if pass.wants(input) {
                    let dtype = pass.summand(input);
                    let none = zeros(pass.grad(), dtype)?;
                    let (yes, no) = if input == 0 { (pass.grad(), &none) } else { (&none, pass.grad()) };
                    pass.give(input, select("where", &condition, yes, no, dtype)?)?;
                }
            }
            Ok(())
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::Fill;
    use crate::{BF16, Bool, Device, F16, F32, F64, I64, Tensor, U8, gradcheck};
    use half::f16;

    fn mask(values: [bool; 3]) -> Tensor<Bool> {
        Tensor::from_vec(values.to_vec(), [3], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let a = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.4, -2.2, 0.8], [2, 3], &device).unwrap();
        let b = Tensor::<F64>::from_vec(vec![1.3, -0.6, 0.9], [3], &device).unwrap();
        let both = [a.clone(), b.clone()];
        let chosen = mask([true, false, true]);
        for (name, worst) in [
            ("minimum", gradcheck(|x| x[0].minimum(&x[1]), &both)),
            ("maximum", gradcheck(|x| x[0].maximum(&x[1]), &both)),
            ("maximum of a number", gradcheck(|x| x[0].maximum(0.35), &both[..1])),
            ("masked_fill", gradcheck(|x| x[0].masked_fill(&chosen, 2.5), &both[..1])),
            ("masked_fill broadcasts", gradcheck(|x| x[0].reshape([2, 1, 3])?.masked_fill(&chosen, 0), &both[..1])),
            ("where", gradcheck(|x| chosen.where_(&x[0], &x[1]), &both)),
            ("where of a number", gradcheck(|x| chosen.where_(&x[1], 0.5), &both)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn equal_elements_share_the_gradient_and_nan_wins() {
        let device = Device::cpu();
        let a = Tensor::<F32>::from_vec(vec![1.0, 2.0, f32::NAN], [3], &device).unwrap().tracked();
        let b = Tensor::<F32>::from_vec(vec![1.0, 3.0, 0.0], [3], &device).unwrap().tracked();
        let y = a.maximum(&b).unwrap();
        assert!(y.to_vec().unwrap()[2].is_nan());
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&a).unwrap().unwrap().to_vec().unwrap()[..2], [0.5, 0.0]);
        assert_eq!(grads.get(&b).unwrap().unwrap().to_vec().unwrap()[..2], [0.5, 1.0]);
    }

    #[test]
    fn fills_fit_the_precision() {
        let device = Device::cpu();
        let x = Tensor::<F16>::zeros([3], &device).unwrap();
        let chosen = mask([true, false, false]);
        let first = |fill: Fill| x.masked_fill(&chosen, fill).unwrap().to_vec().unwrap()[0];
        assert_eq!((first(Fill::NegInf), first(Fill::Lowest)), (f16::NEG_INFINITY, f16::MIN));
        let error = x.masked_fill(&chosen, -1e9).unwrap_err().to_string();
        let rule = "at most 6.5504e4 in F16, or `Fill::NegInf` or `Fill::Lowest`";
        assert_eq!(error, format!("masked_fill: the value must be {rule}, found -1e9"));
        let wide = Tensor::<BF16>::zeros([3], &device).unwrap();
        assert_eq!(wide.masked_fill(&chosen, -1e9).unwrap().to_vec().unwrap()[1].to_f32(), 0.0);
    }

    #[test]
    fn numbers_that_are_written_fit_the_precision() {
        let device = Device::cpu();
        let (x, first) = (Tensor::<F16>::ones([3], &device).unwrap(), Tensor::<I64>::zeros([1], &device).unwrap());
        for (op, refused) in [
            ("pad", x.pad([1, 0], 1e6)),
            ("scatter", x.scatter(0, &first, 1e6)),
            ("index_fill", x.index_fill(0, &first, -1e6)),
            ("threshold", x.threshold(2.0, 1e6)),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.starts_with(&format!("{op}: the value must be at most 6.5504e4 in F16, found")), "{error}");
        }
        let infinite = x.pad([1, 0], f64::NEG_INFINITY).unwrap().scatter(0, &first, 65504.0).unwrap();
        assert_eq!(infinite.to_vec().unwrap()[0], f16::MAX);
        assert!(Tensor::<F32>::ones([3], &device).unwrap().threshold(2.0, 1e300).is_err());
        assert!(Tensor::<BF16>::ones([3], &device).unwrap().index_fill(0, &first, 1e6).is_ok());
    }

    #[test]
    fn fills_of_whole_numbers_are_values() {
        let (device, chosen) = (Device::cpu(), mask([true, false, false]));
        let (ids, bytes) = (Tensor::<I64>::ones([3], &device).unwrap(), Tensor::<U8>::ones([3], &device).unwrap());
        assert_eq!(ids.masked_fill(&chosen, -100_i64).unwrap().to_vec().unwrap(), [-100, 1, 1]);
        assert_eq!(ids.masked_fill(&chosen, Fill::Lowest).unwrap().to_vec().unwrap()[0], i64::MIN);
        assert_eq!(bytes.masked_fill(&chosen, 255).unwrap().to_vec().unwrap(), [255, 1, 1]);
        assert_eq!(bytes.masked_fill(&chosen, Fill::Lowest).unwrap().to_vec().unwrap()[0], 0);
        let refused = |filled: crate::Result<Tensor<I64>>| filled.unwrap_err().to_string();
        let rule = "masked_fill: the value must be a value of I64";
        assert_eq!(refused(ids.masked_fill(&chosen, 0.5)), format!("{rule}, found 0.5"));
        assert_eq!(refused(ids.masked_fill(&chosen, f64::NAN)), format!("{rule}, found NaN"));
        let negative = format!("{rule}, or `Fill::Lowest`, found minus infinity");
        assert_eq!(refused(ids.masked_fill(&chosen, Fill::NegInf)), negative);
        assert!(bytes.masked_fill(&chosen, -1).is_err() && bytes.masked_fill(&chosen, 256).is_err());
        assert!(chosen.masked_fill(&chosen, 2).is_err());
    }

    #[test]
    fn what_is_not_chosen_leaves_no_trace() {
        let device = Device::cpu();
        let a = Tensor::<F32>::from_vec(vec![1.0, f32::NAN], [2], &device).unwrap();
        let condition = Tensor::<Bool>::from_vec(vec![true, false], [2], &device).unwrap();
        assert_eq!(condition.where_(&a, 7.0).unwrap().to_vec().unwrap(), [1.0, 7.0]);
        let error = mask([true; 3]).where_(&a, 7.0).unwrap_err().to_string();
        assert_eq!(error, "where: shapes [3] and [2] do not broadcast");
    }

    #[test]
    fn the_gradient_of_what_became_nan_is_not_dropped() {
        let device = Device::cpu();
        let a = Tensor::<F32>::from_vec(vec![f32::NAN, 2.0], [2], &device).unwrap().tracked();
        let b = Tensor::<F32>::from_vec(vec![1.0, f32::NAN], [2], &device).unwrap().tracked();
        for y in [a.maximum(&b).unwrap(), a.minimum(&b).unwrap()] {
            let grads = y.backward_with(&Tensor::full([2], 3.0, &device).unwrap()).unwrap();
            for x in [&a, &b] {
                assert_eq!(grads.get(x).unwrap().unwrap().to_vec().unwrap(), [3.0, 3.0]);
            }
        }
    }

    #[test]
    fn numbers_that_bytes_cannot_hold_are_not_chosen() {
        let device = Device::cpu();
        let (bytes, chosen) =
            (Tensor::<U8>::from_vec(vec![0, 200, 255], [3], &device).unwrap(), mask([true, false, true]));
        let text = |result: crate::Result<Tensor<U8>>| result.unwrap_err().to_string();
        assert_eq!(text(chosen.where_(&bytes, 300)), "where: the value must be a value of U8, found 300");
        assert_eq!(text(bytes.minimum(300)), "minimum: the value must be a value of U8, found 300");
        assert_eq!(text(bytes.maximum(-1)), "maximum: the value must be a value of U8, found -1");
        assert_eq!(chosen.where_(&bytes, 7).unwrap().to_vec().unwrap(), [0, 7, 255]);
        assert_eq!(bytes.minimum(100).unwrap().to_vec().unwrap(), [0, 100, 100]);
        let (ids, most) = (Tensor::<I64>::ones([3], &device).unwrap(), i64::MAX);
        assert_eq!(chosen.where_(&ids, most).unwrap().to_vec().unwrap(), [1, most, 1]);
        let half = Tensor::<F16>::ones([3], &device).unwrap();
        assert_eq!(half.minimum(1e6).unwrap().to_vec().unwrap()[0], f16::ONE);
    }

    #[test]
    fn the_lowest_truth_value_is_false() {
        let x = mask([true; 3]);
        assert_eq!(
            x.masked_fill(&mask([true, false, false]), Fill::Lowest).unwrap().to_vec().unwrap(),
            [false, true, true]
        );
    }
}
