//! Functions of three elements: interpolation, and a scaled product or quotient added.

use super::broadcast_three;
use super::kernel::{binary, unary};
use super::matmul::accumulator;
use super::operand::Operand;
use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::order::elementwise;
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Binary, DType, Ternary, Unary};

impl<P: Float> Tensor<P> {
    /// `self + weight * (end - self)` (`torch.lerp`); all three broadcast, `weight` may be a number.
    ///
    /// Computed in F32, rounded once; a weight of 0 or 1 gives the end itself.
    #[track_caller]
    pub fn lerp<Q: Element, R: Operand<P>>(&self, end: &Tensor<Q>, weight: R) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let weight = weight.term().beside(&self.raw)?;
        Ok(Self::from_raw(lerp(&self.raw, &end.raw, &weight)?))
    }

    /// `self + value * a * b` (`torch.addcmul`); all three broadcast. Computed in F32, rounded once.
    #[track_caller]
    pub fn addcmul<A: Element, B: Element>(&self, a: &Tensor<A>, b: &Tensor<B>, value: impl Into<f64>) -> Result<Self>
    where
        P: SamePrecision<A> + SamePrecision<B>,
    {
        Ok(Self::from_raw(addcmul(&self.raw, &a.raw, &b.raw, value.into())?))
    }

    /// `self + value * a / b` (`torch.addcdiv`); all three broadcast. Computed in F32, rounded once.
    #[track_caller]
    pub fn addcdiv<A: Element, B: Element>(&self, a: &Tensor<A>, b: &Tensor<B>, value: impl Into<f64>) -> Result<Self>
    where
        P: SamePrecision<A> + SamePrecision<B>,
    {
        Ok(Self::from_raw(addcdiv(&self.raw, &a.raw, &b.raw, value.into())?))
    }
}

/// `factor * x` in precision `out`. What it is a multiple of is not rounded to it first: that may leave the range of F16.
fn multiple(x: &RawTensor, factor: f64, out: DType) -> Result<RawTensor> {
    unary(Unary::Affine { mul: factor, add: 0.0 }, x, out)
}

fn ternary(name: &'static str, op: Ternary, a: &RawTensor, b: &RawTensor, c: &RawTensor) -> Result<RawTensor> {
    let [wide_a, b, c] = broadcast_three(name, [a, b, c])?;
    elementwise([&wide_a, &b, &c], |backend, [x, b, c]| backend.ternary(op, x, b, c, a.logical))
}

#[track_caller]
fn lerp(start: &RawTensor, end: &RawTensor, weight: &RawTensor) -> Result<RawTensor> {
    record("lerp", &[start, end, weight], ternary("lerp", Ternary::Lerp, start, end, weight)?, |_| {
        let (start, end, weight) = (Saved::new(start)?, Saved::new(end)?, Saved::new(weight)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            if pass.wants(0) {
                let wide = if weight.logical == DType::F64 { DType::F64 } else { DType::F32 };
                let rest = unary(Unary::Affine { mul: -1.0, add: 1.0 }, &weight, wide)?;
                pass.give(0, binary("lerp", Binary::Mul, pass.grad(), &rest, pass.summand(0))?)?;
            }
            if pass.wants(1) {
                pass.give(1, binary("lerp", Binary::Mul, pass.grad(), &weight, pass.summand(1))?)?;
            }
            if pass.wants(2) {
                // Ends may be farther apart than F16 reaches.
                let distance = binary("lerp", Binary::Sub, &end, &start, accumulator(start.logical))?;
                pass.give(2, binary("lerp", Binary::Mul, pass.grad(), &distance, pass.summand(2))?)?;
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn addcmul(x: &RawTensor, a: &RawTensor, b: &RawTensor, value: f64) -> Result<RawTensor> {
    record("addcmul", &[x, a, b], ternary("addcmul", Ternary::Addcmul(value), x, a, b)?, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            for (input, other) in [(1, &b), (2, &a)] {
                if pass.wants(input) {
                    let product = binary("addcmul", Binary::Mul, pass.grad(), other, accumulator(a.logical))?;
                    pass.give(input, multiple(&product, value, pass.summand(input))?)?;
                }
            }
            Ok(())
        }))
    })
}

#[track_caller]
fn addcdiv(x: &RawTensor, a: &RawTensor, b: &RawTensor, value: f64) -> Result<RawTensor> {
    record("addcdiv", &[x, a, b], ternary("addcdiv", Ternary::Addcdiv(value), x, a, b)?, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        let wide = accumulator(a.logical);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            pass.give(0, pass.grad().clone())?;
            if pass.wants(1) {
                let quotient = binary("addcdiv", Binary::Div, pass.grad(), &b, wide)?;
                pass.give(1, multiple(&quotient, value, pass.summand(1))?)?;
            }
            if pass.wants(2) {
                let quotient = binary("addcdiv", Binary::Div, pass.grad(), &b, wide)?;
                let slope = binary("addcdiv", Binary::Div, &a, &b, wide)?;
                let product = binary("addcdiv", Binary::Mul, &quotient, &slope, wide)?;
                pass.give(2, multiple(&product, -value, pass.summand(2))?)?;
            }
            Ok(())
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let tensor = |data: &[f64], shape: &[usize]| Tensor::<F64>::from_slice(data, shape, &device).unwrap();
        let a = tensor(&[0.3, -0.7, 1.9, 0.4, -2.2, 0.8], &[2, 3]);
        let b = tensor(&[1.3, -0.6, 0.9], &[3]);
        let c = tensor(&[0.7, 0.2], &[2, 1]);
        let all = [a, b, c];
        for (name, worst) in [
            ("lerp", gradcheck(|x| x[0].lerp(&x[1], &x[2]), &all)),
            ("lerp by a number", gradcheck(|x| x[0].lerp(&x[1], 0.3), &all[..2])),
            ("addcmul", gradcheck(|x| x[0].addcmul(&x[1], &x[2], -0.5), &all)),
            ("addcdiv", gradcheck(|x| x[0].addcdiv(&x[1], &x[2], -0.5), &all)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn weights_of_0_and_1_give_the_ends() {
        let device = Device::cpu();
        let a = Tensor::<F32>::from_vec(vec![0.1, 1e8], [2], &device).unwrap();
        let b = Tensor::<F32>::from_vec(vec![0.7, 1.1], [2], &device).unwrap();
        assert_eq!(a.lerp(&b, 0.0).unwrap().to_vec().unwrap(), a.to_vec().unwrap());
        assert_eq!(a.lerp(&b, 1.0).unwrap().to_vec().unwrap(), b.to_vec().unwrap());
    }

    #[test]
    fn gradients_are_rounded_once() {
        let number = |x: f32| Tensor::<F16>::full([1], half::f16::from_f32(x), &Device::cpu()).unwrap().tracked();
        let (x, a, b) = (number(0.0), number(3000.0), number(0.01));
        let grad = number(3000.0).detach();
        let of =
            |grads: &crate::Gradients, x: &Tensor<F16>| grads.get(x).unwrap().unwrap().to_vec().unwrap()[0].to_f32();
        // The product and the quotient leave the range of F16, a thousandth of them does not.
        let grads = x.addcmul(&a, &a, 1e-3).unwrap().backward_with(&grad).unwrap();
        assert_eq!(of(&grads, &a), 18000.0);
        let grads = x.addcdiv(&a, &b, 1e-3).unwrap().backward_with(&grad).unwrap();
        assert!((of(&grads, &a) - 300.0).abs() < 0.5, "{}", of(&grads, &a));
    }

    #[test]
    fn ends_that_are_farther_apart_than_f16_reaches_have_a_slope() {
        let narrow = |value: f32| Tensor::<F32>::full([1], value, &Device::cpu()).unwrap().to::<F16>().unwrap();
        let weight = narrow(0.5).tracked();
        let y = narrow(-60000.0).lerp(&narrow(60000.0), &weight).unwrap();
        let seed = narrow(0.25);
        let grads = y.backward_with(&seed).unwrap();
        assert_eq!(grads.get(&weight).unwrap().unwrap().to_vec().unwrap()[0].to_f32(), 30000.0);
    }
}
