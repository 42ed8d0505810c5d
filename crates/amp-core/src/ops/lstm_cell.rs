//! A step of an LSTM behind its products.

use crate::Result;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{F32, Float};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{DType, Dims};

/// Hidden state `[N, H]` and cell state after a step, from the two summands `[N, 4 H]` of what goes into the gates (in, forget,
/// new, out) and the cell state before, in one pass (`torch._thnn_fused_lstm_cell`).
///
/// # Precision
/// F32; the hidden state is rounded once.
#[track_caller]
pub(crate) fn lstm_cell<P: Float>(
    from_inputs: &Tensor<P>,
    from_state: &Tensor<P>,
    c: &Tensor<F32>,
) -> Result<(Tensor<P>, Tensor<F32>)> {
    let states = Tensor::<F32>::from_raw(states(&from_inputs.raw, &from_state.raw, &c.raw)?);
    Ok((states.select(0, 0)?.to::<P>()?, states.select(0, 1)?))
}

/// Both states in one tensor `[2, N, H]`.
#[track_caller]
fn states(from_inputs: &RawTensor, from_state: &RawTensor, c: &RawTensor) -> Result<RawTensor> {
    let [states, gates] = c.backend().lstm_cell(from_inputs.operand()?, from_state.operand()?, c.operand()?)?;
    let shape = Dims::new(&[2, c.shape()[0], c.shape()[1]]).expect("three dimensions");
    let gates = RawTensor::new(c.device(), gates, *from_state.shape());
    let states = RawTensor::new(c.device(), states, shape);
    record("lstm_cell", &[from_inputs, from_state, c], states, |states| {
        let (gates, states, c) = (Saved::new(&gates)?, Saved::new(states)?, Saved::new(c)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let out = if pass.dtype(0) == pass.dtype(1) { pass.dtype(0) } else { DType::F32 };
            let grad = pass.grad().operand()?;
            let [of_gates, of_c] =
                c.backend().lstm_cell_grad(gates.operand()?, states.operand()?, c.operand()?, grad, out)?;
            let of_gates = RawTensor::new(c.device(), of_gates, *gates.shape());
            pass.give(0, of_gates.detached())?;
            pass.give(1, of_gates)?;
            pass.give(2, RawTensor::new(c.device(), of_c, *c.shape()))
        }))
    })
}
