//! Functions of two elements that are made of other operations.

use super::kernel::{binary, compare, scaled, select, unary};
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Bool, Element, F64, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, Compare, DType, Dims, Unary};

full_range! {
    LogaddexpPrecision, "`logaddexp` must run in `F32`";
    Logaddexp2Precision, "`logaddexp2` must run in `F32`";
}

fn number(x: &RawTensor, value: f64) -> Result<RawTensor> {
    RawTensor::full(x.device(), value, Dims::default(), x.logical)
}

/// The logarithm that sums of powers are taken in.
#[derive(Clone, Copy)]
struct Base {
    op: &'static str,
    /// Its natural logarithm.
    ln: f64,
}

impl Base {
    const E: Self = Self { op: "logaddexp", ln: 1.0 };
    const TWO: Self = Self { op: "logaddexp2", ln: std::f64::consts::LN_2 };
}

fn by(x: &RawTensor, factor: f64) -> Result<RawTensor> {
    if factor == 1.0 { Ok(x.clone()) } else { scaled(x, factor) }
}

/// The share of `a` in the sum of both powers, half of equals: infinities have no difference.
fn share(base: Base, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let apart = by(&binary(base.op, Binary::Sub, a, b, a.logical)?, base.ln)?;
    let equal = compare(base.op, Compare::Eq, a, b)?;
    select(base.op, &equal, &number(a, 0.5)?, &unary(Unary::Sigmoid, &apart, a.logical)?, a.logical)
}

/// `max(a, b) - log(sigmoid(|a - b|))`; of equals, infinities too, `a + log 2`.
#[track_caller]
fn logaddexp(base: Base, a: &RawTensor, b: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
    let (op, dtype) = (base.op, a.logical);
    let apart = unary(Unary::Abs, &binary(op, Binary::Sub, a, b, dtype)?, dtype)?;
    let less = by(&unary(Unary::LogSigmoid, &by(&apart, base.ln)?, dtype)?, 1.0 / base.ln)?;
    let sum = binary(op, Binary::Sub, &binary(op, Binary::Maximum, a, b, dtype)?, &less, dtype)?;
    let double = unary(Unary::Affine { mul: 1.0, add: std::f64::consts::LN_2 / base.ln }, a, dtype)?;
    let y = select(op, &compare(op, Compare::Eq, a, b)?, &double, &sum, writes.unwrap_or(dtype))?.counted(dtype);
    record(op, &[a, b], y, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            for (input, own, other) in [(0, &a, &b), (1, &b, &a)] {
                if pass.wants(input) {
                    let share = share(base, own, other)?;
                    pass.give(input, binary(op, Binary::Mul, &share, pass.grad(), pass.summand(input))?)?;
                }
            }
            Ok(())
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// The greater of two elements; of a number and NaN, the number (`torch.fmax`). Equal elements share the gradient.
    #[track_caller]
    pub fn fmax<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let other = &Self::from_raw(other.raw.clone());
        let chosen = self.maximum(other).map_err(|error| error.named("fmax"))?;
        other.isnan()?.where_(self, self.eq(self)?.where_(&chosen, other)?)
    }

    /// The lesser of two elements; of a number and NaN, the number (`torch.fmin`). Equal elements share the gradient.
    #[track_caller]
    pub fn fmin<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let other = &Self::from_raw(other.raw.clone());
        let chosen = self.minimum(other).map_err(|error| error.named("fmin"))?;
        other.isnan()?.where_(self, self.eq(self)?.where_(&chosen, other)?)
    }

    /// `|self|` with the sign of `other`, that of a zero too (`torch.copysign`); NaN counts as positive. `other` gets no gradient.
    #[track_caller]
    pub fn copysign<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let sign = other.detach().to::<F64>()?;
        let negative = (sign.lt(0.0)? | sign.recip()?.lt(0.0)?)?;
        let size = self.abs()?;
        negative.where_(&size.neg()?, &size).map_err(|error| error.named("copysign"))
    }

    /// `ln(e^self + e^other)` without overflow (`torch.logaddexp`). Needs full precision.
    #[track_caller]
    pub fn logaddexp<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q> + LogaddexpPrecision,
    {
        Ok(Self::from_raw(logaddexp(Base::E, &self.raw, &other.raw, P::WRITES)?))
    }

    /// `log2(2^self + 2^other)` without overflow (`torch.logaddexp2`). Needs full precision.
    #[track_caller]
    pub fn logaddexp2<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q> + Logaddexp2Precision,
    {
        Ok(Self::from_raw(logaddexp(Base::TWO, &self.raw, &other.raw, P::WRITES)?))
    }
}

/// So many elements are looked for at once: what is compared at a time is so many times the size of the tensor.
const TOGETHER: usize = 64;

impl<P: Element> Tensor<P> {
    /// Whether each element is one of `elements`, of whatever shape (`torch.isin`); NaN is not. All are compared with all.
    pub fn isin<Q: Element>(&self, elements: &Tensor<Q>) -> Result<Tensor<Bool>>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "isin";
        self.device().check_same(elements.device(), OP)?;
        let count = elements.count();
        let (line, elements) = (self.reshape([self.count(), 1])?, elements.reshape([count])?);
        let mut found = Tensor::<Bool>::zeros([self.count()], self.device()).map_err(|error| error.named(OP))?;
        for start in (0..count).step_by(TOGETHER) {
            let some = elements.narrow(0, start, TOGETHER.min(count - start))?;
            found = found.logical_or(&line.eq(&some)?.any(1, false)?)?;
        }
        found.reshape(*self.raw.shape())
    }

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
    pub fn isclose<Q: Element>(
        &self,
        other: &Tensor<Q>,
        rtol: impl Into<f64>,
        atol: impl Into<f64>,
    ) -> Result<Tensor<Bool>>
    where
        P: SamePrecision<Q>,
    {
        let (a, b) = (self.detach().to::<F64>()?, other.detach().to::<F64>()?);
        let apart = (&a - &b).map_err(|error| error.named("isclose"))?.abs()?;
        let allowed = ((b.abs()? * rtol.into())? + atol.into())?;
        let near = (apart.le(&allowed)? & apart.isfinite()?)?;
        near | a.eq(&b)?
    }

    /// Whether all elements are [close](Self::isclose) (`torch.allclose`). Waits for the device.
    pub fn allclose<Q: Element>(&self, other: &Tensor<Q>, rtol: impl Into<f64>, atol: impl Into<f64>) -> Result<bool>
    where
        P: SamePrecision<Q>,
    {
        let close = self.isclose(other, rtol, atol).map_err(|error| error.named("allclose"))?;
        close.all([], false)?.item()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::line;
    use crate::{Device, F64, I64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let a = Tensor::<F64>::from_vec(vec![5.3, -0.7, 1.9, 0.4, -2.2, 0.8], [2, 3], &device).unwrap();
        let b = Tensor::<F64>::from_vec(vec![1.3, -0.6, 0.9], [3], &device).unwrap();
        let both = [a, b];
        for (name, worst) in [
            ("fmax", gradcheck(|x| x[0].fmax(&x[1]), &both)),
            ("fmin", gradcheck(|x| x[0].fmin(&x[1]), &both)),
            ("copysign", gradcheck(|x| x[0].copysign(&x[1].detach()), &both)),
            ("logaddexp", gradcheck(|x| x[0].logaddexp(&x[1]), &both)),
            ("logaddexp2", gradcheck(|x| x[0].logaddexp2(&x[1]), &both)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn a_number_stands_beside_nan_and_signs_are_those_of_zeros_too() {
        let (a, b) = (line(&[1.0, f32::NAN, 3.0, -0.0]), line(&[f32::NAN, 2.0, 3.0, 5.0]));
        let (x, y) = (a.tracked(), b.tracked());
        let most = x.fmax(&y).unwrap();
        assert_eq!(most.to_vec().unwrap(), [1.0, 2.0, 3.0, 5.0]);
        assert_eq!(a.fmin(&b).unwrap().to_vec().unwrap(), [1.0, 2.0, 3.0, 0.0]);
        let grads = most.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [1.0, 0.0, 0.5, 0.0]);
        let signed = b.copysign(&line(&[1.0, -0.0, -5.0, 0.0])).unwrap().to_vec().unwrap();
        assert_eq!(signed[1..], [-2.0, -3.0, 5.0]);
    }

    #[test]
    fn infinite_sums_of_exponentials() {
        let (inf, x) = (f32::INFINITY, line(&[f32::INFINITY, -f32::INFINITY, 3.0, 1e3]).tracked());
        let y = x.logaddexp(&line(&[inf, -inf, -inf, 1e3])).unwrap();
        assert_eq!(y.to_vec().unwrap(), [inf, -inf, 3.0, 1e3 + std::f32::consts::LN_2]);
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.5, 0.5, 1.0, 0.5]);
        let y = x.logaddexp2(&line(&[inf, -inf, -inf, 1e3])).unwrap();
        assert_eq!(y.to_vec().unwrap(), [inf, -inf, 3.0, 1001.0]);
    }

    #[test]
    fn elements_are_found_among_others() {
        let (device, nan) = (Device::cpu(), f32::NAN);
        let x = line(&[1.0, -0.0, nan, 5.0]).reshape([2, 2]).unwrap();
        let found = x.isin(&line(&[7.0, 0.0, nan, 5.0])).unwrap();
        assert_eq!((found.dims(), found.to_vec().unwrap()), (&[2, 2][..], vec![false, true, false, true]));
        assert_eq!(x.isin(&line(&[])).unwrap().to_vec().unwrap(), [false; 4]);
        let even = Tensor::<I64>::from_fn([10, 20], |i| (i[0] * 20 + i[1]) as i64 * 2, &device).unwrap();
        let numbers = Tensor::<I64>::from_fn([500], |i| i[0] as i64, &device).unwrap();
        let found = numbers.isin(&even).unwrap().to_vec().unwrap();
        assert!(found.iter().enumerate().all(|(i, found)| *found == (i % 2 == 0 && i < 400)));
    }

    #[test]
    fn what_is_close_and_what_is_equal() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let (a, b) = (line(&[1.0, 1.0, inf, inf, nan]), line(&[1.000_001, 1.1, inf, 1.0, nan]));
        let close = a.isclose(&b, 1e-5, 1e-8).unwrap().to_vec().unwrap();
        assert_eq!(close, [true, false, true, false, false]);
        assert_eq!(b.isclose(&a, 1e-5, 1e-8).unwrap().to_vec().unwrap(), close);
        assert!(!a.allclose(&b, 1e-5, 1e-8).unwrap() && !a.equal(&a).unwrap());
        let x = line(&[1.0, -0.0]);
        assert!(x.equal(&x.abs().unwrap()).unwrap() && !x.equal(&x.unsqueeze(0).unwrap()).unwrap());
    }
}
