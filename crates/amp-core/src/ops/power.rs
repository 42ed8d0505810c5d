//! Powers and angles: functions of two elements with a range of their own.

use super::kernel::{binary, compare, select, unary, zeros};
use super::operand::{Operand, Term};
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, Compare, DType, Unary};

full_range! {
    PowPrecision, "`pow` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// `self^exponent` for a number or a tensor, which broadcast (`torch.pow`). Needs full precision: powers leave the
    /// range of F16 at once.
    #[track_caller]
    pub fn pow<R: Operand<P>>(&self, exponent: R) -> Result<Self>
    where
        P: PowPrecision,
    {
        match exponent.term() {
            Term::Number(p) => self.full_pointwise("pow", Unary::Powf(p)),
            exponent => Ok(Self::from_raw(pow(&self.raw, &exponent.beside(&self.raw)?, P::WRITES)?)),
        }
    }

    /// Angle of the point `(x, self)` in -pi..=pi; both broadcast (`torch.atan2`). Computed in F32, rounded once.
    #[track_caller]
    pub fn atan2<Q: Element>(&self, x: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        Ok(Self::from_raw(atan2(&self.raw, &x.raw)?))
    }
}

#[track_caller]
fn pow(base: &RawTensor, exponent: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
    let power = |base: &RawTensor, exponent: &RawTensor, out| binary("pow", Binary::Pow, base, exponent, out);
    let y = power(base, exponent, writes.unwrap_or(base.logical))?.counted(base.logical);
    record("pow", &[base, exponent], y, |y| {
        // The gradient needs the result before it was rounded.
        let y = if writes.is_some() { None } else { Some(Saved::new(y)?) };
        let (base, exponent) = (Saved::new(base)?, Saved::new(exponent)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            if pass.wants(0) {
                let slope = power_by_base(&base, &exponent)?;
                let grad = binary("pow", Binary::Mul, pass.grad(), &slope, pass.summand(0))?;
                pass.give(0, grad)?;
            }
            if pass.wants(1) {
                let again = if y.is_none() { Some(power(&base, &exponent, base.logical)?) } else { None };
                let y = y.as_deref().or(again.as_ref()).expect("saved or computed again");
                let slope = power_by_exponent(&base, &exponent, y)?;
                let grad = binary("pow", Binary::Mul, pass.grad(), &slope, pass.summand(1))?;
                pass.give(1, grad)?;
            }
            Ok(())
        }))
    })
}

/// `p * b^(p - 1)`, and 0 where `p` is 0, also for a base of 0.
fn power_by_base(base: &RawTensor, exponent: &RawTensor) -> Result<RawTensor> {
    let dtype = base.logical;
    let less = unary(Unary::Affine { mul: 1.0, add: -1.0 }, exponent, dtype)?;
    let slope = binary("pow", Binary::Mul, exponent, &binary("pow", Binary::Pow, base, &less, dtype)?, dtype)?;
    let none = zeros(&slope, dtype)?;
    let constant = compare("pow", Compare::Eq, &exponent.broadcast_to("pow", slope.shape())?, &none)?;
    select("pow", &constant, &none, &slope, dtype)
}

/// `b^p * ln(b)`, and 0 for a base of 0 unless the power is infinite.
fn power_by_exponent(base: &RawTensor, exponent: &RawTensor, power: &RawTensor) -> Result<RawTensor> {
    let dtype = base.logical;
    let slope = binary("pow", Binary::Mul, power, &unary(Unary::Log, base, dtype)?, dtype)?;
    let none = zeros(&slope, dtype)?;
    let of_zero = compare("pow", Compare::Eq, base, &none)?;
    let rising = compare("pow", Compare::Ge, exponent, &none)?;
    let vanished = binary("pow", Binary::Mul, &of_zero, &rising, DType::Bool)?;
    select("pow", &vanished, &none, &slope, dtype)
}

#[track_caller]
fn atan2(y: &RawTensor, x: &RawTensor) -> Result<RawTensor> {
    record("atan2", &[y, x], binary("atan2", Binary::Atan2, y, x, y.logical)?, |_| {
        let (y, x) = (Saved::new(y)?, Saved::new(x)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            // Squares leave the range of 16 bits, so everything between the ends is in F32.
            let wide = if y.logical == DType::F64 { DType::F64 } else { DType::F32 };
            let square = |v: &RawTensor| unary(Unary::Sqr, v, wide);
            let distance = binary("atan2", Binary::Add, &square(&y)?, &square(&x)?, wide)?;
            let scaled = binary("atan2", Binary::Div, pass.grad(), &distance, wide)?;
            // At the origin the angle is arbitrary and has no derivative.
            let none = zeros(&distance, wide)?;
            let origin = compare("atan2", Compare::Eq, &distance, &none)?;
            let scaled = select("atan2", &origin, &none, &scaled, wide)?;
            pass.give(0, binary("atan2", Binary::Mul, &scaled, &x, wide)?)?;
            let falling = unary(Unary::Neg, &scaled, wide)?;
            pass.give(1, binary("atan2", Binary::Mul, &falling, &y, wide)?)
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let base = Tensor::<F64>::from_vec(vec![0.3, 0.7, 1.9, 0.4, 2.2, 0.8], [2, 3], &device).unwrap();
        let exponent = Tensor::<F64>::from_vec(vec![1.3, -0.6, 2.0], [3], &device).unwrap();
        let signed = Tensor::<F64>::from_vec(vec![-0.3, 0.7, -1.9], [3], &device).unwrap();
        for p in [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.7, 2.0, 3.0, 4.0] {
            let worst = gradcheck(|x| x[0].pow(p), std::slice::from_ref(&base)).unwrap();
            assert!(worst.agrees(), "pow {p}: {worst:?}");
        }
        for (name, worst) in [
            ("pow", gradcheck(|x| x[0].pow(&x[1]), &[base.clone(), exponent.clone()])),
            ("pow of negatives", gradcheck(|x| x[0].pow(3), std::slice::from_ref(&signed))),
            ("atan2", gradcheck(|x| x[0].atan2(&x[1]), &[base, signed])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn powers_of_zero_have_finite_gradients() {
        let device = Device::cpu();
        let base = Tensor::<F32>::from_vec(vec![0.0, 0.0, 2.0], [3], &device).unwrap().tracked();
        let exponent = Tensor::<F32>::from_vec(vec![0.0, 2.0, 0.0], [3], &device).unwrap().tracked();
        let grads = base.pow(&exponent).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&base).unwrap().unwrap().to_vec().unwrap(), [0.0, 0.0, 0.0]);
        assert_eq!(grads.get(&exponent).unwrap().unwrap().to_vec().unwrap(), [0.0, 0.0, 2f32.ln()]);
    }

    #[test]
    fn the_origin_has_no_slope() {
        let device = Device::cpu();
        let y = Tensor::<F32>::from_vec(vec![0.0, 0.0, 1.0], [3], &device).unwrap().tracked();
        let x = Tensor::<F32>::from_vec(vec![0.0, -0.0, 1.0], [3], &device).unwrap().tracked();
        let grads = y.atan2(&x).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&y).unwrap().unwrap().to_vec().unwrap(), [0.0, 0.0, 0.5]);
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.0, 0.0, -0.5]);
    }
}
