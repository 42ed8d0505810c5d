//! Functions of two elements that are made of other operations.

use super::kernel::{binary, compare, select, unary};
use super::operand::Operand;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Bool, Element, F64, Float, Numeric, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Compare, DType, Dims, Storage, Unary};

full_range! {
    LogaddexpPrecision, "`logaddexp` must run in `F32`";
}

/// What is left of a division, or its quotient.
#[derive(Clone, Copy)]
enum Division {
    Floor,
    Remainder,
    Fmod,
}

impl Division {
    fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor_divide",
            Self::Remainder => "remainder",
            Self::Fmod => "fmod",
        }
    }

    fn of_integers(self, a: i64, b: i64) -> i64 {
        let rest = a.wrapping_rem(b);
        let crosses = rest != 0 && (rest < 0) != (b < 0);
        match self {
            Self::Floor => a.wrapping_div(b) - i64::from(crosses),
            Self::Remainder => rest + if crosses { b } else { 0 },
            Self::Fmod => rest,
        }
    }

    /// F64 holds quotients of numbers of fewer bits well enough to tell which integers they lie between.
    #[track_caller]
    fn of_numbers(self, a: &Tensor<F64>, b: &Tensor<F64>) -> Result<Tensor<F64>> {
        let ratio = (a / b)?.detach();
        let whole = ratio.trunc()?;
        // A divisor of infinity leaves everything, and 0 times infinity nothing.
        let rest = whole.eq(0.0)?.where_(a, (a - (&whole * b)?)?)?;
        if let Self::Fmod = self {
            return Ok(rest);
        }
        let crosses = (rest.ne(0.0)? & rest.lt(0.0)?.ne(&b.lt(0.0)?)?)?;
        match self {
            Self::Floor => crosses.where_(&(&whole - 1.0)?, &whole),
            _ => crosses.where_(&(&rest + b)?, &rest),
        }
    }
}

/// Integers, which are divided by the host.
fn integers(op: Division, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let name = op.name();
    let (a, b) = super::broadcast_pair(name, a, b)?;
    let divided = |a: i64, b: i64| match b {
        0 => Err(Error::argument(name, "the divisor of integers", "other than 0", 0)),
        b => Ok(op.of_integers(a, b)),
    };
    let quotients = match (a.contiguous()?.to_storage()?, b.contiguous()?.to_storage()?) {
        (Storage::I64(a), Storage::I64(b)) => {
            let y: Result<Vec<i64>> = a.iter().zip(b.iter()).map(|(&a, &b)| divided(a, b)).collect();
            Storage::I64(y?.into())
        }
        (Storage::U8(a), Storage::U8(b)) => {
            let y: Result<Vec<u8>> =
                a.iter().zip(b.iter()).map(|(&a, &b)| Ok(divided(a.into(), b.into())? as u8)).collect();
            Storage::U8(y?.into())
        }
        _ => unreachable!("integers of one precision"),
    };
    Ok(RawTensor::new(a.device(), a.backend().upload(quotients)?, *a.shape()))
}

#[track_caller]
fn divide<P: Numeric>(op: Division, a: &Tensor<P>, b: impl Operand<P>) -> Result<Tensor<P>> {
    let b = b.term().beside(&a.raw)?;
    a.device().check_same(b.device(), op.name())?;
    if matches!(P::DTYPE, DType::I64 | DType::U8) {
        return integers(op, &a.raw, &b).map(Tensor::from_raw);
    }
    let mut divisor = b.cast_view(DType::F64)?;
    divisor.edge = b.edge.clone();
    op.of_numbers(&a.to()?, &Tensor::from_raw(divisor))?.to()
}

fn number(x: &RawTensor, value: f64) -> Result<RawTensor> {
    RawTensor::full(x.device(), value, Dims::default(), x.logical)
}

/// The share of `a` in `e^a + e^b`, half of equals: infinities have no difference.
fn share(a: &RawTensor, b: &RawTensor, apart: &RawTensor) -> Result<RawTensor> {
    let equal = compare("logaddexp", Compare::Eq, a, b)?;
    select("logaddexp", &equal, &number(a, 0.5)?, &unary(Unary::Sigmoid, apart, a.logical)?, a.logical)
}

/// `max(a, b) - ln(sigmoid(|a - b|))`; of equals, infinities too, `a + ln 2`.
#[track_caller]
fn logaddexp(a: &RawTensor, b: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
    const OP: &str = "logaddexp";
    let dtype = a.logical;
    let apart = unary(Unary::Abs, &binary(OP, Binary::Sub, a, b, dtype)?, dtype)?;
    let less = unary(Unary::LogSigmoid, &apart, dtype)?;
    let sum = binary(OP, Binary::Sub, &binary(OP, Binary::Maximum, a, b, dtype)?, &less, dtype)?;
    let double = unary(Unary::Affine { mul: 1.0, add: std::f64::consts::LN_2 }, a, dtype)?;
    let y = select(OP, &compare(OP, Compare::Eq, a, b)?, &double, &sum, writes.unwrap_or(dtype))?.counted(dtype);
    record(OP, &[a, b], y, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            for (input, own, other) in [(0, &a, &b), (1, &b, &a)] {
                if pass.wants(input) {
                    let share = share(own, other, &binary(OP, Binary::Sub, own, other, own.logical)?)?;
                    pass.give(input, binary(OP, Binary::Mul, &share, pass.grad(), pass.summand(input))?)?;
                }
            }
            Ok(())
        }))
    })
}

impl<P: Numeric> Tensor<P> {
    /// `floor(self / other)` (`torch.floor_divide`, `//`), without a gradient.
    ///
    /// Computed in F64, rounded once. Integers are divided by the host: a GPU is waited for.
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0.
    #[track_caller]
    pub fn floor_divide<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide(Division::Floor, self, other)
    }

    /// What is left of `self / other`, with the sign of `other` (`torch.remainder`, `%`).
    ///
    /// Computed in F64, rounded once: exact for quotients below 2^29 of numbers that are not F64. Integers are divided by the
    /// host: a GPU is waited for.
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0.
    #[track_caller]
    pub fn remainder<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide(Division::Remainder, self, other)
    }

    /// What is left of `self / other`, with the sign of `self` (`torch.fmod`); else as [`remainder`](Self::remainder).
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0.
    #[track_caller]
    pub fn fmod<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide(Division::Fmod, self, other)
    }
}

impl<P: Float> Tensor<P> {
    /// The greater of two elements; a number beside NaN (`torch.fmax`). Equal elements share the gradient.
    #[track_caller]
    pub fn fmax<Q: Float>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        other.isnan()?.where_(self, self.eq(self)?.where_(&self.maximum(other)?, other)?)
    }

    /// The lesser of two elements; a number beside NaN (`torch.fmin`). Equal elements share the gradient.
    #[track_caller]
    pub fn fmin<Q: Float>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        other.isnan()?.where_(self, self.eq(self)?.where_(&self.minimum(other)?, other)?)
    }

    /// `|self|` with the sign of `other`, that of a zero too (`torch.copysign`); NaN counts as positive. `other` gets no gradient.
    #[track_caller]
    pub fn copysign<Q: Float>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let sign = other.detach().to::<F64>()?;
        let negative = (sign.lt(0.0)? | sign.recip()?.lt(0.0)?)?;
        let size = self.abs()?;
        negative.where_(&size.neg()?, &size)
    }

    /// `ln(e^self + e^other)` without overflow (`torch.logaddexp`). Needs full precision.
    #[track_caller]
    pub fn logaddexp<Q: Float>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q> + LogaddexpPrecision,
    {
        Ok(Self::from_raw(logaddexp(&self.raw, &other.raw, P::WRITES)?))
    }
}

impl<P: Element> Tensor<P> {
    /// Whether both have one shape and equal elements; NaN equals nothing (`torch.equal`). Waits for the device.
    pub fn equal<Q: Element>(&self, other: &Tensor<Q>) -> Result<bool>
    where
        P: SamePrecision<Q>,
    {
        Ok(self.dims() == other.dims() && self.eq(other)?.all([], false)?.item()?)
    }
}

impl<P: Float> Tensor<P> {
    /// Where `|self - other| <= atol + rtol * |other|`, or both are the same infinity (`torch.isclose`, where `rtol` is 1e-5
    /// and `atol` 1e-8 by default); NaN is close to nothing. Computed in F64.
    pub fn isclose<Q: Float>(
        &self,
        other: &Tensor<Q>,
        rtol: impl Into<f64>,
        atol: impl Into<f64>,
    ) -> Result<Tensor<Bool>>
    where
        P: SamePrecision<Q>,
    {
        let (a, b) = (self.detach().to::<F64>()?, other.detach().to::<F64>()?);
        let apart = (&a - &b)?.abs()?;
        let allowed = ((b.abs()? * rtol.into())? + atol.into())?;
        let near = (apart.le(&allowed)? & apart.isfinite()?)?;
        near | a.eq(&b)?
    }

    /// Whether all elements are [close](Self::isclose) (`torch.allclose`). Waits for the device.
    pub fn allclose<Q: Float>(&self, other: &Tensor<Q>, rtol: impl Into<f64>, atol: impl Into<f64>) -> Result<bool>
    where
        P: SamePrecision<Q>,
    {
        self.isclose(other, rtol, atol)?.all([], false)?.item()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, I64, Tensor, U8, gradcheck};
    use half::f16;

    fn numbers(values: &[f32]) -> Tensor<F32> {
        Tensor::from_slice(values, [values.len()], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let a = Tensor::<F64>::from_vec(vec![5.3, -0.7, 1.9, 0.4, -2.2, 0.8], [2, 3], &device).unwrap();
        let b = Tensor::<F64>::from_vec(vec![1.3, -0.6, 0.9], [3], &device).unwrap();
        let both = [a, b];
        for (name, worst) in [
            ("fmod", gradcheck(|x| x[0].fmod(&x[1]), &both)),
            ("remainder", gradcheck(|x| x[0].remainder(&x[1]), &both)),
            ("remainder of a number", gradcheck(|x| x[0].remainder(-0.65), &both[..1])),
            ("fmax", gradcheck(|x| x[0].fmax(&x[1]), &both)),
            ("fmin", gradcheck(|x| x[0].fmin(&x[1]), &both)),
            ("copysign", gradcheck(|x| x[0].copysign(&x[1].detach()), &both)),
            ("logaddexp", gradcheck(|x| x[0].logaddexp(&x[1]), &both)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.error <= 1e-6, "{name}: {worst:?}");
        }
    }

    #[test]
    fn integers_are_divided_as_pytorch_divides_them() {
        let device = Device::cpu();
        let a = Tensor::<I64>::from_vec(vec![7, -7, 7, -7, (1 << 60) + 1], [5], &device).unwrap();
        let b = Tensor::<I64>::from_vec(vec![3, 3, -3, -3, 2], [5], &device).unwrap();
        assert_eq!(a.floor_divide(&b).unwrap().to_vec().unwrap(), [2, -3, -3, 2, 1 << 59]);
        assert_eq!(a.remainder(&b).unwrap().to_vec().unwrap(), [1, 2, -2, -1, 1]);
        assert_eq!(a.fmod(&b).unwrap().to_vec().unwrap(), [1, -1, 1, -1, 1]);
        assert_eq!(a.remainder(4).unwrap().to_vec().unwrap(), [3, 1, 3, 1, 1]);
        let bytes = Tensor::<U8>::from_vec(vec![250, 3], [2], &device).unwrap();
        assert_eq!(bytes.floor_divide(100).unwrap().to_vec().unwrap(), [2, 0]);
        let error = a.floor_divide(0).unwrap_err().to_string();
        assert_eq!(error, "floor_divide: the divisor of integers must be other than 0, found 0");
    }

    #[test]
    fn numbers_leave_exact_remainders() {
        let (a, b) = (numbers(&[7.5, -7.5, -1.0, 1e9, -0.0]), numbers(&[2.0, 2.0, f32::INFINITY, 0.3, 2.0]));
        let exact = f64::from(1e9_f32) % f64::from(0.3_f32);
        assert_eq!(a.remainder(&b).unwrap().to_vec().unwrap(), [1.5, 0.5, f32::INFINITY, exact as f32, 0.0]);
        assert_eq!(a.fmod(&b).unwrap().to_vec().unwrap(), [1.5, -1.5, -1.0, exact as f32, 0.0]);
        assert_eq!(a.floor_divide(2.0).unwrap().to_vec().unwrap(), [3.0, -4.0, -1.0, 5e8, 0.0]);
        assert!(a.remainder(0.0).unwrap().to_vec().unwrap().iter().all(|y| y.is_nan()));
        let narrow = numbers(&[1024.0]).to::<F16>().unwrap();
        assert_eq!(narrow.remainder(0.3).unwrap().item().unwrap(), f16::from_f64(1024.0 % 0.3));
    }

    #[test]
    fn a_number_stands_beside_nan_and_signs_are_those_of_zeros_too() {
        let (a, b) = (numbers(&[1.0, f32::NAN, 3.0, -0.0]), numbers(&[f32::NAN, 2.0, 3.0, 5.0]));
        let (x, y) = (a.tracked(), b.tracked());
        let most = x.fmax(&y).unwrap();
        assert_eq!(most.to_vec().unwrap(), [1.0, 2.0, 3.0, 5.0]);
        assert_eq!(a.fmin(&b).unwrap().to_vec().unwrap(), [1.0, 2.0, 3.0, 0.0]);
        let grads = most.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [1.0, 0.0, 0.5, 0.0]);
        let signed = b.copysign(&numbers(&[1.0, -0.0, -5.0, 0.0])).unwrap().to_vec().unwrap();
        assert_eq!(signed[1..], [-2.0, -3.0, 5.0]);
    }

    #[test]
    fn infinite_sums_of_exponentials() {
        let (inf, x) = (f32::INFINITY, numbers(&[f32::INFINITY, -f32::INFINITY, 3.0, 1e3]).tracked());
        let y = x.logaddexp(&numbers(&[inf, -inf, -inf, 1e3])).unwrap();
        assert_eq!(y.to_vec().unwrap(), [inf, -inf, 3.0, 1e3 + std::f32::consts::LN_2]);
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.5, 0.5, 1.0, 0.5]);
    }

    #[test]
    fn what_is_close_and_what_is_equal() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let (a, b) = (numbers(&[1.0, 1.0, inf, inf, nan]), numbers(&[1.000_001, 1.1, inf, 1.0, nan]));
        let close = a.isclose(&b, 1e-5, 1e-8).unwrap().to_vec().unwrap();
        assert_eq!(close, [true, false, true, false, false]);
        assert_eq!(b.isclose(&a, 1e-5, 1e-8).unwrap().to_vec().unwrap(), close);
        assert!(!a.allclose(&b, 1e-5, 1e-8).unwrap() && !a.equal(&a).unwrap());
        let x = numbers(&[1.0, -0.0]);
        assert!(x.equal(&x.abs().unwrap()).unwrap() && !x.equal(&x.unsqueeze(0).unwrap()).unwrap());
    }
}
