//! Cells of recurrent layers.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::DType;

/// What follows the products in a step of a recurrent layer, in one kernel each way; in F32.
///
/// `from_inputs` and `from_state` are both summands of what goes into the gates.
pub trait Recurrent {
    /// The states `[2, N, H]` after a step of an LSTM, hidden and cell, and its gates `[N, 4 H]`, from both summands `[N, 4 H]`
    /// and the cell state before `[N, H]`.
    fn lstm_cell(&self, from_inputs: Operand<'_>, from_state: Operand<'_>, c: Operand<'_>) -> Result<[Buffer; 2]>;

    /// The gradients of either summand, in precision `out`, and of the cell state before, from the gates, the states and the
    /// states' gradient.
    fn lstm_cell_grad(
        &self,
        gates: Operand<'_>,
        states: Operand<'_>,
        c: Operand<'_>,
        grad: Operand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]>;

    /// The state `[N, H]` after a step of a GRU, rounded to `out`, and what its gradient needs of the gates, from both summands
    /// `[N, 3 H]` and the state before `[N, H]`.
    fn gru_cell(
        &self,
        from_inputs: Operand<'_>,
        from_state: Operand<'_>,
        h: Operand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]>;

    /// The gradients of both summands and of the state before, each in its precision of `out`, from the gates, the state before
    /// and the gradient of the state after.
    fn gru_cell_grad(
        &self,
        gates: Operand<'_>,
        h: Operand<'_>,
        grad: Operand<'_>,
        out: [DType; 3],
    ) -> Result<[Buffer; 3]>;
}
