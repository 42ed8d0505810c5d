//! Functions of one element.

use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::Unary;

full_range! {
    ExpPrecision, "`exp` must run in `F32`";
    LogPrecision, "`log` must run in `F32`";
}

/// Applies `op` in the tensor's own precision and records it under `name`.
#[track_caller]
pub(crate) fn unary(name: &'static str, op: Unary, x: &RawTensor) -> Result<RawTensor> {
    let buffer = x.backend().unary(op, x.operand()?, x.logical)?;
    let y = RawTensor::new(x.device(), buffer, *x.shape());
    record(name, &[x], y, |y| {
        let saved = Saved::new(if op.grad_from_output() { y } else { x })?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad();
            let dx = grad.backend().unary_grad(op, saved.operand()?, grad.operand()?, pass.dtype(0))?;
            pass.give(0, RawTensor::new(saved.device(), dx, *saved.shape()))
        }))
    })
}

impl<P: Float> Tensor<P> {
    #[track_caller]
    pub(crate) fn pointwise(&self, name: &'static str, op: Unary) -> Result<Self> {
        Ok(Self::from_raw(unary(name, op, &self.raw)?))
    }

    /// `e^x` (`torch.exp`). Needs full precision: `e^11.1` is already infinite in F16.
    #[track_caller]
    pub fn exp(&self) -> Result<Self>
    where
        P: ExpPrecision,
    {
        self.pointwise("exp", Unary::Exp)
    }

    /// Natural logarithm (`torch.log`). Needs full precision: arguments below 6e-8 are 0 in F16.
    #[track_caller]
    pub fn log(&self) -> Result<Self>
    where
        P: LogPrecision,
    {
        self.pointwise("log", Unary::Log)
    }

    /// Hyperbolic tangent (`torch.tanh`); computed in F32, rounded once.
    #[track_caller]
    pub fn tanh(&self) -> Result<Self> {
        self.pointwise("tanh", Unary::Tanh)
    }

    /// `max(x, 0)`; NaN stays NaN (`torch.relu`).
    #[track_caller]
    pub fn relu(&self) -> Result<Self> {
        self.pointwise("relu", Unary::Relu)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("exp", gradcheck(|x| x[0].exp(), std::slice::from_ref(&x))),
            ("tanh", gradcheck(|x| x[0].tanh(), std::slice::from_ref(&x))),
            ("relu", gradcheck(|x| x[0].relu(), std::slice::from_ref(&x))),
        ] {
            let worst = worst.unwrap();
            assert!(worst.error <= 1e-6, "{name}: {worst:?}");
        }
    }
}
