//! Integer division and remainders.

use super::kernel::{binary, unary};
use super::operand::Operand;
use crate::autograd::{Pass, Saved, record};
use crate::memory::on_host;
use crate::precision::{F64, Numeric};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, Storage, Unary};

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

    /// As in PyTorch: the quotient is that of the dividend less the exact remainder.
    fn exactly(self, a: f64, b: f64) -> f64 {
        let rest = rest(a, b);
        let crosses = rest != 0.0 && (rest < 0.0) != (b < 0.0);
        match self {
            Self::Fmod => rest,
            Self::Remainder => rest + if crosses { b } else { 0.0 },
            Self::Floor if b == 0.0 => a / b,
            Self::Floor => {
                let quotient = (a - rest) / b - f64::from(u8::from(crosses));
                let whole = quotient.floor();
                let whole = if quotient - whole > 0.5 { whole + 1.0 } else { whole };
                if whole == 0.0 { whole.copysign(a / b) } else { whole }
            }
        }
    }

    /// By kernels of a GPU: F64 holds quotients of numbers of fewer bits well enough to tell which integers they lie between,
    /// and their products with the divisor exactly, up to 2^29.
    #[track_caller]
    fn of_numbers(self, a: &Tensor<F64>, b: &Tensor<F64>) -> Result<Tensor<F64>> {
        let ratio = (a / b)?.detach();
        let whole = ratio.trunc()?;
        // Divided by infinity, `a` is left as it is; the product of 0 and infinity would make it NaN.
        let rest = whole.eq(0.0)?.where_(a, (a - (&whole * b)?)?)?;
        if let Self::Fmod = self {
            return Ok(rest);
        }
        let crosses = (rest.ne(0.0)? & rest.lt(0.0)?.ne(&b.lt(0.0)?)?)?;
        match self {
            // The remainder of an infinite dividend is NaN, and so is the quotient.
            Self::Floor => {
                let unknown = (a.isinf()? & b.ne(0.0)?)?;
                crosses.where_(&(&whole - 1.0)?, &whole)?.masked_fill(&unknown, f64::NAN)
            }
            _ => crosses.where_(&(&rest + b)?, &rest),
        }
    }
}

/// Up to this quotients lie among all integers.
const QUOTIENT: f64 = (1_u64 << 52) as f64;

/// `a % b`, which takes several times as long.
///
/// The remainder for the integer that the rounded quotient gives is a number of F64, so that it is found in one rounding; the
/// integer may be the next one.
fn rest(a: f64, b: f64) -> f64 {
    let whole = (a / b).trunc();
    if whole == 0.0 {
        return a;
    }
    if whole.is_nan() || whole.abs() >= QUOTIENT {
        return a % b;
    }
    let rest = (-whole).mul_add(b, a);
    let beyond = rest != 0.0 && rest.is_sign_negative() != a.is_sign_negative();
    let rest = if beyond { rest + b.copysign(a) } else { rest };
    rest.copysign(a)
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

/// F64, divided by the host: no kernel holds its quotients exactly, nor those of F32 from 2^29 on.
#[track_caller]
fn doubles(op: Division, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let name = op.name();
    let (wide_a, wide_b) = super::broadcast_pair(name, a, b)?;
    let (Storage::F64(left), Storage::F64(right)) =
        (wide_a.contiguous()?.to_storage()?, wide_b.contiguous()?.to_storage()?)
    else {
        unreachable!("operands are F64")
    };
    let y: Vec<f64> = on_host(name, left.len(), left.iter().zip(right.iter()).map(|(&a, &b)| op.exactly(a, b)))?;
    let y = RawTensor::new(a.device(), a.backend().upload(Storage::F64(y.into()))?, *wide_a.shape());
    if let Division::Floor = op {
        return Ok(y);
    }
    record(name, &[a, b], y, |y| {
        // Kept for the divisor's gradient only.
        let save = || -> Result<_> { Ok([Saved::new(a)?, Saved::new(b)?, Saved::new(y)?]) };
        let kept = b.edge.is_some().then(save).transpose()?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            if let (true, Some([a, b, y])) = (pass.wants(1), &kept) {
                let ratio = binary(name, Binary::Div, &binary(name, Binary::Sub, y, a, DType::F64)?, b, DType::F64)?;
                let less = unary(Unary::Round, &ratio, DType::F64)?;
                pass.give(1, binary(name, Binary::Mul, pass.grad(), &less, pass.summand(1))?)?;
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn divide<P: Numeric>(op: Division, a: &Tensor<P>, b: impl Operand<P>) -> Result<Tensor<P>> {
    let (b, whole) = (b.term(), matches!(P::DTYPE, DType::I64 | DType::U8));
    let b = if whole { b.written(op.name(), P::DTYPE)? } else { b }.beside(&a.raw)?;
    a.device().check_same(b.device(), op.name())?;
    if whole {
        return integers(op, &a.raw, &b).map(Tensor::from_raw);
    }
    if P::DTYPE == DType::F64 {
        return doubles(op, &a.raw, &b).map(Tensor::from_raw);
    }
    let mut divisor = b.cast_view(DType::F64)?;
    divisor.edge = b.shared_edge();
    let (a, divisor) = (a.to::<F64>()?, Tensor::from_raw(divisor));
    if a.device().is_cpu() {
        return Tensor::<F64>::from_raw(doubles(op, &a.raw, &divisor.raw)?).to();
    }
    op.of_numbers(&a, &divisor).map_err(|error| error.named(op.name()))?.to()
}

impl<P: Numeric> Tensor<P> {
    /// `floor(self / other)` (`torch.floor_divide`, `//`), without a gradient.
    ///
    /// Computed in F64, rounded once. F64 and integers are divided by the host: a GPU is waited for.
    ///
    /// # Errors
    /// [`Error::Argument`] for integers and a divisor of 0.
    #[track_caller]
    pub fn floor_divide<R: Operand<P>>(&self, other: R) -> Result<Self> {
        divide(Division::Floor, self, other)
    }

    /// What is left of `self / other`, with the sign of `other` (`torch.remainder`, `%`).
    ///
    /// Computed in F64, rounded once: exact on the CPU and for F64, on a GPU for quotients below 2^29, and out of the divisor's
    /// range beyond. F64 and integers are divided by the host: a GPU is waited for.
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
    fn remainders_are_those_of_the_language() {
        let mut seed = 7_u64;
        let mut bits = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed ^ seed >> 29
        };
        let odd = [0.0, -0.0, 1.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::INFINITY, f64::NAN];
        for turn in 0..200_000_u32 {
            let (a, b) = (f64::from_bits(bits()), f64::from_bits(bits()));
            // Of one size, too, and multiples, whose quotients are rounded to integers.
            let near = b * f64::from(turn % 1000) * if turn % 2 == 0 { 1.0 } else { 1.0 - f64::EPSILON };
            let of_odd = odd[turn as usize % odd.len()];
            for (a, b) in [(a, b), (near, b), (b * 3e15, b), (of_odd, b), (a, of_odd), (f64::from(a as f32), 0.7)] {
                let (found, expected) = (super::rest(a, b), a % b);
                assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(), "{a:e} % {b:e}");
            }
        }
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
