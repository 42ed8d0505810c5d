//! Matrix products.

use crate::autograd::{Pass, Saved, record};
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};

impl<P: Float> Tensor<P> {
    /// Matrix product of `[M, K]` and `[K, N]` (`torch.mm`).
    ///
    /// # Precision
    /// Accumulates in F32 (F64 for F64) and rounds once. Gradients of narrowed F32 values come straight from the
    /// accumulators in F32.
    #[track_caller]
    pub fn matmul<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        Ok(Self::from_raw(matmul(&self.raw, &other.raw)?))
    }
}

#[track_caller]
fn matmul(a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    a.device().check_same(b.device(), "matmul")?;
    let (left, right) = (*a.shape(), *b.shape());
    for found in [left, right] {
        if found.len() != 2 {
            return Err(Error::Rank { op: "matmul", what: "each operand", expected: "2 dimensions", found });
        }
    }
    if left[1] != right[0] {
        return Err(Error::InnerDimensions { op: "matmul", left, right });
    }
    let buffer = a.backend().matmul(a.operand()?, b.operand()?, None, a.logical)?;
    let shape = amp_cpu::Dims::new(&[left[0], right[1]]).expect("two dimensions");
    record("matmul", &[a, b], RawTensor::new(a.device(), buffer, shape), |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().clone();
            accumulate(pass, 0, &grad, &transposed(&b))?;
            accumulate(pass, 1, &transposed(&a), &grad)
        }))
    })
}

/// Adds `a · b` to the gradient of input `i`, inside the product's own accumulation where one is there already.
fn accumulate(pass: &mut Pass<'_>, i: usize, a: &RawTensor, b: &RawTensor) -> Result<()> {
    if !pass.wants(i) {
        return Ok(());
    }
    let dtype = pass.dtype(i);
    let shape = amp_cpu::Dims::new(&[a.shape()[0], b.shape()[1]]).expect("two dimensions");
    let buffer = a.backend().matmul(a.operand()?, b.operand()?, None, dtype)?;
    pass.give(i, RawTensor::new(a.device(), buffer, shape))
}

fn transposed(x: &RawTensor) -> RawTensor {
    let mut layout = x.layout;
    let n = layout.shape.len();
    layout.shape.swap(n - 2, n - 1);
    layout.strides.swap(n - 2, n - 1);
    x.with_layout(layout)
}
