//! Cells of recurrent layers.

use super::{Buffer, Operand};
use crate::{Error, Result};
use amp_cpu::DType;

/// What follows the products in a step of a recurrent layer, in one kernel on devices that have it; in F32.
pub trait Recurrent {
    /// The states `[2, N, H]` after a step of an LSTM, hidden and cell, and its gates `[N, 4 H]`, from both summands of what
    /// goes into these and the cell state before `[N, H]`; `None` where the device has no kernel for that.
    fn lstm_cell(
        &self,
        from_inputs: Operand<'_>,
        from_state: Operand<'_>,
        c: Operand<'_>,
    ) -> Result<Option<[Buffer; 2]>> {
        let _ = (from_inputs, from_state, c);
        Ok(None)
    }

    /// The gradients of either summand, in precision `out`, and of the cell state before, from the gates, the states and the
    /// states' gradient; for devices that have [`lstm_cell`](Self::lstm_cell).
    fn lstm_cell_grad(
        &self,
        gates: Operand<'_>,
        states: Operand<'_>,
        c: Operand<'_>,
        grad: Operand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        let _ = (gates, states, c, grad, out);
        Err(Error::Backend { op: "lstm_cell", device: "this device".into(), message: "there is no kernel".into() })
    }
}
