//! Sums, differences, products and quotients of two tensors or of a tensor and a number, as methods and operators.

use super::{broadcast_pair, pointwise};
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, Unary};
use std::ops;

/// `op(a, b)` in the precision of `a`, out of the graph.
fn kernel(name: &'static str, op: Binary, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    let (wide_a, wide_b) = broadcast_pair(name, a, b)?;
    let buffer = a.backend().binary(op, wide_a.operand()?, wide_b.operand()?, a.logical)?;
    Ok(RawTensor::new(a.device(), buffer, *wide_a.shape()))
}

#[track_caller]
fn add(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    record("add", &[a, b], kernel("add", Binary::Add, a, b)?, |_| {
        Ok(Box::new(|pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            pass.give(1, pass.grad().clone())
        }))
    })
}

#[track_caller]
fn sub(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    record("sub", &[a, b], kernel("sub", Binary::Sub, a, b)?, |_| {
        Ok(Box::new(|pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            if pass.wants(1) {
                pass.give(1, scaled(pass.grad(), -1.0)?)?;
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn mul(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    record("mul", &[a, b], kernel("mul", Binary::Mul, a, b)?, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            for (input, other) in [(0, &b), (1, &a)] {
                if pass.wants(input) {
                    let grad = kernel("mul", Binary::Mul, pass.grad(), other)?;
                    pass.give(input, grad)?;
                }
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn div(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    record("div", &[a, b], kernel("div", Binary::Div, a, b)?, |y| {
        let (b, y) = (Saved::new(b)?, Saved::new(y)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = kernel("div", Binary::Div, pass.grad(), &b)?;
            if pass.wants(1) {
                let product = kernel("mul", Binary::Mul, &grad, &y)?;
                pass.give(1, scaled(&product, -1.0)?)?;
            }
            pass.give(0, grad)
        }))
    })
}

/// `factor * x`, out of the graph.
fn scaled(x: &RawTensor, factor: f64) -> Result<RawTensor> {
    let buffer = x.backend().unary(Unary::Affine { mul: factor, add: 0.0 }, x.operand()?, x.logical)?;
    Ok(RawTensor::new(x.device(), buffer, *x.shape()))
}

macro_rules! methods {
    ($($name:ident, $doc:literal;)*) => {
        impl<P: Float> Tensor<P> { $(
            #[doc = $doc]
            ///
            /// Shapes broadcast by NumPy's rule; both tensors have one precision. Computed in F32, rounded once.
            #[track_caller]
            pub fn $name<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
            where
                P: SamePrecision<Q>,
            {
                Ok(Self::from_raw($name(&self.raw, &other.raw)?))
            }
        )* }
    };
}
methods! {
    add, "`self + other` (`torch.add`).";
    sub, "`self - other` (`torch.sub`).";
    mul, "`self * other`, element by element (`torch.mul`).";
    div, "`self / other` (`torch.div`).";
}

macro_rules! operators {
    ($($trait:ident, $method:ident;)*) => { $(
        impl<P: Float + SamePrecision<Q>, Q: Element> ops::$trait<&Tensor<Q>> for &Tensor<P> {
            type Output = Result<Tensor<P>>;
            #[track_caller]
            fn $method(self, other: &Tensor<Q>) -> Self::Output {
                self.$method(other)
            }
        }
        impl<P: Float + SamePrecision<Q>, Q: Element> ops::$trait<Tensor<Q>> for &Tensor<P> {
            type Output = Result<Tensor<P>>;
            #[track_caller]
            fn $method(self, other: Tensor<Q>) -> Self::Output {
                self.$method(&other)
            }
        }
        impl<P: Float + SamePrecision<Q>, Q: Element> ops::$trait<&Tensor<Q>> for Tensor<P> {
            type Output = Result<Tensor<P>>;
            #[track_caller]
            fn $method(self, other: &Tensor<Q>) -> Self::Output {
                Tensor::$method(&self, other)
            }
        }
        impl<P: Float + SamePrecision<Q>, Q: Element> ops::$trait<Tensor<Q>> for Tensor<P> {
            type Output = Result<Tensor<P>>;
            #[track_caller]
            fn $method(self, other: Tensor<Q>) -> Self::Output {
                Tensor::$method(&self, &other)
            }
        }
    )* };
}
operators! { Add, add; Sub, sub; Mul, mul; Div, div; }

/// Operators with a number on the right; the number is rounded once, to the arithmetic's precision.
macro_rules! scalar_operators {
    ($($scalar:ty),*; $($trait:ident, $method:ident, |$s:ident| $affine:expr;)*) => {
        scalar_operators!(@each $($scalar),*; { $($trait, $method, |$s| $affine;)* });
    };
    (@each $($scalar:ty),*; $rules:tt) => { $(scalar_operators!(@rules $scalar; $rules);)* };
    (@rules $scalar:ty; { $($trait:ident, $method:ident, |$s:ident| $affine:expr;)* }) => { $(
        impl<P: Float> ops::$trait<$scalar> for &Tensor<P> {
            type Output = Result<Tensor<P>>;
            #[track_caller]
            fn $method(self, scalar: $scalar) -> Self::Output {
                let $s = f64::from(scalar);
                Ok(Tensor::from_raw(pointwise::unary(stringify!($method), $affine, &self.raw)?))
            }
        }
        impl<P: Float> ops::$trait<$scalar> for Tensor<P> {
            type Output = Result<Tensor<P>>;
            #[track_caller]
            fn $method(self, scalar: $scalar) -> Self::Output {
                ops::$trait::$method(&self, scalar)
            }
        }
    )* };
}
scalar_operators! { f32;
    Add, add, |s| Unary::Affine { mul: 1.0, add: s };
    Sub, sub, |s| Unary::Affine { mul: 1.0, add: -s };
    Mul, mul, |s| Unary::Affine { mul: s, add: 0.0 };
    Div, div, |s| Unary::Affine { mul: 1.0 / s, add: 0.0 };
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, Tensor, gradcheck};

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
        ] {
            let worst = worst.unwrap();
            assert!(worst.error <= 1e-6, "{name}: {worst:?}");
        }
    }

    #[test]
    fn casts_are_views_and_gradients_keep_the_source_precision() {
        let device = Device::cpu();
        let x = Tensor::<F32>::from_vec(vec![1.0, 2.0, 3.000_000_2], [3], &device).unwrap().tracked();
        let half = x.to::<F16>().unwrap();
        let wide = half.to::<F32>().unwrap();
        assert_eq!(wide.to_vec().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!((wide.stored_dtype().name(), wide.dtype().name()), ("F16", "F32"));
        let grads = (wide * 70_000.0_f32).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [70_000.0; 3]);
    }
}
