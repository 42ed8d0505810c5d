//! Integer division and remainders.

use super::composed::wide;
use super::kernel::{binary, unary};
use super::operand::{Operand, Term};
use crate::autograd::{Pass, Saved, record};
use crate::precision::Numeric;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, Unary};

#[track_caller]
fn divide<P: Numeric>(name: &'static str, op: Binary, a: &Tensor<P>, b: impl Operand<P>) -> Result<Tensor<P>> {
    let (a, b) = (&a.raw, b.term().held(name, P::DTYPE)?);
    if !P::DTYPE.is_float() {
        refuse_zeros::<P>(name, &b)?;
    }
    let b = b.beside(a)?;
    let y = binary(name, op, a, &b, P::DTYPE)?;
    if let Binary::FloorDivide = op {
        return Ok(Tensor::from_raw(y));
    }
    let y = record(name, &[a, &b], y, |y| {
        // Kept for the divisor's gradient only.
        let save = || -> Result<_> { Ok([Saved::new(a)?, Saved::new(&b)?, Saved::new(y)?]) };
        let kept = b.edge.is_some().then(save).transpose()?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            if let (true, Some([a, b, y])) = (pass.wants(1), &kept) {
                let less = quotient(name, a, b, y)?;
                pass.give(1, binary(name, Binary::Mul, pass.grad(), &less, pass.summand(1))?)?;
            }
            Ok(())
        }))
    })?;
    Ok(Tensor::from_raw(y))
}

/// The integer `(y - a) / b`, by which remainder `y` changes with its divisor.
fn quotient(name: &'static str, a: &RawTensor, b: &RawTensor, y: &RawTensor) -> Result<RawTensor> {
    let wide = wide(a);
    let ratio = binary(name, Binary::Div, &binary(name, Binary::Sub, y, a, wide)?, b, wide)?;
    unary(Unary::Round, &ratio, wide)
}

/// A GPU is waited for where the divisor is a tensor.
fn refuse_zeros<P: Numeric>(name: &'static str, divisor: &Term) -> Result<()> {
    let zero = match divisor {
        Term::Tensor(divisor) => !Tensor::<P>::from_raw(divisor.clone()).all([], false)?.item()?,
        Term::Number(number) => *number == 0.0,
        Term::Integer(number) => *number == 0,
    };
    if zero { Err(Error::argument(name, "the divisor of integers", "other than 0", 0)) } else { Ok(()) }
}

impl<P: Numeric> Tensor<P> {
    /// `floor(self / other)` (`torch.floor_divide`, `//`), without a gradient.
    ///
    /// Computed in F64, rounded once.
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0; a GPU is waited for to know, unless the divisor is a number.
    #[track_caller]
    pub fn floor_divide<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide("floor_divide", Binary::FloorDivide, self, other)
    }

    /// What is left of `self / other`, with the sign of `other` (`torch.remainder`, `%`).
    ///
    /// Computed exactly in F64, rounded once.
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0; a GPU is waited for to know, unless the divisor is a number.
    #[track_caller]
    pub fn remainder<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide("remainder", Binary::Remainder, self, other)
    }

    /// What is left of `self / other`, with the sign of `self` (`torch.fmod`); else as [`remainder`](Self::remainder).
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0; a GPU is waited for to know, unless the divisor is a number.
    #[track_caller]
    pub fn fmod<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide("fmod", Binary::Fmod, self, other)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::line;
    use crate::{Device, F16, F64, I64, Tensor, U8, gradcheck};
    use half::f16;

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
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn a_divisor_that_bytes_cannot_hold_is_refused() {
        let x = Tensor::<U8>::from_vec(vec![255], [1], &Device::cpu()).unwrap();
        let text = |result: crate::Result<Tensor<U8>>| result.unwrap_err().to_string();
        assert_eq!(text(x.remainder(256)), "remainder: the value must be a value of U8, found 256");
        assert!(text(x.floor_divide(-1)).contains("floor_divide: the value must be a value of U8, found -1"));
        assert_eq!(x.remainder(16).unwrap().to_vec().unwrap(), [15]);
    }

    #[test]
    fn doubles_are_divided_by_what_exact_remainders_leave() {
        let a = Tensor::<F64>::from_vec(vec![1.0, -1.0, 1e300, 6.0, 5.0], [5], &Device::cpu()).unwrap();
        let b = Tensor::<F64>::from_vec(vec![0.1, 0.1, 0.3, f64::INFINITY, 0.0], [5], &Device::cpu()).unwrap();
        assert_eq!(a.floor_divide(&b).unwrap().to_vec().unwrap()[..2], [9.0, -10.0]);
        assert_eq!(a.floor_divide(&b).unwrap().to_vec().unwrap()[3..], [0.0, f64::INFINITY]);
        let endless = Tensor::<F64>::full([1], f64::INFINITY, &Device::cpu()).unwrap();
        assert!(endless.floor_divide(-1.5).unwrap().item().unwrap().is_nan());
        assert_eq!(a.fmod(&b).unwrap().to_vec().unwrap()[..4], [1.0 % 0.1, -1.0 % 0.1, 1e300 % 0.3, 6.0]);
        assert_eq!(a.remainder(&b).unwrap().to_vec().unwrap()[1], -1.0 % 0.1 + 0.1);
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
        let (a, b) = (line(&[7.5, -7.5, -1.0, 1e9, -0.0]), line(&[2.0, 2.0, f32::INFINITY, 0.3, 2.0]));
        let exact = f64::from(1e9_f32) % f64::from(0.3_f32);
        assert_eq!(a.remainder(&b).unwrap().to_vec().unwrap(), [1.5, 0.5, f32::INFINITY, exact as f32, 0.0]);
        assert_eq!(a.fmod(&b).unwrap().to_vec().unwrap(), [1.5, -1.5, -1.0, exact as f32, 0.0]);
        assert_eq!(a.floor_divide(2.0).unwrap().to_vec().unwrap(), [3.0, -4.0, -1.0, 5e8, 0.0]);
        let endless = line(&[f32::INFINITY, f32::NEG_INFINITY]);
        assert!(endless.floor_divide(-1.5).unwrap().to_vec().unwrap().iter().all(|y| y.is_nan()));
        assert_eq!(endless.floor_divide(0.0).unwrap().to_vec().unwrap(), endless.to_vec().unwrap());
        assert!(a.remainder(0.0).unwrap().to_vec().unwrap().iter().all(|y| y.is_nan()));
        let narrow = line(&[1024.0]).to::<F16>().unwrap();
        assert_eq!(narrow.remainder(0.3).unwrap().item().unwrap(), f16::from_f64(1024.0 % 0.3));
    }

    #[test]
    fn remainders_of_large_quotients_are_less_than_the_divisor() {
        let (a, b) = (line(&[1e30, -1e30, 3e38, 1e9]), line(&[0.3, 0.3, 1e-38, 0.3]));
        let exact = |a: f32, b: f32| f64::from(a) % f64::from(b);
        let expected = [exact(1e30, 0.3), exact(-1e30, 0.3), exact(3e38, 1e-38), exact(1e9, 0.3)].map(|r| r as f32);
        assert_eq!(a.fmod(&b).unwrap().to_vec().unwrap(), expected);
        let left = a.remainder(&b).unwrap().to_vec().unwrap();
        assert!(left.iter().zip(b.to_vec().unwrap()).all(|(left, b)| (0.0..b).contains(left)), "{left:?}");
    }

    #[test]
    fn a_negative_zero_stays_one() {
        for x in [line(&[-0.0]), line(&[-1e-40])] {
            assert!(x.fmod(5.0).unwrap().item().unwrap().is_sign_negative());
        }
        let x = line(&[-0.0]);
        assert!(x.floor_divide(5.0).unwrap().item().unwrap().is_sign_negative());
        let narrow = x.to::<F16>().unwrap();
        assert!(narrow.floor_divide(5.0).unwrap().item().unwrap().is_sign_negative());
    }
}
