//! Sums, differences, products and quotients of two tensors or of a tensor and a number, as methods and operators.

use super::kernel::{binary, unary};
use super::matmul::accumulator;
use super::operand::{Operand, Term};
use super::pointwise::RecipPrecision;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, Numeric};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, Dims, Unary};
use std::iter::Sum;
use std::ops;

/// The four basic operations.
#[derive(Clone, Copy)]
enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

#[track_caller]
fn combine<P: Element>(op: Arithmetic, left: &Tensor<P>, right: impl Operand<P>) -> Result<Tensor<P>> {
    let raw = match right.term() {
        Term::Number(right) => number(op, &left.raw, right)?,
        right => tensors(op, &left.raw, &right.beside(&left.raw)?)?,
    };
    Ok(Tensor::from_raw(raw))
}

#[track_caller]
fn tensors(op: Arithmetic, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    match op {
        Arithmetic::Add => add(a, b),
        Arithmetic::Sub => sub(a, b),
        Arithmetic::Mul => mul(a, b),
        Arithmetic::Div => div(a, b),
    }
}

#[track_caller]
pub(super) fn add(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    recorded_sum(a, b, binary("add", Binary::Add, a, b, a.logical)?)
}

/// `y` in the graph as the sum of `a` and `b`.
#[track_caller]
pub(super) fn recorded_sum(a: &RawTensor, b: &RawTensor, y: RawTensor) -> Result<RawTensor> {
    record("add", &[a, b], y, |_| {
        Ok(Box::new(|pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            pass.give(1, pass.grad().clone())
        }))
    })
}

#[track_caller]
pub(super) fn sub(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    record("sub", &[a, b], binary("sub", Binary::Sub, a, b, a.logical)?, |_| {
        Ok(Box::new(|pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            if pass.wants(1) {
                pass.give(1, unary(Unary::Neg, pass.grad(), pass.summand(1))?)?;
            }
            Ok(())
        }))
    })
}

#[track_caller]
pub(super) fn mul(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    record("mul", &[a, b], binary("mul", Binary::Mul, a, b, a.logical)?, |_| {
        // Each factor is kept only for the other one's gradient.
        let kept_a = b.edge.is_some().then(|| Saved::new(a)).transpose()?;
        let kept_b = a.edge.is_some().then(|| Saved::new(b)).transpose()?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            for (input, other) in [(0, &kept_b), (1, &kept_a)] {
                if let (true, Some(other)) = (pass.wants(input), other) {
                    let grad = binary("mul", Binary::Mul, pass.grad(), other, pass.summand(input))?;
                    pass.give(input, grad)?;
                }
            }
            Ok(())
        }))
    })
}

#[track_caller]
pub(super) fn div(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    div_to(a, b, None)
}

/// As [`div`], rounded to `writes` if that is given.
#[track_caller]
pub(super) fn div_to(a: &RawTensor, b: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
    let y = binary("div", Binary::Div, a, b, writes.unwrap_or(a.logical))?.counted(a.logical);
    record("div", &[a, b], y, |y| {
        // The divisor's gradient needs the ratio before it was rounded; computed again it has the same bits.
        let rounded = writes.is_some();
        let kept = b.edge.is_some().then(|| Saved::new(if rounded { a } else { y })).transpose()?;
        let kept_b = Saved::new(b)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            if let (true, Some(kept)) = (pass.wants(1), &kept) {
                let again = if rounded { Some(binary("div", Binary::Div, kept, &kept_b, kept.logical)?) } else { None };
                let y = again.as_ref().unwrap_or(kept);
                // In the precision of the divisor's gradient throughout: a master weight's is never rounded to 16 bits.
                // The quotient may leave the range of F16 where its product does not.
                let grad = binary("div", Binary::Div, pass.grad(), &kept_b, accumulator(kept_b.logical))?;
                let product = binary("mul", Binary::Mul, &grad, y, pass.summand(1))?;
                pass.give(1, unary(Unary::Neg, &product, product.logical)?)?;
            }
            if pass.wants(0) {
                pass.give(0, binary("div", Binary::Div, pass.grad(), &kept_b, pass.summand(0))?)?;
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn number(op: Arithmetic, x: &RawTensor, number: f64) -> Result<RawTensor> {
    match op {
        Arithmetic::Add => affine("add", x, 1.0, number),
        Arithmetic::Sub => affine("sub", x, 1.0, -number),
        Arithmetic::Mul => affine("mul", x, number, -0.0),
        Arithmetic::Div => divided(x, number),
    }
}

/// `factor * x + summand`; a summand of -0 leaves the sign of a zero product alone.
#[track_caller]
pub(super) fn affine(name: &'static str, x: &RawTensor, factor: f64, summand: f64) -> Result<RawTensor> {
    record(name, &[x], unary(Unary::Affine { mul: factor, add: summand }, x, x.logical)?, |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = match factor {
                1.0 => pass.grad().clone(),
                _ => unary(Unary::Affine { mul: factor, add: -0.0 }, pass.grad(), pass.dtype(0))?,
            };
            pass.give(0, grad)
        }))
    })
}

/// `x / number`, as a division: multiplying by a rounded reciprocal would differ in the last place.
#[track_caller]
fn divided(x: &RawTensor, number: f64) -> Result<RawTensor> {
    let quotient = move |x: &RawTensor| {
        let wide = if x.logical == DType::F64 { DType::F64 } else { DType::F32 };
        let number = RawTensor::full(x.device(), number, Dims::default(), wide)?;
        binary("div", Binary::Div, x, &number, x.logical)
    };
    record("div", &[x], quotient(x)?, |_| Ok(Box::new(move |pass: &mut Pass<'_>| pass.give(0, quotient(pass.grad())?))))
}

macro_rules! operations {
    ($($trait:ident, $method:ident, $bound:ident, $doc:literal;)*) => { $(
        impl<P: $bound> Tensor<P> {
            #[doc = $doc]
            ///
            /// Shapes broadcast by NumPy's rule; two tensors have one precision. Computed in F32 (F64 for F64, wrapping
            /// integers for I64 and U8), rounded once.
            #[track_caller]
            pub fn $method<R: Operand<P>>(&self, other: R) -> Result<Self> {
                combine(Arithmetic::$trait, self, other)
            }
        }

        impl<P: $bound, R: Operand<P>> ops::$trait<R> for &Tensor<P> {
            type Output = Result<Tensor<P>>;

            #[track_caller]
            fn $method(self, other: R) -> Self::Output {
                combine(Arithmetic::$trait, self, other)
            }
        }

        impl<P: $bound, R: Operand<P>> ops::$trait<R> for Tensor<P> {
            type Output = Result<Tensor<P>>;

            #[track_caller]
            fn $method(self, other: R) -> Self::Output {
                combine(Arithmetic::$trait, &self, other)
            }
        }
    )* };
}
operations! {
    Add, add, Numeric, "`self + other` (`torch.add`).";
    Sub, sub, Numeric, "`self - other` (`torch.sub`).";
    Mul, mul, Numeric, "`self * other`, element by element (`torch.mul`).";
    Div, div, Float, "`self / other` (`torch.div`).";
}

/// Operators with the number on the left; for F64 alone, because with a choice the type of a literal could not be told.
macro_rules! reversed {
    ($($trait:ident, $method:ident, $bound:ident, |$number:ident, $x:ident| $body:expr;)*) => { $(
        impl<P: Float + $bound> ops::$trait<&Tensor<P>> for f64 {
            type Output = Result<Tensor<P>>;

            #[track_caller]
            fn $method(self, tensor: &Tensor<P>) -> Self::Output {
                let ($number, $x) = (self, &tensor.raw);
                Ok(Tensor::from_raw($body?))
            }
        }

        impl<P: Float + $bound> ops::$trait<Tensor<P>> for f64 {
            type Output = Result<Tensor<P>>;

            #[track_caller]
            fn $method(self, tensor: Tensor<P>) -> Self::Output {
                ops::$trait::$method(self, &tensor)
            }
        }
    )* };
}
reversed! {
    Add, add, Float, |number, x| affine("add", x, 1.0, number);
    Sub, sub, Float, |number, x| affine("sub", x, -1.0, number);
    Mul, mul, Float, |number, x| affine("mul", x, number, -0.0);
    Div, div, RecipPrecision, |number, x| div(&Term::Number(number).beside(x)?, x);
}

impl<P: Numeric> ops::Neg for &Tensor<P> {
    type Output = Result<Tensor<P>>;

    #[track_caller]
    fn neg(self) -> Self::Output {
        Tensor::neg(self)
    }
}

impl<P: Numeric> ops::Neg for Tensor<P> {
    type Output = Result<Tensor<P>>;

    #[track_caller]
    fn neg(self) -> Self::Output {
        Tensor::neg(&self)
    }
}

/// The sum of a list of tensors, from the first to the last (`sum(losses)`): `losses.iter().sum::<Result<Tensor<F32>>>()?`.
///
/// # Errors
/// [`Error::Argument`] when there are no tensors, [`Error::Broadcast`] when two do not fit.
impl<'a, P: Numeric> Sum<&'a Tensor<P>> for Result<Tensor<P>> {
    fn sum<I: Iterator<Item = &'a Tensor<P>>>(mut tensors: I) -> Self {
        let first = tensors.next().ok_or_else(|| Error::argument("sum", "tensors", "one or more", "none"))?;
        tensors.try_fold(first.clone(), |sum, tensor| sum.add(tensor))
    }
}

/// As that of references.
impl<P: Numeric> Sum<Tensor<P>> for Result<Tensor<P>> {
    fn sum<I: Iterator<Item = Tensor<P>>>(mut tensors: I) -> Self {
        let first = tensors.next().ok_or_else(|| Error::argument("sum", "tensors", "one or more", "none"))?;
        tensors.try_fold(first, |sum, tensor| sum.add(&tensor))
    }
}

impl<P: Numeric> Tensor<P> {
    /// `-self` (`torch.neg`).
    #[track_caller]
    pub fn neg(&self) -> Result<Self> {
        let stored = self.raw.stored();
        let y = unary(Unary::Neg, &stored, stored.logical)?.counted(self.raw.logical);
        let y = record("neg", &[&self.raw], y, |_| {
            Ok(Box::new(|pass: &mut Pass<'_>| {
                let grad = unary(Unary::Neg, pass.grad(), pass.dtype(0))?;
                pass.give(0, grad)
            }))
        })?;
        Ok(Self::from_raw(y))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, I64, Tensor, U8, gradcheck};
    use half::f16;

    #[test]
    fn gradients_sum_over_broadcast_dimensions() {
        let device = Device::cpu();
        let a = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.4, -2.2, 0.8], [2, 3], &device).unwrap();
        let b = Tensor::<F64>::from_vec(vec![1.3, -0.6, 0.9], [3], &device).unwrap();
        for (name, worst) in [
            ("add", gradcheck(|x| &x[0] + &x[1], &[a.clone(), b.clone()])),
            ("sub", gradcheck(|x| &x[0] - &x[1], &[a.clone(), b.clone()])),
            ("mul", gradcheck(|x| &x[1] * &x[0], &[a.clone(), b.clone()])),
            ("div", gradcheck(|x| &x[0] / &x[1], &[a.clone(), b.clone()])),
            ("square", gradcheck(|x| &x[0] * &x[0], std::slice::from_ref(&a))),
            ("numbers", gradcheck(|x| ((&x[0] * 3.0)? - 0.5)? / 0.7, std::slice::from_ref(&a))),
            ("reversed", gradcheck(|x| 2.0 * (1.5 - (0.25 + (3.0 / &x[0])?)?)?, std::slice::from_ref(&a))),
            ("neg", gradcheck(|x| -&x[0], std::slice::from_ref(&a))),
            ("list", gradcheck(|x| x.iter().chain(x).sum(), &[a.clone(), b.clone()])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn lists_are_summed_from_the_first_to_the_last() {
        let of = |values: &[i64]| Tensor::<I64>::from_slice(values, [values.len()], &Device::cpu()).unwrap();
        let sum: crate::Result<Tensor<I64>> = [of(&[1, 2]), of(&[10]), of(&[100, 200])].into_iter().sum();
        assert_eq!(sum.unwrap().to_vec().unwrap(), [111, 212]);
        let none = [].iter().sum::<crate::Result<Tensor<F32>>>().unwrap_err();
        assert_eq!(none.to_string(), "sum: tensors must be one or more, found none");
        assert!([of(&[1, 2]), of(&[1, 2, 3])].iter().sum::<crate::Result<Tensor<I64>>>().is_err());
    }

    #[test]
    fn casts_are_views_and_gradients_keep_the_source_precision() {
        let device = Device::cpu();
        let x = Tensor::<F32>::from_vec(vec![1.0, 2.0, 3.000_000_2], [3], &device).unwrap().tracked();
        let half = x.to::<F16>().unwrap();
        let wide = half.to::<F32>().unwrap();
        assert_eq!(wide.to_vec().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!((wide.stored_dtype().name(), wide.dtype().name()), ("F16", "F32"));
        let grads = (wide * 70_000.0).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [70_000.0; 3]);
    }

    #[test]
    fn numbers_of_any_type_stand_beside_a_tensor_and_are_not_rounded_to_16_bits() {
        let x = Tensor::<F16>::from_vec(vec![f16::from_f32(1024.0)], [1], &Device::cpu()).unwrap();
        let scale: f32 = 1.0 / 3.0;
        assert_eq!((&x * scale).unwrap().item().unwrap(), f16::from_f32(1024.0 / 3.0));
        assert_eq!((&x * 2).unwrap().item().unwrap(), f16::from_f32(2048.0));
        assert_eq!((&x / 3.0).unwrap().item().unwrap(), f16::from_f32(1024.0 / 3.0));
        assert_eq!((&x * 100_000.0).unwrap().item().unwrap(), f16::INFINITY);
        assert_eq!((0.5 - x).unwrap().item().unwrap(), f16::from_f32(-1023.5));
    }

    #[test]
    fn a_number_keeps_all_digits_beside_f64_and_the_sign_of_zero() {
        let x = Tensor::<F64>::from_vec(vec![1.0, -0.0], [2], &Device::cpu()).unwrap();
        let y = (x * 0.1).unwrap().to_vec().unwrap();
        assert_eq!(y[0], 0.1);
        assert!(y[1].is_sign_negative());
    }

    #[test]
    fn integers_wrap_and_broadcast() {
        let device = Device::cpu();
        let a = Tensor::<I64>::from_vec(vec![1 << 60, -5, 7], [3], &device).unwrap();
        let b = Tensor::<I64>::from_vec(vec![3], [1], &device).unwrap();
        assert_eq!((&a + &b).unwrap().to_vec().unwrap(), [(1 << 60) + 3, -2, 10]);
        assert_eq!((&a * 2).unwrap().to_vec().unwrap(), [1 << 61, -10, 14]);
        assert_eq!((-a).unwrap().to_vec().unwrap(), [-(1 << 60), 5, -7]);
        let odd = (1_i64 << 53) + 1;
        let c = Tensor::<I64>::from_vec(vec![odd, odd - 1], [2], &device).unwrap();
        assert_eq!((&c + odd).unwrap().to_vec().unwrap(), [2 * odd, 2 * odd - 1]);
        assert_eq!((&c - odd).unwrap().to_vec().unwrap(), [0, -1]);
        assert_eq!((&b * -odd).unwrap().to_vec().unwrap(), [-3 * odd]);
        assert_eq!(c.eq(odd).unwrap().to_vec().unwrap(), [true, false]);
        assert_eq!(c.minimum(i64::MAX).unwrap().to_vec().unwrap(), [odd, odd - 1]);
        let bytes = Tensor::<U8>::from_vec(vec![250, 3], [2], &device).unwrap();
        assert_eq!((&bytes + 10).unwrap().to_vec().unwrap(), [4, 13]);
        assert_eq!((&bytes - &bytes).unwrap().to_vec().unwrap(), [0, 0]);
    }

    #[test]
    fn a_divisors_gradient_leaves_the_range_of_f16_only_with_the_result() {
        let number = |x: f32| Tensor::<F16>::full([1], f16::from_f32(x), &Device::cpu()).unwrap().tracked();
        let (a, b) = (number(1e-3), number(1e-2));
        let grads = a.div(&b).unwrap().backward_with(&number(3000.0).detach()).unwrap();
        let grad = grads.get(&b).unwrap().unwrap().to_vec().unwrap()[0].to_f32();
        assert!((grad + 3e4).abs() < 60.0, "{grad}");
    }
}
