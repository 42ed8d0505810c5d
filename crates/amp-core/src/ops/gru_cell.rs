//! A step of a GRU behind its products.

use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{F32, Float};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{DType, Dims};

/// The state `[N, H]` after a step, from the two summands `[N, 3 H]` of what goes into the gates (reset, keep, new) and the state
/// before, in one pass (`torch._thnn_fused_gru_cell`).
///
/// # Precision
/// F32; the state is rounded once, its gradient is one in F32.
#[track_caller]
pub(crate) fn gru_cell<P: Float>(from_inputs: &Tensor<P>, from_state: &Tensor<P>, h: &Tensor<P>) -> Result<Tensor<P>> {
    let state = state(&from_inputs.raw, &from_state.raw, &h.raw, P::DTYPE)?;
    Tensor::<F32>::from_raw(state).to()
}

/// The state as one of F32, in the storage of `out` where that is narrower.
#[track_caller]
fn state(from_inputs: &RawTensor, from_state: &RawTensor, h: &RawTensor, out: DType) -> Result<RawTensor> {
    let stored = if out.is_half() { out } else { DType::F32 };
    let [state, gates] = h.backend().gru_cell(from_inputs.operand()?, from_state.operand()?, h.operand()?, stored)?;
    let &[rows, width] = &h.shape()[..] else { unreachable!("[N, H]") };
    let shape = move |n: usize| Dims::new(&[rows, n * width]).expect("two dimensions");
    let gates = RawTensor::new(h.device(), gates, shape(4));
    let state = RawTensor::written(h.device(), state, *h.shape(), DType::F32);
    record("gru_cell", &[from_inputs, from_state, h], state, |_| {
        let (gates, h) = (Saved::new(&gates)?, Saved::new(h)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let out = [0, 1, 2].map(|i| pass.dtype(i));
            let grads = h.backend().gru_cell_grad(gates.operand()?, h.operand()?, pass.grad().operand()?, out)?;
            for (i, (grad, n)) in grads.into_iter().zip([3, 3, 1]).enumerate() {
                pass.give(i, RawTensor::new(h.device(), grad, shape(n)))?;
            }
            Ok(())
        }))
    })
}
