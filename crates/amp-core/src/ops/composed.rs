//! Activations of several kernels each: one operation of the graph, computed in F32 throughout and rounded once.

use super::join::{joined, part};
use super::kernel::{binary, compare, select, unary};
use crate::autograd::{Pass, Saved, record};
use crate::order::elementwise;
use crate::precision::Float;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Binary, Compare, DType, Dims, Unary};

/// The precision of what lies between the kernels.
pub(super) fn wide(x: &RawTensor) -> DType {
    if x.logical == DType::F64 { DType::F64 } else { DType::F32 }
}

fn add(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    binary("add", Binary::Add, a, b, wide(a))
}

fn mul(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    binary("mul", Binary::Mul, a, b, wide(a))
}

/// `factor * x + summand`.
pub(super) fn affine(x: &RawTensor, factor: f64, summand: f64) -> Result<RawTensor> {
    unary(Unary::Affine { mul: factor, add: summand }, x, wide(x))
}

/// Records `forward(x)`, which is in the precision of `x`; `slope(x)` is its derivative.
#[track_caller]
pub(super) fn composed(
    op: &'static str,
    x: &RawTensor,
    forward: impl FnOnce(&RawTensor) -> Result<RawTensor>,
    slope: impl Fn(&RawTensor) -> Result<RawTensor> + Send + Sync + 'static,
) -> Result<RawTensor> {
    record(op, &[x], forward(x)?, |_| {
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = binary(op, Binary::Mul, &slope(&x)?, pass.grad(), pass.dtype(0))?;
            pass.give(0, grad)
        }))
    })
}

/// Records `y`, a function of two elements; `slope(i, a, b)` is its derivative with respect to operand `i`.
#[track_caller]
pub(super) fn composed_pair(
    op: &'static str,
    [a, b]: [&RawTensor; 2],
    y: RawTensor,
    slope: impl Fn(usize, &RawTensor, &RawTensor) -> Result<RawTensor> + Send + Sync + 'static,
) -> Result<RawTensor> {
    record(op, &[a, b], y, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            for input in [0, 1] {
                if pass.wants(input) {
                    let grad = binary(op, Binary::Mul, &slope(input, &a, &b)?, pass.grad(), pass.summand(input))?;
                    pass.give(input, grad)?;
                }
            }
            Ok(())
        }))
    })
}

/// `inside` where `min < x < max`, 0 elsewhere: the derivative of a function that is constant outside of an open interval.
fn within(x: &RawTensor, min: f64, max: f64, inside: f64) -> Result<RawTensor> {
    let number = |value| RawTensor::full(x.device(), value, Dims::default(), wide(x));
    let none = number(0.0)?;
    let below = select("clamp", &compare("clamp", Compare::Lt, x, &number(max)?)?, &number(inside)?, &none, wide(x))?;
    select("clamp", &compare("clamp", Compare::Gt, x, &number(min)?)?, &below, &none, wide(x))
}

/// The derivative of `scale * elu(x)`.
fn elu_slope(x: &RawTensor, alpha: f64, scale: f64) -> Result<RawTensor> {
    let scales = RawTensor::full(x.device(), scale, *x.shape(), wide(x))?;
    let (op, out) = (Unary::Elu(alpha), wide(x));
    elementwise([x, &scales], |backend, [x, scales]| backend.unary_grad(op, x, scales, out))
}

/// `above` where `x` is more than 0, `below` elsewhere, rounded to `out`.
fn by_side(x: &RawTensor, above: &RawTensor, below: &RawTensor, out: DType) -> Result<RawTensor> {
    let zero = RawTensor::full(x.device(), 0.0, Dims::default(), wide(x))?;
    select("celu", &compare("celu", Compare::Gt, x, &zero)?, above, below, out)
}

impl<P: Float> Tensor<P> {
    /// `clamp(x + 3, 0, 6) / 6` (`F.hardsigmoid`). Computed in F32, rounded once.
    #[track_caller]
    pub fn hardsigmoid(&self) -> Result<Self> {
        let forward = |x: &RawTensor| {
            let limited = unary(Unary::Clamp { min: 0.0, max: 6.0 }, &affine(x, 1.0, 3.0)?, wide(x))?;
            let six = RawTensor::full(x.device(), 6.0, Dims::default(), wide(x))?;
            binary("hardsigmoid", Binary::Div, &limited, &six, x.logical)
        };
        let slope = |x: &RawTensor| within(x, -3.0, 3.0, 1.0 / 6.0);
        Ok(Self::from_raw(composed("hardsigmoid", &self.raw, forward, slope)?))
    }

    /// Elu whose results keep mean 0 and variance 1 (`F.selu`). Computed in F32, rounded once.
    #[track_caller]
    pub fn selu(&self) -> Result<Self> {
        const ALPHA: f64 = 1.673_263_242_354_377_2;
        const SCALE: f64 = 1.050_700_987_355_480_5;
        let forward = |x: &RawTensor| {
            let elu = unary(Unary::Elu(ALPHA), x, wide(x))?;
            unary(Unary::Affine { mul: SCALE, add: -0.0 }, &elu, x.logical)
        };
        let slope = |x: &RawTensor| elu_slope(x, ALPHA, SCALE);
        Ok(Self::from_raw(composed("selu", &self.raw, forward, slope)?))
    }

    /// `x` above 0, `alpha * (e^(x / alpha) - 1)` below (`F.celu`, where alpha is 1 by default). Computed in F32, rounded
    /// once.
    ///
    /// # Errors
    /// [`Error::Argument`] for `alpha` that is 0 or not finite.
    #[track_caller]
    pub fn celu(&self, alpha: impl Into<f64>) -> Result<Self> {
        let alpha = alpha.into();
        if alpha == 0.0 || !alpha.is_finite() {
            return Err(Error::argument("celu", "alpha", "a finite number other than 0", alpha));
        }
        let power = move |op, x: &RawTensor| unary(op, &affine(x, 1.0 / alpha, -0.0)?, wide(x));
        let forward = |x: &RawTensor| by_side(x, x, &affine(&power(Unary::Expm1, x)?, alpha, -0.0)?, x.logical);
        let slope = move |x: &RawTensor| {
            let one = RawTensor::full(x.device(), 1.0, Dims::default(), wide(x))?;
            by_side(x, &one, &power(Unary::Exp, x)?, wide(x))
        };
        Ok(Self::from_raw(composed("celu", &self.raw, forward, slope)?))
    }

    /// `x * tanh(softplus(x))` (`F.mish`). Computed in F32, rounded once.
    #[track_caller]
    pub fn mish(&self) -> Result<Self> {
        let gate = |x: &RawTensor| {
            let softplus = unary(Unary::Softplus { beta: 1.0, threshold: 20.0 }, x, wide(x))?;
            unary(Unary::Tanh, &softplus, wide(x))
        };
        let forward = move |x: &RawTensor| binary("mish", Binary::Mul, x, &gate(x)?, x.logical);
        // tanh + x sigmoid(x) (1 - tanh²)
        let slope = move |x: &RawTensor| {
            let gate = gate(x)?;
            let rest = affine(&unary(Unary::Sqr, &gate, wide(x))?, -1.0, 1.0)?;
            let silu = unary(Unary::Silu, x, wide(x))?;
            add(&gate, &mul(&silu, &rest)?)
        };
        Ok(Self::from_raw(composed("mish", &self.raw, forward, slope)?))
    }

    /// `x / (1 + |x|)` (`F.softsign`). Computed in F32, rounded once.
    #[track_caller]
    pub fn softsign(&self) -> Result<Self> {
        let below = |x: &RawTensor| affine(&unary(Unary::Abs, x, wide(x))?, 1.0, 1.0);
        let forward = move |x: &RawTensor| binary("softsign", Binary::Div, x, &below(x)?, x.logical);
        let slope = move |x: &RawTensor| {
            let share = unary(Unary::Recip, &below(x)?, wide(x))?;
            unary(Unary::Sqr, &share, wide(x))
        };
        Ok(Self::from_raw(composed("softsign", &self.raw, forward, slope)?))
    }

    /// `x - tanh(x)` (`F.tanhshrink`). Computed in F32, rounded once.
    #[track_caller]
    pub fn tanhshrink(&self) -> Result<Self> {
        let tanh = |x: &RawTensor| unary(Unary::Tanh, x, wide(x));
        let forward = |x: &RawTensor| binary("tanhshrink", Binary::Sub, x, &tanh(x)?, x.logical);
        let slope = move |x: &RawTensor| unary(Unary::Sqr, &tanh(x)?, wide(x));
        Ok(Self::from_raw(composed("tanhshrink", &self.raw, forward, slope)?))
    }

    /// The first half along `axis` times the sigmoid of the second (`F.glu`, where the axis is the last by default).
    /// Computed in F32, rounded once.
    ///
    /// # Errors
    /// [`Error::Argument`] when the axis has an odd size.
    #[track_caller]
    pub fn glu(&self, axis: isize) -> Result<Self> {
        let at = shape::axis("glu", axis, self.rank())?;
        let size = self.dims()[at];
        if !size.is_multiple_of(2) {
            return Err(Error::argument("glu", "the size of the axis", "even", size));
        }
        Ok(Self::from_raw(gated(&self.raw, at)?))
    }
}

/// `a * sigmoid(b)` of the halves of `x` along `axis`.
///
/// One operation: as narrowed tensors, each half had its gradient put among zeros, and the two were added.
#[track_caller]
fn gated(x: &RawTensor, axis: usize) -> Result<RawTensor> {
    let half = x.shape()[axis] / 2;
    let halves = move |x: &RawTensor| [part(x, axis, 0, half), part(x, axis, half, half)];
    let y = match x.backend().glu(x.operand()?, axis, x.logical)? {
        Some(buffer) => RawTensor::new(x.device(), buffer, *halves(x)[0].shape()),
        None => {
            let [a, b] = halves(x);
            binary("glu", Binary::Mul, &a, &unary(Unary::Sigmoid, &b, wide(&b))?, x.logical)?
        }
    };
    record("glu", &[x], y, |_| {
        let x = Saved::new(x)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().operand()?;
            if let Some(buffer) = x.backend().glu_grad(x.operand()?, grad, axis, pass.dtype(0))? {
                return pass.give(0, RawTensor::new(x.device(), buffer, *x.shape()));
            }
            let [a, b] = halves(&x);
            let gate = unary(Unary::Sigmoid, &b, wide(&b))?;
            let slope = mul(&mul(&gate, &affine(&gate, -1.0, 1.0)?)?, &a)?;
            let given = |slope| binary("glu", Binary::Mul, pass.grad(), slope, pass.dtype(0));
            let (of_a, of_b) = (given(&gate)?, given(&slope)?);
            pass.give(0, joined("glu", &[&of_a, &of_b], axis)?.0)
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, Result, Tensor, gradcheck};
    use half::f16;

    type Function = (&'static str, fn(&Tensor<F64>) -> Result<Tensor<F64>>);

    const FUNCTIONS: [Function; 7] = [
        ("hardsigmoid", |x| x.hardsigmoid()),
        ("selu", |x| x.selu()),
        ("celu", |x| x.celu(1.7)),
        ("celu of a negative alpha", |x| x.celu(-1.3)),
        ("mish", |x| x.mish()),
        ("softsign", |x| x.softsign()),
        ("glu", |x| x.glu(-1)),
    ];

    #[test]
    fn gradients_agree_with_differences() {
        let values = vec![0.3, -0.7, 1.9, 0.02, -2.2, 3.8, -4.1, 6.5];
        let x = Tensor::<F64>::from_vec(values, [2, 4], &Device::cpu()).unwrap();
        for (name, f) in FUNCTIONS {
            let worst = gradcheck(|x| f(&x[0]), std::slice::from_ref(&x)).unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn half_results_are_f32_results_rounded_once() {
        let x = Tensor::<F32>::from_fn([1, 512], |i| (i[1] as f32 - 256.0) / 32.0, &Device::cpu()).unwrap();
        let narrow = x.to::<F16>().unwrap();
        let rounded = |y: Tensor<F32>| y.to_vec().unwrap().into_iter().map(f16::from_f32).collect::<Vec<_>>();
        assert_eq!(narrow.mish().unwrap().to_vec().unwrap(), rounded(x.mish().unwrap()));
        assert_eq!(narrow.selu().unwrap().to_vec().unwrap(), rounded(x.selu().unwrap()));
        assert_eq!(narrow.hardsigmoid().unwrap().to_vec().unwrap(), rounded(x.hardsigmoid().unwrap()));
        assert_eq!(narrow.glu(1).unwrap().to_vec().unwrap(), rounded(x.glu(1).unwrap()));
    }

    #[test]
    fn celu_gives_what_is_above_zero_as_it_is() {
        let values = vec![0.1, 3.0, 1e-40, f32::MAX, f32::INFINITY];
        let x = Tensor::<F32>::from_vec(values.clone(), [5], &Device::cpu()).unwrap().tracked();
        let y = x.celu(0.6).unwrap();
        assert_eq!(y.to_vec().unwrap(), values);
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [1.0; 5]);
    }

    #[test]
    fn arguments_that_make_no_sense_are_errors() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap();
        let text = |result: Result<Tensor<F32>>| result.unwrap_err().to_string();
        assert_eq!(text(x.celu(0.0)), "celu: alpha must be a finite number other than 0, found 0");
        assert_eq!(text(x.glu(0)), "glu: the size of the axis must be even, found 3");
        assert_eq!(text(x.glu(1)), "glu: axis 1 does not exist in a tensor of 1 dimensions");
    }
}
